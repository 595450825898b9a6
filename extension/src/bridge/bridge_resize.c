/*
 * bridge_resize.c
 *		The size of the cache follows the setting.
 *
 * The worker changes the size in steps short enough to answer a signal in
 * between:
 *
 *	grow	first reserve room in all cache files; only then does core begin.
 *			If there is no room, nothing changes, and this is reported once
 *			for each reload of the settings.
 *	shrink	core begins; once no process writes the slots to be removed, the
 *			files are cut off, piece by piece.
 *
 * The only state between steps is in shared memory and in the size of the
 * files, so a new worker continues where a killed one stopped.  A file that is
 * larger than core requires is cut off, whatever the reason.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>

#include "bridge/bridge_resize.h"
#include "hooks/runtime.h"
#include "settings.h"
#include "fcache/housekeeping.h"

/*
 * Core processes this many sets in a step: some tenths of a second on a slow
 * device.
 */
#define STEP_SETS 16

/* ... and each cache file grows by this many slots: 256 MB. */
#define STEP_SLOTS 32768

/* ... and is cut off for this long. */
#define CUT_NS 100000000ULL

#define SLOTS_OF_MB (1024 * 1024 / FC_BLOCK_SIZE)

/*
 * A refused size is not tried again until the settings are reloaded, which is
 * also how it is asked for again.
 */
static bool refused;

/* Files that could not be cut are left as they are, likewise. */
static bool cut_failed[FC_DEVICES_MAX];

static void
refuse(int why)
{
	Assert(why != 0);
	refused = true;
	atomic_store(&runtime.board->resize_refused, why);
}

void
bridge_resize_retry(void)
{
	refused = false;
	memset(cut_failed, 0, sizeof(cut_failed));
}

static bool
is_open(const FcDevice *device)
{
	return device->ops != NULL && device->fd >= 0;
}

uint32_t
bridge_resize_begin_with(const FcConfig *config)
{
	uint32_t each = config->slot_count_max / config->device_count;

	if (setting_cache_size_blocks >= FC_WAYS &&
	    (uint32_t) setting_cache_size_blocks < each)
		each = (uint32_t) setting_cache_size_blocks / FC_WAYS * FC_WAYS;
	for (uint32_t i = 0; i < config->device_count; i++)
	{
		uint32_t room;

		if (!is_open(&runtime.device[i]))
			continue;
		room = fc_device_file_slots(&runtime.device[i]) / FC_WAYS * FC_WAYS;
		if (room >= FC_WAYS && room < each)
			each = room;
	}
	Assert(each >= FC_WAYS && each % FC_WAYS == 0);
	return each * config->device_count;
}

/* The setting, in slots of each file; 0 if that size is impossible. */
static uint32_t
wanted_of_each(const FcConfig *config)
{
	uint32_t most = config->slot_count_max / config->device_count;

	if (refused)
		return 0;
	atomic_store(&runtime.board->resize_refused, 0);
	if (setting_cache_size_blocks >= FC_WAYS &&
	    (uint32_t) setting_cache_size_blocks / FC_WAYS * FC_WAYS <= most)
		return (uint32_t) setting_cache_size_blocks / FC_WAYS * FC_WAYS;

	refuse(RESIZE_OUT_OF_RANGE);
	ereport(WARNING,
	        (errmsg("pgflash: the size of the cache stays as it is: "
	                "pgflash.cache_size is out of range"),
	         errdetail("Each cache file can have from 512 kB to %u MB while "
	                   "the server runs.",
	                   most / SLOTS_OF_MB),
	         errhint("To make it larger, set pgflash.cache_size_max and "
	                 "restart the server.")));
	return 0;
}

/* Cut off some or all of what core no longer needs; true if there is more. */
static bool
trim_files(const FcConfig *config, uint32_t each)
{
	bool any_more = false;

	Assert(each * config->device_count >=
	       fc_geometry_size(&runtime.cache).slots);
	for (uint32_t i = 0; i < config->device_count; i++)
	{
		FcDevice *device = &runtime.device[i];
		bool more = false;

		if (!is_open(device) || cut_failed[i] ||
		    fc_device_file_slots(device) <= each)
			continue;
		cut_failed[i] =
			fc_device_file_cut(device, each, CUT_NS, &more) != FC_DEVICE_FINE;
		if (cut_failed[i])
			ereport(LOG, (errcode_for_file_access(),
			              errmsg("pgflash could not truncate a cache file: %m"),
			              errhint("Reload the configuration to try again.")));
		any_more |= more;
	}
	return any_more;
}

/* Reserve some more room.  True once all files have enough. */
static bool
extend_files(const FcConfig *config, uint32_t each, bool *failed_out)
{
	for (uint32_t i = 0; i < config->device_count; i++)
	{
		FcDevice *device = &runtime.device[i];
		uint32_t have;

		if (!is_open(device))
			continue;
		have = fc_device_file_slots(device);
		if (have >= each)
			continue;
		if (fc_device_file_resize(device, Min(each, have + STEP_SLOTS)) !=
		    FC_DEVICE_FINE)
		{
			*failed_out = true;
			return false;
		}
		if (have + STEP_SLOTS < each)
			return false;
	}
	return true;
}

/* Begin to grow or shrink from now to the wanted size, or report why not. */
static bool
begin(const FcConfig *config, uint32_t now, uint32_t wanted)
{
	bool failed = false;

	Assert(!refused && wanted != now && wanted >= FC_WAYS &&
	       wanted % FC_WAYS == 0);
	Assert(wanted <= config->slot_count_max / config->device_count);
	if (wanted > now && !extend_files(config, wanted, &failed))
	{
		int saved_errno = errno;

		if (!failed)
		{
			atomic_store(&runtime.board->resize_reserves, true);
			return true;
		}
		refuse(saved_errno);
		(void) trim_files(config, now);
		errno = saved_errno;
		ereport(WARNING,
		        (errcode_for_file_access(),
		         errmsg("pgflash: no room to grow the cache from %u to %u MB: "
		                "%m",
		                now * config->device_count / SLOTS_OF_MB,
		                wanted * config->device_count / SLOTS_OF_MB),
		         errdetail("The cache keeps its size."),
		         errhint("Free some space on the flash device, then reload the "
		                 "configuration to try again.")));
		return false;
	}

	if (fc_resize_begin(&runtime.cache, wanted * config->device_count) != FC_OK)
		return false;
	ereport(LOG, (errmsg("pgflash: the size of the cache changes from %u to %u "
	                     "MB",
	                     now * config->device_count / SLOTS_OF_MB,
	                     wanted * config->device_count / SLOTS_OF_MB)));
	return true;
}

const char *
bridge_resize_reason(uint32_t each_max)
{
	int why = atomic_load(&runtime.board->resize_refused);

	if (why == 0)
		return NULL;
	if (why == RESIZE_OUT_OF_RANGE)
		return psprintf("pgflash.cache_size is out of range: each cache file "
		                "can have from 512 kB to %u MB while the server runs; "
		                "for more, set pgflash.cache_size_max and restart",
		                each_max / SLOTS_OF_MB);
	return psprintf("no room to grow: %s", strerror(why));
}

bool
bridge_resize_tick(const FcConfig *config)
{
	FcSize size = fc_geometry_size(&runtime.cache);
	uint32_t each = size.slots / config->device_count;
	uint32_t wanted;

	Assert(size.slots % config->device_count == 0);
	Assert(size.slots_max == config->slot_count_max);
	atomic_store(&runtime.board->resize_reserves, false);
	if (fc_mode(&runtime.cache, NULL) == FC_OFFLINE)
		return false;
	if (size.changing)
	{
		if (fc_resize_step(&runtime.cache, STEP_SETS))
			return true;
		(void) trim_files(config, each);
		ereport(LOG, (errmsg("pgflash: the size of the cache is %u MB now",
		                     size.slots / SLOTS_OF_MB)));
		return true;
	}

	wanted = wanted_of_each(config);
	if (wanted > each || (wanted != 0 && wanted < each))
		return begin(config, each, wanted);
	return trim_files(config, each);
}
