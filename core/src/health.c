/*
 * health.c
 *		Is a device fit for use?
 *
 * Failures are counted by the hour, for each device and kind.  Too many of one
 * kind, and the device is out of use until the next start: its share of the cache
 * misses and is not filled, while changes go on to be announced to it.  When the
 * last device goes, the cache goes offline.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "health.h"

/*
 * A device gets this many failed calls, and this many corrupt slots, in an hour
 * before it is out of use.  A single flipped bit costs its slot, one a day costs
 * nothing more for ever; a device that has lost its mind costs a few dozen
 * misses.
 */
#define FAILURE_WINDOW_NS 3600000000000ULL
#define DEVICE_ERRORS_MAX 32
#define CORRUPT_SLOTS_MAX 256

void
fc_health_absent(FcShared *shared, uint32_t device)
{
	atomic_store(&shared->health[device].state, FC_DEVICE_ABSENT);
}

static bool
any_usable(const FcShared *shared)
{
	for (uint32_t i = 0; i < shared->device_count; i++)
		if (fc_health_usable(shared, i))
			return true;
	return false;
}

static void
take_out_of_use(FcCache *cache, uint32_t device, FcDeviceState state,
                FcReason reason)
{
	uint32_t in_service = FC_DEVICE_IN_SERVICE;

	if (atomic_compare_exchange_strong(&cache->shared->health[device].state,
	                                   &in_service, state) &&
	    !any_usable(cache->shared) && fc_mode(cache, NULL) != FC_OFFLINE)
		(void) fc_mode_set(cache, FC_OFFLINE, reason);
}

/*
 * Too many failures in the window?  Two processes may begin a window at once;
 * then a failure or two is forgotten.
 */
static bool
too_many(FcFailures *failures, uint32_t max)
{
	uint64_t now = fc_now_ns();

	if (now - atomic_load(&failures->window_start_ns) > FAILURE_WINDOW_NS)
	{
		atomic_store(&failures->window_start_ns, now);
		atomic_store(&failures->count, 0);
	}
	return atomic_fetch_add(&failures->count, 1) + 1 >= max;
}

void
fc_health_read_done(FcCache *cache, uint32_t device, uint64_t ns,
                    FcOutcome outcome)
{
	(void) ns;
	if (outcome == FC_OUTCOME_ERROR &&
	    too_many(&cache->shared->health[device].read_errors, DEVICE_ERRORS_MAX))
		take_out_of_use(cache, device, FC_DEVICE_READ_FAILS,
		                FC_REASON_READ_ERRORS);
}

void
fc_health_write_done(FcCache *cache, uint32_t device, uint64_t ns,
                     FcOutcome outcome)
{
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
	if (too_many(&cache->shared->health[device].corrupt, CORRUPT_SLOTS_MAX))
		take_out_of_use(cache, device, FC_DEVICE_CORRUPTS,
		                FC_REASON_CORRUPTION);
}
