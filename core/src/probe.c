/*
 * probe.c
 *		Probing whether a device answers.
 *
 * A probe is the read of one slot, with a cached block if one is found soon,
 * because a file system may answer on its own for a slot that was never
 * written.  The bytes are ignored.  Each device has one probe and one page, so
 * a device that hangs delays its own probe and nothing else.
 *
 * The housekeeping process uses this, for devices that are not in use.  So does
 * the last process of a server, for those that are: what it writes then is
 * written by plain calls, which would not return from a device that hangs.  A
 * process maps the pages at its first probe; a child finds zeros instead, as
 * with the reader (reader.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "probe.h"

#include <errno.h>
#include <sys/mman.h>

#include "fcache/housekeeping.h"
#include "geometry.h"
#include "health.h"
#include "index.h"
#include "queue.h"

/* Sets that are searched for a cached block. */
#define SETS_TRIED 64

typedef struct Probe
{
	FcTransfer transfer;
	uint64_t start_ns;
	bool under_way;
} Probe;

struct FcProber
{
	FcQueue queue;
	uint32_t next_set; /* a new one each time, so no device has it cached */
	Probe probe[FC_DEVICES_MAX];
	unsigned char page[FC_DEVICES_MAX][FC_BLOCK_SIZE]
		__attribute__((aligned(FC_IO_ALIGN)));
};

static FcProber *
prober_of(FcCache *cache)
{
	if (cache->prober == NULL)
	{
		FcProber *prober = mmap(NULL, sizeof(FcProber), PROT_READ | PROT_WRITE,
		                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (prober == MAP_FAILED)
			return NULL;
		if (madvise(prober, sizeof(FcProber), MADV_WIPEONFORK) != 0)
		{
			munmap(prober, sizeof(FcProber));
			return NULL;
		}
		cache->prober = prober;
	}
	if (cache->prober->queue.depth == 0)
		fc_queue_open(&cache->prober->queue, FC_DEVICES_MAX);
	return cache->prober;
}

/* A slot of the device, with a cached block if there is one nearby. */
static uint32_t
choose_slot(FcCache *cache, FcProber *prober, uint32_t device)
{
	const FcShared *shared = cache->shared;
	uint32_t sets = fc_geometry_least(atomic_load(&shared->geometry)) /
	                shared->device_count;
	uint32_t number = device;

	FC_ASSERT(sets > 0 && device < shared->device_count);
	for (uint32_t try = 0; try < SETS_TRIED; try++)
	{
		const FcSet *set;

		number = prober->next_set++ % sets * shared->device_count + device;
		set = fc_set(shared, number);
		for (uint32_t way = 0; way < FC_WAYS; way++)
			if (fc_meta_state(atomic_load(&set->meta[way])) == FC_VALID)
				return number * FC_WAYS + way;
	}
	return number * FC_WAYS;
}

bool
fc_probe_begin(FcCache *cache, uint32_t device)
{
	FcProber *prober = prober_of(cache);
	Probe *probe;
	FcTransfer *transfer;

	FC_ASSERT(device < cache->shared->device_count);
	if (prober == NULL || prober->probe[device].under_way)
		return false;
	probe = &prober->probe[device];
	transfer = &probe->transfer;
	*transfer = (FcTransfer){ .page = prober->page[device], .tag = probe };
	fc_devices_place_of_slot(cache, choose_slot(cache, prober, device),
	                         &transfer->device, &transfer->offset);
	probe->start_ns = fc_clock_ns();
	probe->under_way = fc_queue_submit(&prober->queue, &transfer, 1) == 1;
	return probe->under_way;
}

/*
 * Deliver finished probes, waiting up to timeout_ns for one; returns how many.
 */
static unsigned
collect_some(FcCache *cache, uint64_t timeout_ns, FcProbeDone *done)
{
	FcProber *prober = cache->prober;
	FcTransfer *back[FC_DEVICES_MAX];
	unsigned count = fc_queue_reap(&prober->queue, timeout_ns > 0, timeout_ns,
	                               back, FC_DEVICES_MAX);
	uint64_t now = fc_clock_ns();

	for (unsigned i = 0; i < count; i++)
	{
		Probe *probe = back[i]->tag;

		FC_ASSERT(probe->under_way);
		probe->under_way = false;
		done(cache, (uint32_t) (probe - prober->probe), now - probe->start_ns,
		     fc_devices_outcome(probe->transfer.result));
	}
	return count;
}

void
fc_probe_collect(FcCache *cache, unsigned new_ones, uint64_t timeout_ns,
                 FcProbeDone *done)
{
	uint64_t begin = fc_clock_ns();
	uint64_t waited = 0;
	unsigned count;

	if (cache->prober == NULL || cache->prober->queue.in_flight == 0)
		return;
	(void) collect_some(cache, 0, done);

	/*
	 * If an old probe returns meanwhile, that does no harm: the new one is then
	 * late.
	 */
	for (; new_ones > 0 && waited < timeout_ns &&
	       cache->prober->queue.in_flight > 0;
	     new_ones -= count < new_ones ? count : new_ones)
	{
		count = collect_some(cache, timeout_ns - waited, done);
		waited = fc_clock_ns() - begin;
	}
}

static void
ignore(FcCache *cache, uint32_t device, uint64_t ns, FcOutcome outcome)
{
	FC_ASSERT(device < cache->shared->device_count);
	(void) ns;
	(void) outcome;
}

bool
fc_probe_all(FcCache *cache, uint64_t timeout_ns)
{
	unsigned begun = 0;

	FC_ASSERT(cache->shared->device_count <= FC_DEVICES_MAX);
	for (uint32_t i = 0; i < cache->shared->device_count; i++)
		if (fc_health_answers(cache->shared, i))
			begun += fc_probe_begin(cache, i);
	fc_probe_collect(cache, begun, timeout_ns, ignore);
	return cache->prober == NULL || cache->prober->queue.in_flight == 0;
}

void
fc_probe_close(FcCache *cache)
{
	if (cache->prober == NULL)
		return;
	fc_queue_close(&cache->prober->queue);
	munmap(cache->prober, sizeof(FcProber));
	cache->prober = NULL;
}
