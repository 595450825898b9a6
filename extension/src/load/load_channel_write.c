/*
 * load_channel_write.c
 *		Stores which blocks are cached, for load_channel.c.
 *
 * One query compares the rows of pgflash_cache_list() with the stored ones,
 * hottest first. A row is written if its bitmap has changed by more than one
 * block in ALIKE, and deleted if none of its blocks is cached any more, until
 * the WAL budget is used up. What is left differs the next time, too.
 *
 * The budget is that of an hour. What is left of it is stored with the list,
 * and grows with the time since then. All WAL of this process counts, full
 * pages included.
 *
 * If nothing has changed, nothing is written.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "executor/instrument.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "load/load_channel.h"
#include "load/load_sql.h"
#include "settings.h"

/* Bitmaps that differ by no more than one block in so many are alike. */
#define ALIKE 64

/* Rows that are fetched at once. */
#define BATCH 64

/* The head's own WAL, which is written last: a row and perhaps its page. */
#define HEAD_WAL_BYTES (BLCKSZ + 512)

#define HOUR_S 3600

/* The stored bitmap, behind the columns of a list. */
#define OLD_BITMAP LIST_COLUMNS

#define KEYS                                                                   \
	"tablespace OPERATOR(pg_catalog.=) $1 and database "                       \
	"OPERATOR(pg_catalog.=) "                                                  \
	"$2 and filenode OPERATOR(pg_catalog.=) $3 and fork "                      \
	"OPERATOR(pg_catalog.=) $4 and segment OPERATOR(pg_catalog.=) $5 and "     \
	"heat "                                                                    \
	"OPERATOR(pg_catalog.=) $6"

static const Oid row_types[LIST_COLUMNS + 1] = { OIDOID,   OIDOID,  OIDOID,
	                                             TEXTOID,  INT4OID, INT4OID,
	                                             BYTEAOID, BYTEAOID };

void
load_channel_check_types(const Oid types[], int count)
{
	for (int i = 0; i < count; i++)
	{
		if (SPI_tuptable == NULL || SPI_tuptable->tupdesc->natts < count ||
		    SPI_gettypeid(SPI_tuptable->tupdesc, i + 1) != types[i])
			ereport(ERROR,
			        (errcode(ERRCODE_DATATYPE_MISMATCH),
			         errmsg("a table of the stored list of cached blocks has "
			                "been changed"),
			         errhint("Drop the extension, and create it again.")));
	}
}

/* Statements for a row's keys and bitmap. */
typedef struct Statements
{
	SPIPlanPtr insert;
	SPIPlanPtr update;
	SPIPlanPtr remove;
} Statements;

static SPIPlanPtr
statement(const char *text, const char *schema, int parameters)
{
	SPIPlanPtr plan =
		SPI_prepare(psprintf(text, schema), parameters, (Oid *) row_types);

	if (plan == NULL)
		elog(ERROR, "could not prepare a statement: %s",
		     SPI_result_code_string(SPI_result));
	return plan;
}

static Statements
prepare(const char *schema)
{
	return (Statements){
		.insert = statement("insert into %s.pgflash_stored_list (tablespace, "
		                    "database, filenode, fork, segment, heat, bitmap) "
		                    "values ($1, $2, $3, $4, $5, $6, $7)",
		                    schema, LIST_COLUMNS),
		.update = statement("update %s.pgflash_stored_list set bitmap = $7 "
		                    "where " KEYS,
		                    schema, LIST_COLUMNS),
		.remove = statement("delete from %s.pgflash_stored_list where " KEYS,
		                    schema, LIST_BITMAP),
	};
}

/* Are the bitmaps so similar that the old one will do? */
static bool
alike(Datum new_bitmap, Datum old_bitmap)
{
	bytea *one;
	bytea *other;
	size_t size;
	size_t other_size;
	uint64 blocks = 0;
	uint64 different = 0;

	if (!load_list_bitmap_fits(old_bitmap))
		return false;
	one = DatumGetByteaPP(new_bitmap);
	other = DatumGetByteaPP(old_bitmap);
	size = VARSIZE_ANY_EXHDR(one);
	other_size = VARSIZE_ANY_EXHDR(other);
	for (size_t i = 0; i < Max(size, other_size); i++)
	{
		uint8 a = i < size ? (uint8) VARDATA_ANY(one)[i] : 0;
		uint8 b = i < other_size ? (uint8) VARDATA_ANY(other)[i] : 0;

		blocks += (uint64) __builtin_popcount(a);
		different += (uint64) __builtin_popcount(a ^ b);
	}
	return different * ALIKE <= blocks;
}

/*
 * Store what a row of the comparison says; returns whether it wrote, and adds
 * the row's blocks.
 */
static bool
store_row(const Statements *statements, HeapTuple row, TupleDesc columns,
          uint64 *blocks)
{
	Datum values[LIST_COLUMNS + 1];
	char nulls[LIST_COLUMNS + 1];
	MemoryContext batch = CurrentMemoryContext;
	SPIPlanPtr plan;

	for (int i = 0; i <= OLD_BITMAP; i++)
	{
		bool is_null;

		values[i] = SPI_getbinval(row, columns, i + 1, &is_null);
		nulls[i] = is_null ? 'n' : ' ';
	}
	if (nulls[LIST_BITMAP] != 'n')
		*blocks += pg_popcount(
			VARDATA_ANY(DatumGetByteaPP(values[LIST_BITMAP])),
			(int) VARSIZE_ANY_EXHDR(DatumGetByteaPP(values[LIST_BITMAP])));
	if (nulls[LIST_BITMAP] == 'n')
		plan = statements->remove;
	else if (nulls[OLD_BITMAP] == 'n')
		plan = statements->insert;
	else if (!alike(values[LIST_BITMAP], values[OLD_BITMAP]))
		plan = statements->update;
	else
		return false;
	(void) SPI_execute_plan(plan, values, nulls, false, 0);
	MemoryContextSwitchTo(batch); /* SPI leaves its own context current */
	return true;
}

/*
 * Compare and write, as long as there is something left.  False: no row was
 * written.
 */
static bool
store_rows(const char *schema, int64 left_bytes, uint64 *blocks)
{
	MemoryContext batch = AllocSetContextCreate(
		CurrentMemoryContext, "pgflash stored list", ALLOCSET_DEFAULT_SIZES);
	Statements statements = prepare(schema);
	Portal cursor;
	uint64 seen_blocks = 0;
	bool complete = false;
	bool more = true;
	bool written = false;

	cursor = SPI_cursor_open_with_args(
		NULL,
		psprintf("select tablespace, database, filenode, fork, segment, heat, "
	             "n.bitmap, o.bitmap from %s.pgflash_cache_list() n full join "
	             "%s.pgflash_stored_list o using (tablespace, database, "
	             "filenode, fork, segment, heat) order by heat desc",
	             schema, schema),
		0, NULL, NULL, NULL, true, 0);
	while (more)
	{
		SPITupleTable *rows;
		uint64 count;
		MemoryContext before;

		CHECK_FOR_INTERRUPTS();
		SPI_cursor_fetch(cursor, true, BATCH);
		load_channel_check_types(row_types, OLD_BITMAP + 1);
		rows = SPI_tuptable;
		count = SPI_processed;
		complete = count == 0;
		more = !complete;
		before = MemoryContextSwitchTo(batch);
		for (uint64 i = 0; i < count && more; i++)
		{
			written |= store_row(&statements, rows->vals[i], rows->tupdesc,
			                     &seen_blocks);
			more = (int64) pgWalUsage.wal_bytes < left_bytes;
		}
		MemoryContextSwitchTo(before);
		MemoryContextReset(batch);
		SPI_freetuptable(rows);
	}
	SPI_cursor_close(cursor);
	MemoryContextDelete(batch);
	*blocks = complete ? seen_blocks : Max(*blocks, seen_blocks);
	return written;
}

/*
 * The budget that is left now.  What the head says of it is limited: somebody
 * may have changed it, or the clock, or the budget.
 */
static int64
left_now(const StoredHead *before, TimestampTz now)
{
	int64 hour = (int64) setting_cache_list_wal_budget_mb * 1024 * 1024;
	int64 left = Max(-hour, Min(before->wal_left_bytes, hour));
	double passed_s;

	passed_s = ((double) now - (double) before->taken_at) / USECS_PER_SEC;
	if (!before->is_ours || passed_s < -HOUR_S || passed_s > 2 * HOUR_S)
		return hour;
	passed_s = Max(0, passed_s);
	return Min(hour, left + (int64) ((double) hour * passed_s / HOUR_S));
}

static uint64
draw_number(void)
{
	uint64 number = 0;

	while (number == 0)
	{
		if (!pg_strong_random(&number, sizeof(number)))
			elog(ERROR, "could not draw a random number");
	}
	return number;
}

uint64
load_channel_store(const char *schema, const StoredHead *before, uint64 *blocks)
{
	TimestampTz now = GetCurrentTimestamp();
	int64 left_bytes = left_now(before, now);
	uint64 number = draw_number();
	Oid head_types[] = { INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID };
	Datum values[4];

	if (left_bytes <= 0 || !store_rows(schema, left_bytes, blocks))
		return 0;
	values[0] = Int64GetDatum((int64) number);
	values[1] = Int64GetDatum((int64) GetSystemIdentifier());
	values[2] = TimestampTzGetDatum(now);
	values[3] = Int64GetDatum(left_bytes - (int64) pgWalUsage.wal_bytes -
	                          HEAD_WAL_BYTES);
	SPI_execute_with_args(
		psprintf(
			"insert into %s.pgflash_stored_list_head (list_number, "
			"system_identifier, taken_at, wal_left_bytes) values ($1, $2, "
			"$3, $4) on conflict (is_only) do update set list_number = $1, "
			"system_identifier = $2, taken_at = $3, wal_left_bytes = $4",
			schema),
		lengthof(values), head_types, values, NULL, false, 0);
	return number;
}
