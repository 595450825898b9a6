/*
 * tally.c
 *		The counts of a device by operation, for the statistics.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "device.h"

uint64_t
em_device_used_ns(const EmDevice *device)
{
	uint64_t used_ns = 0;

	for (uint32_t s = 0; s < device->profile.server_count; s++)
		used_ns += atomic_load(&device->server[s].used_ns);

	return used_ns;
}

double
em_device_utilisation(const EmDevice *device, uint64_t elapsed_ns)
{
	double busy_ns = (double) em_device_used_ns(device) /
	                 (double) device->profile.server_count;
	double pipe_ns = (double) atomic_load(&device->pipe_used_ns);
	double admitted_ns = (double) atomic_load(&device->admitted_used_ns);

	if (elapsed_ns == 0)
		return 0.0;
	if (pipe_ns > busy_ns)
		busy_ns = pipe_ns;
	if (admitted_ns > busy_ns)
		busy_ns = admitted_ns;
	return busy_ns / (double) elapsed_ns;
}

void
em_device_forget_tallies(EmDevice *device)
{
	for (int operation = 0; operation < EM_OPERATION_COUNT; operation++)
	{
		EmTally *tally = &device->tally[operation];

		atomic_store(&tally->count, 0);
		atomic_store(&tally->bytes, 0);
		atomic_store(&tally->service_ns, 0);
		atomic_store(&tally->wait_ns, 0);
		atomic_store(&tally->latency_ns, 0);
		for (int bucket = 0; bucket < EM_HISTOGRAM_BUCKETS; bucket++)
			atomic_store(&tally->histogram[bucket], 0);
	}
	for (uint32_t s = 0; s < EM_SERVERS_MAX; s++)
		atomic_store(&device->server[s].used_ns, 0);
	atomic_store(&device->pipe_used_ns, 0);
	atomic_store(&device->admitted_used_ns, 0);
}

static int
bucket_of(uint64_t latency_ns)
{
	uint64_t latency_us = latency_ns / 1000;
	int bucket = latency_us == 0 ? 0 : 64 - __builtin_clzll(latency_us);

	return bucket < EM_HISTOGRAM_BUCKETS ? bucket : EM_HISTOGRAM_BUCKETS - 1;
}

void
em_device_count(EmDevice *device, EmOperation operation, uint64_t bytes,
                const EmCharge *charge, uint64_t latency_ns)
{
	EmTally *tally = &device->tally[operation];
	memory_order relaxed = memory_order_relaxed;

	atomic_fetch_add_explicit(&tally->count, 1, relaxed);
	atomic_fetch_add_explicit(&tally->bytes, bytes, relaxed);
	atomic_fetch_add_explicit(&tally->service_ns, charge->service_ns, relaxed);
	atomic_fetch_add_explicit(&tally->wait_ns, charge->wait_ns, relaxed);
	atomic_fetch_add_explicit(&tally->latency_ns, latency_ns, relaxed);
	atomic_fetch_add_explicit(&tally->histogram[bucket_of(latency_ns)], 1,
	                          relaxed);
}
