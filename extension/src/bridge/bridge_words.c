/*
 * bridge_words.c
 *		Reports about the cache: why there is none, its mode, failures.
 *
 * Core returns statuses and counts events; hooks must not report at all.  Here
 * both become words, in the log (written by the worker, each kind of event only
 * the first time) and in the views.
 *
 * The worker remembers what it has reported, so a restarted worker reports it
 * again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "bridge/bridge_words.h"
#include "fcache/housekeeping.h"
#include "hooks/runtime.h"

/* Changes by strangers are reported once a minute at most. */
#define FOREIGN_EVERY_NS (60 * 1000000000ULL)

/* Why there is no cache; empty if there is one. */
static char why_off[512] =
	"the library is not loaded by shared_preload_libraries";

/* Events that the worker has already logged. */
typedef struct Said
{
	uint64_t counter[FC_COUNTER_COUNT];
	uint64_t mismatches;
	uint64_t foreign;
	uint64_t foreign_ns; /* by fc_clock_ns(), which is never set */
	FcMode mode;
	FcReason reason;
} Said;

static Said said;

/* ---- refusals ------------------------------------------------------------ */

/* There is no cache, but nothing is wrong. */
bool
bridge_stay_off(const char *why)
{
	Assert(why != NULL);
	snprintf(why_off, sizeof(why_off), "%s", why);
	return false;
}

/* There is no cache, although one was asked for. */
bool
bridge_refuse(const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why_off, sizeof(why_off), format, arguments);
	va_end(arguments);

	Assert(hint != NULL && why_off[0] != '\0'); /* "" is for a cache */
	ereport(WARNING, (errmsg("pgflash is off: %s", why_off),
	                  errdetail("The server runs without the flash cache."),
	                  errhint("%s", hint)));
	return false;
}

/* ---- words --------------------------------------------------------------- */

const char *
bridge_mode_word(FcMode mode)
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

const char *
bridge_reason_words(FcReason reason)
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
			return "a file that could not be identified was written";
		case FC_REASON_HOST:
			return "data files were moved, or written in a way that "
				   "cannot be followed";
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
			return "Check the device of the data file, and whether another "
				   "program writes to the file. If neither explains it, this "
				   "is a bug in pgflash: please report it. A restart empties "
				   "the cache.";
		case FC_REASON_SELF_TEST:
			return "Another library may have redirected the same calls; see "
				   "shared_preload_libraries and LD_PRELOAD.";
		case FC_REASON_HOST:
			return "Only PostgreSQL should write files of relations. The "
				   "cache is back after a restart.";
		case FC_REASON_UNKNOWN_FILE:
			return "Check that /proc is mounted, then restart the server.";
		default:
			return NULL;
	}
}

const char *
bridge_why_off(void)
{
	return why_off;
}

/* ---- the log ---- */

void
bridge_words_self_test(const char *call)
{
	Assert(call != NULL && fc_mode(&runtime.cache, NULL) == FC_OFFLINE);
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
	     errdetail(
			 "A query that was reading it got the content of the file.")));
}

/* At most once a minute: a program may change all files one after another. */
static void
say_foreign(void)
{
	uint64_t now = atomic_load(&runtime.board->foreign);
	uint64_t ns = fc_clock_ns();
	char path[PATHS_MAX];

	if (now == said.foreign ||
	    (said.foreign_ns != 0 && ns - said.foreign_ns < FOREIGN_EVERY_NS))
		return;
	said.foreign = now;
	said.foreign_ns = ns;
	paths_of_file(&runtime.root, runtime.board->foreign_id, path);
	ereport(WARNING,
	        (errmsg("pgflash: file \"%s\" was changed without this server's "
	                "knowledge",
	                path),
	         errdetail("Its cached blocks have been dropped. Such changes are "
	                   "counted in pgflash_cache.foreign_changes."),
	         errhint("Look for a program or an extension that writes data "
	                 "files or changes their attributes.")));
}

/* Report an event that should not happen, the first time that it does. */
static void
say_first(FcCounter counter, const char *what, const char *hint)
{
	uint64_t now = fc_count_sum(&runtime.cache, counter);

	Assert(now >= said.counter[counter]);
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

	Assert(said.mode != FC_OFFLINE || mode == FC_OFFLINE);
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
		ereport(WARNING,
		        (errmsg("pgflash is %s now: %s", bridge_mode_word(mode),
		                bridge_reason_words(reason)),
		         errdetail("The server continues without the flash cache."),
		         errhint("%s", reason_hint(reason))));
	else
		ereport(LOG,
		        (errmsg("pgflash: mode is %s now: %s", bridge_mode_word(mode),
		                bridge_reason_words(reason))));
}

void
bridge_words_tick(void)
{
	say_first(FC_COUNT_flash_read_errors, "a read of the cache file failed",
	          "Check the flash device.");
	say_first(FC_COUNT_flash_write_errors, "a write of the cache file failed",
	          "Check the flash device.");
	say_first(FC_COUNT_corrupt_slots,
	          "a block came back from the cache file corrupt",
	          "Check the flash device.");
	say_mismatch();
	say_foreign();
	say_mode();
}
