/*
 * settings.c
 *		The extension's settings.
 *
 * An impossible value must not keep the server from starting.  So the size
 * accepts any number here and is checked in bridge.c, which can report why the
 * cache is off.
 *
 * When the library is loaded, PostgreSQL replaces an invalid value ("10XB") by
 * the default, which nobody asked for: a cache of 1 GB, unlimited writes to
 * flash, blocks that are not verified.  So the values in the configuration are
 * kept before the settings are defined, and checked again afterwards.  If one
 * of the cache's is invalid, there is no cache; accounting and sampling run
 * with their defaults, and the log says so.  Once the server runs, PostgreSQL
 * keeps the previous value.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

#include "broken.h"
#include "settings.h"

#define SETTING(type, variable, ...) type variable;
#include "settings.def"

typedef struct Setting
{
	const char *name;
	const char *brief;
	const char *more; /* or NULL */
	enum config_type type;
	GucContext context;
	int flags;
	bool of_cache;
	void *variable;
	const char *text; /* default of a string */
	double number;    /* default of others */
	double min;
	double max;
	const struct config_enum_entry *options;
	/*
	 * The value in the configuration, before we defined the setting; or NULL.
	 */
	char *asked;
} Setting;

static Setting settings[] = {
#define SETTING(type, place, ...) { .variable = &place, __VA_ARGS__ },
#include "settings.def"
};

static void
define(const Setting *setting)
{
	Assert(setting->variable != NULL);
	Assert(strncmp(setting->name, "pgflash.", strlen("pgflash.")) == 0);
	Assert(
		(setting->type != PGC_INT && setting->type != PGC_REAL) ||
		(setting->min <= setting->number && setting->number <= setting->max));
	Assert(setting->type != PGC_ENUM || setting->options != NULL);
	switch (setting->type)
	{
		case PGC_BOOL:
			DefineCustomBoolVariable(setting->name, setting->brief,
			                         setting->more, setting->variable,
			                         setting->number != 0, setting->context,
			                         setting->flags, NULL, NULL, NULL);
			break;
		case PGC_INT:
			DefineCustomIntVariable(
				setting->name, setting->brief, setting->more, setting->variable,
				(int) setting->number, (int) setting->min, (int) setting->max,
				setting->context, setting->flags, NULL, NULL, NULL);
			break;
		case PGC_REAL:
			DefineCustomRealVariable(
				setting->name, setting->brief, setting->more, setting->variable,
				setting->number, setting->min, setting->max, setting->context,
				setting->flags, NULL, NULL, NULL);
			break;
		case PGC_STRING:
			DefineCustomStringVariable(setting->name, setting->brief,
			                           setting->more, setting->variable,
			                           setting->text, setting->context,
			                           setting->flags, NULL, NULL, NULL);
			break;
		case PGC_ENUM:
			DefineCustomEnumVariable(
				setting->name, setting->brief, setting->more, setting->variable,
				(int) setting->number, setting->options, setting->context,
				setting->flags, NULL, NULL, NULL);
			break;
	}
}

/* ---- invalid values ------------------------------------------------------ */

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
	Assert(process_shared_preload_libraries_in_progress);
	keep_words();
	for (size_t i = 0; i < lengthof(settings); i++)
		define(&settings[i]);
	MarkGUCPrefixReserved("pgflash");
	say_defaults();
}
