/*
 * bridge.c
 *		Where PostgreSQL and core meet.
 *
 * Only this file and its helpers bridge_*.c include the headers of both.  Core
 * returns statuses; here they become words in the log and in the views.  One
 * rule governs all of it: a failure of the cache is never a failure of the
 * server.  Every problem is reported once, with a hint, and the server
 * continues as if pgflash were absent.
 *
 * Life of a cache:
 *
 *	_PG_init		bridge_prepare()	settings checked, file calls redirected
 *	shared memory	bridge_create()		cache files opened, cache laid out,
 *					empty
 *	the worker		self-test			only now does the cache serve
 *	a child crashes	bridge_detach(), bridge_create() again: empty, same open
 *					file
 *
 * Everything before the worker runs in the postmaster; children inherit the
 * results.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>
#include <pthread.h>

#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/guc.h"

#include "account/account.h"
#include "bridge/bridge.h"
#include "bridge/bridge_cache_policy.h"
#include "bridge/bridge_devices.h"
#include "bridge/bridge_pages.h"
#include "bridge/bridge_resize.h"
#include "bridge/bridge_restart.h"
#include "bridge/bridge_runtime.h"
#include "bridge/bridge_words.h"
#include "broken.h"
#include "fcache/cache.h"
#include "fcache/housekeeping.h"
#include "fcache/life.h"
#include "hooks/advice.h"
#include "hooks/hooks.h"
#include "hooks/libraries.h"
#include "hooks/library_calls.h"
#include "hooks/runtime.h"
#include "hooks/uring.h"
#include "server/memory_limit.h"
#include "settings.h"

/*
 * Processes that fill: backends and workers, plus auxiliary processes and a
 * reserve.
 */
#define PROCESSES_SPARE 16

/* After this time the worker continues a change of size. */
#define BUSY_MS 10u

/*
 * A cache that needs more than this part of all memory is considered a mistake
 * in the settings.
 */
#define MEMORY_SHARE 2

static bool wanted;
static bool redirected;
static FcConfig config;

/* The saved map is being loaded; known in the worker. */
static bool loading = true;

/* The slots of all cache files together, in whole sets. */
static uint32_t
slots_of(int blocks_of_each)
{
	Assert(blocks_of_each >= FC_WAYS && config.device_count > 0);
	return (uint32_t) blocks_of_each / FC_WAYS * FC_WAYS * config.device_count;
}

static bool
judge_size(void)
{
	uint64_t memory = FC_BROKEN(MEMORY_LIMIT) ? machine_memory_bytes()
	                                          : memory_limit_bytes("");
	uint64_t needed;

	if (setting_cache_size_blocks < FC_WAYS)
		return bridge_refuse(
			"Set pgflash.cache_size to at least 512kB.",
			"the cache size of " INT64_FORMAT " kB is too small",
			(int64) setting_cache_size_blocks * (FC_BLOCK_SIZE / 1024));

	config.device_count = bridge_devices_count();
	if (Max(setting_cache_size_blocks, setting_cache_size_max_blocks) >
	    INT_MAX / (int) config.device_count)
		return bridge_refuse("Set pgflash.cache_size to less.",
		                     "the cache would have more than %d blocks",
		                     INT_MAX);
	config.slot_count = slots_of(setting_cache_size_blocks);
	config.slot_count_max =
		slots_of(Max(setting_cache_size_blocks, setting_cache_size_max_blocks));
	config.replacement = &fc_replacement_gittins;
	config.process_count =
		1; /* until the number is known; it hardly matters here */

	needed = fc_cache_memory_needed(&config);
	if (needed == 0 || needed > memory / MEMORY_SHARE)
		return bridge_refuse(
			"Set pgflash.cache_size or "
			"pgflash.cache_size_max to less.",
			"the cache size of " INT64_FORMAT " MB needs " UINT64_FORMAT
			" MB of shared memory, and the server may have "
			"only " UINT64_FORMAT " MB of memory",
			(int64) config.slot_count_max / (1024 * 1024 / FC_BLOCK_SIZE),
			needed / (1024 * 1024), memory / (1024 * 1024));
	Assert(config.slot_count > 0 && config.slot_count <= config.slot_count_max);
	return true;
}

/* With an invalid setting, no cache is better than a cache of another kind. */
static bool
judge_settings(void)
{
	const char *name;
	const char *asked;

	if (!settings_refused(&name, &asked))
		return true;
	return bridge_refuse("Correct it in the server's configuration, then "
	                     "restart the server.",
	                     "invalid value for parameter \"%s\": \"%s\"", name,
	                     asked);
}

bool
bridge_uses_uring(void)
{
	const char *io_method = GetConfigOption("io_method", true, false);

	return io_method != NULL && strcmp(io_method, "io_uring") == 0;
}

/* Can all reads be seen?  Those by io_uring only with what uring.c needs. */
static bool
reads_are_seen(const char **culprit_out)
{
	*culprit_out = NULL;
	return BLCKSZ == FC_BLOCK_SIZE &&
	       (!bridge_uses_uring() || uring_prepare(culprit_out));
}

static bool
judge_server(void)
{
	const char *culprit;

	if (BLCKSZ != FC_BLOCK_SIZE)
		return bridge_refuse("Use a server that was built with blocks of 8 kB.",
		                     "the server's block size is %d bytes", BLCKSZ);

	if (!reads_are_seen(&culprit))
		return bridge_refuse("Set io_method to \"worker\" or \"sync\".",
		                     "io_method is \"io_uring\", but there is no %s",
		                     culprit);
	return true;
}

static bool
redirect_calls(void)
{
	static const char hint[] =
		"This server's executable is not one that pgflash knows how to work "
		"with; see the documentation for the builds that were tested.";
	const char *name;

	switch (imports_replace(
		hook_imports,
		bridge_uses_uring() ? hook_import_count_with_uring : hook_import_count,
		bridge_uses_uring() ? hook_required_by_uring : hook_required,
		hook_foreign, &name))
	{
		case IMPORTS_FINE:
			return true;
		case IMPORTS_NO_PROGRAM:
			return bridge_refuse(hint,
			                     "the executable's import table was not found");
		case IMPORTS_MISSING:
			return bridge_refuse(hint, "the executable imports none of: %s",
			                     name);
		case IMPORTS_FOREIGN:
			return bridge_refuse(hint,
			                     "the executable imports \"%s\", which pgflash "
			                     "does not watch",
			                     name);
		case IMPORTS_TOO_MANY:
			return bridge_refuse(hint,
			                     "the executable's import table has too many "
			                     "entries");
		case IMPORTS_PROTECTED:
			return bridge_refuse(hint,
			                     "the executable's import table could not be "
			                     "made writable: %m");
	}
	return false;
}

/* More libraries than are loaded at one time. */
#define NOTES_MAX 128

/*
 * Watched imports are reported only for debugging; those that are not go to the
 * log.
 */
static void
report_libraries(void)
{
	LibraryNote notes[NOTES_MAX];
	size_t count = libraries_notes(notes, NOTES_MAX);

	for (size_t i = 0; i < count; i++)
	{
		if (notes[i].replaced > 0)
			ereport(DEBUG1,
			        (errmsg_internal("pgflash: %u imports of library \"%s\" "
			                         "are watched",
			                         notes[i].replaced, notes[i].name)));
		if (notes[i].left > 0)
			ereport(IsUnderPostmaster ? DEBUG1 : LOG,
			        (errmsg("pgflash: %u imports of library \"%s\" are not "
			                "watched",
			                notes[i].left, notes[i].name),
			         errdetail("They are protected, or another library has "
			                   "redirected them. If this library writes data "
			                   "files by itself, pgflash does not see it.")));
	}
}

/* Announce the changes of data files that libraries make, too. */
static void
watch_libraries(void)
{
	libraries_watch(library_imports, library_import_count);
	report_libraries();
	libraries_loaded = report_libraries;
}

/*
 * A child needs a token of its own: its claims must not be taken for its
 * parent's.
 */
static void
in_child(void)
{
	runtime.cache.token = 0;
	advice_in_child();
	account_in_child();
}

bool
bridge_prepare(void)
{
	const char *culprit;
	bool seen;

	Assert(!IsUnderPostmaster && !redirected);
	bridge_runtime_fill();

	/*
	 * A single-user server, or one for pg_upgrade, gains nothing from a cache.
	 */
	if (!IsPostmasterEnvironment || IsBinaryUpgrade)
		return bridge_stay_off("this kind of server needs no cache");
	if (setting_cache_file == NULL || setting_cache_file[0] == '\0')
		wanted = bridge_stay_off("pgflash.cache_file is not set");
	else
		wanted = judge_settings() && judge_server() &&
		         bridge_devices_judge(runtime.root.real_directory) &&
		         judge_size();

	/* Advice and accounting need no cache, but they must see all reads. */
	seen = reads_are_seen(&culprit);
	if (setting_account && !seen)
		ereport(LOG, (errmsg("pgflash: file calls are not counted, since it "
		                     "cannot see all reads of this server"),
		              errhint("pgflash needs blocks of 8 kB, and liburing "
		                      "for io_method \"io_uring\".")));
	if (!wanted && !((setting_advice || setting_account) && seen))
		return false;
	if (!redirect_calls())
		return wanted = false;
	redirected = true;
	if (wanted)
		watch_libraries();

	if (setting_advice)
		advice_want(!wanted                     ? 0
		            : config.slot_count_max > 0 ? config.slot_count_max
		                                        : config.slot_count);
	if (wanted)
		(void) bridge_stay_off("the server is starting");
	pthread_atfork(NULL, NULL, in_child);
	Assert(!wanted || bridge_devices_count() == config.device_count);
	return true;
}

bool
bridge_wanted(void)
{
	return wanted;
}

bool
bridge_redirected(void)
{
	return redirected;
}

/* ---- the cache ----------------------------------------------------------- */

size_t
bridge_memory_size(void)
{
	Assert(wanted && MaxBackends > 0);
	if (!FC_BROKEN(PROCESSES))
		config.process_count =
			(uint32_t) (MaxBackends + NUM_AUXILIARY_PROCS + PROCESSES_SPARE);
	return MAXALIGN(sizeof(Board)) +
	       (bridge_restart_reserve(fc_cache_memory_needed(&config))
	            ? 0
	            : FC_IO_ALIGN + fc_cache_memory_needed(&config));
}

/*
 * A mode that was set by hand, or a wrong block, outlives the memory when the
 * crash of a session restarts all processes: it lasts until the server itself
 * restarts.  Known to the postmaster only.
 */
static struct
{
	FcMode mode;
	FcReason reason;
} kept = { FC_SERVE, FC_REASON_NONE };

void
bridge_keep_mode(void)
{
	Assert(!IsUnderPostmaster);
	if (runtime.cache.shared == NULL)
		return;
	kept.mode = fc_mode(&runtime.cache, &kept.reason);
	if (kept.mode > FC_OFFLINE ||
	    (kept.reason != FC_REASON_USER && kept.reason != FC_REASON_MISMATCH))
		kept.mode = FC_SERVE;
}

static bool
lay_out(void *memory)
{
	Board *board = memory;
	void *cache_memory = (void *) TYPEALIGN(
		FC_IO_ALIGN, (char *) memory + MAXALIGN(sizeof(Board)));
	FcCache cache;

	Assert(config.process_count > 1); /* known by now */
	memset(board, 0, sizeof(*board));
	if (bridge_restart_reserve(fc_cache_memory_needed(&config)))
		cache_memory = NULL;
	if (!bridge_restart_create(&cache, cache_memory, &config, runtime.device))
		return bridge_refuse("Check the memory of the machine.",
		                     "the cache could not be laid out in memory");

	Assert(cache.shared != NULL);
	fc_cache_close(&runtime.cache);
	runtime.board = board;
	runtime.cache = cache;
	if (kept.mode != FC_SERVE)
		(void) fc_mode_set(&runtime.cache, kept.mode, kept.reason);
	return true;
}

/*
 * In bytes.  0 means no limit, so a positive budget below one byte becomes one.
 */
static uint64_t
write_budget(void)
{
	uint64_t bytes = (uint64_t) (setting_write_budget_mb * 1024 * 1024);

	return bytes == 0 && setting_write_budget_mb > 0 ? 1 : bytes;
}

/* Pass the current settings to core, and whether the server syncs its files. */
static void
apply_settings(void)
{
	runtime.cache.read_deadline_ns =
		(uint64_t) setting_read_deadline_ms * 1000000;
	fc_budget_set(&runtime.cache, write_budget());
	if (!enableFsync && !FC_BROKEN(UNSYNCED))
		fc_map_unsynced_set(&runtime.cache);
}

void
bridge_create(void *memory, uint32_t wait_event)
{
	Assert(wanted && memory != NULL && runtime.cache.shared == NULL);
	runtime.flash_read_event = wait_event;

	/* After a crash the size may differ from that at the start. */
	config.slot_count = bridge_resize_begin_with(&config);
	if (!bridge_devices_open(config.slot_count / config.device_count) ||
	    !lay_out(memory))
	{
		bridge_detach();
		bridge_restart_release();

		/*
		 * There can be no cache after a crash either: no memory was reserved
		 * for it.
		 */
		wanted = false;
		libraries_restore();
		if (advice_memory_size() == 0 && !setting_account)
			imports_restore();
		return;
	}

	fc_wear_begin(&runtime.cache, write_budget());
	apply_settings();
	bridge_stay_off("");
	ereport(
		LOG,
		(errmsg("pgflash: cache file \"%s\" is open: %u blocks, %s, %zu bytes "
	            "of shared memory",
	            setting_cache_file, fc_geometry_slot_count(&runtime.cache),
	            bridge_devices_direct() ? "direct I/O" : "buffered I/O",
	            fc_cache_memory_size(&runtime.cache))));
	if (!FC_BROKEN(NONE))
		ereport(WARNING,
		        (errmsg("pgflash negative control %d: this build serves "
		                "stale blocks on purpose",
		                FC_BREAK)));
}

void
bridge_detach(void)
{
	runtime.cache.shared = NULL;
	runtime.cache.token = 0;
}

void
bridge_end(bool in_order)
{
	bridge_restart_end(&runtime.cache, in_order);
}

/* ---- the worker ---------------------------------------------------------- */

bool
bridge_needs_self_test(void)
{
	Assert(bridge_attached());
	return !atomic_load(&runtime.board->self_tested) &&
	       fc_mode(&runtime.cache, NULL) != FC_OFFLINE;
}

static uint64_t calls_before[HOOK_CALL_COUNT];

void
bridge_self_test_begin(void)
{
	memcpy(calls_before, hook_calls, sizeof(calls_before));
}

const char *
bridge_self_test_end(void)
{
	static const char *const names[HOOK_CALL_COUNT] = {
		"open", "close", "pread", "pwrite", "ftruncate", "truncate", "unlink"
	};

	for (int i = 0; i < HOOK_CALL_COUNT; i++)
	{
		Assert(names[i] != NULL); /* which would mean that all passed */
		if (hook_calls[i] == calls_before[i])
			return names[i];
	}
	return NULL;
}

void
bridge_start_serving(void)
{
	FcReason reason;

	Assert(bridge_attached() && !atomic_load(&runtime.board->self_tested));
	fc_revive_audit(&runtime.cache);
	atomic_store(&runtime.board->self_tested, true);

	/* Unless another mode was chosen meanwhile. */
	(void) fc_mode(&runtime.cache, &reason);
	if (reason == FC_REASON_STARTING)
		(void) fc_mode_set(&runtime.cache, FC_SERVE, FC_REASON_NONE);
}

void
bridge_fail_self_test(const char *call)
{
	Assert(!atomic_load(&runtime.board->self_tested));
	(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_SELF_TEST);
	bridge_words_self_test(call);
}

unsigned
bridge_tick(void)
{
	unsigned again_ms;

	Assert(bridge_attached());
	apply_settings();
	fc_cache_sweep(&runtime.cache);
	fc_wear_save(&runtime.cache);
	again_ms = fc_bypass_check(&runtime.cache);
	Assert(again_ms > 0);
	bridge_words_tick();
	bridge_devices_tick();
	/*
	 * Until the map is loaded, it follows the slots, where a change of size
	 * would destroy it.
	 */
	if (loading)
		return 0;

	bool more = bridge_resize_tick(&config);

	more |= bridge_pages_tick();
	return more ? Min(again_ms, BUSY_MS) : again_ms;
}

void
bridge_settings_reloaded(void)
{
	bridge_resize_retry();
}

bool
bridge_load(void)
{
	static bool begun;

	Assert(bridge_attached());
	loading = fc_map_load(&runtime.cache);
	if (begun && !loading)
		ereport(LOG, (errmsg("pgflash: the saved map is loaded: %u blocks "
		                     "are cached",
		                     fc_file_used_slots(&runtime.cache))));
	begun = loading;
	return loading;
}
