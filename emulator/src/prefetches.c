/*
 * prefetches.c
 *		Reads that this process has announced.  See prefetches.h.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "prefetches.h"

#include <stddef.h>

static uint64_t
first_block(const EmRequest *request)
{
	return request->offset / EM_PREFETCH_BLOCK_BYTES;
}

static uint64_t
block_count(const EmRequest *request)
{
	uint64_t end = request->offset + request->bytes;

	if (request->bytes == 0)
		return 0;

	return (end - 1) / EM_PREFETCH_BLOCK_BYTES - first_block(request) + 1;
}

static EmPrefetch *
place(EmPrefetches *prefetches, uint64_t file, uint64_t block)
{
	uint64_t hash = (file * 31 + block) * 0x9e3779b97f4a7c15ULL;

	return &prefetches->prefetch[(hash >> 32) % EM_PREFETCH_COUNT];
}

bool
em_prefetches_accept(const EmRequest *request)
{
	uint64_t count = block_count(request);

	return count > 0 && count <= EM_PREFETCH_BLOCKS_MAX;
}

void
em_prefetches_note(EmPrefetches *prefetches, const EmRequest *request,
                   const EmCharge *charge)
{
	uint64_t first = first_block(request);
	uint64_t count = block_count(request);

	for (uint64_t i = 0; i < count; i++)
	{
		EmPrefetch *prefetch = place(prefetches, request->file, first + i);

		prefetch->file = request->file;
		prefetch->block = first + i;
		prefetch->end_ns = charge->end_ns;
		prefetch->service_ns = charge->service_ns / count;
	}
}

bool
em_prefetches_take(EmPrefetches *prefetches, const EmRequest *request,
                   EmCharge *charge_out)
{
	uint64_t first = first_block(request);
	uint64_t count = block_count(request);
	uint64_t end_ns = request->now_ns;
	uint64_t service_ns = 0;

	if (!em_prefetches_accept(request))
		return false;

	for (uint64_t i = 0; i < count; i++)
	{
		EmPrefetch *prefetch = place(prefetches, request->file, first + i);

		if (prefetch->file != request->file || prefetch->block != first + i ||
		    prefetch->end_ns + EM_PREFETCH_KEPT_NS < request->now_ns)
			return false;
		if (prefetch->end_ns > end_ns)
			end_ns = prefetch->end_ns;
		service_ns += prefetch->service_ns;
	}
	for (uint64_t i = 0; i < count; i++)
		place(prefetches, request->file, first + i)->file = 0;

	if (service_ns > end_ns - request->now_ns)
		service_ns = end_ns - request->now_ns;
	charge_out->end_ns = end_ns;
	charge_out->service_ns = service_ns;
	charge_out->wait_ns = end_ns - request->now_ns - service_ns;
	return true;
}
