/*
 * load_sql.h
 *		What the SQL functions of load/ have in common.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LOAD_SQL_H
#define PGFLASH_LOAD_SQL_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* An error unless there is a cache to load into. */
extern void load_require_cache(void);

/* The word for a LoadState. */
extern const char *load_state_name(int32 state);

/* Set a column to a time, or null if that is 0. */
extern void load_set_time(Datum *values, bool *nulls, int column,
                          TimestampTz at);

#endif
