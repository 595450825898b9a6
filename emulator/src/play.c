/*
 * play.c
 *		From a call to the device and back.  See play.h.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "play.h"

#include "prefetches.h"
#include "streams.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

EmState *em_state;

static EmStreams streams;
static EmPrefetches prefetches;

static bool
delays_on(void)
{
	return atomic_load_explicit(&em_state->delays_on, memory_order_relaxed) !=
	       0;
}

static void
sleep_until(uint64_t end_ns)
{
	struct timespec end = { .tv_sec = (time_t) (end_ns / 1000000000ULL),
		                    .tv_nsec = (long) (end_ns % 1000000000ULL) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

uint64_t
em_play_wait(const EmDevice *device, uint64_t end_ns)
{
	uint64_t now_ns = em_clock_ns();
	uint64_t due_ns;

	while ((due_ns = em_device_due(device, end_ns, now_ns)) > now_ns)
	{
		sleep_until(due_ns);
		now_ns = em_clock_ns();
	}

	return now_ns;
}

static EmCharge
charge_request(const EmFile *file, EmOperation operation,
               const EmRequest *request)
{
	switch (operation)
	{
		case EM_READ:
			return em_device_read(file->device, request);
		case EM_WRITE:
			return em_device_write(file->device, request, file->syncs_writes);
		case EM_LOG_SYNC:
			return em_device_log_sync(file->device, request);
		case EM_DATA_SYNC:
			return em_device_data_sync(file->device, request);
		case EM_METADATA:
			return em_device_metadata(file->device, request);
		default:
			em_device_log_write(file->device, request);
			return (EmCharge){ .end_ns = request->now_ns };
	}
}

static EmCharge
charge_now(const EmFile *file, EmOperation operation, EmRequest *request)
{
	/* Follow streams with delays off, too, so that they do not start over. */
	if (operation == EM_READ || operation == EM_WRITE)
		em_streams_note(&streams, &em_state->scans, request,
		                operation == EM_WRITE);

	if (!delays_on())
		return (EmCharge){ .end_ns = request->now_ns };

	return charge_request(file, operation, request);
}

EmCharge
em_play_reserve(const EmFile *file, EmOperation operation, EmRequest *request)
{
	EmCharge charge;

	if (operation == EM_READ &&
	    em_prefetches_take(&prefetches, request, &charge))
		return charge;

	return charge_now(file, operation, request);
}

static void
play(const EmFile *file, EmOperation operation, uint64_t began_ns,
     uint64_t offset, uint64_t bytes)
{
	int saved_errno = errno;
	EmRequest request = { .now_ns = began_ns,
		                  .file = file->identity,
		                  .offset = offset,
		                  .bytes = bytes };
	EmCharge charge = em_play_reserve(file, operation, &request);

	em_device_count(file->device, operation, bytes, &charge,
	                em_play_wait(file->device, charge.end_ns) - began_ns);
	errno = saved_errno;
}

void
em_play_read(const EmFile *file, uint64_t began_ns, off_t offset,
             ssize_t result)
{
	if (result > 0)
		play(file, EM_READ, began_ns, (uint64_t) offset, (uint64_t) result);
}

void
em_play_write(const EmFile *file, uint64_t began_ns, off_t offset,
              ssize_t result)
{
	if (result <= 0)
		return;

	play(file, file->is_log ? EM_LOG_WRITE : EM_WRITE, began_ns,
	     (uint64_t) offset, (uint64_t) result);
	if (file->is_log && file->syncs_writes)
		play(file, EM_LOG_SYNC, began_ns, (uint64_t) offset, 0);
}

void
em_play_sync(const EmFile *file, uint64_t began_ns, int result)
{
	if (result == 0)
		play(file, file->is_log ? EM_LOG_SYNC : EM_DATA_SYNC, began_ns, 0, 0);
}

void
em_play_metadata(const EmFile *file, uint64_t began_ns, int result)
{
	if (result == 0)
		play(file, EM_METADATA, began_ns, 0, 0);
}

void
em_play_advice(const EmFile *file, off_t offset, off_t bytes)
{
	EmRequest request = { .now_ns = em_clock_ns(),
		                  .file = file->identity,
		                  .offset = (uint64_t) offset,
		                  .bytes = (uint64_t) bytes };
	EmCharge charge;

	if (!delays_on() || !em_prefetches_accept(&request))
		return;

	charge = charge_now(file, EM_READ, &request);
	em_prefetches_note(&prefetches, &request, &charge);
}
