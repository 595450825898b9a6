/*
 * count.h
 *		What is counted for each device; see count.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_COUNT_H
#define FCACHE_COUNT_H

#include "shared.h"

/* What is counted for each device. */
typedef enum FcDeviceCounter
{
	FC_DEVICE_READS,       /* asked for */
	FC_DEVICE_READS_DONE,  /* that returned a whole slot */
	FC_DEVICE_READ_NS,     /* ... their time */
	FC_DEVICE_READS_AHEAD, /* the same, but done before any process waited */
	FC_DEVICE_READ_ERRORS,
	FC_DEVICE_READ_TIMEOUTS,
	FC_DEVICE_WRITES,
	FC_DEVICE_WRITES_DONE,
	FC_DEVICE_WRITE_NS,
	FC_DEVICE_WRITE_ERRORS,
	FC_DEVICE_CORRUPT,
	FC_DEVICE_BYPASSED_READS,
	FC_DEVICE_COUNTER_COUNT
} FcDeviceCounter;

typedef struct FcDeviceShard
{
	FcAtomic64 counter[FC_DEVICE_COUNTER_COUNT];
} __attribute__((aligned(64))) FcDeviceShard;

static inline FcDeviceShard *
fc_device_shards(const FcShared *shared)
{
	return FC_AT(shared, device_shards_offset, FcDeviceShard);
}

extern void fc_count_device(FcCache *cache, uint32_t device,
                            FcDeviceCounter counter, uint64_t amount);

/* What a device has done so far. */
extern uint64_t fc_count_sum_of_device(const FcShared *shared, uint32_t device,
                                       FcDeviceCounter counter);

#endif
