/*
 * advice_view.c
 *		The SQL function behind the view pgflash_cache_advice.
 *
 * Modelled on Oracle's V$DB_CACHE_ADVICE: a row for each size.  The curve gives
 * the hit ratio; disk reads and time saved follow from it and from the measured
 * rate of requests and times of a read from disk and from flash.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "bridge/bridge_views.h"
#include "hooks/advice.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_cache_advice_rows);

#define BLOCK_BYTES 8192
#define PRESENT_ROW 3 /* the row whose factor is 1 */

typedef struct Row
{
	Datum values[CACHE_ADVICE_COLUMNS];
	bool nulls[CACHE_ADVICE_COLUMNS];
} Row;

static void
set(Row *row, int column, bool known, double value)
{
	row->nulls[column] = !known;
	row->values[column] = Float8GetDatum(value);
}

static void
fill(Row *row, const Advice *advice, int i)
{
	double hits = advice->hit_ratio[i];
	double misses_now = 1 - advice->hit_ratio[PRESENT_ROW];
	bool known = hits >= 0;
	bool timed = advice->disk_read_ms > 0;

	Assert(advice->size_factor[PRESENT_ROW] == 1);
	set(row, CACHE_ADVICE_ROW_SIZE_FACTOR, true, advice->size_factor[i]);
	row->values[CACHE_ADVICE_ROW_SIZE_BYTES] =
		Int64GetDatum((int64) (advice->size_blocks[i] * BLOCK_BYTES));
	set(row, CACHE_ADVICE_ROW_HIT_RATIO, known, hits);
	set(row, CACHE_ADVICE_ROW_DISK_READS_PER_S, known,
	    advice->requests_per_second * (1 - hits));
	set(row, CACHE_ADVICE_ROW_DISK_READS_FACTOR, known && misses_now > 0,
	    misses_now > 0 ? (1 - hits) / misses_now : 0);
	set(row, CACHE_ADVICE_ROW_SAVED_MS_PER_S, known && timed,
	    advice->requests_per_second * hits *
	        (advice->disk_read_ms - advice->flash_read_ms));
	set(row, CACHE_ADVICE_ROW_REQUESTS_PER_S, true,
	    advice->requests_per_second);
	set(row, CACHE_ADVICE_ROW_DISK_READ_MEAN_MS, timed, advice->disk_read_ms);
	set(row, CACHE_ADVICE_ROW_FLASH_READ_MEAN_MS, true, advice->flash_read_ms);
	set(row, CACHE_ADVICE_ROW_WINDOW_S, true, advice->window_seconds);
	set(row, CACHE_ADVICE_ROW_SAMPLE_RATE, true, advice->sample_rate);
	row->values[CACHE_ADVICE_ROW_SAMPLED_BLOCKS] =
		Int64GetDatum(advice->sampled_blocks);
}

Datum
pgflash_cache_advice_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	uint32 slots = bridge_slot_count();
	Advice advice;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_advice_columns);
	if (!advice_read(slots > 0 ? slots : (uint64) NBuffers, &advice))
		return (Datum) 0;

	for (int i = 0; i < ADVICE_ROWS; i++)
	{
		Row row = { 0 };

		fill(&row, &advice, i);
		row.values[CACHE_ADVICE_ROW_SIZE_OF] =
			CStringGetTextDatum(slots > 0 ? "cache" : "shared_buffers");
		row.values[CACHE_ADVICE_ROW_FLASH_READ_MEAN_FROM] =
			CStringGetTextDatum(advice.flash_measured ? "measured" : "assumed");
		tuplestore_putvalues(result->setResult, result->setDesc, row.values,
		                     row.nulls);
	}
	return (Datum) 0;
}
