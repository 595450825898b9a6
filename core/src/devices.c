/*
 * devices.c
 *		The cache files of a cache: where each slot lies, and what each file has
 *		done.
 *
 * Sets are assigned to the cache files in turn, so that a run of blocks, whose
 * sets are scattered, keeps all devices busy, and a device that dies takes an
 * even share of the cache with it.  All 64 slots of a set lie side by side in
 * one file.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "devices.h"

#include <errno.h>

#include "budget.h"
#include "count.h"
#include "health.h"

/*
 * Avoids a division, which costs as much as the rest of a look-up's arithmetic.
 */
static uint32_t
device_of_set(const FcShared *shared, uint32_t set)
{
	FC_ASSERT(set < shared->set_count);
	return shared->device_count == 1 ? 0 : set % shared->device_count;
}

uint32_t
fc_devices_number_of_slot(const FcShared *shared, uint32_t slot)
{
	return device_of_set(shared, slot / FC_WAYS);
}

void
fc_devices_place_of_slot(const FcCache *cache, uint32_t slot,
                         FcDevice **device_out, off_t *offset_out)
{
	uint32_t count = cache->shared->device_count;
	uint32_t set = slot / FC_WAYS;
	uint32_t set_of_file = count == 1 ? set : set / count;

	FC_ASSERT(cache->devices != NULL && set < cache->shared->set_count);
	*device_out = &cache->devices[device_of_set(cache->shared, set)];
	*offset_out =
		FC_SLOTS_OFFSET +
		((off_t) set_of_file * FC_WAYS + slot % FC_WAYS) * FC_BLOCK_SIZE;
}

bool
fc_devices_set_usable(const FcCache *cache, uint32_t set)
{
	return fc_health_usable(cache->shared, device_of_set(cache->shared, set));
}

bool
fc_devices_take_set(const FcCache *cache, uint32_t set)
{
	return fc_health_takes(cache->shared, device_of_set(cache->shared, set));
}

bool
fc_devices_slot_usable(const FcCache *cache, uint32_t slot)
{
	return fc_devices_set_usable(cache, slot / FC_WAYS);
}

FcOutcome
fc_devices_outcome(ssize_t result)
{
	if (result == FC_BLOCK_SIZE)
		return FC_OUTCOME_OK;
	/* A signal is not the device's fault. */
	return result == -EINTR ? FC_OUTCOME_INTERRUPTED : FC_OUTCOME_ERROR;
}

/* ---- what each has done ------------------------------------------------ */

static uint32_t
number_of(const FcCache *cache, const FcDevice *device)
{
	FC_ASSERT(device >= cache->devices &&
	          device < cache->devices + cache->shared->device_count);
	return (uint32_t) (device - cache->devices);
}

void
fc_devices_read_done(FcCache *cache, const FcDevice *device, uint64_t ns,
                     FcOutcome outcome)
{
	uint32_t number = number_of(cache, device);

	fc_count_device(cache, number, FC_DEVICE_READS, 1);
	if (outcome == FC_OUTCOME_OK)
	{
		fc_count_device(cache, number, FC_DEVICE_READS_DONE, 1);
		fc_count_device(cache, number, FC_DEVICE_READ_NS, ns);
		fc_count_time(cache, FC_TIME_FLASH_READ, ns);
	}
	else if (outcome == FC_OUTCOME_AHEAD)
		fc_count_device(cache, number, FC_DEVICE_READS_AHEAD, 1);
	else if (outcome == FC_OUTCOME_ERROR)
		fc_count_device(cache, number, FC_DEVICE_READ_ERRORS, 1);
	else if (outcome == FC_OUTCOME_TIMEOUT)
		fc_count_device(cache, number, FC_DEVICE_READ_TIMEOUTS, 1);
	fc_health_read_done(cache, number, ns, outcome);
}

void
fc_devices_write_done(FcCache *cache, const FcDevice *device, uint64_t ns,
                      FcOutcome outcome)
{
	uint32_t number = number_of(cache, device);

	FC_ASSERT(outcome != FC_OUTCOME_AHEAD && outcome != FC_OUTCOME_TIMEOUT);
	fc_count_device(cache, number, FC_DEVICE_WRITES, 1);
	if (outcome == FC_OUTCOME_OK)
	{
		fc_count_device(cache, number, FC_DEVICE_WRITES_DONE, 1);
		fc_count_device(cache, number, FC_DEVICE_WRITE_NS, ns);
		fc_count_time(cache, FC_TIME_FLASH_WRITE, ns);
		fc_budget_spend(cache);
	}
	else if (outcome == FC_OUTCOME_ERROR)
		fc_count_device(cache, number, FC_DEVICE_WRITE_ERRORS, 1);
	fc_health_write_done(cache, number, ns, outcome);
}

void
fc_devices_slot_bypassed(FcCache *cache, uint32_t slot)
{
	fc_count_device(cache, fc_devices_number_of_slot(cache->shared, slot),
	                FC_DEVICE_BYPASSED_READS, 1);
}

void
fc_devices_slot_corrupt(FcCache *cache, uint32_t slot)
{
	uint32_t number = fc_devices_number_of_slot(cache->shared, slot);

	fc_count_device(cache, number, FC_DEVICE_CORRUPT, 1);
	fc_health_corrupt(cache, number);
}

uint32_t
fc_devices_count(const FcCache *cache)
{
	return cache->shared->device_count;
}

void
fc_devices_info(const FcCache *cache, uint32_t number, FcDeviceInfo *out)
{
	const FcShared *shared = cache->shared;
	uint64_t reads =
		fc_count_sum_of_device(shared, number, FC_DEVICE_READS_DONE);
	uint64_t ahead =
		fc_count_sum_of_device(shared, number, FC_DEVICE_READS_AHEAD);
	uint64_t writes =
		fc_count_sum_of_device(shared, number, FC_DEVICE_WRITES_DONE);

	FC_ASSERT(number < shared->device_count);
	*out = (FcDeviceInfo){
		.state = fc_health_state(shared, number),
		.reads = fc_count_sum_of_device(shared, number, FC_DEVICE_READS),
		.read_bytes = (reads + ahead) * FC_BLOCK_SIZE,
		.timed_reads = reads,
		.read_ns = fc_count_sum_of_device(shared, number, FC_DEVICE_READ_NS),
		.read_errors =
			fc_count_sum_of_device(shared, number, FC_DEVICE_READ_ERRORS),
		.read_timeouts =
			fc_count_sum_of_device(shared, number, FC_DEVICE_READ_TIMEOUTS),
		.writes = fc_count_sum_of_device(shared, number, FC_DEVICE_WRITES),
		.write_bytes = writes * FC_BLOCK_SIZE,
		.write_ns = fc_count_sum_of_device(shared, number, FC_DEVICE_WRITE_NS),
		.write_errors =
			fc_count_sum_of_device(shared, number, FC_DEVICE_WRITE_ERRORS),
		.bypassed_reads =
			fc_count_sum_of_device(shared, number, FC_DEVICE_BYPASSED_READS),
		.corrupt_slots =
			fc_count_sum_of_device(shared, number, FC_DEVICE_CORRUPT),
	};
}
