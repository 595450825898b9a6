/*
 * policy_table.c
 *		The rows that say which policy a relation has: pgflash_cache_policies.
 *
 * The table belongs to the extension and exists in each database that has it.
 * It is registered with pg_dump as a table of user data.  Users change it only
 * through pgflash_set_cache_policy(), which has checked their rights.  So it is
 * read and written here directly, not by SQL, which would run with a user's
 * search_path and rights.
 *
 * A writer holds POLICY_TABLE_LOCK until the end of its transaction, so no
 * other session has uncommitted rows, except for rows that a restore loads.
 * Those may duplicate a relation's row; then the later one counts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "broken.h"
#include "policy/relation_policy.h"
#include "server/catalog.h"

#define TABLE "pgflash_cache_policies"

/* Its columns. */
#define COLUMN_RELATION 1
#define COLUMN_POLICY   2
#define COLUMNS         2

/* A row with more than two quoted names is nobody's. */
#define NAME_BYTES_MAX (8 * NAMEDATALEN)

Oid
policy_table(void)
{
	return catalog_table(TABLE);
}

/* ---- walking the rows ---------------------------------------------------- */

typedef struct Walk
{
	Relation table;
	Snapshot snapshot;
	SysScanDesc scan;
	MemoryContext row; /* what looking at a row takes */
} Walk;

/* Rows are read and made by column position. */
static void
check_columns(Relation table)
{
	TupleDesc row = RelationGetDescr(table);

	if (row->natts != COLUMNS ||
	    TupleDescAttr(row, COLUMN_POLICY - 1)->atttypid != TEXTOID ||
	    TupleDescAttr(row, COLUMN_RELATION - 1)->atttypid < FirstNormalObjectId)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
		                errmsg("the table \"%s\" has other columns than the "
		                       "library of pgflash defines",
		                       TABLE),
		                errhint("%s", catalog_remedy(catalog_look()))));
}

/* See committed rows and those of the current transaction. */
static void
walk_begin(Walk *walk, Oid table)
{
	Assert(OidIsValid(table));
	walk->table = table_open(table, AccessShareLock);
	check_columns(walk->table);
	walk->snapshot = RegisterSnapshot(GetLatestSnapshot());
	walk->scan = systable_beginscan(walk->table, InvalidOid, false,
	                                walk->snapshot, 0, NULL);
	walk->row = AllocSetContextCreate(CurrentMemoryContext, "pgflash policy",
	                                  ALLOCSET_SMALL_SIZES);
}

/* A row as found by the walk. */
typedef struct Met
{
	HeapTuple tuple;
	Datum value;
	NameState state;
	Oid relation;
	CachePolicy policy;
} Met;

/* Understand a row; false: the table's constraints prevent it. */
static bool
look_at(HeapTuple tuple, TupleDesc row, Met *met)
{
	Datum value[COLUMNS];
	bool null[COLUMNS];

	/*
	 * Not heap_getattr(): in some builds its headers call functions that they
	 * lack.
	 */
	heap_deform_tuple(tuple, row, value, null);
	if (null[COLUMN_RELATION - 1] || null[COLUMN_POLICY - 1] ||
	    toast_raw_datum_size(value[COLUMN_RELATION - 1]) > NAME_BYTES_MAX ||
	    toast_raw_datum_size(value[COLUMN_POLICY - 1]) > NAME_BYTES_MAX ||
	    !bridge_cache_policy_of_word(
			TextDatumGetCString(value[COLUMN_POLICY - 1]), &met->policy))
		return false;
	met->tuple = tuple;
	met->value = value[COLUMN_RELATION - 1];
	met->state = relation_name_look(met->value, &met->relation);
	return true;
}

/* The next row; false at the end. */
static bool
walk_next(Walk *walk, Met *met)
{
	bool found = false;
	HeapTuple tuple;

	while (!found && HeapTupleIsValid(tuple = systable_getnext(walk->scan)))
	{
		MemoryContext before = MemoryContextSwitchTo(walk->row);

		CHECK_FOR_INTERRUPTS();
		found = look_at(tuple, RelationGetDescr(walk->table), met);
		MemoryContextSwitchTo(before);
		MemoryContextReset(walk->row);
	}
	return found;
}

static void
walk_end(Walk *walk)
{
	MemoryContextDelete(walk->row);
	systable_endscan(walk->scan);
	UnregisterSnapshot(walk->snapshot);
	table_close(walk->table, NoLock);
}

/* ---- rows ---------------------------------------------------------------- */

List *
policy_table_rows(Oid table)
{
	List *rows = NIL;
	Walk walk;
	Met met;
	Oid output;
	bool is_varlena;

	walk_begin(&walk, table);
	getTypeOutputInfo(
		TupleDescAttr(RelationGetDescr(walk.table), COLUMN_RELATION - 1)
			->atttypid,
		&output, &is_varlena);
	while (walk_next(&walk, &met))
	{
		PolicyRow *row = palloc(sizeof(PolicyRow));

		if (met.state == NAME_GONE)
			continue;
		row->relation = met.relation;
		row->name = OidOutputFunctionCall(output, met.value);
		row->policy = met.policy;
		rows = lappend(rows, row);
	}
	walk_end(&walk);
	return rows;
}

bool
policy_table_has(Oid table, Oid relation)
{
	bool found = false;
	Walk walk;
	Met met;

	walk_begin(&walk, table);
	Assert(OidIsValid(relation));
	while (!found && walk_next(&walk, &met))
		found = relation_name_number(met.value) == relation;
	walk_end(&walk);
	return found;
}

static void
insert_row(Relation table, Oid relation, CachePolicy policy)
{
	Datum values[COLUMNS];
	bool nulls[COLUMNS] = { false, false };
	HeapTuple tuple;

	Assert(CheckRelationLockedByMe(table, POLICY_TABLE_LOCK, true));
	values[COLUMN_RELATION - 1] = relation_name_of(relation);
	values[COLUMN_POLICY - 1] =
		CStringGetTextDatum(bridge_cache_policy_word(policy));
	tuple = heap_form_tuple(RelationGetDescr(table), values, nulls);
	CatalogTupleInsert(table, tuple);
	heap_freetuple(tuple);
}

void
policy_table_lock(Oid table)
{
	Assert(OidIsValid(table) && IsTransactionState());
	if (!FC_BROKEN(POLICY_LOCK))
		LockRelationOid(table, POLICY_TABLE_LOCK);
	LockRelationOid(table, RowExclusiveLock);
}

void
policy_table_forget(Oid table, Oid relation)
{
	Walk walk;
	Met met;

	Assert(OidIsValid(relation)); /* rows of relations that are gone have 0 */
	policy_table_lock(table);
	walk_begin(&walk, table);
	while (walk_next(&walk, &met))
	{
		if (met.relation == relation)
			CatalogTupleDelete(walk.table, &met.tuple->t_self);
	}
	walk_end(&walk);
	CommandCounterIncrement();
}

void
policy_table_set(Oid table, Oid relation, CachePolicy policy)
{
	Relation rows;

	policy_table_forget(table, relation);
	rows = table_open(table, NoLock);
	check_columns(rows);
	insert_row(rows, relation, policy);
	table_close(rows, NoLock);
	CommandCounterIncrement();
}

void
policy_table_move(Oid table, Oid from, Oid to)
{
	Walk walk;
	Met met;

	Assert(OidIsValid(from) && from != to);
	policy_table_lock(table);
	walk_begin(&walk, table);
	while (walk_next(&walk, &met))
	{
		if (relation_name_number(met.value) != from)
			continue;
		insert_row(walk.table, to, met.policy);
		CatalogTupleDelete(walk.table, &met.tuple->t_self);
	}
	walk_end(&walk);
	CommandCounterIncrement();
}

void
policy_table_tidy(Oid table)
{
	Walk walk;
	Met met;

	policy_table_lock(table);
	walk_begin(&walk, table);
	while (walk_next(&walk, &met))
	{
		if (met.state == NAME_FOUND)
			insert_row(walk.table, met.relation, met.policy);
		if (met.state == NAME_FOUND || met.state == NAME_GONE)
			CatalogTupleDelete(walk.table, &met.tuple->t_self);
	}
	walk_end(&walk);
	CommandCounterIncrement();
}
