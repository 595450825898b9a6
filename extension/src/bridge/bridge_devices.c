/*
 * bridge_devices.c
 *		The cache files: checking their paths, opening them, reporting their
 *		state.
 *
 * pgflash.cache_file is a list of up to 16 paths; the cache is striped over
 * them.  A mistake in the list (a path listed twice, one inside the data
 * directory) means no cache at all, since someone has to correct the setting.
 * But if a file cannot be opened, the cache runs on the others, with a WARNING,
 * and the view says what is missing: a dead drive must not cost more than its
 * share.
 *
 * Files stay open, and locked, when the server restarts after a child has
 * crashed; one that was missing is then tried again.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>
#include <sys/stat.h>

#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "storage/fd.h"
#include "utils/varlena.h"

#include "bridge/bridge_devices.h"
#include "bridge/bridge_runtime.h"
#include "bridge/bridge_words.h"
#include "fcache/housekeeping.h"
#include "hooks/runtime.h"
#include "settings.h"

/*
 * A killed server's children hold the lock until they notice that it is gone.
 */
#define LOCK_WAIT_MS 5000

#define HINT_DIRECTORY "Put it into its own directory on the flash device."

static uint32_t device_count;
static char path[FC_DEVICES_MAX][MAXPGPATH];

/* The last state of each file that the log has reported. */
static FcDeviceState reported[FC_DEVICES_MAX];

/* ---- judging ------------------------------------------------------------- */

static bool
is_below(const char *file, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(file, directory, length) == 0 &&
	       (file[length] == '/' || file[length] == '\0');
}

/*
 * Get the real path of a cache file, which need not exist yet; false if its
 * directory does not exist.  A symbolic link counts as what it points to.
 */
static bool
real_path(const char *file, char *out)
{
	char directory[MAXPGPATH];
	char real[PATH_MAX];

	if (realpath(file, out) != NULL)
		return true;

	snprintf(directory, sizeof(directory), "%s", file);
	get_parent_directory(directory);
	if (realpath(directory[0] == '\0' ? "/" : directory, real) == NULL)
		return false;
	snprintf(out, PATH_MAX, "%s/%s", real, last_dir_separator(file) + 1);
	return true;
}

/*
 * Return the tablespace that contains a path, as the name of its link, or NULL.
 */
static const char *
tablespace_around(const char *file)
{
	static char name[MAXPGPATH];
	DIR *directory = AllocateDir("pg_tblspc");
	struct dirent *entry;
	bool found = false;

	while (!found && directory != NULL &&
	       (entry = ReadDirExtended(directory, "pg_tblspc", LOG)) != NULL)
	{
		char real[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "pg_tblspc/%s", entry->d_name);
		found = realpath(name, real) != NULL && is_below(file, real);
	}
	if (directory != NULL)
		FreeDir(directory);
	return found ? name : NULL;
}

/* Base backups would copy a file in the data directory or in a tablespace. */
static bool
judge_place(const char *file, const char *real_data_directory)
{
	char real[PATH_MAX];
	const char *tablespace;

	/* If the directory is missing, opening the file will report that. */
	if (!real_path(file, real))
		return true;

	if (is_below(real, real_data_directory))
		return bridge_refuse(HINT_DIRECTORY,
		                     "the cache file \"%s\" is inside the data "
		                     "directory",
		                     file);

	tablespace = tablespace_around(real);
	if (tablespace != NULL)
		return bridge_refuse(HINT_DIRECTORY,
		                     "the cache file \"%s\" is inside a tablespace "
		                     "(%s)",
		                     file, tablespace);
	return true;
}

/*
 * If two names led to one file, two parts of the cache would overwrite each
 * other.
 */
static bool
judge_pair(const char *a, const char *b)
{
	char real_a[PATH_MAX];
	char real_b[PATH_MAX];
	struct stat st_a;
	struct stat st_b;

	if ((real_path(a, real_a) && real_path(b, real_b) &&
	     strcmp(real_a, real_b) == 0) ||
	    strcmp(a, b) == 0 ||
	    (stat(a, &st_a) == 0 && stat(b, &st_b) == 0 &&
	     st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino))
		return bridge_refuse("Name each cache file once.",
		                     "the cache files \"%s\" and \"%s\" are one file",
		                     a, b);
	return true;
}

static bool
judge_path(const char *file, const char *real_data_directory)
{
	if (!is_absolute_path(file))
		return bridge_refuse("Set pgflash.cache_file to an absolute path.",
		                     "the path of the cache file \"%s\" is not "
		                     "absolute",
		                     file);
	return judge_place(file, real_data_directory);
}

bool
bridge_devices_judge(const char *real_data_directory)
{
	List *files;
	ListCell *cell;

	Assert(setting_cache_file != NULL && real_data_directory != NULL);
	if (!SplitDirectoriesString(pstrdup(setting_cache_file), ',', &files))
		return bridge_refuse("Separate paths by commas; put one that holds a "
		                     "comma in double quotes.",
		                     "pgflash.cache_file \"%s\" is not a list of paths",
		                     setting_cache_file);
	if (list_length(files) > FC_DEVICES_MAX)
		return bridge_refuse("Name fewer files.",
		                     "%d cache files are more than the %d that a cache "
		                     "can be striped over",
		                     list_length(files), FC_DEVICES_MAX);

	if (files == NIL)
		return bridge_refuse("Name a path, or leave the setting empty.",
		                     "pgflash.cache_file \"%s\" names no file",
		                     setting_cache_file);

	device_count = 0;
	foreach (cell, files)
	{
		const char *file = lfirst(cell);

		if (!judge_path(file, real_data_directory))
			return false;
		for (uint32_t i = 0; i < device_count; i++)
		{
			if (!judge_pair(path[i], file))
				return false;
		}
		Assert(device_count < FC_DEVICES_MAX);
		runtime.device[device_count].fd = -1;
		snprintf(path[device_count++], MAXPGPATH, "%s", file);
	}
	return true;
}

uint32_t
bridge_devices_count(void)
{
	return device_count;
}

/* ---- opening ------------------------------------------------------------- */

/* Why a file could not be opened, and what to do about it. */
typedef struct Complaint
{
	char text[MAXPGPATH + 256];
	const char *hint;
} Complaint;

static void complain(Complaint *complaint, const char *hint, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));

static void
complain(Complaint *complaint, const char *hint, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(complaint->text, sizeof(complaint->text), format, arguments);
	va_end(arguments);
	complaint->hint = hint;
}

static void
put_in_words(FcDeviceProblem problem, const char *file, uint32_t slots,
             Complaint *out)
{
	switch (problem)
	{
		case FC_DEVICE_FINE:
			return;
		case FC_DEVICE_CANNOT_OPEN:
			complain(out,
			         "Create the directory, and let the server's user read and "
			         "write in it.",
			         "could not open cache file \"%s\": %m", file);
			return;
		case FC_DEVICE_NOT_A_FILE:
			complain(out, "Set pgflash.cache_file to the path of a file.",
			         "cache file \"%s\" is not a regular file", file);
			return;
		case FC_DEVICE_WRONG_OWNER:
			complain(out, "Remove it, or choose another path.",
			         "cache file \"%s\" belongs to another user", file);
			return;
		case FC_DEVICE_FOREIGN:
			complain(out,
			         "It was left untouched. Remove it if it is not needed, or "
			         "choose another path.",
			         "file \"%s\" is not empty and is not a cache file", file);
			return;
		case FC_DEVICE_IN_USE:
			complain(out, "Give each server its own cache file.",
			         "cache file \"%s\" is in use by another server", file);
			return;
		case FC_DEVICE_TOO_SMALL:
			complain(out, "Set pgflash.cache_size to at least 512kB.",
			         "cache file \"%s\" would be too small", file);
			return;
		case FC_DEVICE_NO_SPACE:
			complain(out, "Free some space, or set pgflash.cache_size to less.",
			         "no room for cache file \"%s\" of " INT64_FORMAT " MB: %m",
			         file, (int64) slots / (1024 * 1024 / FC_BLOCK_SIZE));
			return;
		case FC_DEVICE_CANNOT_WRITE:
			complain(out, "Check the device and its mount options.",
			         "could not write cache file \"%s\": %m", file);
			return;
	}
}

static void
say_missing(const Complaint *complaint)
{
	ereport(WARNING, (errmsg("pgflash runs without one of its cache files: %s",
	                         complaint->text),
	                  errdetail("Its share of the cache is missing: the "
	                            "blocks that belong there are read from "
	                            "disk."),
	                  errhint("%s Then restart the server.", complaint->hint)));
}

bool
bridge_devices_open(uint32_t slots_of_each)
{
	static Complaint complaint[FC_DEVICES_MAX];
	FcDeviceProblem problem[FC_DEVICES_MAX] = { FC_DEVICE_FINE };
	uint32_t open = 0;
	unsigned wait_ms = LOCK_WAIT_MS;

	Assert(device_count > 0 && slots_of_each > 0);
	for (uint32_t i = 0; i < device_count; i++)
	{
		if (runtime.device[i].fd < 0)
			problem[i] = fc_device_file_open(&runtime.device[i], path[i],
			                                 slots_of_each, wait_ms);
		put_in_words(problem[i], path[i], slots_of_each, &complaint[i]);
		Assert((problem[i] == FC_DEVICE_FINE) == (runtime.device[i].fd >= 0));
		Assert(problem[i] == FC_DEVICE_FINE || complaint[i].hint != NULL);

		/*
		 * A dying server releases all its files at once, so waiting for one is
		 * enough.
		 */
		if (problem[i] == FC_DEVICE_IN_USE)
			wait_ms = 0;
		open += problem[i] == FC_DEVICE_FINE;
		reported[i] = problem[i] == FC_DEVICE_FINE ? FC_DEVICE_IN_SERVICE
		                                           : FC_DEVICE_ABSENT;
	}

	if (open == 0)
		return bridge_refuse(complaint[0].hint, "%s", complaint[0].text);
	for (uint32_t i = 0; i < device_count; i++)
	{
		if (problem[i] != FC_DEVICE_FINE)
		{
			say_missing(&complaint[i]);
			runtime.device[i].ops = NULL; /* core: this one is absent */
		}
	}
	return true;
}

bool
bridge_devices_direct(void)
{
	for (uint32_t i = 0; i < device_count; i++)
	{
		if (runtime.device[i].fd >= 0 && !runtime.device[i].direct)
			return false;
	}
	return true;
}

/* ---- reporting ----------------------------------------------------------- */

static const char *
state_words(FcDeviceState state)
{
	switch (state)
	{
		case FC_DEVICE_IN_SERVICE:
			return "working";
		case FC_DEVICE_STALLED:
			return "a read of it was not done in time";
		case FC_DEVICE_SLOW:
			return "reads of it took longer than reads of the disk";
		case FC_DEVICE_ABSENT:
			return "it could not be opened at the start";
		case FC_DEVICE_READ_FAILS:
			return "too many reads of it failed";
		case FC_DEVICE_WRITE_FAILS:
			return "too many writes of it failed";
		case FC_DEVICE_CORRUPTS:
			return "too many blocks came back from it corrupt";
	}
	return "?";
}

static bool
is_bypassed(FcDeviceState state)
{
	return state == FC_DEVICE_STALLED || state == FC_DEVICE_SLOW;
}

static const char *
state_name(FcDeviceState state)
{
	if (state == FC_DEVICE_IN_SERVICE)
		return "in use";
	if (state == FC_DEVICE_ABSENT)
		return "missing";
	return is_bypassed(state) ? "bypassed" : "failed";
}

static void
say_state(const char *file, FcDeviceState state)
{
	if (state == FC_DEVICE_IN_SERVICE)
		ereport(LOG,
		        (errmsg("pgflash: cache file \"%s\" is in use again", file)));
	else if (is_bypassed(state))
		ereport(WARNING,
		        (errmsg("pgflash: cache file \"%s\" is bypassed now: %s", file,
		                state_words(state)),
		         errdetail("Its blocks are read from disk. The file is used "
		                   "again, with its content, when it has recovered.")));
	else
		ereport(WARNING,
		        (errmsg("pgflash: cache file \"%s\" is out of use now: %s",
		                file, state_words(state)),
		         errdetail("The cache continues with the other files; the "
		                   "blocks that belong there are read from disk."),
		         errhint("Check the flash device, then restart the server.")));
}

void
bridge_devices_tick(void)
{
	Assert(fc_devices_count(&runtime.cache) == device_count);
	for (uint32_t i = 0; i < device_count; i++)
	{
		FcDeviceInfo info;

		fc_devices_info(&runtime.cache, i, &info);
		if (info.state == reported[i])
			continue;
		reported[i] = info.state;

		/*
		 * When the last file fails, the whole cache does; bridge_words.c
		 * reports that.
		 */
		if (fc_mode(&runtime.cache, NULL) != FC_OFFLINE)
			say_state(path[i], info.state);
	}
}

uint32_t
bridge_device_count(void)
{
	return bridge_attached() ? fc_devices_count(&runtime.cache) : 0;
}

static double
mean_ms(uint64_t total_ns, uint64_t count)
{
	return count == 0 ? -1 : (double) total_ns / (double) count / 1e6;
}

void
bridge_device(uint32_t number, BridgeDevice *out)
{
	FcDeviceInfo info;

	Assert(bridge_attached() && number < device_count);
	fc_devices_info(&runtime.cache, number, &info);
	*out = (BridgeDevice){
		.cache_file = path[number],
		.state = state_name(info.state),
		.state_reason = state_words(info.state),
		.direct_io = runtime.device[number].direct,
		.reads = info.reads,
		.read_bytes = info.read_bytes,
		.read_mean_ms = mean_ms(info.read_ns, info.timed_reads),
		.read_errors = info.read_errors,
		.read_timeouts = info.read_timeouts,
		.writes = info.writes,
		.write_bytes = info.write_bytes,
		.write_mean_ms =
			mean_ms(info.write_ns, info.write_bytes / FC_BLOCK_SIZE),
		.write_errors = info.write_errors,
		.corrupt_slots = info.corrupt_slots,
		.bypassed_reads = info.bypassed_reads,
	};
}

bool
bridge_writes(BridgeWrites *out)
{
	FcBudgetInfo info;

	if (!bridge_attached())
		return false;
	fc_budget_info(&runtime.cache, &info);
	*out = (BridgeWrites){ .limited = info.bytes_per_day > 0,
		                   .left_today_bytes = info.left_today_bytes,
		                   .day_bytes = info.day_bytes,
		                   .day_seconds = (double) info.day_ns / 1e9 };
	return true;
}
