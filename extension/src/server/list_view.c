/*
 * list_view.c
 *		The SQL function that lists what is cached, as bitmaps.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "bridge/bridge_views.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_cache_list);

static void
put(ReturnSetInfo *result, const BridgeListPart *part, bytea *bitmap)
{
	Datum values[CACHE_LIST_COLUMNS];
	bool nulls[CACHE_LIST_COLUMNS] = { false };

	SET_VARSIZE(bitmap, VARHDRSZ + part->size);
	values[CACHE_LIST_ROW_TABLESPACE] = ObjectIdGetDatum(part->tablespace);
	values[CACHE_LIST_ROW_DATABASE] = ObjectIdGetDatum(part->database);
	values[CACHE_LIST_ROW_FILENODE] = ObjectIdGetDatum(part->relation);
	values[CACHE_LIST_ROW_FORK] = CStringGetTextDatum(part->fork);
	values[CACHE_LIST_ROW_SEGMENT] = Int32GetDatum((int32) part->segment);
	values[CACHE_LIST_ROW_HEAT] = Int32GetDatum((int32) part->heat);
	values[CACHE_LIST_ROW_BLOCKS] = Int32GetDatum((int32) part->blocks);
	values[CACHE_LIST_ROW_BITMAP] = PointerGetDatum(bitmap);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[CACHE_LIST_ROW_FORK]));
}

/* The list of a large cache is larger than palloc() allows. */
static void *
allocate(size_t size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, size);
}

Datum
pgflash_cache_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	BridgeListPart part;
	BridgeList *list;
	bytea *bitmap;
	size_t size;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_list_columns);
	size = bridge_list_size();
	if (size == 0)
		return (Datum) 0;

	list = bridge_list_begin(allocate(size), size);
	while (bridge_list_walk(list))
		CHECK_FOR_INTERRUPTS();

	bitmap = allocate(VARHDRSZ + (size_t) bridge_list_bitmap_size());
	while (bridge_list_next(list, (uint8_t *) VARDATA(bitmap), &part))
	{
		CHECK_FOR_INTERRUPTS();
		put(result, &part, bitmap);
	}
	pfree(bitmap);
	pfree(list);
	return (Datum) 0;
}
