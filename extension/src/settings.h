/*
 * settings.h
 *		The extension's settings, as plain variables: hooks read them, too.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SETTINGS_H
#define PGFLASH_SETTINGS_H

#include <stdbool.h>

typedef enum Verify
{
	VERIFY_OFF,
	VERIFY_SAMPLE, /* one hit in VERIFY_SAMPLE_EVERY */
	VERIFY_ALL
} Verify;

#define VERIFY_SAMPLE_EVERY 64

extern char *setting_cache_file;
extern int setting_cache_size_blocks;
extern int setting_cache_size_max_blocks; /* 0 = as at the start */
extern int setting_verify;                /* a Verify */
extern int setting_read_deadline_ms;
extern double setting_write_budget_mb;
extern bool setting_advice;
extern int setting_keep_share; /* percent */
extern bool setting_warm_restart;
extern int setting_snapshot_interval_s;    /* 0 = none are taken */
extern int setting_snapshot_retention_min; /* 0 = forever */
extern char *setting_snapshot_database;    /* empty = found out */

extern bool setting_account;
extern int setting_account_relations;
extern int setting_sample_rate_hz;
extern int setting_sample_memory_kb;

extern void settings_define(void);

/*
 * Does one of the cache's settings have an invalid value?  If so, which setting
 * and what value.
 */
extern bool settings_refused(const char **name_out, const char **asked_out);

#endif
