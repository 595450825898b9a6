/*
 * snapshot_delta.c
 *		Differences since the previous snapshot, for each statement or relation.
 *
 * There are too many rows to keep them all in every snapshot, and most of them
 * do not change.  So their totals are kept once, in pgflash_snapshot_last, and
 * a snapshot holds differences: one row each for those with the largest values,
 * and one row with the sum of all others.
 *
 * The table is unlogged on purpose: a crash empties it, and resets the
 * counters, too.  It is written in the snapshot's transaction, so that a failed
 * snapshot leaves the previous state.  A set is stored as one binary value with
 * rows of fixed size, so that ten thousand rows are read and written at the
 * speed of memory.
 *
 * If a row's counters have started over (a reset, a statement that was evicted
 * and returned, a reused file number), a number is smaller, or the birth
 * differs.  Then the difference is everything that they have counted since.  So
 * no difference is ever negative.
 *
 * Statements give up their places to others, and are then part of the row of
 * all others.  What they had counted before is subtracted from that row.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "broken.h"
#include "snapshot/snapshot.h"

/* How many rows delta_add() allocates at once. */
#define ROWS_OF_A_PIECE 512

/* The head of a set as stored in the table. */
typedef struct KeptHead
{
	uint32 row_bytes;
	uint32 count;
	int32 key_count;
	int32 value_count;
} KeptHead;

/*
 * The size of a row's numbers, then its values, then its tag, all in multiples
 * of 8.
 */
static Size
row_bytes(const DeltaKind *kind)
{
	return sizeof(int64) * (DELTA_KEYS_MAX + 1) + sizeof(double) +
	       sizeof(double) * (Size) kind->value_count + MAXALIGN(kind->tag_size);
}

static DeltaSet *
make_set(const DeltaKind *kind, uint32 limit)
{
	DeltaSet *set = palloc0(sizeof(DeltaSet));

	Assert(kind->value_count > 0 && kind->key_count <= DELTA_KEYS_MAX);
	set->kind = kind;
	set->limit = limit;
	set->rows = MemoryContextAllocHuge(CurrentMemoryContext,
	                                   Max(limit, 1) * (Size) sizeof(DeltaRow));
	return set;
}

/* Allocate values and tags for this many rows. */
static void
give_room(DeltaSet *set, uint32 count)
{
	const DeltaKind *kind = set->kind;
	Size values = (Size) kind->value_count * sizeof(double);
	Size each = values + MAXALIGN(kind->tag_size);

	Assert(count <= set->limit);

	char *room =
		MemoryContextAllocExtended(CurrentMemoryContext, Max(count, 1) * each,
	                               MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	for (uint32 i = 0; i < count; i++)
	{
		set->rows[i].value = (double *) (room + i * each);
		set->rows[i].tag = room + i * each + values;
	}
}

DeltaSet *
delta_make(const DeltaKind *kind, uint32 limit)
{
	return make_set(kind, limit);
}

/*
 * Values and tags are allocated in pieces, because the limit may far exceed the
 * need.
 */
DeltaRow *
delta_add(DeltaSet *set)
{
	const DeltaKind *kind = set->kind;
	Size values = (Size) kind->value_count * sizeof(double);
	Size each = values + MAXALIGN(kind->tag_size);
	DeltaRow *row = &set->rows[set->count];

	Assert(set->count < set->limit);
	if (set->count % ROWS_OF_A_PIECE == 0)
		set->piece = palloc0(ROWS_OF_A_PIECE * each);
	memset(row, 0, sizeof(*row));
	row->value =
		(double *) (set->piece + (set->count % ROWS_OF_A_PIECE) * each);
	row->tag = (char *) row->value + values;
	set->count++;
	return row;
}

/* ---- what SPI has read --------------------------------------------------- */

static double
number_of(Datum value, Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return DatumGetBool(value);
		case INT4OID:
			return DatumGetInt32(value);
		case INT8OID:
			return (double) DatumGetInt64(value);
		case OIDOID:
			return DatumGetObjectId(value);
		case FLOAT8OID:
			return DatumGetFloat8(value);
		case TIMESTAMPTZOID:
			return (double) DatumGetInt64(value);
		case NUMERICOID:
			return DatumGetFloat8(
				DirectFunctionCall1(numeric_float8_no_overflow, value));
		default:
			elog(ERROR, "pgflash: cannot count with values of type %u", type);
	}
}

static int64
key_of(Datum value, Oid type)
{
	return type == INT8OID ? DatumGetInt64(value)
	                       : (int64) number_of(value, type);
}

/* The position of a column, from 0; -1: it does not exist. */
static int
place_of(TupleDesc row, const char *name)
{
	int number = name == NULL ? 0 : SPI_fnumber(row, name);

	return number > 0 ? number - 1 : -1;
}

typedef struct Places
{
	int key[DELTA_KEYS_MAX];
	int birth;
	int *value;
} Places;

static Places
find_places(const DeltaKind *kind, TupleDesc row)
{
	Places places;

	for (int k = 0; k < kind->key_count; k++)
	{
		places.key[k] = place_of(row, kind->keys[k]);
		if (places.key[k] < 0)
			ereport(ERROR,
			        (errcode(ERRCODE_UNDEFINED_COLUMN),
			         errmsg("there is no column \"%s\" to tell rows apart: the "
			                "extension may be out of date",
			                kind->keys[k])));
	}
	places.birth = place_of(row, kind->birth);
	places.value = palloc((Size) kind->value_count * sizeof(int));
	for (int v = 0; v < kind->value_count; v++)
	{
		const DeltaValue *value = &kind->values[v];

		places.value[v] =
			place_of(row, value->column ? value->column : value->name);
		if (places.value[v] < 0)
			places.value[v] = place_of(row, value->older);
	}
	return places;
}

static void
read_row(DeltaSet *set, const Places *places, TupleDesc desc,
         const Datum *values, const bool *nulls)
{
	const DeltaKind *kind = set->kind;
	DeltaRow *row = &set->rows[set->count++];

	Assert(set->count <= set->limit);
	memset(row->key, 0, sizeof(row->key));
	row->null_key = false;
	for (int k = 0; k < kind->key_count; k++)
	{
		int place = places->key[k];

		if (nulls[place])
			row->null_key = true;
		else
			row->key[k] =
				key_of(values[place], TupleDescAttr(desc, place)->atttypid);
	}
	row->birth = places->birth < 0 || nulls[places->birth]
	                 ? 0
	                 : number_of(values[places->birth],
	                             TupleDescAttr(desc, places->birth)->atttypid);
	for (int v = 0; v < kind->value_count; v++)
	{
		int place = places->value[v];

		/* A value that this server does not count is NAN, and remains NAN. */
		row->value[v] = place < 0 || nulls[place]
		                    ? (place < 0 ? NAN : 0)
		                    : number_of(values[place],
		                                TupleDescAttr(desc, place)->atttypid);
	}
}

DeltaSet *
delta_of_result(const DeltaKind *kind)
{
	TupleDesc desc = SPI_tuptable->tupdesc;
	uint32 count = (uint32) SPI_processed;
	DeltaSet *set = make_set(kind, count);
	Places places = find_places(kind, desc);
	Datum *values = palloc((Size) desc->natts * sizeof(Datum));
	bool *nulls = palloc((Size) desc->natts * sizeof(bool));

	give_room(set, count);
	for (uint32 i = 0; i < count; i++)
	{
		heap_deform_tuple(SPI_tuptable->vals[i], desc, values, nulls);
		read_row(set, &places, desc, values, nulls);
	}
	return set;
}

/* ---- what is kept from one snapshot to the next -------------------------- */

static DeltaSet *
unpack(const DeltaKind *kind, const bytea *kept)
{
	const char *from = VARDATA_ANY(kept);
	Size length = VARSIZE_ANY_EXHDR(kept);
	KeptHead head;
	DeltaSet *set;

	if (length < sizeof(head))
		return NULL;
	memcpy(&head, from, sizeof(head));
	from += sizeof(head);

	/* Written by another version of the library. */
	if (head.row_bytes != row_bytes(kind) ||
	    head.key_count != kind->key_count ||
	    head.value_count != kind->value_count ||
	    length != sizeof(head) + (Size) head.count * head.row_bytes)
		return NULL;

	set = make_set(kind, head.count);
	set->count = head.count;
	give_room(set, head.count);
	for (uint32 i = 0; i < head.count; i++, from += head.row_bytes)
	{
		DeltaRow *row = &set->rows[i];
		const char *at = from;
		int64 null_key;

		memcpy(row->key, at, sizeof(row->key));
		at += sizeof(row->key);
		memcpy(&null_key, at, sizeof(null_key));
		row->null_key = null_key != 0;
		at += sizeof(null_key);
		memcpy(&row->birth, at, sizeof(double));
		at += sizeof(double);
		memcpy(row->value, at, (Size) kind->value_count * sizeof(double));
		at += (Size) kind->value_count * sizeof(double);
		memcpy(row->tag, at, kind->tag_size);
	}
	return set;
}

static bytea *
pack(const DeltaSet *set)
{
	const DeltaKind *kind = set->kind;
	KeptHead head = { .row_bytes = (uint32) row_bytes(kind),
		              .count = set->count,
		              .key_count = kind->key_count,
		              .value_count = kind->value_count };
	Size length = VARHDRSZ + sizeof(head) + (Size) head.count * head.row_bytes;
	bytea *kept;
	char *to;

	if (!AllocSizeIsValid(length))
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
		                errmsg("there are too many rows to remember: %u",
		                       set->count)));
	kept = palloc0(length);
	SET_VARSIZE(kept, length);
	to = VARDATA(kept);
	memcpy(to, &head, sizeof(head));
	to += sizeof(head);
	for (uint32 i = 0; i < set->count; i++, to += head.row_bytes)
	{
		const DeltaRow *row = &set->rows[i];
		int64 null_key = row->null_key;
		char *at = to;

		memcpy(at, row->key, sizeof(row->key));
		at += sizeof(row->key);
		memcpy(at, &null_key, sizeof(null_key));
		at += sizeof(null_key);
		memcpy(at, &row->birth, sizeof(double));
		at += sizeof(double);
		memcpy(at, row->value, (Size) kind->value_count * sizeof(double));
		at += (Size) kind->value_count * sizeof(double);
		memcpy(at, row->tag, kind->tag_size);
	}
	Assert(to == (char *) kept + length); /* as unpack() expects */
	return kept;
}

DeltaSet *
delta_kept(const Snapshooting *now, const DeltaKind *kind, bool *follows_out)
{
	Oid types[] = { TEXTOID };
	Datum values[] = { CStringGetTextDatum(kind->section) };
	DeltaSet *set = NULL;
	bool is_null;

	SPI_execute_with_args(
		psprintf("select content, snapshot_id from %spgflash_snapshot_last "
	             "where section = $1",
	             now->schema),
		1, types, values, NULL, true, 1);
	*follows_out = false;
	if (SPI_processed > 0)
	{
		HeapTuple row = SPI_tuptable->vals[0];
		Datum content = SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &is_null);
		Datum id = SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &is_null);

		set = unpack(kind, DatumGetByteaPP(content));
		*follows_out = set != NULL && now->previous_id != 0 &&
		               DatumGetInt64(id) == now->previous_id;
	}
	return set != NULL ? set : make_set(kind, 0);
}

void
delta_keep(const Snapshooting *now, const DeltaSet *set)
{
	Oid types[] = { TEXTOID, INT8OID, BYTEAOID };
	Datum values[] = { CStringGetTextDatum(set->kind->section),
		               Int64GetDatum(now->id), PointerGetDatum(pack(set)) };

	SPI_execute_with_args(
		psprintf("insert into %spgflash_snapshot_last "
	             "(section, snapshot_id, content) values ($1, $2, $3) "
	             "on conflict (section) do update set "
	             "snapshot_id = excluded.snapshot_id, "
	             "content = excluded.content",
	             now->schema),
		3, types, values, NULL, false, 0);
}

/* ---- the difference ------------------------------------------------------ */

typedef struct Key
{
	int64 key[DELTA_KEYS_MAX];
	int64 null_key;
} Key;

typedef struct Found
{
	Key key; /* hash key */
	const DeltaRow *row;
} Found;

static Key
key_of_row(const DeltaRow *row)
{
	Key key;

	memcpy(key.key, row->key, sizeof(key.key));
	key.null_key = row->null_key;
	return key;
}

static HTAB *
index_rows(const DeltaSet *set)
{
	HASHCTL control = { .keysize = sizeof(Key),
		                .entrysize = sizeof(Found),
		                .hcxt = CurrentMemoryContext };
	HTAB *index =
		hash_create("pgflash rows of the snapshot before", Max(set->count, 16),
	                &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (uint32 i = 0; i < set->count; i++)
	{
		Key key = key_of_row(&set->rows[i]);
		Found *found = hash_search(index, &key, HASH_ENTER, NULL);

		found->row = &set->rows[i];
	}
	return index;
}

/* Does the row count another object than before, under the same key? */
static bool
started_over(const DeltaKind *kind, const DeltaRow *before, const DeltaRow *now)
{
	if (FC_BROKEN(ANEW))
		return false;
	if (before->birth != now->birth)
		return true;
	for (int v = 0; v < kind->value_count; v++)
	{
		if (now->value[v] < before->value[v])
			return true;
	}
	return false;
}

static DeltaRow *
row_without_key(const DeltaSet *set)
{
	for (uint32 i = 0; i < set->count; i++)
	{
		if (set->rows[i].null_key)
			return &set->rows[i];
	}
	return NULL;
}

/*
 * Take from the row without a key what the previous snapshot had of rows that
 * have been added to it since.  A row from before a reset was not: it is older
 * than what the row without a key counts.
 */
static void
take_out_displaced(const DeltaSet *before, const DeltaSet *now)
{
	DeltaRow *rest = row_without_key(now);
	const DeltaRow *was = row_without_key(before);
	HTAB *index;

	if (rest == NULL)
		return;
	index = index_rows(now);
	for (uint32 i = 0; i < before->count; i++)
	{
		const DeltaRow *row = &before->rows[i];
		Key key = key_of_row(row);
		const Found *found = hash_search(index, &key, HASH_FIND, NULL);

		if (row->null_key || row->birth < rest->birth ||
		    (found != NULL && found->row->birth == row->birth))
			continue;
		for (int v = 0; v < now->kind->value_count; v++)
		{
			/* A row that was displaced while all were read was in both. */
			double least = was && was->birth == rest->birth ? was->value[v] : 0;

			rest->value[v] = Max(rest->value[v] - row->value[v], least);
		}
	}
	hash_destroy(index);
}

DeltaSet *
delta_between(const DeltaSet *before, DeltaSet *now)
{
	const DeltaKind *kind = now->kind;
	DeltaSet *between = make_set(kind, now->count);
	HTAB *index = index_rows(before);

	Assert(before->kind == kind);
	if (kind->displaces)
		take_out_displaced(before, now);
	give_room(between, now->count);
	for (uint32 i = 0; i < now->count; i++)
	{
		DeltaRow *row = &now->rows[i];
		DeltaRow *difference = &between->rows[between->count];
		Key key = key_of_row(row);
		const Found *found = hash_search(index, &key, HASH_FIND, NULL);
		bool subtract = found && !started_over(kind, found->row, row);
		bool anything = false;

		if (found != NULL)
			memcpy(row->tag, found->row->tag, kind->tag_size);
		for (int v = 0; v < kind->value_count; v++)
		{
			double value =
				row->value[v] - (subtract ? found->row->value[v] : 0);

			Assert(!subtract || !(value < 0) || FC_BROKEN(ANEW));
			difference->value[v] = value;
			anything |= value > 0;
		}
		if (!anything)
			continue;
		memcpy(difference->key, row->key, sizeof(row->key));
		difference->null_key = row->null_key;
		difference->birth = row->birth;
		difference->tag =
			row->tag; /* shared, so that what is added to it is kept */
		between->count++;
	}
	hash_destroy(index);
	return between;
}

const char *
delta_of_query(const Snapshooting *now, const DeltaKind *kind,
               const char *query, DeltaSet **difference_out)
{
	bool follows;
	const DeltaSet *before = delta_kept(now, kind, &follows);
	DeltaSet *cumulative;

	Assert(query != NULL);
	snapshot_read(query, 0, NULL, NULL);
	cumulative = delta_of_result(kind);
	delta_keep(now, cumulative);
	if (!follows)
		return DELTA_WITHOUT_PREVIOUS;
	*difference_out = delta_between(before, cumulative);
	return NULL;
}

/* ---- the rows with the largest values ------------------------------------ */

typedef struct Ranked
{
	double amount;
	uint32 row;
} Ranked;

static int
more_first(const void *left, const void *right)
{
	double a = ((const Ranked *) left)->amount;
	double b = ((const Ranked *) right)->amount;

	return a < b ? 1 : a > b ? -1 : 0;
}

/*
 * The rows sorted by one of their values, and how many have a positive value.
 */
static Ranked *
rank_by(const DeltaSet *set, int value, uint32 *count_out)
{
	Ranked *ranked = MemoryContextAllocHuge(
		CurrentMemoryContext, Max(set->count, 1) * (Size) sizeof(Ranked));
	uint32 count = 0;

	for (uint32 i = 0; i < set->count; i++)
	{
		double amount = set->rows[i].value[value];

		if (!set->rows[i].null_key && amount > 0)
			ranked[count++] = (Ranked){ .amount = amount, .row = i };
	}
	qsort(ranked, count, sizeof(Ranked), more_first);
	*count_out = count;
	return ranked;
}

/*
 * Take rows from each ranking in turn, so that no ranking crowds out the
 * others.
 */
static uint32
choose_rows(const DeltaSet *set, int limit, bool *chosen)
{
	const DeltaKind *kind = set->kind;
	Ranked **ranked = palloc0((Size) kind->value_count * sizeof(Ranked *));
	uint32 *counts = palloc0((Size) kind->value_count * sizeof(uint32));
	uint32 most = 0;
	uint32 count = 0;

	Assert(limit > 0);
	for (int v = 0; v < kind->value_count; v++)
	{
		if (kind->values[v].ranked)
			ranked[v] = rank_by(set, v, &counts[v]);
		most = Max(most, counts[v]);
	}
	for (uint32 place = 0; place < most; place++)
	{
		for (int v = 0; v < kind->value_count; v++)
		{
			if (place >= counts[v] || chosen[ranked[v][place].row])
				continue;
			if (count == (uint32) limit)
				return count;
			chosen[ranked[v][place].row] = true;
			count++;
		}
	}
	return count;
}

uint32
delta_choose(DeltaSet *set, int limit, DeltaRow *others)
{
	const DeltaKind *kind = set->kind;
	bool *chosen = MemoryContextAllocExtended(
		CurrentMemoryContext, Max(set->count, 1) * sizeof(bool),
		MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	uint32 count = choose_rows(set, limit, chosen);
	uint32 front = 0;

	memset(others, 0, sizeof(DeltaRow));
	others->null_key = true;
	others->value = palloc0((Size) kind->value_count * sizeof(double));
	for (uint32 i = 0; i < set->count; i++)
	{
		DeltaRow row = set->rows[i];

		if (chosen[i])
		{
			set->rows[i] = set->rows[front];
			set->rows[front++] = row;
			continue;
		}
		for (int v = 0; v < kind->value_count; v++)
			others->value[v] += row.value[v];
	}
	Assert(front == count && count <= (uint32) limit);
	return count;
}
