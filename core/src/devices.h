/*
 * devices.h
 *		The cache files of a cache: where each slot lies, and what each file has
 *		done.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_DEVICES_H
#define FCACHE_DEVICES_H

#include "shared.h"

/* How a read or write of a slot ended. */
typedef enum FcOutcome
{
	FC_OUTCOME_OK,
	FC_OUTCOME_AHEAD,       /* the same, but its time was not measured */
	FC_OUTCOME_INTERRUPTED, /* by a signal: not the device's fault */
	FC_OUTCOME_ERROR,       /* failed, or came back short */
	FC_OUTCOME_TIMEOUT      /* not done at its deadline */
} FcOutcome;

/* The outcome that a transfer's result means. */
extern FcOutcome fc_devices_outcome(ssize_t result);

/* The number of the device that holds a slot. */
extern uint32_t fc_devices_number_of_slot(const FcShared *shared,
                                          uint32_t slot);

/* Where a slot lies. */
extern void fc_devices_place_of_slot(const FcCache *cache, uint32_t slot,
                                     FcDevice **device_out, off_t *offset_out);

/*
 * May the slot be read and written?  Not if its cache file is missing or out of
 * use.  Then the slot is neither served nor filled, but changes still
 * invalidate its entry.
 */
extern bool fc_devices_slot_usable(const FcCache *cache, uint32_t slot);

/* The same for all slots of a set. */
extern bool fc_devices_set_usable(const FcCache *cache, uint32_t set);

/*
 * May a block be put there?  Not if its cache file is late with writes, either.
 */
extern bool fc_devices_take_set(const FcCache *cache, uint32_t set);

/* Count a cached block that was read from disk because its file is bypassed. */
extern void fc_devices_slot_bypassed(FcCache *cache, uint32_t slot);

/* Count what a device did, and judge its health by it. */
extern void fc_devices_read_done(FcCache *cache, const FcDevice *device,
                                 uint64_t ns, FcOutcome outcome);
extern void fc_devices_write_done(FcCache *cache, const FcDevice *device,
                                  uint64_t ns, FcOutcome outcome);

/*
 * The slot's content did not match its CRC32C, though no process was writing
 * it.
 */
extern void fc_devices_slot_corrupt(FcCache *cache, uint32_t slot);

#endif
