/*
 * snapshot_samples.c
 *		What sessions were doing since the previous snapshot, by minute.
 *
 * The sampler's ring (sample_ring.c) holds minutes or hours; a snapshot keeps
 * the sums since the previous one.  The period is from "since" to just before
 * "until", and the next one begins where this one ends, so no look is counted
 * twice or lost.
 *
 * The texts of the statements in the section are kept, too.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "snapshot/snapshot.h"

/* The statements that are listed with their query id; each once. */
static int64 *
named_queries(int *count_out)
{
	int column = SPI_fnumber(SPI_tuptable->tupdesc, "query_id");
	int64 *ids = palloc(Max(SPI_processed, 1) * sizeof(int64));
	int count = 0;

	Assert(column > 0);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool is_null;
		int64 id = DatumGetInt64(SPI_getbinval(
			SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column, &is_null));
		int known = 0;

		while (!is_null && known < count && ids[known] != id)
			known++;
		if (!is_null && known == count)
			ids[count++] = id;
	}
	*count_out = count;
	return ids;
}

const char *
snapshot_samples(const Snapshooting *now, const SnapshotSection *section,
                 StringInfo text)
{
	const char *reason = snapshot_query(now, section, text);

	if (reason == NULL)
	{
		int count;
		int64 *ids = named_queries(&count);

		snapshot_texts_keep(now, ids, count);
	}
	return reason;
}
