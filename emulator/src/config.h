/*
 * config.h
 *		The control tool's input: devices as plain "key = value" lines.
 *
 *	[hdd]
 *	profile = sas15k-raid10-6
 *	kind = disk
 *	layout = raid10
 *	servers = 6
 *	...
 *	path = /srv/lab/data
 *
 * Every key is listed in config.c.  Times are in ns, sizes in bytes, shares in
 * parts per million: the reader of the TOML profiles converts people's units
 * (lab/pgflash_lab/emulator.py).
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_CONFIG_H
#define PGFLASH_EMULATOR_CONFIG_H

#include "state.h"

/*
 * Fill in an empty state from a file.  On failure returns false, after a
 * message on stderr that names the line.
 */
extern bool em_config_read(const char *config_path, EmState *state);

/* NULL if the profile can be played, else what is wrong with it. */
extern const char *em_profile_check(const EmProfile *profile);

#endif
