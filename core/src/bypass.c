/*
 * bypass.c
 *		Housekeeping of devices: which are too slow, and which may return.
 *
 * health.c says what happens to a device when a read is late or fails.
 *
 * Stalled: housekeeping probes the device (probe.c), and returns it to service
 * after a few answers in time.
 *
 * Slow: housekeeping compares the mean time of the device's reads, over at
 * least 256 of them, with that of reads from disk.  A read that was answered
 * from memory (the page cache, where the kernel cannot be asked about it) is
 * not a disk read; it is recognized by its speed.  The device returns to
 * service when a series of probes is faster than the disk is now: meanwhile the
 * disk bears the load of both.
 *
 * A device that is soon bypassed again, for a reason that proved right, is left
 * alone twice as long each time.
 *
 * No locking: a state changes by compare-and-swap; only housekeeping changes
 * its own notes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "count.h"
#include "health.h"
#include "probe.h"

#define MS_NS     1000000ULL
#define SECOND_NS (1000 * MS_NS)

/* Means are compared over so many reads, and are valid for so long. */
#define WINDOW_READS      256
#define WINDOW_DISK_READS 64
#define WINDOW_NS         (300 * SECOND_NS)

/*
 * A device is slow if it is slower than the disk by a tenth and by this much.
 * Without the second limit, chance would decide between devices of the same
 * speed; a smaller difference costs little.
 */
#define SLOWER_NS 250000
#define SLOWER(flash, disk)                                                    \
	((flash) > (disk) + (disk) / 10 && (flash) > (disk) + SLOWER_NS)

/* Probes of a bypassed device, and how many good ones return it to service. */
#define PROBE_EVERY_NS (100 * MS_NS)
#define PROBE_WAIT_NS  (200 * MS_NS)
#define STALLED_PROBES 3
#define SLOW_PROBES    8

/* Time before the first probe; doubles each time... */
#define STALLED_WAIT_NS  (100 * MS_NS)
#define STALLED_WAIT_MAX (10 * SECOND_NS)
#define SLOW_WAIT_NS     SECOND_NS
#define SLOW_WAIT_MAX    (300 * SECOND_NS)

/* ... until it has been in service for so long. */
#define FORGIVEN_NS (600 * SECOND_NS)

/* How soon housekeeping wants to be called again. */
#define CHECK_MS          250
#define CHECK_BYPASSED_MS 100

/* ---- slow? ------------------------------------------------------------- */

/* Begin a new window for what is summed up from now on. */
static void
begin_window(FcWindow *window, uint64_t reads, uint64_t ns, uint64_t now_ns)
{
	*window = (FcWindow){ .reads = reads, .ns = ns, .begin_ns = now_ns };
}

/* The mean since the window began; 0: it is not full yet. */
static uint64_t
mean_of_window(FcWindow *window, uint64_t reads, uint64_t ns, uint64_t now_ns)
{
	uint64_t count = reads - window->reads;
	uint64_t mean = count >= WINDOW_READS ? (ns - window->ns) / count : 0;

	if (count >= WINDOW_READS || now_ns - window->begin_ns > WINDOW_NS)
		begin_window(window, reads, ns, now_ns);
	return mean;
}

/*
 * While most reads are answered from memory, the others do not tell what it
 * would cost to read from disk what flash holds; then the mean stays as it is.
 */
static void
follow_disk(FcShared *shared)
{
	FcDiskSums now = { .calls = 0 };
	const FcDiskSums *before = &shared->disk_window;
	uint64_t calls;
	uint64_t waits;

	for (uint32_t i = 0; i < shared->shard_count; i++)
	{
		now.calls += atomic_load(&fc_shards(shared)[i].disk_calls);
		now.waits += atomic_load(&fc_shards(shared)[i].disk_waits);
		now.wait_ns += atomic_load(&fc_shards(shared)[i].disk_wait_ns);
	}
	calls = now.calls - before->calls;
	waits = now.waits - before->waits;
	if (calls < WINDOW_DISK_READS)
		return;
	if (2 * waits >= calls)
	{
		uint64_t mean = (now.wait_ns - before->wait_ns) / waits;

		shared->disk_mean_ns = shared->disk_mean_ns == 0
		                           ? mean
		                           : (shared->disk_mean_ns + mean) / 2;
	}
	shared->disk_window = now;
}

static void
judge_speed(FcCache *cache, uint32_t device, uint64_t now_ns)
{
	FcShared *shared = cache->shared;
	FcHealth *health = &shared->health[device];
	uint64_t mean = mean_of_window(
		&health->window,
		fc_count_sum_of_device(shared, device, FC_DEVICE_READS_DONE),
		fc_count_sum_of_device(shared, device, FC_DEVICE_READ_NS), now_ns);

	if (mean > 0 && shared->disk_mean_ns > 0 &&
	    SLOWER(mean, shared->disk_mean_ns))
		(void) fc_health_move(cache, device, FC_DEVICE_IN_SERVICE,
		                      FC_DEVICE_SLOW);
}

/* ---- back in service --------------------------------------------------- */

static uint64_t
wait_before_probes(FcDeviceState state, uint32_t times)
{
	bool slow = state == FC_DEVICE_SLOW;
	uint64_t wait = slow ? SLOW_WAIT_NS / 2 : STALLED_WAIT_NS;
	uint64_t max = slow ? SLOW_WAIT_MAX : STALLED_WAIT_MAX;

	while (times-- > 0 && wait < max)
		wait *= 2;
	return wait < max ? wait : max;
}

/* Note a state that housekeeping sees for the first time. */
static void
note_state(FcCache *cache, uint32_t device, FcDeviceState state,
           uint64_t now_ns)
{
	FcShared *shared = cache->shared;
	FcHealth *health = &shared->health[device];

	health->noted_state = state;
	health->good_probes = 0;
	health->probes_ns = 0;
	if (state == FC_DEVICE_IN_SERVICE)
		begin_window(
			&health->window,
			fc_count_sum_of_device(shared, device, FC_DEVICE_READS_DONE),
			fc_count_sum_of_device(shared, device, FC_DEVICE_READ_NS), now_ns);
	if (fc_health_bypassed(state))
	{
		if (now_ns - health->noted_ns > FORGIVEN_NS)
			health->times_bypassed = 0;
		if (state == FC_DEVICE_SLOW)
			health->times_bypassed++;
		health->hung = false;
		health->probe_due_ns =
			now_ns + wait_before_probes(state, health->times_bypassed);
	}
	health->noted_ns = now_ns;
}

/* Note the answer of a stalled device; true once enough were in time. */
static bool
answers(FcCache *cache, FcHealth *health, uint64_t ns)
{
	if (ns <= cache->read_deadline_ns)
		health->good_probes++;
	else
		health->good_probes = 0;

	/* The device did hang; it was not merely a process that was late. */
	if (ns > cache->read_deadline_ns && !health->hung)
	{
		health->hung = true;
		health->times_bypassed++;
	}
	return health->good_probes >= STALLED_PROBES;
}

/* Note the answer of a slow device; true if a series beat the disk. */
static bool
is_fast(const FcShared *shared, FcHealth *health, uint64_t ns)
{
	bool fast;

	health->probes_ns += ns;
	if (++health->good_probes < SLOW_PROBES)
		return false;
	fast = health->probes_ns / SLOW_PROBES < shared->disk_mean_ns;
	health->good_probes = 0;
	health->probes_ns = 0;
	if (!fast)
		health->probe_due_ns =
			fc_clock_ns() +
			wait_before_probes(FC_DEVICE_SLOW, health->times_bypassed);
	return fast;
}

static void
probe_done(FcCache *cache, uint32_t device, uint64_t ns, FcOutcome outcome)
{
	FcHealth *health = &cache->shared->health[device];
	FcDeviceState state = fc_health_state(cache->shared, device);
	bool well = false;

	if (outcome != FC_OUTCOME_OK)
	{
		health->good_probes = 0;
		health->probes_ns = 0;
		fc_health_read_done(cache, device, ns, outcome);
	}
	else if (state == FC_DEVICE_STALLED)
		well = answers(cache, health, ns);
	else if (state == FC_DEVICE_SLOW)
		well = is_fast(cache->shared, health, ns);

	/* Noted at once: it may stall again before the next check. */
	if (well && fc_health_move(cache, device, state, FC_DEVICE_IN_SERVICE))
		note_state(cache, device, FC_DEVICE_IN_SERVICE, fc_clock_ns());
}

/* True if it began a probe. */
static bool
check(FcCache *cache, uint32_t device, uint64_t now_ns)
{
	FcHealth *health = &cache->shared->health[device];
	FcDeviceState state = fc_health_state(cache->shared, device);

	FC_ASSERT(device < cache->shared->device_count);
	if (state != health->noted_state || health->noted_ns == 0)
		note_state(cache, device, state, now_ns);
	if (state == FC_DEVICE_IN_SERVICE)
		judge_speed(cache, device, now_ns);
	if (!fc_health_bypassed(state) || now_ns < health->probe_due_ns)
		return false;
	health->probe_due_ns = now_ns + PROBE_EVERY_NS;
	return fc_probe_begin(cache, device);
}

unsigned
fc_bypass_check(FcCache *cache)
{
	FcShared *shared = cache->shared;
	unsigned again_ms = CHECK_MS;
	unsigned probes = 0;

	if (fc_mode(cache, NULL) == FC_OFFLINE)
		return CHECK_MS;
	follow_disk(shared);
	for (uint32_t i = 0; i < shared->device_count; i++)
		probes += check(cache, i, fc_clock_ns());
	fc_probe_collect(cache, probes, PROBE_WAIT_NS, probe_done);
	for (uint32_t i = 0; i < shared->device_count; i++)
		if (fc_health_bypassed(fc_health_state(shared, i)))
			again_ms = CHECK_BYPASSED_MS;
	return again_ms;
}
