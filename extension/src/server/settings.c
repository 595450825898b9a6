/*
 * settings.c
 *		The extension's settings.
 *
 * A value that cannot work must not keep the server from starting.  So the size
 * accepts any number here and is checked in bridge.c, which can report why the
 * cache is off.
 *
 * PostgreSQL replaces an invalid value ("10XB") by the default when the library
 * is loaded, and nobody asked for that default: a cache of 1 GB, unlimited
 * writes to flash, blocks that are not verified.  So the configuration's words
 * are kept before the settings are defined, and checked again afterwards.  If
 * the cache would differ from what was asked for, there is none; accounting and
 * sampling run with their defaults, and the log says so.  Once the server runs,
 * PostgreSQL keeps the previous value.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "broken.h"
#include "settings.h"

char *setting_cache_file = NULL;
int setting_cache_size_blocks;
int setting_cache_size_max_blocks;
int setting_verify;
int setting_read_deadline_ms;
double setting_write_budget_mb;
bool setting_advice;
int setting_keep_share;
bool setting_warm_restart;
bool setting_account;
int setting_account_relations;
int setting_snapshot_interval_s;
int setting_snapshot_retention_min;
char *setting_snapshot_database = NULL;
int setting_sample_rate_hz;
int setting_sample_memory_kb;

static const struct config_enum_entry verify_options[] = {
	{ "off", VERIFY_OFF, false },
	{ "sample", VERIFY_SAMPLE, false },
	{ "all", VERIFY_ALL, false },
	{ NULL, 0, false }
};

static void
define_cache(void)
{
	DefineCustomStringVariable(
		"pgflash.cache_file",
		"Paths of the cache files, each on a flash device of its own; empty "
		"means no cache.",
		"Up to 16, separated by commas. They are created if need be, and hold "
		"nothing that could be lost.",
		&setting_cache_file, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY, NULL, NULL,
		NULL);

	DefineCustomIntVariable(
		"pgflash.cache_size", "Size of each cache file.",
		"Rounded down to a multiple of 512 kB. Can be changed while the server "
		"runs, up to pgflash.cache_size_max.",
		&setting_cache_size_blocks, 131072, INT_MIN, INT_MAX, PGC_SIGHUP,
		GUC_UNIT_BLOCKS, NULL, NULL, NULL);

	DefineCustomIntVariable(
		"pgflash.cache_size_max",
		"What each cache file can grow to while the server runs; 0 means "
		"pgflash.cache_size at the start.",
		"Takes at most 28 bytes of shared memory for each 8 kB, from 200 MB "
		"on.",
		&setting_cache_size_max_blocks, 0, 0, INT_MAX, PGC_POSTMASTER,
		GUC_UNIT_BLOCKS, NULL, NULL, NULL);

	DefineCustomBoolVariable(
		"pgflash.warm_restart",
		"Keeps what is cached over a restart or a crash of the server.",
		"Blocks of data files that changed meanwhile are dropped.",
		&setting_warm_restart, true, PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable(
		"pgflash.keep_share",
		"Percentage of the cache that relations with the policy keep may hold "
		"against others.",
		"Beyond it their blocks are treated like any other.",
		&setting_keep_share, 50, 0, 100, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* Settings for traffic to and from flash. */
static void
define_traffic(void)
{
	DefineCustomIntVariable(
		"pgflash.read_deadline",
		"How long a read waits for flash before it goes to the disk.", NULL,
		&setting_read_deadline_ms, 50, 1, 60000, PGC_SIGHUP, GUC_UNIT_MS, NULL,
		NULL, NULL);

	/*
	 * Not an integer: less than 1 MB must not become 0, which means any amount.
	 */
	DefineCustomRealVariable(
		"pgflash.write_budget",
		"How much may be written to flash in a day; 0 means any amount.",
		"It holds over minutes: no more than 5 minutes' worth is saved up.",
		&setting_write_budget_mb, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL,
		NULL, NULL);

	DefineCustomEnumVariable("pgflash.verify",
	                         "Compares blocks read from flash with the data "
	                         "files: off, sample (1 of "
	                         "64) or all.",
	                         "A block that differs takes the cache offline.",
	                         &setting_verify, VERIFY_OFF, verify_options,
	                         PGC_SUSET, 0, NULL, NULL, NULL);
}

static void
define_accounting(void)
{
	DefineCustomBoolVariable(
		"pgflash.advice",
		"Watches reads to tell what a cache of another size would bring.",
		"Takes up to 143 kB of shared memory. Works without a cache, too.",
		&setting_advice, true, PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomBoolVariable(
		"pgflash.account", "Counts and times the server's file calls.",
		"Works without a cache, too. What is counted stands in the views "
		"pgflash_io and their kin.",
		&setting_account, true, PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable(
		"pgflash.account_relations",
		"How many forks of relations have counts of their own.",
		"What is beyond is counted together. Takes 544 bytes of shared memory "
		"for each.",
		&setting_account_relations, 16384, 0, 10000000, PGC_POSTMASTER, 0, NULL,
		NULL, NULL);
}

static void
define_snapshots(void)
{
	DefineCustomIntVariable(
		"pgflash.snapshot_interval",
		"How often the server takes a snapshot; 0 means never.",
		"At whole multiples of it, and when the server has started.",
		&setting_snapshot_interval_s, 600, 0, 24 * 60 * 60, PGC_SIGHUP,
		GUC_UNIT_S, NULL, NULL, NULL);

	DefineCustomIntVariable(
		"pgflash.snapshot_retention",
		"How long snapshots are kept; 0 means for ever.",
		"Older ones are dropped after each snapshot of the schedule.",
		&setting_snapshot_retention_min, 8 * 24 * 60, 0, INT_MAX, PGC_SIGHUP,
		GUC_UNIT_MIN, NULL, NULL, NULL);

	DefineCustomStringVariable(
		"pgflash.snapshot_database",
		"The database that keeps the snapshots of the schedule.",
		"Empty means one that has the extension: the one with the newest "
		"snapshot, or the oldest database.",
		&setting_snapshot_database, "", PGC_SIGHUP, 0, NULL, NULL, NULL);
}

static void
define_sampler(void)
{
	DefineCustomIntVariable(
		"pgflash.sample_rate",
		"How often a second the sampler looks what sessions are doing; 0 means "
		"never.",
		NULL, &setting_sample_rate_hz, 10, 0, 1000, PGC_SIGHUP, 0, NULL, NULL,
		NULL);

	DefineCustomIntVariable(
		"pgflash.sample_memory",
		"Shared memory for what the sampler sees; 0 means no sampler.",
		"Takes 40 bytes for each look and for each session at work in it.",
		&setting_sample_memory_kb, 16384, 0, 1024 * 1024, PGC_POSTMASTER,
		GUC_UNIT_KB, NULL, NULL, NULL);
}

/* ---- values that are none ---------------------------------------------------- */

typedef struct Setting
{
	const char *name;
	bool of_cache;
	char *
		asked; /* in the configuration, before we defined the setting; or NULL */
} Setting;

static Setting settings[] = {
	{ .name = "pgflash.cache_file", .of_cache = true },
	{ .name = "pgflash.cache_size", .of_cache = true },
	{ .name = "pgflash.cache_size_max", .of_cache = true },
	{ .name = "pgflash.warm_restart", .of_cache = true },
	{ .name = "pgflash.keep_share", .of_cache = true },
	{ .name = "pgflash.read_deadline", .of_cache = true },
	{ .name = "pgflash.write_budget", .of_cache = true },
	{ .name = "pgflash.verify", .of_cache = true },
	{ .name = "pgflash.advice" },
	{ .name = "pgflash.account" },
	{ .name = "pgflash.account_relations" },
	{ .name = "pgflash.snapshot_interval" },
	{ .name = "pgflash.snapshot_retention" },
	{ .name = "pgflash.snapshot_database" },
	{ .name = "pgflash.sample_rate" },
	{ .name = "pgflash.sample_memory" },
};

static void
keep_words(void)
{
	for (size_t i = 0; i < lengthof(settings); i++)
	{
		const char *asked = GetConfigOption(settings[i].name, true, false);

		settings[i].asked = asked == NULL ? NULL : pstrdup(asked);
	}
}

/*
 * Is the value valid?  PostgreSQL has already reported what is wrong with it.
 */
static bool
is_value(const Setting *setting)
{
	return setting->asked == NULL ||
	       set_config_option(setting->name, setting->asked, PGC_POSTMASTER,
	                         PGC_S_FILE, GUC_ACTION_SET, false, DEBUG5,
	                         false) != 0;
}

bool
settings_refused(const char **name_out, const char **asked_out)
{
	for (size_t i = 0; i < lengthof(settings); i++)
	{
		if (!settings[i].of_cache || is_value(&settings[i]) ||
		    FC_BROKEN(NO_VALUE))
			continue;
		*name_out = settings[i].name;
		*asked_out = settings[i].asked;
		return true;
	}
	return false;
}

static void
say_defaults(void)
{
	for (size_t i = 0; i < lengthof(settings); i++)
	{
		if (!settings[i].of_cache && !is_value(&settings[i]))
			ereport(
				WARNING,
				(errmsg("pgflash: invalid value for parameter \"%s\": "
			            "\"%s\"",
			            settings[i].name, settings[i].asked),
			     errdetail("The server runs with the default, \"%s\".",
			               GetConfigOption(settings[i].name, false, false))));
	}
}

void
settings_define(void)
{
	keep_words();
	define_cache();
	define_traffic();
	define_accounting();
	define_snapshots();
	define_sampler();
	MarkGUCPrefixReserved("pgflash");
	say_defaults();
}
