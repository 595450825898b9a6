/*
 * policy_indexes.c
 *		Indexes that commands replace by others: the row moves to the new index.
 *
 * A row holds its relation's OID, which nearly no command changes.  But REINDEX
 * CONCURRENTLY, and ALTER TABLE where it changes an indexed column's type,
 * build another index, which takes over the old one's name but has another OID.
 * To the user it is the same index.
 *
 * ALTER TABLE locks the table exclusively.  The indexes that it drops are noted
 * while they have their names.  When it is done, their rows move to the indexes
 * that now have these names on the same tables.
 *
 * REINDEX CONCURRENTLY runs for long, and other sessions may set policies at
 * any moment.  It commits several times: once when the new indexes are created,
 * and once when they have taken over the old ones' names.  At the first of
 * these commits it holds locks that prevent renaming of what it works on, and
 * the table's indexes are noted.  Before every later commit we check which
 * names other indexes have taken over, and move the rows in the same
 * transaction.  It holds the lock that a session which sets a policy also holds
 * until its commit.  So a policy set before the swap is moved.  A later session
 * sees the swap, and so sees that its index no longer has that name.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "policy/relation_policy.h"

static object_access_hook_type previous_access;
static PolicyWatch *watch; /* of the innermost command that has one, or NULL */

/* ---- which index has the place ------------------------------------------- */

static bool
is_index(Oid relation)
{
	char kind = get_rel_relkind(relation);

	return kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX;
}

/* Not get_index_isvalid(), which raises an error for a dropped index. */
static bool
is_valid(Oid index)
{
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	bool valid;

	if (!HeapTupleIsValid(tuple))
		return false;
	valid = ((Form_pg_index) GETSTRUCT(tuple))->indisvalid;
	ReleaseSysCache(tuple);
	return valid;
}

void
policy_index_note(Oid relation, PolicyIndex *noted)
{
	char *name = is_index(relation) ? get_rel_name(relation) : NULL;

	*noted = (PolicyIndex){ .relation = relation };
	if (name == NULL)
		return;
	noted->table = IndexGetRelation(relation, true);
	noted->schema = get_rel_namespace(relation);
	namestrcpy(&noted->name, name);
}

Oid
policy_index_now(const PolicyIndex *noted)
{
	Oid now;

	/* A replaced index is invalid or gone; others were merely renamed. */
	if (!OidIsValid(noted->table) || is_valid(noted->relation))
		return noted->relation;
	now = get_relname_relid(NameStr(noted->name), noted->schema);
	return OidIsValid(now) && is_index(now) &&
	               IndexGetRelation(now, true) == noted->table
	           ? now
	           : noted->relation;
}

/* ---- what a command replaces --------------------------------------------- */

/* Switch to memory that outlives the command's own commits. */
static MemoryContext
use_memory(void)
{
	Assert(watch != NULL);
	if (watch->memory == NULL)
		watch->memory = AllocSetContextCreate(
			TopMemoryContext, "pgflash indexes", ALLOCSET_SMALL_SIZES);
	return MemoryContextSwitchTo(watch->memory);
}

static void
note(Oid index)
{
	MemoryContext before = use_memory();
	PolicyIndex *noted = palloc(sizeof(PolicyIndex));

	policy_index_note(index, noted);
	watch->noted = lappend(watch->noted, noted);
	MemoryContextSwitchTo(before);
}

static void
note_created(Oid relation)
{
	MemoryContext before = use_memory();

	Assert(watch->concurrently && OidIsValid(relation));
	watch->created = lappend_oid(watch->created, relation);
	MemoryContextSwitchTo(before);
}

/* A new object is not visible here yet, so not even its table is known. */
static void
object_access(ObjectAccessType access, Oid class, Oid object, int column,
              void *argument)
{
	if (previous_access != NULL)
		previous_access(access, class, object, column, argument);
	if (watch == NULL || class != RelationRelationId || column != 0)
		return;
	if (watch->concurrently && access == OAT_POST_CREATE)
		note_created(object);
	else if (!watch->concurrently && access == OAT_DROP && is_index(object))
		note(object);
}

static void
note_indexes_of(Oid table_number)
{
	Relation table = try_table_open(table_number, AccessShareLock);
	List *indexes = table == NULL ? NIL : RelationGetIndexList(table);
	ListCell *cell;

	foreach (cell, indexes)
		note(lfirst_oid(cell));
	list_free(indexes);
	if (table != NULL)
		table_close(table, NoLock);
}

/* Note the tables with new indexes as they appear; earlier tables are done. */
static void
note_tables(void)
{
	List *tables = NIL;
	ListCell *cell;

	foreach (cell, watch->created)
	{
		Oid table = IndexGetRelation(lfirst_oid(cell), true);

		if (OidIsValid(table))
			tables = list_append_unique_oid(tables, table);
	}
	list_free(watch->created);
	list_free_deep(watch->noted);
	watch->created = watch->noted = NIL;
	foreach (cell, tables)
		note_indexes_of(lfirst_oid(cell));
	list_free(tables);
}

/* ---- and the rows follow ------------------------------------------------- */

static void
follow(void)
{
	ListCell *cell;

	Assert(IsTransactionState());
	foreach (cell, watch->noted)
	{
		PolicyIndex *noted = lfirst(cell);
		Oid now = policy_index_now(noted);
		Oid rows = now == noted->relation ? InvalidOid : policy_table();

		/*
		 * While the command holds the table exclusively, no other session can
		 * set a policy of its indexes.  So without a row no lock is needed.
		 */
		if (!OidIsValid(rows) ||
		    (!watch->concurrently && !policy_table_has(rows, noted->relation)))
			continue;
		policy_table_move(rows, noted->relation, now);
		policy_wake_at_commit(false);
		noted->relation = now;
	}
}

PolicyWatch *
policy_indexes_begin(PolicyWatch *now)
{
	PolicyWatch *outer = watch;

	Assert(now == NULL ||
	       (now->memory == NULL && now->created == NIL && now->noted == NIL));
	watch = now;
	return outer;
}

void
policy_indexes_done(void)
{
	if (watch != NULL && !watch->concurrently)
		follow();
}

void
policy_indexes_end(PolicyWatch *outer)
{
	Assert(watch == NULL || CurrentMemoryContext != watch->memory);
	if (watch != NULL && watch->memory != NULL)
		MemoryContextDelete(watch->memory);
	watch = outer;
}

void
policy_indexes_before_commit(void)
{
	if (watch == NULL || !watch->concurrently)
		return;
	if (watch->created != NIL)
		note_tables();
	else
		follow();
}

void
policy_indexes_install(void)
{
	Assert(object_access_hook != object_access);
	previous_access = object_access_hook;
	object_access_hook = object_access;
}
