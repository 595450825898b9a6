/*
 * advice.c
 *		What a cache of another size would bring: the stream for core's curve.
 *
 * A request is for a block of a relation that neither shared_buffers nor the
 * operating system's page cache has, so that only flash or disk can serve it.
 * (Where the page cache cannot be asked, see reads.c, every miss of
 * shared_buffers counts.)  Base backups and reads of anything but whole blocks
 * are not requests.  Scans are, although the cache admits little of them: the
 * curve is that of a cache that admits everything.
 *
 * The stream is the same whether the cache serves or not, so advice is
 * available before there is a cache, and while it is off.
 *
 * Locking: none; core's curve has its own.  Runs in hooks: no allocation, no
 * report, no wait.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/advice.h"

#include <string.h>
#include <unistd.h>

#include "fcache/assert.h"
#include "fcache/curve.h"
#include "hooks/runtime.h"

/*
 * The time assumed for a block from flash until one has been read: 0.1 ms, as
 * most devices promise; in runs, whose blocks are read at once, a fifth of
 * that.
 */
static const double flash_ms_assumed[FC_CURVE_KINDS] = { 0.1, 0.02 };

static FcCurve curve;
static uint32_t tracked;

/*
 * Starts at a random value, so that processes that read little are sampled as
 * often as others.
 */
static unsigned turn;

void
advice_want(uint32_t cache_blocks)
{
	tracked = cache_blocks > 0 ? fc_curve_tracked_for(cache_blocks)
	                           : FC_CURVE_TRACKED_MAX;
}

size_t
advice_memory_size(void)
{
	return tracked > 0 ? fc_curve_memory_size(tracked) : 0;
}

void
advice_create(void *memory)
{
	FC_ASSERT(memory != NULL && tracked > 0);
	memset(memory, 0, advice_memory_size());
	if (fc_curve_attach(&curve, memory, tracked) != FC_OK)
		curve.shared = NULL;
}

void
advice_detach(void)
{
	curve.shared = NULL;
}

void
advice_in_child(void)
{
	turn = (unsigned) getpid();
	curve.shard = turn;
}

bool
advice_attached(void)
{
	return curve.shared != NULL && *runtime.shared_memory != NULL;
}

void
advice_count(unsigned blocks, unsigned times)
{
	FC_ASSERT(blocks > 0);
	if (advice_attached())
		fc_curve_count(&curve, blocks, times);
}

void
advice_note(FcFileId id, uint32_t first, unsigned count)
{
	uint64_t file = fc_curve_file_hash(id);

	FC_ASSERT(count > 0);
	for (unsigned i = 0; advice_attached() && i < count; i++)
	{
		uint64_t hash = fc_curve_hash(file, first + i);

		if (fc_curve_wants(&curve, hash))
			fc_curve_note(&curve, hash);
	}
}

void
advice_requested(FcFileId id, uint32_t first, unsigned count)
{
	advice_count(count, 1);
	advice_note(id, first, count);
}

bool
advice_turn(void)
{
	return ++turn % ADVICE_TURNS == 0;
}

bool
advice_wants(FcFileId id, uint32_t first, unsigned count)
{
	uint64_t file = fc_curve_file_hash(id);

	for (unsigned i = 0; i < count; i++)
	{
		if (fc_curve_wants(&curve, fc_curve_hash(file, first + i)))
			return true;
	}
	return false;
}

void
advice_disk_read(unsigned blocks, uint64_t ns)
{
	FC_ASSERT(blocks > 0);
	if (advice_attached())
		fc_curve_disk_read(&curve, blocks, ns);
}

void
advice_flash_read(unsigned blocks, uint64_t ns)
{
	FC_ASSERT(blocks > 0);
	if (advice_attached())
		fc_curve_flash_read(&curve, blocks, ns);
}

/*
 * The mean over the requests.  Disk and flash get the same weights, whichever
 * of them served more of the runs, so that the difference is what a hit saves.
 */
static double
mean_of_requests(const double ms[FC_CURVE_KINDS], double run_share)
{
	return ms[FC_CURVE_ALONE] * (1 - run_share) +
	       ms[FC_CURVE_IN_RUNS] * run_share;
}

static void
add_times(const FcCurveReading *reading, Advice *out)
{
	double disk[FC_CURVE_KINDS];
	double flash[FC_CURVE_KINDS];

	out->flash_measured = false;
	for (int kind = 0; kind < FC_CURVE_KINDS; kind++)
	{
		int other = FC_CURVE_KINDS - 1 - kind;
		bool known = reading->flash_read_ms[kind] > 0;

		disk[kind] =
			reading
				->disk_read_ms[reading->disk_read_ms[kind] > 0 ? kind : other];
		flash[kind] =
			known ? reading->flash_read_ms[kind] : flash_ms_assumed[kind];
		out->flash_measured |= known;
	}
	out->disk_read_ms = mean_of_requests(disk, reading->run_share);
	out->flash_read_ms = mean_of_requests(flash, reading->run_share);
}

bool
advice_read(uint64_t present_blocks, Advice *out)
{
	static FcCurveReading reading; /* too large for the stack */
	double factor = 1.0 / 8;

	if (!advice_attached())
		return false;
	fc_curve_read(&curve, &reading);
	for (int i = 0; i < ADVICE_ROWS; i++, factor *= 2)
	{
		out->size_factor[i] = factor;
		out->size_blocks[i] = (uint64_t) ((double) present_blocks * factor);
		out->hit_ratio[i] = fc_curve_hit_ratio(&reading, out->size_blocks[i]);
	}
	out->requests_per_second = reading.requests_per_second;
	add_times(&reading, out);
	out->window_seconds = reading.seconds;
	out->sample_rate = reading.sample_rate;
	out->sampled_blocks = reading.tracked;
	return true;
}
