/*
 * settings.h
 *		The extension's settings, as plain variables: hooks read them, too.
 *
 * definitions/settings.toml declares them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SETTINGS_H
#define PGFLASH_SETTINGS_H

#include <stdbool.h>

#define SETTING_ENUM(type, ...)                                                \
	typedef enum type                                                          \
	{                                                                          \
		__VA_ARGS__                                                            \
	} type;
#define SETTING(type, variable, ...) extern type variable;
#include "settings.def"

/* With VERIFY_SAMPLE one hit in so many is compared. */
#define VERIFY_SAMPLE_EVERY 64

extern void settings_define(void);

/*
 * Does one of the cache's settings have an invalid value?  Returns which, and
 * the value.
 */
extern bool settings_refused(const char **name_out, const char **asked_out);

#endif
