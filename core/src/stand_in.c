/*
 * stand_in.c
 *		Writing to flash, without a writer, by a process that changes blocks.
 *
 * At a shutdown the host ends its writer before the last checkpoint, which
 * writes every changed block.  The ring takes the first of them.  The others,
 * which were used last, would be lost from the cache.  So the process that
 * writes the checkpoint, which may wait, calls fc_stand_in() before each
 * change.  If the ring is full and there is no writer, it signs as the writer
 * (puts its token into ring_writer), writes with flights.c until the ring is
 * half empty, waits for what it has begun, and signs off.
 *
 * Limits.  No process stands in for a writer that did not sign off: either it
 * was killed, and the next writer must take up what it had begun, or its device
 * hangs.  A device that completes no write for HANGS_NS hangs, too: the process
 * leaves, still signed, and from then on only checks, without waiting, whether
 * what it began is written.  A slow device is left alone when the waits, summed
 * in ring_stood_in_us, reach the host's limit.  In both cases blocks are then
 * treated as whenever the ring is full.  So all waits together take no more
 * than the host's limit plus HANGS_NS; but where flash is written by plain
 * calls, without AIO or direct I/O, the last of them may take any time.
 *
 * Crash.  A killed process leaves its token and its pages behind, and the next
 * writer takes them up.  If a signal handler interrupts a call here and calls
 * it again, the second call finds it busy and returns at once.
 *
 * Its memory is mapped when first needed, since nothing may be allocated where
 * blocks are changed.  As with the reader, a child finds it all zeros.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <sys/mman.h>

#include "flights.h"
#include "staging.h"

#define HANGS_NS 1000000000ULL

/* ---- this process's writer ----------------------------------------------- */

static FcWriter *
map_writer(void)
{
	FcWriter *writer = mmap(NULL, sizeof(FcWriter), PROT_READ | PROT_WRITE,
	                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (writer == MAP_FAILED)
		return NULL;
	if (madvise(writer, sizeof(FcWriter), MADV_WIPEONFORK) != 0)
	{
		munmap(writer, sizeof(FcWriter));
		return NULL;
	}
	return writer;
}

/* Plain calls are over once begun, so the time is checked after each. */
static void
open_writer(FcWriter *writer, FcCache *cache)
{
	FC_ASSERT(writer->queue.depth == 0 && writer->flying == 0);
	fc_flights_open(writer, cache);
	for (uint32_t i = 0; i < cache->shared->device_count; i++)
	{
		const FcDevice *device = &cache->devices[i];

		if (device->fd >= 0 &&
		    (!device->direct || writer->queue.engine == FC_QUEUE_PLAIN))
			writer->queue.depth = 1;
	}
}

void
fc_stand_in_close(FcCache *cache)
{
	if (cache->stand_in == NULL)
		return;
	if (cache->stand_in->queue.depth > 0)
		fc_queue_close(&cache->stand_in->queue);
	munmap(cache->stand_in, sizeof(FcWriter));
	cache->stand_in = NULL;
}

/*
 * Sign on as the writer; NULL if another process has, or if that is impossible.
 */
static FcWriter *
sign_on(FcCache *cache)
{
	uint32_t nobody = 0;

	if (cache->stand_in == NULL)
		cache->stand_in = map_writer();

	FcWriter *writer = cache->stand_in;

	if (writer == NULL || writer->busy ||
	    (cache->token == 0 && fc_process_begin(cache) != FC_OK))
		return NULL;

	/*
	 * Still signed on, because a device had not answered: has it answered now?
	 */
	if (writer->flying == 0 && !FC_BROKEN(STAND_IN_SIGN) &&
	    !atomic_compare_exchange_strong(&cache->shared->ring_writer, &nobody,
	                                    cache->token))
		return NULL;

	/* A signal handler that runs after this line returns at once. */
	writer->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	FC_POINT("stand-in-begun");
	if (writer->queue.depth == 0)
		open_writer(writer, cache);
	return writer;
}

static void
sign_off(FcWriter *writer)
{
	uint32_t mine = writer->cache->token;

	FC_ASSERT(writer->busy);
	if (writer->flying == 0)
		(void) atomic_compare_exchange_strong(
			&writer->cache->shared->ring_writer, &mine, 0);

	/* A handler that finds it free finds it signed off: see sign_on(). */
	atomic_signal_fence(memory_order_seq_cst);
	writer->busy = false;
}

/* ---- writing ------------------------------------------------------------- */

/*
 * Write until the ring is half empty or the time is up; then finish what is
 * begun.
 */
static void
write_out(FcWriter *writer, uint64_t limit_ns)
{
	FcShared *shared = writer->cache->shared;
	uint64_t begin = fc_clock_ns();
	uint64_t now = begin;
	uint64_t written = begin; /* when a write last ended */

	FC_ASSERT(writer->busy);

	/* Flights of an earlier call that gave up. */
	if (writer->flying > 0)
	{
		fc_flights_submit(writer);
		fc_flights_finish(writer, 0, 0);
	}
	if (writer->flying > 0)
		return;
	if (now - writer->tidied_ns >= FC_FLIGHTS_TIDY_NS)
		fc_flights_tidy(writer);
	for (;;)
	{
		if (now - begin < limit_ns && fc_staging_crowded(shared))
			fc_flights_begin(writer, false);
		else
			fc_flights_submit(writer);

		unsigned flying = writer->flying;

		if (flying == 0)
			break;
		fc_flights_finish(writer, 1, FC_FLIGHTS_BUSY_NS);
		now = fc_clock_ns();
		if (writer->flying < flying)
			written = now;
		if (!FC_BROKEN(STAND_IN_LIMIT) &&
		    (now - written >= HANGS_NS || now - begin >= limit_ns + HANGS_NS))
		{
			atomic_store(&shared->ring_stood_in_us, UINT32_MAX);
			return;
		}
	}
	atomic_fetch_add(&shared->ring_stood_in_us,
	                 (uint32_t) ((now - begin) / 1000));
}

void
fc_stand_in(FcCache *cache, uint64_t limit_ns)
{
	FcShared *shared = cache->shared;
	bool gave_up = cache->stand_in != NULL && cache->stand_in->flying > 0;

	/* A process that gave up looks again, however much room there is. */
	if (!gave_up && fc_staging_used(shared) < shared->ring_count)
		return;

	int saved_errno = errno;
	uint32_t signed_by = atomic_load(&shared->ring_writer);
	uint64_t spent_ns =
		(uint64_t) atomic_load(&shared->ring_stood_in_us) * 1000;

	if (signed_by == 0 ? spent_ns < limit_ns
	                   : signed_by == cache->token && gave_up)
	{
		FcWriter *writer = sign_on(cache);

		if (writer != NULL)
		{
			write_out(writer, spent_ns < limit_ns ? limit_ns - spent_ns : 0);
			sign_off(writer);
		}
	}
	errno = saved_errno;
}
