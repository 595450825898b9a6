/*
 * writer.c
 *		The writer: writes blocks from the staging ring to their slots.
 *
 * There is one writer at a time; shared->ring_writer has its token.  Each round
 * it finishes what the device has written, begins to write what is due
 * (flights.c does both), and rests if there is nothing to do.
 *
 * Rest: after some work the writer dozes for DOZE_NS.  Meanwhile fillers need
 * not wake it unless the ring is crowded, so it writes in batches and they save
 * the system call.  After a doze without work it sleeps until it is woken.  It
 * announces its rest in ring_rest before it looks for work a last time, and
 * fillers look there after they have handed over a page, so that one of the two
 * sees the other.
 *
 * Crash.  A dead writer is recognized by its token; the next one resumes what
 * it had under way.
 *
 * At a shutdown the writer is gone for good; then stand_in.c does what is
 * necessary.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "flights.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"
#include "staging.h"

#define DOZE_NS 5000000ULL

/* ---- rest ---------------------------------------------------------------- */

static bool
something_is_due(FcWriter *writer)
{
	FcShared *shared = writer->cache->shared;

	return atomic_exchange(&shared->ring_called, 0) != 0 ||
	       (fc_mode(writer->cache, NULL) != FC_OFFLINE &&
	        fc_flights_due(shared));
}

/* Rest until there is work, the time is up, or another process wakes us. */
static void
rest(FcWriter *writer, uint64_t timeout_ns)
{
	FcShared *shared = writer->cache->shared;
	uint32_t kind = writer->worked ? FC_WRITER_DOZES : FC_WRITER_SLEEPS;

	if (writer->worked && timeout_ns > DOZE_NS)
		timeout_ns = DOZE_NS;
	writer->worked = false;
	atomic_store(&shared->ring_rest, kind);
	FC_POINT("about-to-rest");
	if (kind == FC_WRITER_DOZES || !something_is_due(writer))
	{
		struct timespec limit = fc_timespec(timeout_ns);

		syscall(SYS_futex, &shared->ring_rest, FUTEX_WAIT, kind, &limit, NULL,
		        0);
	}
	atomic_store(&shared->ring_rest, FC_WRITER_AWAKE);
}

void
fc_writer_wake(FcCache *cache)
{
	atomic_store(&cache->shared->ring_called, 1);
	fc_staging_wake(cache->shared);
}

/* ---- the loop ------------------------------------------------------------ */

FcStatus
fc_writer_begin(FcCache *cache, FcWriter **writer_out)
{
	FcShared *shared = cache->shared;
	uint32_t before = atomic_load(&shared->ring_writer);
	FcWriter *writer;

	if (cache->token == 0 && fc_process_begin(cache) != FC_OK)
		return FC_FULL;
	if (before != 0 && !FC_BROKEN(WRITER_GONE) &&
	    !fc_process_gone(cache, before))
		return FC_FULL;
	writer = calloc(1, sizeof(*writer));
	if (writer == NULL)
		return FC_FAILED;
	if (!atomic_compare_exchange_strong(&shared->ring_writer, &before,
	                                    cache->token))
	{
		free(writer);
		return FC_FULL;
	}
	*writer_out = writer;
	FC_POINT("writer-begun");

	fc_flights_open(writer, cache);
	atomic_store(&shared->ring_stood_in_us, 0);
	if (before != 0)
		fc_count(cache, FC_COUNT_takeovers, 1);
	if (!FC_BROKEN(TAKE_UP))
		fc_flights_take_up(shared);
	fc_flights_tidy(writer);
	return FC_OK;
}

/* Is this writer the one whose token is in shared memory? */
static inline bool
signed_on(const FcWriter *writer)
{
	const FcCache *cache = writer->cache;

	return cache->token != 0 &&
	       (atomic_load(&cache->shared->ring_writer) == cache->token ||
	        FC_BROKEN(WRITER_GONE));
}

void
fc_writer_run(FcWriter *writer, uint64_t timeout_ns)
{
	FC_ASSERT(signed_on(writer));
	if (fc_clock_ns() - writer->tidied_ns >= FC_FLIGHTS_TIDY_NS)
		fc_flights_tidy(writer);
	if (writer->flying > 0)
		fc_flights_finish(writer, 0, 0);
	fc_flights_begin(writer, true);
	if (writer->flying > 0)
		fc_flights_finish(writer, 1,
		                  timeout_ns < FC_FLIGHTS_BUSY_NS ? timeout_ns
		                                                  : FC_FLIGHTS_BUSY_NS);
	else if (timeout_ns > 0)
		rest(writer, timeout_ns);
}

/* Is there nothing to write, and nothing being written? */
static bool
is_dry(const FcShared *shared)
{
	for (uint32_t number = 0; number < shared->ring_count; number++)
	{
		FcPageState state =
			fc_page_state(atomic_load(&fc_staged_page(shared, number)->word));

		if (state == FC_PAGE_STAGED || state == FC_PAGE_WRITING)
			return false;
	}
	return true;
}

FcStatus
fc_writer_drain(FcWriter *writer, uint64_t timeout_ns)
{
	uint64_t begin = fc_clock_ns();

	FC_ASSERT(signed_on(writer));
	fc_flights_tidy(writer);
	while (!is_dry(writer->cache->shared))
	{
		uint64_t waited = fc_clock_ns() - begin;

		if (waited > timeout_ns || fc_mode(writer->cache, NULL) == FC_OFFLINE)
			return FC_FAILED;
		fc_flights_begin(writer, false);
		fc_flights_finish(writer, 1, FC_FLIGHTS_BUSY_NS);
	}
	return FC_OK;
}

FcStatus
fc_writer_end(FcWriter *writer, uint64_t timeout_ns)
{
	FcShared *shared = writer->cache->shared;
	uint64_t begin = fc_clock_ns();
	uint32_t mine = writer->cache->token;

	FC_ASSERT(signed_on(writer));
	while (writer->flying > 0 && fc_clock_ns() - begin <= timeout_ns)
	{
		fc_flights_submit(writer);
		fc_flights_finish(writer, 1, FC_FLIGHTS_BUSY_NS);
	}

	/*
	 * The device may use our pages until we exit, so the queue stays open, too.
	 */
	if (writer->flying > 0)
		return FC_FAILED;
	fc_queue_close(&writer->queue);
	atomic_compare_exchange_strong(&shared->ring_writer, &mine, 0);
	free(writer);
	return FC_OK;
}

FcStatus
fc_writer_flush(FcCache *cache, uint64_t timeout_ns)
{
	FcWriter *writer;
	FcStatus status = fc_writer_begin(cache, &writer);

	if (status != FC_OK)
		return status;
	status = fc_writer_drain(writer, timeout_ns);
	/* Blocks not written by now will not be written. */
	return fc_writer_end(writer, 0) == FC_OK ? status : FC_FAILED;
}

FcRingInfo
fc_writer_ring_info(const FcCache *cache)
{
	FcShared *shared = cache->shared;

	return (FcRingInfo){
		.pages = shared->ring_count,
		.used = fc_staging_used(shared),
		.stood_in_ns = (uint64_t) atomic_load(&shared->ring_stood_in_us) * 1000,
	};
}

bool
fc_writer_serves(const FcCache *cache)
{
	uint32_t writer = atomic_load(&cache->shared->ring_writer);

	FC_ASSERT(cache->shared->ring_count > 0);
	return writer != 0 &&
	       (writer == cache->token || !fc_process_gone(cache, writer));
}
