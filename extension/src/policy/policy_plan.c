/*
 * policy_plan.c
 *		The plan of a database: which files get a policy, by its rows.
 *
 * There are two steps.  Relations: those with a row, and the partitions below a
 * partitioned one, tables and indexes alike, unless a row of their own says
 * otherwise.  Files: each relation's current relfilenumber, and those of its
 * TOAST table and that table's index, which follow it.  Then the whole database
 * is passed to core at once: files that are not in the plan get the default.
 *
 * The catalogs are read as they are now, without locks on the relations.  A
 * relation that is being rewritten may still show its old file; the commit that
 * ends the rewrite causes another plan.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "policy/relation_policy.h"

/* ---- relations ----------------------------------------------------------- */

/* Note a relation, and its partitions that inherit its policy. */
static void
note_tree(HTAB *relations, Oid relation, CachePolicy policy, Oid set_on)
{
	PlannedRelation *planned =
		hash_search(relations, &relation, HASH_ENTER, NULL);
	List *children;
	ListCell *cell;
	char kind = get_rel_relkind(relation);

	Assert(OidIsValid(relation) && OidIsValid(set_on));
	planned->policy = policy;
	planned->set_on = set_on;
	if (kind != RELKIND_PARTITIONED_TABLE && kind != RELKIND_PARTITIONED_INDEX)
		return;

	check_stack_depth();
	children = find_inheritance_children(relation, NoLock);
	foreach (cell, children)
	{
		Oid child = lfirst_oid(cell);
		const PlannedRelation *known =
			hash_search(relations, &child, HASH_FIND, NULL);

		/*
		 * A child with a row of its own was noted before, and keeps that
		 * policy.
		 */
		if (known == NULL || known->set_on != child)
			note_tree(relations, child, policy, set_on);
	}
	list_free(children);
}

HTAB *
policy_plan_relations(Oid table)
{
	HASHCTL control = { .keysize = sizeof(Oid),
		                .entrysize = sizeof(PlannedRelation),
		                .hcxt = CurrentMemoryContext };
	HTAB *relations = hash_create("pgflash planned relations", 256, &control,
	                              HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	List *rows = OidIsValid(table) ? policy_table_rows(table) : NIL;
	ListCell *cell;

	/*
	 * First note all relations that have a row of their own, then those below
	 * them.
	 */
	foreach (cell, rows)
	{
		const PolicyRow *row = lfirst(cell);
		PlannedRelation *planned;

		if (!OidIsValid(row->relation))
			continue;
		planned = hash_search(relations, &row->relation, HASH_ENTER, NULL);
		planned->policy = row->policy;
		planned->set_on = row->relation;
	}
	foreach (cell, rows)
	{
		const PolicyRow *row = lfirst(cell);

		/*
		 * If a relation has two rows, the later one counts: it was noted last.
		 */
		if (OidIsValid(row->relation))
		{
			const PlannedRelation *planned =
				hash_search(relations, &row->relation, HASH_FIND, NULL);

			Assert(planned != NULL && planned->set_on == row->relation);
			note_tree(relations, row->relation, planned->policy, row->relation);
		}
	}
	return relations;
}

/* ---- files --------------------------------------------------------------- */

static void
add_file(PolicyPlan *plan, Oid tablespace, Oid relfilenumber,
         CachePolicy policy)
{
	Assert(plan->count <= plan->limit && policy != POLICY_DEFAULT);
	Assert(OidIsValid(relfilenumber) && OidIsValid(MyDatabaseId));
	if (plan->count == plan->limit)
	{
		plan->limit *= 2;
		plan->files = repalloc(plan->files, plan->limit * sizeof(PolicyFile));
	}
	plan->files[plan->count++] =
		(PolicyFile){ .tablespace = OidIsValid(tablespace)
		                                ? tablespace
		                                : MyDatabaseTableSpace,
		              .database = MyDatabaseId,
		              .relation = relfilenumber,
		              .policy = policy };
}

/* Add the relation's own file; returns its TOAST table, if it has one. */
static Oid
add_relation(PolicyPlan *plan, Oid relation, CachePolicy policy)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid toast;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;

	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

	if (OidIsValid(form->relfilenode))
		add_file(plan, form->reltablespace, form->relfilenode, policy);
	toast = form->reltoastrelid;
	ReleaseSysCache(tuple);
	return toast;
}

static void
add_indexes_of(PolicyPlan *plan, Oid relation, CachePolicy policy)
{
	Relation indexes = table_open(IndexRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_index_indrelid, BTEqualStrategyNumber, F_OIDEQ,
	            ObjectIdGetDatum(relation));
	scan =
		systable_beginscan(indexes, IndexIndrelidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		(void) add_relation(
			plan, ((Form_pg_index) GETSTRUCT(tuple))->indexrelid, policy);
	systable_endscan(scan);
	table_close(indexes, AccessShareLock);
}

PolicyPlan *
policy_plan(Oid table)
{
	PolicyPlan *plan = palloc(sizeof(PolicyPlan));
	HTAB *relations = policy_plan_relations(table);
	HASH_SEQ_STATUS walk;
	PlannedRelation *planned;

	/* The lock keeps plans in order; on a standby no rows are written. */
	Assert(!OidIsValid(table) || TransactionStartedDuringRecovery() ||
	       CheckRelationOidLockedByMe(table, POLICY_TABLE_LOCK, true));
	plan->count = 0;
	plan->limit = 64;
	plan->files = palloc(plan->limit * sizeof(PolicyFile));

	hash_seq_init(&walk, relations);
	while ((planned = hash_seq_search(&walk)) != NULL)
	{
		Oid toast;

		if (planned->policy == POLICY_DEFAULT)
			continue;
		toast = add_relation(plan, planned->relation, planned->policy);
		if (!OidIsValid(toast))
			continue;
		(void) add_relation(plan, toast, planned->policy);
		add_indexes_of(plan, toast, planned->policy);
	}
	hash_destroy(relations);
	return plan;
}

bool
policy_plan_apply(const PolicyPlan *plan, uint32 *unplaced_out)
{
	Assert(OidIsValid(MyDatabaseId) && plan->count <= plan->limit);
	return bridge_cache_policy_replace(MyDatabaseId, plan->files, plan->count,
	                                   policy_round(), unplaced_out);
}
