/*
 * bridge_views.c
 *		What SQL's views and functions ask about the cache.
 *
 * All functions here may be called without a cache, and then return zero, or
 * why there is none.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bridge/bridge.h"
#include "bridge/bridge_cache_policy.h"
#include "bridge/bridge_devices.h"
#include "bridge/bridge_pages.h"
#include "bridge/bridge_resize.h"
#include "bridge/bridge_restart.h"
#include "bridge/bridge_runtime.h"
#include "bridge/bridge_views.h"
#include "bridge/bridge_words.h"
#include "fcache/housekeeping.h"
#include "fcache/writer.h"
#include "hooks/advice.h"
#include "hooks/hooks.h"
#include "hooks/page_cache.h"
#include "hooks/runtime.h"
#include "hooks/verify.h"
#include "server/background.h"

/* ---- views --------------------------------------------------------------- */

const char *
bridge_mode(const char **reason_out)
{
	FcReason reason;
	FcMode mode;
	const char *missing;

	if (!bridge_attached())
	{
		*reason_out = bridge_why_off();
		return bridge_mode_word(FC_OFFLINE);
	}
	mode = fc_mode(&runtime.cache, &reason);
	missing = background_missing_names();
	if (mode == FC_SERVE
	        ? missing != NULL
	        : reason == FC_REASON_STARTING && background_missing("pgflash"))
		*reason_out = psprintf("there is no background worker for %s: raise "
		                       "max_worker_processes",
		                       missing);
	else
		*reason_out = bridge_reason_words(reason);
	Assert(*reason_out != NULL);
	return bridge_mode_word(mode);
}

const char *
bridge_start_reason(void)
{
	return bridge_restart_reason();
}

bool
bridge_counter(const char *name, uint64_t *value_out)
{
	static const char *const names[FC_COUNTER_COUNT] = {
#define FC_COUNTER(name, text) #name,
#include "fcache/counters.def"
#undef FC_COUNTER
	};

	for (int i = 0; i < FC_COUNTER_COUNT; i++)
	{
		if (strcmp(names[i], name) == 0)
		{
			*value_out = bridge_attached()
			                 ? fc_count_sum(&runtime.cache, (FcCounter) i)
			                 : 0;
			return true;
		}
	}
	return false;
}

void
bridge_histogram(BridgeTimer timer, BridgeHistogram *out)
{
	static const FcTimer timers[] = { [BRIDGE_FLASH_READ] = FC_TIME_FLASH_READ,
		                              [BRIDGE_DISK_READ] = FC_TIME_DISK_READ };
	static FcHistogram histogram;

	Assert((size_t) timer < lengthof(timers));
	memset(&histogram, 0, sizeof(histogram));
	if (bridge_attached())
		fc_count_histogram(&runtime.cache, timers[timer], &histogram);
	out->count = histogram.count;
	out->mean_ms = histogram.count == 0 ? 0
	                                    : (double) histogram.total_ns /
	                                          (double) histogram.count / 1e6;
	out->bucket = histogram.bucket;
	out->bucket_count = FC_HISTOGRAM_BUCKETS;
}

bool
bridge_direct_io(void)
{
	return bridge_devices_direct();
}

const char *
bridge_io_engine(void)
{
	Assert(bridge_attached());
	return fc_reader_engine(&runtime.cache);
}

/* One file is enough: the kernel answers for all data files or for none. */
const char *
bridge_page_cache_check(void)
{
	return page_cache_way("PG_VERSION");
}

uint32_t
bridge_slot_count(void)
{
	return bridge_attached() ? fc_geometry_slot_count(&runtime.cache) : 0;
}

BridgeStaging
bridge_staging(void)
{
	BridgeStaging out = { 0 };

	if (bridge_attached())
	{
		FcRingInfo info = fc_writer_ring_info(&runtime.cache);

		out.blocks = info.pages;
		out.used = info.used;
		out.writer_running = fc_writer_serves(&runtime.cache);
	}
	return out;
}

BridgeSize
bridge_size(void)
{
	FcSize size = { .done = 1 };

	if (bridge_attached())
	{
		size = fc_geometry_size(&runtime.cache);
		if (!size.changing && atomic_load(&runtime.board->resize_reserves))
		{
			size.changing = true;
			size.done = 0;
		}
	}
	return (BridgeSize){ .slots = size.slots,
		                 .slots_max = size.slots_max,
		                 .changing = size.changing,
		                 .done = size.done };
}

const char *
bridge_size_reason(void)
{
	return bridge_attached()
	           ? bridge_resize_reason(bridge_size().slots_max /
	                                  fc_devices_count(&runtime.cache))
	           : NULL;
}

uint32_t
bridge_used_slots(void)
{
	return bridge_attached() ? fc_file_used_slots(&runtime.cache) : 0;
}

size_t
bridge_metadata_bytes(void)
{
	return bridge_attached()
	           ? fc_cache_memory_size(&runtime.cache) + advice_memory_size()
	           : 0;
}

bool
bridge_metadata_huge_bytes(size_t *bytes_out)
{
	bool known = bridge_attached() && bridge_pages_own();

	*bytes_out = known ? bridge_pages_huge_bytes() : 0;
	return known;
}

uint32_t
bridge_file_count(void)
{
	return bridge_attached() ? fc_file_count(&runtime.cache) : 0;
}

bool
bridge_file(uint32_t number, BridgeFile *out)
{
	FcFileInfo info;

	Assert(number < bridge_file_count());
	if (!fc_file_info(&runtime.cache, number, &info))
		return false;
	out->tablespace = info.id.tablespace;
	out->database = info.id.database;
	out->relation = info.id.relation;
	out->fork_number = info.id.fork;
	out->fork = paths_fork_name(info.id.fork);
	Assert(out->fork != NULL);
	out->cached_blocks = info.cached_blocks;
	out->hits = info.hits;
	out->misses = info.misses;
	out->disk_read_ms = (double) info.disk_read_ns / 1e6;
	out->policy = bridge_cache_policy_word((CachePolicy) info.cache_policy);
	return true;
}

uint64_t
bridge_fork_blocks(const BridgeFile *file)
{
	FcFileId id = { .tablespace = file->tablespace,
		            .database = file->database,
		            .relation = file->relation,
		            .fork = file->fork_number };
	uint64_t bytes = 0;
	char path[PATHS_MAX];
	struct stat status;

	for (;; id.segment++)
	{
		paths_of_file(&runtime.root, id, path);
		if (stat(path, &status) != 0)
			return bytes / BLCKSZ;
		bytes += (uint64_t) status.st_size;
	}
}

bool
bridge_slot_block(uint32_t slot, BridgeBlock *out)
{
	FcFileId id;
	uint32_t block;

	if (!bridge_attached() ||
	    !fc_read_slot_block(&runtime.cache, slot, &id, &block))
		return false;
	out->tablespace = id.tablespace;
	out->database = id.database;
	out->relation = id.relation;
	out->fork = paths_fork_name(id.fork);
	out->block = (uint64_t) id.segment * RELSEG_SIZE + block;
	return true;
}

/* ---- a list of what is cached -------------------------------------------- */

/* Sets of the cache between two checks for interrupts. */
#define LIST_SETS 1024

size_t
bridge_list_size(void)
{
	return bridge_attached() ? fc_list_size(&runtime.cache) : 0;
}

BridgeList *
bridge_list_begin(void *memory, size_t size)
{
	Assert(bridge_attached());
	return fc_list_begin(&runtime.cache, memory, size);
}

bool
bridge_list_walk(BridgeList *list)
{
	return fc_list_walk(list, LIST_SETS);
}

uint32_t
bridge_list_bitmap_size(void)
{
	return (RELSEG_SIZE + 7) / 8;
}

bool
bridge_list_next(BridgeList *list, uint8_t *bitmap, BridgeListPart *out)
{
	FcListPart part;

	if (!fc_list_next(list, bitmap, bridge_list_bitmap_size(), &part))
		return false;
	*out = (BridgeListPart){ .tablespace = part.id.tablespace,
		                     .database = part.id.database,
		                     .relation = part.id.relation,
		                     .fork = paths_fork_name(part.id.fork),
		                     .segment = part.id.segment,
		                     .heat = part.heat,
		                     .blocks = part.blocks,
		                     .size = part.size };
	Assert(out->fork != NULL && part.size > 0);
	return true;
}

/* ---- functions ----------------------------------------------------------- */

const char *
bridge_set_mode(const char *name)
{
	FcMode mode = FC_OFFLINE;

	Assert(name != NULL);
	if (!bridge_attached())
		return bridge_why_off();

	for (; strcmp(bridge_mode_word(mode), name) != 0; mode--)
	{
		if (mode == FC_SERVE)
			return "the modes are serve, passthrough and offline";
	}

	if (mode == FC_SERVE && bridge_needs_self_test())
		return "the self-test has not passed yet";
	if (fc_mode_set(&runtime.cache, mode,
	                mode == FC_SERVE ? FC_REASON_NONE : FC_REASON_USER) !=
	    FC_OK)
		return "the cache stays offline until the server restarts";
	return NULL;
}

void
bridge_clear(void)
{
	if (bridge_attached())
		fc_cache_clear(&runtime.cache);
}

/* A file that no longer exists has no block. */
static ssize_t
read_by_name(void *file, uint32_t block, void *page)
{
	char path[PATHS_MAX];
	ssize_t got;
	int fd;

	paths_of_file(&runtime.root, *(const FcFileId *) file, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	got = pread(fd, page, FC_BLOCK_SIZE, (off_t) block * FC_BLOCK_SIZE);
	close(fd);
	return got;
}

BridgeVerdict
bridge_verify_slot(uint32_t slot)
{
	static PGAlignedBlock cached;
	FcFileId id;
	FcTicket ticket;

	if (!bridge_attached() ||
	    fc_read_slot(&runtime.cache, slot, cached.data, &id, &ticket) != FC_OK)
		return BRIDGE_NOTHING;

	Assert(ticket.slot == slot && id.relation != 0);
	switch (verify_hit(read_by_name, &id, cached.data, &ticket))
	{
		case VERIFIED_SAME:
			return BRIDGE_SAME;
		case VERIFIED_DIFFERENT:
			verify_report(id, &ticket);
			return BRIDGE_DIFFERENT;
		default:
			return BRIDGE_NOTHING;
	}
}

void
bridge_verify_failed(void)
{
	if (bridge_attached())
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_MISMATCH);
}
