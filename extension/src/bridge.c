/*
 * bridge.c
 *		Where PostgreSQL and core meet.
 *
 * The only file, with its helpers bridge_*.c, that includes both worlds.  Core
 * answers with statuses; here they become words in the log and in the views.  The rule for all of it: a failure of
 * the cache is never a failure of the server.  Whatever is wrong is said once, with
 * a hint, and the server runs on as if pgflash were absent.
 *
 * Life of a cache:
 *
 *	_PG_init		bridge_prepare()	settings judged, file calls redirected
 *	shared memory	bridge_create()		cache files opened, cache laid out, empty
 *	the worker		self-test			only now does the cache serve
 *	a child crashes	bridge_detach(), bridge_create() again: empty, same open file
 *
 * All up to the worker runs in the postmaster; children inherit what it made.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/relpath.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "storage/fd.h"
#include "storage/pg_shmem.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include "account.h"
#include "advice.h"
#include "bridge.h"
#include "bridge_devices.h"
#include "bridge_resize.h"
#include "bridge_restart.h"
#include "broken.h"
#include "classes.h"
#include "fcache/cache.h"
#include "hooks.h"
#include "runtime.h"
#include "settings.h"

/* Processes that fill: backends and workers, helpers, and some room. */
#define PROCESSES_SPARE 16

/* So soon the worker goes on with a change of size. */
#define BUSY_MS 10u

/* More than this part of the machine's memory is a mistake in the settings. */
#define MEMORY_SHARE 2

Runtime runtime;

/* Why there is no cache; empty if there is one. */
static char why_off[512] =
	"the library is not loaded by shared_preload_libraries";

static bool wanted;
static bool redirected;
static FcConfig config;
static char data_directory[MAXPGPATH];
static char real_data_directory[PATH_MAX];

/* What the worker has logged already. */
typedef struct Said
{
	uint64_t counter[FC_COUNTER_COUNT];
	uint64_t mismatches;
	FcMode mode;
	FcReason reason;
} Said;

static Said said;

/* The saved map is being taken in; known in the worker. */
static bool loading = true;

/* ---- refusals -------------------------------------------------------------- */

/* There is no cache, by nobody's fault. */
static bool
stay_off(const char *why)
{
	snprintf(why_off, sizeof(why_off), "%s", why);
	return false;
}

/* There is no cache, though one was asked for. */
bool
bridge_refuse(const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why_off, sizeof(why_off), format, arguments);
	va_end(arguments);

	ereport(WARNING, (errmsg("pgflash is off: %s", why_off),
	                  errdetail("The server runs without the flash cache."),
	                  errhint("%s", hint)));
	return false;
}

/* All cache files together, of whole sets. */
static uint32_t
slots_of(int blocks_of_each)
{
	return (uint32_t) blocks_of_each / FC_WAYS * FC_WAYS * config.device_count;
}

static bool
judge_size(void)
{
	uint64_t memory =
		(uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
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
	config.policy = &fc_policy_gittins;
	config.process_count =
		1; /* until the server knows; it hardly matters here */

	needed = fc_cache_memory_size(&config);
	if (needed == 0 || needed > memory / MEMORY_SHARE)
		return bridge_refuse("Set pgflash.cache_size or "
		                     "pgflash.cache_size_max to less.",
		                     "the cache size of " INT64_FORMAT
		                     " MB needs " UINT64_FORMAT " MB of shared memory",
		                     (int64) config.slot_count_max /
		                         (1024 * 1024 / FC_BLOCK_SIZE),
		                     needed / (1024 * 1024));
	return true;
}

/* io_uring's reads pass no hook. */
static bool
reads_are_seen(void)
{
	const char *io_method = GetConfigOption("io_method", true, false);

	return BLCKSZ == FC_BLOCK_SIZE &&
	       (io_method == NULL || strcmp(io_method, "io_uring") != 0);
}

static bool
judge_server(void)
{
	if (BLCKSZ != FC_BLOCK_SIZE)
		return bridge_refuse("Use a server that was built with blocks of 8 kB.",
		                     "the server's block size is %d bytes", BLCKSZ);

	if (!reads_are_seen())
		return bridge_refuse(
			"Set io_method to \"worker\" or \"sync\".",
			"io_method is \"io_uring\", whose reads pgflash cannot "
			"see");
	return true;
}

static bool
redirect_calls(void)
{
	static const char hint[] =
		"This server's executable is not one that pgflash knows how to work "
		"with; see the documentation for the builds that were tested.";
	const char *name;

	switch (imports_replace(hook_imports, hook_import_count, hook_required,
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

/* A child must not pass for its parent when it claims slots. */
static void
in_child(void)
{
	runtime.cache.token = 0;
	advice_in_child();
	account_in_child();
}

static void
know_server(void)
{
	snprintf(data_directory, sizeof(data_directory), "%s", DataDir);
	canonicalize_path(data_directory);
	if (realpath(DataDir, real_data_directory) == NULL)
		snprintf(real_data_directory, sizeof(real_data_directory), "%s",
		         data_directory);

	runtime.root.directory = data_directory;
	runtime.root.real_directory = real_data_directory;
	runtime.root.version_directory = TABLESPACE_VERSION_DIRECTORY;
	runtime.segment_blocks = RELSEG_SIZE;
	runtime.shared_memory = &UsedShmemSegAddr;
	runtime.wait_event = &my_wait_event_info;
	runtime.is_walsender = &am_walsender;
}

bool
bridge_prepare(void)
{
	know_server();

	/* A server for one user, or for pg_upgrade: nothing to gain. */
	if (!IsPostmasterEnvironment || IsBinaryUpgrade)
		return stay_off("this kind of server needs no cache");
	if (setting_cache_file == NULL || setting_cache_file[0] == '\0')
		wanted = stay_off("pgflash.cache_file is not set");
	else
		wanted = judge_server() && bridge_devices_judge(real_data_directory) &&
		         judge_size();

	/* Advice and accounting do not need a cache, but reads that they can see. */
	if (setting_account && !reads_are_seen())
		ereport(LOG, (errmsg("pgflash: file calls are not counted, since it "
		                     "cannot see all reads of this server"),
		              errhint("pgflash needs blocks of 8 kB, and io_method "
		                      "\"worker\" or \"sync\".")));
	if (!wanted && !((setting_advice || setting_account) && reads_are_seen()))
		return false;
	if (!redirect_calls())
		return wanted = false;
	redirected = true;

	if (setting_advice)
		advice_want(!wanted                     ? 0
		            : config.slot_count_max > 0 ? config.slot_count_max
		                                        : config.slot_count);
	if (wanted)
		(void) stay_off("the server is starting");
	pthread_atfork(NULL, NULL, in_child);
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

/* ---- the cache ---------------------------------------------------------------- */

size_t
bridge_memory_size(void)
{
	config.process_count =
		(uint32_t) (MaxBackends + NUM_AUXILIARY_PROCS + PROCESSES_SPARE);
	return MAXALIGN(sizeof(Board)) + PG_CACHE_LINE_SIZE +
	       (bridge_restart_reserve(fc_cache_memory_size(&config))
	            ? 0
	            : fc_cache_memory_size(&config));
}

static bool
lay_out(void *memory)
{
	Board *board = memory;
	void *cache_memory = (void *) TYPEALIGN(
		PG_CACHE_LINE_SIZE, (char *) memory + MAXALIGN(sizeof(Board)));
	FcCache cache;

	memset(board, 0, sizeof(*board));
	if (bridge_restart_reserve(fc_cache_memory_size(&config)))
		cache_memory = NULL;
	if (!bridge_restart_create(&cache, cache_memory, &config, runtime.device))
		return bridge_refuse("Check the memory of the machine.",
		                     "the cache could not be laid out in memory");

	fc_cache_close(&runtime.cache);
	runtime.board = board;
	runtime.cache = cache;
	return true;
}

/* Settings that core has to know, as they are now. */
static void
tell_settings(void)
{
	runtime.cache.read_deadline_ns =
		(uint64_t) setting_read_deadline_ms * 1000000;
	fc_write_budget_set(&runtime.cache,
	                    (uint64_t) setting_write_budget_mb * 1024 * 1024);
}

void
bridge_create(void *memory, uint32_t wait_event)
{
	runtime.flash_read_event = wait_event;

	/* After a crash the size may be another one than at the start. */
	config.slot_count = bridge_resize_begin_with(&config);
	if (!bridge_devices_open(config.slot_count / config.device_count) ||
	    !lay_out(memory))
	{
		bridge_detach();
		bridge_restart_release();

		/* Not after a crash either: there would be no memory for it. */
		wanted = false;
		if (advice_memory_size() == 0 && !account_wanted())
			imports_restore();
		return;
	}

	tell_settings();
	why_off[0] = '\0';
	ereport(
		LOG,
		(errmsg("pgflash: cache file \"%s\" is open: %u blocks, %s, %zu bytes "
	            "of shared memory",
	            setting_cache_file, fc_slot_count(&runtime.cache),
	            bridge_devices_direct() ? "direct I/O" : "buffered I/O",
	            fc_memory_size(&runtime.cache))));
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
bridge_end(void)
{
	bridge_restart_end(&runtime.cache);
}

bool
bridge_attached(void)
{
	return runtime.shared_memory != NULL && runtime_attached();
}

/* ---- words ----------------------------------------------------------------------- */

static const char *
mode_word(FcMode mode)
{
	switch (mode)
	{
		case FC_SERVE:
			return "serve";
		case FC_PASSTHROUGH:
			return "passthrough";
		case FC_OFFLINE:
			return "offline";
	}
	return "?";
}

static const char *
reason_words(FcReason reason)
{
	switch (reason)
	{
		case FC_REASON_STARTING:
			return "the self-test has not run yet";
		case FC_REASON_NONE:
			return "working";
		case FC_REASON_USER:
			return "set by pgflash_cache_set_mode";
		case FC_REASON_SELF_TEST:
			return "the self-test failed: file calls do not pass pgflash";
		case FC_REASON_READ_ERRORS:
			return "too many reads of the cache file failed";
		case FC_REASON_WRITE_ERRORS:
			return "too many writes of the cache file failed";
		case FC_REASON_CORRUPTION:
			return "too many blocks came back from the cache file corrupt";
		case FC_REASON_MISMATCH:
			return "verification found a cached block unlike its file";
		case FC_REASON_UNKNOWN_FILE:
			return "a file was written that could not be identified";
		case FC_REASON_HOST:
			return "data files were moved, or written as a stream";
	}
	return "?";
}

static const char *
reason_hint(FcReason reason)
{
	switch (reason)
	{
		case FC_REASON_READ_ERRORS:
		case FC_REASON_WRITE_ERRORS:
		case FC_REASON_CORRUPTION:
			return "Check the flash device, then restart the server.";
		case FC_REASON_MISMATCH:
			return "Check the device of the data file, too. If it is healthy "
				   "this is a bug in pgflash: please report it. A restart "
				   "empties the cache.";
		case FC_REASON_SELF_TEST:
			return "Another library may have redirected the same calls; see "
				   "shared_preload_libraries and LD_PRELOAD.";
		case FC_REASON_HOST:
			return "Leave the files of relations to PostgreSQL. The cache is "
				   "back after a restart.";
		case FC_REASON_UNKNOWN_FILE:
			return "Check that /proc is mounted, then restart the server.";
		default:
			return NULL;
	}
}

const char *
bridge_mode(const char **reason_out)
{
	FcReason reason;
	FcMode mode;

	if (!bridge_attached())
	{
		*reason_out = why_off;
		return mode_word(FC_OFFLINE);
	}
	mode = fc_mode(&runtime.cache, &reason);
	*reason_out = reason_words(reason);
	return mode_word(mode);
}

/* ---- the worker -------------------------------------------------------------------- */

bool
bridge_needs_self_test(void)
{
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
		if (hook_calls[i] == calls_before[i])
			return names[i];
	}
	return NULL;
}

void
bridge_start_serving(void)
{
	FcReason reason;

	fc_cache_audit(&runtime.cache);
	atomic_store(&runtime.board->self_tested, true);

	/* Unless somebody has chosen another mode meanwhile. */
	(void) fc_mode(&runtime.cache, &reason);
	if (reason == FC_REASON_STARTING)
		(void) fc_mode_set(&runtime.cache, FC_SERVE, FC_REASON_NONE);
}

void
bridge_fail_self_test(const char *call)
{
	(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_SELF_TEST);
	ereport(WARNING, (errmsg("pgflash self-test failed: %s", call),
	                  errdetail("The server runs without the flash cache."),
	                  errhint("%s", reason_hint(FC_REASON_SELF_TEST))));
	(void) fc_mode(&runtime.cache, &said.reason);
	said.mode = FC_OFFLINE;
}

static void
say_mismatch(void)
{
	uint64_t now = atomic_load(&runtime.board->mismatches);
	char path[PATHS_MAX];

	if (now == said.mismatches)
		return;
	said.mismatches = now;
	paths_of_file(&runtime.root, runtime.board->mismatch_id, path);
	ereport(
		WARNING,
		(errmsg("pgflash: block %u of file \"%s\" differed between cache and "
	            "file",
	            runtime.board->mismatch_block, path),
	     errdetail("The query got what the file holds.")));
}

/* Something that ought not to happen has happened: said at its first time. */
static void
say_first(FcCounter counter, const char *what, const char *hint)
{
	uint64_t now = fc_counter(&runtime.cache, counter);

	if (now > 0 && said.counter[counter] == 0)
		ereport(WARNING,
		        (errmsg("pgflash: %s", what),
		         errdetail("The queries read from disk instead. Further "
		                   "cases are counted in pgflash_cache and not "
		                   "logged."),
		         errhint("%s", hint)));
	said.counter[counter] = now;
}

static void
say_mode(void)
{
	FcReason reason;
	FcMode mode = fc_mode(&runtime.cache, &reason);

	if (mode == said.mode && reason == said.reason)
		return;
	said.mode = mode;
	said.reason = reason;

	if (reason == FC_REASON_UNKNOWN_FILE)
		ereport(WARNING,
		        (errmsg("pgflash: file descriptor %d could not be "
		                "identified: %s",
		                atomic_load(&runtime.board->unknown_fd),
		                strerror(atomic_load(&runtime.board->unknown_errno)))));

	if (reason_hint(reason) != NULL)
		ereport(WARNING, (errmsg("pgflash is %s now: %s", mode_word(mode),
		                         reason_words(reason)),
		                  errdetail("The server runs on without the flash "
		                            "cache."),
		                  errhint("%s", reason_hint(reason))));
	else
		ereport(LOG, (errmsg("pgflash: mode is %s now: %s", mode_word(mode),
		                     reason_words(reason))));
}

unsigned
bridge_tick(void)
{
	unsigned again_ms;

	tell_settings();
	fc_sweep(&runtime.cache);
	again_ms = fc_devices_check(&runtime.cache);
	say_first(FC_COUNT_flash_read_errors, "a read of the cache file failed",
	          "Check the flash device.");
	say_first(FC_COUNT_flash_write_errors, "a write of the cache file failed",
	          "Check the flash device.");
	say_first(FC_COUNT_corrupt_slots,
	          "a block came back from the cache file corrupt",
	          "Check the flash device.");
	say_mismatch();
	bridge_devices_tick();
	say_mode();
	/* The map lies where the size changes. */
	if (loading)
		return 0;
	return bridge_resize_tick(&config) ? Min(again_ms, BUSY_MS) : again_ms;
}

bool
bridge_load(void)
{
	return loading = fc_map_load(&runtime.cache);
}

/* ---- views ------------------------------------------------------------------------------ */

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
			                 ? fc_counter(&runtime.cache, (FcCounter) i)
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
		                              [BRIDGE_FLASH_WRITE] =
		                                  FC_TIME_FLASH_WRITE,
		                              [BRIDGE_DISK_READ] = FC_TIME_DISK_READ };
	static FcHistogram histogram;

	memset(&histogram, 0, sizeof(histogram));
	if (bridge_attached())
		fc_histogram(&runtime.cache, timers[timer], &histogram);
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
	return fc_io_engine(&runtime.cache);
}

uint32_t
bridge_slot_count(void)
{
	return bridge_attached() ? fc_slot_count(&runtime.cache) : 0;
}

BridgeSize
bridge_size(void)
{
	FcSize size = { .done = 1 };

	if (bridge_attached())
		size = fc_size(&runtime.cache);
	return (BridgeSize){ .slots = size.slots,
		                 .slots_max = size.slots_max,
		                 .changing = size.changing,
		                 .done = size.done };
}

uint32_t
bridge_used_slots(void)
{
	return bridge_attached() ? fc_used_slots(&runtime.cache) : 0;
}

size_t
bridge_metadata_bytes(void)
{
	return bridge_attached()
	           ? fc_memory_size(&runtime.cache) + advice_memory_size()
	           : 0;
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

	if (!fc_file_info(&runtime.cache, number, &info))
		return false;
	out->tablespace = info.id.tablespace;
	out->database = info.id.database;
	out->relation = info.id.relation;
	out->fork = paths_fork_name(info.id.fork);
	out->cached_blocks = info.cached_blocks;
	out->hits = info.hits;
	out->misses = info.misses;
	out->disk_read_ms = (double) info.disk_read_ns / 1e6;
	out->policy = classes_word((CachePolicy) info.file_class);
	return true;
}

/* ---- functions ----------------------------------------------------------------------------- */

const char *
bridge_set_mode(const char *name)
{
	FcMode mode = FC_OFFLINE;

	if (!bridge_attached())
		return why_off;

	for (; strcmp(mode_word(mode), name) != 0; mode--)
	{
		if (mode == FC_SERVE)
			return "the modes are serve, passthrough and offline";
	}

	if (mode == FC_SERVE && bridge_needs_self_test())
		return "the self-test has not passed yet";
	if (fc_mode_set(&runtime.cache, mode,
	                mode == FC_SERVE ? FC_REASON_NONE : FC_REASON_USER) !=
	    FC_OK)
		return "it stays offline until the server restarts";
	return NULL;
}

void
bridge_clear(void)
{
	if (bridge_attached())
		fc_cache_clear(&runtime.cache);
}

/* The block in its file; false if it cannot be read, shorter if there is less. */
static bool
read_from_file(FcFileId id, uint32_t block, void *page, ssize_t *got_out)
{
	char path[PATHS_MAX];
	int fd;

	paths_of_file(&runtime.root, id, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
	{
		*got_out = 0;
		return errno == ENOENT; /* no file, no block */
	}
	*got_out = pread(fd, page, FC_BLOCK_SIZE, (off_t) block * FC_BLOCK_SIZE);
	close(fd);
	return *got_out >= 0;
}

BridgeVerdict
bridge_verify_slot(uint32_t slot)
{
	static PGAlignedBlock cached;
	static PGAlignedBlock stored;
	FcFileId id;
	FcTicket ticket;
	ssize_t got;

	if (!bridge_attached() ||
	    fc_slot_read(&runtime.cache, slot, cached.data, &id, &ticket) !=
	        FC_OK ||
	    !read_from_file(id, ticket.block, stored.data, &got))
		return BRIDGE_NOTHING;

	fc_count(&runtime.cache, FC_COUNT_verify_compared, 1);
	if (got == FC_BLOCK_SIZE &&
	    memcmp(cached.data, stored.data, FC_BLOCK_SIZE) == 0)
		return BRIDGE_SAME;
	if (!fc_hit_holds(&runtime.cache, &ticket))
		return BRIDGE_NOTHING;

	reads_report_mismatch(id, ticket.block, &ticket);
	return BRIDGE_DIFFERENT;
}

void
bridge_verify_failed(void)
{
	if (bridge_attached())
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_MISMATCH);
}
