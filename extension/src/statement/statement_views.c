/*
 * statement_views.c
 *		The SQL functions behind pgflash_statements and pgflash_last_statement.
 *
 * As in pg_stat_statements, every user sees the numbers, but only users who may
 * read all statistics see which query of another user they belong to.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/timestamp.h"

#include "broken.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"
#include "statement/statement.h"

PG_FUNCTION_INFO_V1(pgflash_statement_rows);
PG_FUNCTION_INFO_V1(pgflash_last_statement_rows);
PG_FUNCTION_INFO_V1(pgflash_statements_reset);

#define NS_OF_MS 1000000.0

static void
set_source(Datum *values, int first, const AccountReads *reads,
           AccountKind source)
{
	values[first] = Int64GetDatum((int64) reads->calls[source]);
	values[first + 1] = Int64GetDatum((int64) (reads->bytes[source] / BLCKSZ));
	values[first + 2] = Float8GetDatum((double) reads->ns[source] / NS_OF_MS);
}

/* Fill the columns that both views have; values points to the first of them. */
static void
fill_sources(Datum *values, const StatementSums *sums)
{
	const AccountReads *reads = &sums->reads;

	values[SOURCE_READS_ROW_SHARED_HIT_BLOCKS] =
		Int64GetDatum((int64) sums->hits);
	set_source(values, SOURCE_READS_ROW_PAGE_CACHE_READS, reads,
	           ACCOUNT_PAGE_CACHE_READ);
	set_source(values, SOURCE_READS_ROW_FLASH_READS, reads, ACCOUNT_FLASH_READ);
	set_source(values, SOURCE_READS_ROW_DISK_READS, reads, ACCOUNT_DISK_READ);
	values[SOURCE_READS_ROW_WORKER_READ_TIME_MS] =
		Float8GetDatum((double) reads->worker_ns / NS_OF_MS);
}

static void
put_statement(ReturnSetInfo *result, const StatementRow *row, bool is_other,
              bool may_see)
{
	bool nulls[STATEMENT_COLUMNS] = { false };
	Datum values[STATEMENT_COLUMNS];

	nulls[STATEMENT_ROW_USERID] = is_other;
	nulls[STATEMENT_ROW_DBID] = is_other;
	nulls[STATEMENT_ROW_QUERYID] = is_other || !may_see;
	values[STATEMENT_ROW_USERID] = ObjectIdGetDatum(row->key.user);
	values[STATEMENT_ROW_DBID] = ObjectIdGetDatum(row->key.database);
	values[STATEMENT_ROW_TOPLEVEL] = BoolGetDatum(row->key.toplevel);
	values[STATEMENT_ROW_QUERYID] = Int64GetDatum(row->key.query_id);
	values[STATEMENT_ROW_CALLS] = Int64GetDatum((int64) row->sums.calls);
	values[STATEMENT_ROW_STATS_SINCE] = TimestampTzGetDatum(row->since);
	fill_sources(&values[STATEMENT_ROW_SHARED_HIT_BLOCKS], &row->sums);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_statement_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	Oid user = GetUserId();
	bool sees_all = has_privs_of_role(user, ROLE_PG_READ_ALL_STATS) ||
	                FC_BROKEN(STATEMENT_RIGHTS);
	uint32 places;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &statement_columns);
	if (!statement_sums_attached())
		return (Datum) 0;
	places = statement_sums_places();
	for (uint32 place = 0; place < places + STATEMENT_OTHERS; place++)
	{
		StatementRow row;

		CHECK_FOR_INTERRUPTS();
		if (statement_sums_row(place, &row))
			put_statement(result, &row, place >= places,
			              sees_all || row.key.user == user);
	}
	return (Datum) 0;
}

Datum
pgflash_last_statement_rows(PG_FUNCTION_ARGS)
{
	bool nulls[LAST_STATEMENT_COLUMNS] = { false };
	Datum values[LAST_STATEMENT_COLUMNS];
	const StatementSums *sums;
	ReturnSetInfo *result;
	StatementKey key;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &last_statement_columns);
	sums = statement_last(&key);
	if (sums == NULL)
		return (Datum) 0;
	nulls[LAST_STATEMENT_ROW_QUERYID] = key.query_id == 0;
	values[LAST_STATEMENT_ROW_QUERYID] = Int64GetDatum(key.query_id);
	fill_sources(&values[LAST_STATEMENT_ROW_SHARED_HIT_BLOCKS], sums);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

Datum
pgflash_statements_reset(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	shmem_require_preloaded();
	if (statement_sums_attached())
		statement_sums_reset();
	PG_RETURN_VOID();
}
