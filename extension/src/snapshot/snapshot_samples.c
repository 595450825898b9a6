/*
 * snapshot_samples.c
 *		What sessions were seen doing since the previous snapshot, by the minute.
 *
 * The sampler's ring (sample_ring.c) holds minutes or hours; a snapshot keeps
 * the sum of what lies between the previous one and itself.  The period is from
 * "since" to just before "until": the next one begins where this one ends, so
 * no look is counted twice or lost.
 *
 * An unlimited number of statements could make an unlimited number of rows.
 * Beyond the QUERIES_MAX seen most often, statements are counted without their
 * query id.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "snapshot/snapshot.h"

#define QUERIES_MAX 50

static void
keep_result(const Snapshooting *now, const char *name)
{
	StringInfoData text;

	initStringInfo(&text);
	section_of_result(&text);
	snapshot_section_keep(now, name, "delta", text.data);
}

static void
execute(const Snapshooting *now, const char *query)
{
	Oid types[] = { TIMESTAMPTZOID, TIMESTAMPTZOID };
	Datum values[] = { TimestampTzGetDatum(now->previous_at),
		               TimestampTzGetDatum(now->taken_at) };

	snapshot_read(query, lengthof(types), types, values);
}

/* The statements that are listed with their query id; each once. */
static int64 *
named_queries(int *count_out)
{
	int column = SPI_fnumber(SPI_tuptable->tupdesc, "query_id");
	int64 *ids = palloc(QUERIES_MAX * sizeof(int64));
	int count = 0;

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool is_null;
		int64 id = DatumGetInt64(SPI_getbinval(
			SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column, &is_null));
		int known = 0;

		while (!is_null && known < count && ids[known] != id)
			known++;
		if (!is_null && known == count && count < QUERIES_MAX)
			ids[count++] = id;
	}
	*count_out = count;
	return ids;
}

const char *
snapshot_samples(const Snapshooting *now)
{
	int64 *ids;
	int count;

	if (now->previous_id == 0)
		return "nothing before: it is counted from this snapshot on";
	execute(
		now,
		psprintf(
			"with seen as materialized "
			"(select * from %spgflash_sample_summary($1, $2)), "
			"most as (select query_id from seen where query_id is not null "
			"group by query_id order by sum(samples) desc limit %d) "
			"select bucket, backend_type, database_oid, user_oid, "
			"case when query_id = any (array(select query_id from most)) "
			"then query_id end as query_id, wait_event_type, wait_event, "
			"wait_class, sum(samples)::bigint as samples, "
			"round(sum(seconds)::numeric, 3) as seconds "
			"from seen group by 1, 2, 3, 4, 5, 6, 7, 8 order by 1, 2, 3, 4, 5",
			now->schema, QUERIES_MAX));
	ids = named_queries(&count);
	keep_result(now, "samples");
	snapshot_texts_keep(now, ids, count);
	return NULL;
}

const char *
snapshot_sample_looks(const Snapshooting *now)
{
	if (now->previous_id == 0)
		return "nothing before: it is counted from this snapshot on";
	execute(now,
	        psprintf("select bucket, looks, missed_looks as missed, "
	                 "round(seconds::numeric, 3) as seconds, "
	                 "round(gap_seconds::numeric, 3) as gap_seconds, "
	                 "round(idle_sessions::numeric, 3) as idle_sessions "
	                 "from %spgflash_sample_minutes($1, $2) order by bucket",
	                 now->schema));
	keep_result(now, "sample_looks");
	return NULL;
}
