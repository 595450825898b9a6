/*
 * health.c
 *		Is a device fit for use?
 *
 *	in service	it is read and written
 *	stalled		bypassed: a read was not done in time
 *	slow		bypassed: it took longer than the disk, on average
 *	failed		out of use until the next start: errors, or corrupt slots
 *
 * Blocks on a device that is bypassed or out of use are read from disk, and no
 * block is put there.  Changes still invalidate its entries, so those that are
 * left when it returns are valid.
 *
 * The first late read of any process makes a device stalled.  Housekeeping
 * decides what is slow, and what returns to service (bypass.c).
 *
 * Being late with writes is no state: the device is read as before but given no
 * blocks (flights.c).
 *
 * Failures are counted by the hour, for each device and kind.  Too many of one
 * kind take the device out of use.  When the last device is out of use, the
 * cache goes offline.
 *
 * No locking: a state changes by compare-and-swap.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "health.h"

#define MS_NS     1000000ULL
#define SECOND_NS (1000 * MS_NS)

/*
 * A device is out of use after this many failed calls, or this many corrupt
 * slots, in an hour.  A flipped bit costs only its slot, even if there is one a
 * day; a device that has gone haywire costs a few dozen misses.
 */
#define FAILURE_WINDOW_NS (3600 * SECOND_NS)
#define DEVICE_ERRORS_MAX 32
#define CORRUPT_SLOTS_MAX 256

/*
 * Where a read cannot be abandoned (no AIO), it is late if it exceeds the
 * deadline by this much.
 */
#define LATE_NS SECOND_NS

/* Waking up this much later than requested is normal. */
#define OVERSLEEP_NS (20 * MS_NS)

/* A faster read was answered from memory, or by a disk that is like flash. */
#define DISK_READ_NS_MIN 200000

/* ---- states ------------------------------------------------------------ */

void
fc_health_absent(FcShared *shared, uint32_t device)
{
	FC_ASSERT(device < shared->device_count);
	atomic_store(&shared->health[device].state, FC_DEVICE_ABSENT);
}

static bool
any_left(const FcShared *shared)
{
	for (uint32_t i = 0; i < shared->device_count; i++)
	{
		FcDeviceState state = fc_health_state(shared, i);

		if (state == FC_DEVICE_IN_SERVICE || fc_health_bypassed(state))
			return true;
	}
	return false;
}

bool
fc_health_move(FcCache *cache, uint32_t device, FcDeviceState from,
               FcDeviceState to)
{
	uint32_t state = from;

	FC_ASSERT(device < cache->shared->device_count && from != to);
	return atomic_compare_exchange_strong(&cache->shared->health[device].state,
	                                      &state, to);
}

static void
take_out_of_use(FcCache *cache, uint32_t device, FcDeviceState state,
                FcReason reason)
{
	FcDeviceState now = fc_health_state(cache->shared, device);

	FC_ASSERT(state > FC_DEVICE_IN_SERVICE && !fc_health_bypassed(state));
	while (now == FC_DEVICE_IN_SERVICE || fc_health_bypassed(now))
	{
		if (fc_health_move(cache, device, now, state))
			break;
		now = fc_health_state(cache->shared, device);
	}
	if (!any_left(cache->shared) && fc_mode(cache, NULL) != FC_OFFLINE)
		(void) fc_mode_set(cache, FC_OFFLINE, reason);
}

/*
 * Too many failures in the window?  Two processes may begin a window at once;
 * then a failure or two is lost.
 */
static bool
too_many(FcFailures *failures, uint32_t max)
{
	uint64_t now = fc_clock_ns();

	if (now - atomic_load(&failures->window_start_ns) > FAILURE_WINDOW_NS)
	{
		atomic_store(&failures->window_start_ns, now);
		atomic_store(&failures->count, 0);
	}
	return atomic_fetch_add(&failures->count, 1) + 1 >= max;
}

/* ---- what devices did -------------------------------------------------- */

/*
 * A process that wakes up long after the deadline was waiting for a processor,
 * and cannot tell what the device would have done.
 */
static uint64_t
oversleep_max(const FcCache *cache)
{
	uint64_t half = cache->read_deadline_ns / 2;

	return half > OVERSLEEP_NS ? half : OVERSLEEP_NS;
}

void
fc_health_read_done(FcCache *cache, uint32_t device, uint64_t ns,
                    FcOutcome outcome)
{
	FC_ASSERT(device < cache->shared->device_count);
	if ((outcome == FC_OUTCOME_TIMEOUT &&
	     ns <= cache->read_deadline_ns + oversleep_max(cache)) ||
	    (outcome == FC_OUTCOME_OK && ns > LATE_NS &&
	     ns > cache->read_deadline_ns))
		(void) fc_health_move(cache, device, FC_DEVICE_IN_SERVICE,
		                      FC_DEVICE_STALLED);
	if (outcome == FC_OUTCOME_ERROR &&
	    too_many(&cache->shared->health[device].read_errors, DEVICE_ERRORS_MAX))
		take_out_of_use(cache, device, FC_DEVICE_READ_FAILS,
		                FC_REASON_READ_ERRORS);
}

void
fc_health_write_done(FcCache *cache, uint32_t device, uint64_t ns,
                     FcOutcome outcome)
{
	FC_ASSERT(device < cache->shared->device_count);
	(void) ns;
	if (outcome == FC_OUTCOME_ERROR &&
	    too_many(&cache->shared->health[device].write_errors,
	             DEVICE_ERRORS_MAX))
		take_out_of_use(cache, device, FC_DEVICE_WRITE_FAILS,
		                FC_REASON_WRITE_ERRORS);
}

void
fc_health_corrupt(FcCache *cache, uint32_t device)
{
	FC_ASSERT(device < cache->shared->device_count);
	if (too_many(&cache->shared->health[device].corrupt, CORRUPT_SLOTS_MAX))
		take_out_of_use(cache, device, FC_DEVICE_CORRUPTS,
		                FC_REASON_CORRUPTION);
}

void
fc_health_disk_read(FcCache *cache, uint64_t ns)
{
	FcShard *shard = &fc_shards(cache->shared)[fc_own_shard(cache)];

	/*
	 * Relaxed: housekeeping takes the mean of hundreds (bypass.c); one that it
	 * sees late counts in the next mean.
	 */
	atomic_fetch_add_explicit(&shard->disk_calls, 1, memory_order_relaxed);
	if (ns < DISK_READ_NS_MIN)
		return;
	atomic_fetch_add_explicit(&shard->disk_waits, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&shard->disk_wait_ns, ns, memory_order_relaxed);
}
