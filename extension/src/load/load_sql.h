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

#include "load/load_list.h"
#include "server/columns.h"

/* The columns that make a row of a list. */
enum
{
	LIST_TABLESPACE,
	LIST_DATABASE,
	LIST_FILENODE,
	LIST_FORK,
	LIST_SEGMENT,
	LIST_HEAT,
	LIST_BITMAP,
	LIST_COLUMNS
};

extern const RowColumn load_list_columns[LIST_COLUMNS];

/*
 * Is the stored bitmap no longer than a segment's?  A longer one is not even
 * decompressed: a user who may write the table could make it a gigabyte.
 */
extern bool load_list_bitmap_fits(Datum bitmap);

/*
 * Turn such columns, of these types, into a part, whose bitmap remains that of
 * the row.  Returns NULL, or what is invalid.
 */
extern const char *load_list_take(const Datum values[LIST_COLUMNS],
                                  const bool nulls[LIST_COLUMNS],
                                  LoadPartSource *out);

/* An error unless there is a cache to load into. */
extern void load_require_cache(void);

/* The word for a LoadState. */
extern const char *load_state_name(int32 state);

/* Set a column to a time, or null if that is 0. */
extern void load_set_time(Datum *values, bool *nulls, int column,
                          TimestampTz at);

#endif
