/*
 * load_list_sql.c
 *		The SQL functions that load a list of blocks into the cache.
 *
 * A list is an array of rows that have the columns of pgflash_cache_list(), by
 * name; their type does not matter.  A row that cannot be of any file is
 * refused here.  Whether its blocks exist is known only when they are read.
 * The stored list (load_channel.c) has the same columns.
 *
 * How warm the cache is for a list is estimated from a sample: blocks at equal
 * distances in the list are looked up, so each part has its share of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "bridge/bridge_load.h"
#include "load/load_list.h"
#include "load/load_sql.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_cache_load_list);
PG_FUNCTION_INFO_V1(pgflash_cache_warmth_rows);

/* Blocks that are looked up to tell how warm the cache is. */
#define SAMPLE 10000

/* ---- rows of a list ------------------------------------------------------ */

const RowColumn load_list_columns[LIST_COLUMNS] = {
	[LIST_TABLESPACE] = { "tablespace", OIDOID },
	[LIST_DATABASE] = { "database", OIDOID },
	[LIST_FILENODE] = { "filenode", OIDOID },
	[LIST_FORK] = { "fork", TEXTOID },
	[LIST_SEGMENT] = { "segment", INT4OID },
	[LIST_HEAT] = { "heat", INT4OID },
	[LIST_BITMAP] = { "bitmap", BYTEAOID },
};

/* The row type of the last row, and where its columns are. */
typedef struct ListType
{
	Oid type;
	int32 modifier;
	TupleDesc columns;
	int number[LIST_COLUMNS];
	Datum *values; /* of a row of that type */
	bool *nulls;
} ListType;

static int
find_column(TupleDesc columns, const RowColumn *wanted)
{
	for (int i = 0; i < columns->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(columns, i);

		if (!column->attisdropped && column->atttypid == wanted->type &&
		    strcmp(NameStr(column->attname), wanted->name) == 0)
			return i;
	}
	ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
	                errmsg("rows of the list have no column \"%s\" of type %s",
	                       wanted->name, format_type_be(wanted->type)),
	                errhint("Use rows of pgflash_cache_list().")));
	return 0;
}

/* Find the columns of a row's type, unless it is that of the last row. */
static void
find_columns(ListType *type, HeapTupleHeader row)
{
	Oid id = HeapTupleHeaderGetTypeId(row);
	int32 modifier = HeapTupleHeaderGetTypMod(row);

	if (type->columns != NULL && type->type == id && type->modifier == modifier)
		return;
	if (type->columns != NULL)
		ReleaseTupleDesc(type->columns);
	type->type = id;
	type->modifier = modifier;
	type->columns = lookup_rowtype_tupdesc(id, modifier);
	type->values = palloc(sizeof(Datum) * type->columns->natts);
	type->nulls = palloc(sizeof(bool) * type->columns->natts);
	for (int i = 0; i < LIST_COLUMNS; i++)
		type->number[i] = find_column(type->columns, &load_list_columns[i]);
}

static uint32
count_bits(const uint8 *bitmap, uint32 size)
{
	uint32 bits = 0;

	for (uint32 i = 0; i < size; i++)
		bits += (uint32) __builtin_popcount(bitmap[i]);
	return bits;
}

static bool
fits(Datum value, size_t most_bytes)
{
	return toast_raw_datum_size(value) <= VARHDRSZ + most_bytes;
}

bool
load_list_bitmap_fits(Datum bitmap)
{
	Assert(DatumGetPointer(bitmap) != NULL);
	return fits(bitmap, (bridge_load_segment_blocks() + 7) / 8);
}

const char *
load_list_take(const Datum values[LIST_COLUMNS], const bool nulls[LIST_COLUMNS],
               LoadPartSource *out)
{
	LoadPart *part = &out->part;
	BridgeLoadFile file;
	int32 segment;
	int32 heat;
	bytea *bytes;

	for (int i = 0; i < LIST_COLUMNS; i++)
	{
		if (nulls[i])
			return load_list_columns[i].name;
	}

	memset(out, 0, sizeof(*out));
	part->tablespace = DatumGetObjectId(values[LIST_TABLESPACE]);
	part->database = DatumGetObjectId(values[LIST_DATABASE]);
	part->filenode = DatumGetObjectId(values[LIST_FILENODE]);
	segment = DatumGetInt32(values[LIST_SEGMENT]);
	heat = DatumGetInt32(values[LIST_HEAT]);
	if (!fits(values[LIST_FORK], NAMEDATALEN) ||
	    !bridge_load_fork(TextDatumGetCString(values[LIST_FORK]), &part->fork))
		return "fork";
	if (heat < 0 || heat >= BRIDGE_LOAD_HEATS)
		return "heat";
	part->heat = (uint32) heat;
	if (segment < 0)
		return "segment";
	part->segment = (uint32) segment;
	file = load_list_file(part);
	if (!bridge_load_possible(&file))
		return "filenode or segment";

	if (!load_list_bitmap_fits(values[LIST_BITMAP]))
		return "bitmap";
	bytes = DatumGetByteaPP(values[LIST_BITMAP]);
	part->size = (uint32) VARSIZE_ANY_EXHDR(bytes);
	out->bitmap = (const uint8 *) VARDATA_ANY(bytes);
	part->blocks = count_bits(out->bitmap, part->size);
	return NULL;
}

/* Turn a row into a part; false: it names no blocks. */
static bool
take_row(ListType *type, HeapTupleHeader row, LoadPartSource *source)
{
	HeapTupleData tuple = { .t_len = HeapTupleHeaderGetDatumLength(row),
		                    .t_data = row };
	Datum values[LIST_COLUMNS];
	bool nulls[LIST_COLUMNS];
	const char *invalid;

	find_columns(type, row);
	heap_deform_tuple(&tuple, type->columns, type->values, type->nulls);
	for (int i = 0; i < LIST_COLUMNS; i++)
	{
		values[i] = type->values[type->number[i]];
		nulls[i] = type->nulls[type->number[i]];
	}
	invalid = load_list_take(values, nulls, source);
	if (invalid != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("invalid row in the list of blocks"),
		                errdetail("The %s of a row is invalid.", invalid)));
	return source->part.blocks > 0;
}

/* Turn the rows into parts, palloc'd, and count their blocks. */
static LoadPartSource *
take_rows(ArrayType *array, uint32 *count_out, uint64 *blocks_out)
{
	LoadPartSource *parts;
	ListType type = { 0 };
	bool *nulls;
	Datum *rows;
	int count;

	deconstruct_array(array, ARR_ELEMTYPE(array), -1, false, TYPALIGN_DOUBLE,
	                  &rows, &nulls, &count);
	parts = MemoryContextAllocHuge(CurrentMemoryContext,
	                               Max(count, 1) * sizeof(*parts));
	*count_out = 0;
	*blocks_out = 0;
	for (int i = 0; i < count; i++)
	{
		LoadPartSource *next = &parts[*count_out];

		CHECK_FOR_INTERRUPTS();
		/* In some builds DatumGetHeapTupleHeader() is a function they lack. */
		if (nulls[i] ||
		    !take_row(&type, (HeapTupleHeader) PG_DETOAST_DATUM(rows[i]), next))
			continue;
		*blocks_out += next->part.blocks;
		(*count_out)++;
	}
	if (type.columns != NULL)
		ReleaseTupleDesc(type.columns);
	return parts;
}

/* array_agg() of no rows is null: an empty list. */
Datum
pgflash_cache_load_list(PG_FUNCTION_ARGS)
{
	TimestampTz taken_at =
		PG_ARGISNULL(1) ? GetCurrentTimestamp() : PG_GETARG_TIMESTAMPTZ(1);
	LoadPartSource *parts = NULL;
	uint64 blocks = 0;
	uint32 count = 0;

	load_require_cache();
	if (TIMESTAMP_NOT_FINITE(taken_at))
		ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
		                errmsg("the time of a list must be finite")));
	if (!PG_ARGISNULL(0))
		parts = take_rows(PG_GETARG_ARRAYTYPE_P(0), &count, &blocks);
	load_list_replace(parts, count, taken_at, 0);
	PG_RETURN_INT64((int64) blocks);
}

/* ---- how warm is it? ----------------------------------------------------- */

/* Blocks of the list that are to be looked up, as their place in the list. */
typedef struct Sample
{
	double step;
	double next;
	uint64 before; /* blocks of the parts before this one */
	uint64 looked;
	uint64 cached;
} Sample;

/* The block of the set bit with this number; the search resumes at *at. */
static uint32
find_bit(const uint8 *bitmap, uint32 size, uint32 *at, uint32 *passed,
         uint32 wanted)
{
	for (; *at < size * 8; (*at)++)
	{
		if (*at % 8 == 0 && bitmap[*at / 8] == 0)
		{
			*at += 7;
			continue;
		}
		if ((bitmap[*at / 8] >> (*at % 8) & 1) == 0)
			continue;
		if ((*passed)++ == wanted)
			return (*at)++;
	}
	return 0;
}

/* Look up the blocks of the sample that are in this part. */
static void
sample_part(Sample *sample, const LoadPart *part, const uint8 *bitmap)
{
	BridgeLoadFile file = load_list_file(part);
	uint32 *blocks = palloc(sizeof(uint32) * (SAMPLE + 1));
	unsigned count = 0;
	uint32 passed = 0;
	uint32 at = 0;

	for (; sample->next < sample->before + part->blocks && count <= SAMPLE;
	     sample->next += sample->step)
		blocks[count++] =
			find_bit(bitmap, part->size, &at, &passed,
		             (uint32) (sample->next - (double) sample->before));
	sample->looked += count;
	if (bridge_load_possible(&file))
		sample->cached += bridge_load_cached(&file, blocks, count);
	pfree(blocks);
}

/* The share of the list's blocks that are cached; false: unknown. */
static bool
sample_warmth(const LoadList *list, double *warmth_out)
{
	Sample sample = { .step = Max(1.0, (double) list->blocks / SAMPLE) };
	int fd = list->blocks > 0 ? load_list_open(list->id) : -1;
	LoadPart part;

	if (fd < 0)
		return false;
	sample.next = sample.step / 2;
	for (uint32 number = 0;
	     number < list->parts && load_list_part(fd, number, &part); number++)
	{
		uint8 *bitmap = NULL;

		CHECK_FOR_INTERRUPTS();
		if (sample.next < sample.before + part.blocks)
			bitmap = load_list_bitmap(fd, &part);
		if (bitmap != NULL)
		{
			sample_part(&sample, &part, bitmap);
			pfree(bitmap);
		}
		sample.before += part.blocks;
		if (sample.next < sample.before)
			sample.next +=
				ceil((sample.before - sample.next) / sample.step) * sample.step;
	}
	(void) CloseTransientFile(fd);
	if (sample.looked > 0)
		*warmth_out = (double) sample.cached / (double) sample.looked;
	return sample.looked > 0;
}

/* Seconds until the list is loaded; false: nothing is being loaded. */
static bool
seconds_to_go(const LoadList *list, double *seconds_out)
{
	TimestampTz now = GetCurrentTimestamp();
	double left =
		(double) (list->blocks - Min(list->blocks, list->counts.done));

	*seconds_out = 0;
	if (list->state == LOAD_DONE)
		return true;
	if (list->state != LOAD_RUNNING || list->counts.done == 0 ||
	    load_reason() != NULL)
		return false;
	*seconds_out = left / (double) list->counts.done *
	               (double) Max(0, now - list->began_at) / USECS_PER_SEC;
	return true;
}

static void
put(ReturnSetInfo *result, const LoadList *list)
{
	bool nulls[CACHE_WARMTH_COLUMNS] = { false };
	Datum values[CACHE_WARMTH_COLUMNS];
	bool open = list->state == LOAD_WAITING || list->state == LOAD_RUNNING;
	const char *why = open ? load_reason() : NULL;
	double warmth = 0;
	double seconds = 0;
	/* The clock of the server that took the list may be ahead of this one's. */
	double age = Max(0, (double) (GetCurrentTimestamp() - list->taken_at) /
	                        USECS_PER_SEC);

	values[CACHE_WARMTH_ROW_LIST_ID] = Int64GetDatum((int64) list->id);
	values[CACHE_WARMTH_ROW_ORIGIN] =
		CStringGetTextDatum(list->stored != 0 ? "repository" : "session");
	values[CACHE_WARMTH_ROW_STATE] =
		CStringGetTextDatum(load_state_name(list->state));
	nulls[CACHE_WARMTH_ROW_STATE_REASON] = why == NULL;
	if (why != NULL)
		values[CACHE_WARMTH_ROW_STATE_REASON] = CStringGetTextDatum(why);
	nulls[CACHE_WARMTH_ROW_WARMTH] = !sample_warmth(list, &warmth);
	values[CACHE_WARMTH_ROW_WARMTH] = Float8GetDatum(warmth);
	nulls[CACHE_WARMTH_ROW_TO_GO_S] = !seconds_to_go(list, &seconds);
	values[CACHE_WARMTH_ROW_TO_GO_S] = Float8GetDatum(seconds);
	values[CACHE_WARMTH_ROW_LIST_AGE_S] = Float8GetDatum(age);
	values[CACHE_WARMTH_ROW_LIST_TAKEN_AT] =
		TimestampTzGetDatum(list->taken_at);
	values[CACHE_WARMTH_ROW_BLOCKS_TOTAL] = Int64GetDatum((int64) list->blocks);
	values[CACHE_WARMTH_ROW_BLOCKS_DONE] =
		Int64GetDatum((int64) list->counts.done);
	values[CACHE_WARMTH_ROW_BLOCKS_CACHED] =
		Int64GetDatum((int64) list->counts.cached);
	values[CACHE_WARMTH_ROW_BLOCKS_LOADED] =
		Int64GetDatum((int64) list->counts.loaded);
	values[CACHE_WARMTH_ROW_BLOCKS_REFUSED] =
		Int64GetDatum((int64) list->counts.refused);
	values[CACHE_WARMTH_ROW_BLOCKS_MISSING] =
		Int64GetDatum((int64) list->counts.missing);
	load_set_time(values, nulls, CACHE_WARMTH_ROW_QUEUED_AT, list->queued_at);
	load_set_time(values, nulls, CACHE_WARMTH_ROW_STARTED_AT, list->began_at);
	load_set_time(values, nulls, CACHE_WARMTH_ROW_ENDED_AT, list->ended_at);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_cache_warmth_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	LoadList list;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_warmth_columns);
	if (load_list_get(&list))
		put(result, &list);
	return (Datum) 0;
}
