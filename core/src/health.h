/*
 * health.h
 *		Is a device fit for use?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_HEALTH_H
#define FCACHE_HEALTH_H

#include "devices.h"

/* Exclude a device whose file could not be opened at the start. */
extern void fc_health_absent(FcShared *shared, uint32_t device);

/*
 * May it be read and written?  A single load; asked at every read and fill.
 * Relaxed: if the state is seen late, one more transfer goes to a failing
 * device; what it returns is checked like any other.
 */
static inline bool
fc_health_usable(const FcShared *shared, uint32_t device)
{
	return atomic_load_explicit(&shared->health[device].state,
	                            memory_order_relaxed) == FC_DEVICE_IN_SERVICE;
}

/*
 * May more be written to it?  It is usable, and its earlier writes are not
 * late.  Relaxed: if it is seen late, one more write waits in the ring.
 */
static inline bool
fc_health_takes(const FcShared *shared, uint32_t device)
{
	FC_ASSERT(device < shared->device_count);
	return fc_health_usable(shared, device) &&
	       atomic_load_explicit(&shared->health[device].writes_late,
	                            memory_order_relaxed) == 0;
}

static inline FcDeviceState
fc_health_state(const FcShared *shared, uint32_t device)
{
	FC_ASSERT(device < shared->device_count);
	return (FcDeviceState) atomic_load(&shared->health[device].state);
}

/* May a request to it be waited for? */
static inline bool
fc_health_answers(const FcShared *shared, uint32_t device)
{
	FcDeviceState state = fc_health_state(shared, device);

	return state == FC_DEVICE_IN_SERVICE || state == FC_DEVICE_SLOW;
}

/* Is it bypassed for a while? */
static inline bool
fc_health_bypassed(FcDeviceState state)
{
	return state == FC_DEVICE_STALLED || state == FC_DEVICE_SLOW;
}

/* Move a device from one state to another; false if it was not in the first. */
extern bool fc_health_move(FcCache *cache, uint32_t device, FcDeviceState from,
                           FcDeviceState to);

/* Record what a device did, and how long it took. */
extern void fc_health_read_done(FcCache *cache, uint32_t device, uint64_t ns,
                                FcOutcome outcome);
extern void fc_health_write_done(FcCache *cache, uint32_t device, uint64_t ns,
                                 FcOutcome outcome);
extern void fc_health_corrupt(FcCache *cache, uint32_t device);

/* Record the time of a disk read, which flash has to beat. */
extern void fc_health_disk_read(FcCache *cache, uint64_t ns);

#endif
