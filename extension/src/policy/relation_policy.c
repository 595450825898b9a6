/*
 * relation_policy.c
 *		keep, none and default for a relation: the SQL functions, and the work
 *		at a commit.
 *
 * pgflash_set_cache_policy() only writes a row (policy_table.c), so a rollback,
 * also to a savepoint, undoes all of it.  Before the commit the database's plan
 * is made (policy_plan.c), while catalogs can be read and an error can still
 * abort; the commit applies it.  So the cache changes when the change takes
 * effect, and no earlier.
 *
 * Other commands may change the plan (policy_commands.c).  A commit after such
 * a command wakes the worker (policy_worker.c), which makes a new plan a moment
 * later: an ALTER TABLE must not fail because of a policy.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "policy/relation_policy.h"
#include "server/catalog.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_set_cache_policy);
PG_FUNCTION_INFO_V1(pgflash_cache_policy_rows);

/* ---- the transaction ----------------------------------------------------- */

/* The work of the transaction's commit. */
static struct
{
	bool plan;         /* rows were changed */
	PolicyPlan *ready; /* made before the commit */
} pending;

/*
 * Setting a policy locks the table until the transaction ends, or until a
 * savepoint is rolled back together with the row.  Without the lock there is
 * nothing to apply.
 */
static void
make_ready(void)
{
	MemoryContext before = MemoryContextSwitchTo(TopTransactionContext);
	Oid table = policy_table();

	Assert(pending.ready == NULL);
	if (!OidIsValid(table) ||
	    CheckRelationOidLockedByMe(table, POLICY_TABLE_LOCK, true))
		pending.ready = policy_plan(table);
	MemoryContextSwitchTo(before);
}

static void
commit_now(void)
{
	uint32 unplaced = 0;

	Assert(pending.plan || pending.ready == NULL);
	if (pending.ready != NULL && !policy_plan_apply(pending.ready, &unplaced))
		policy_wake_at_commit(false);
	if (unplaced > 0)
		policy_wake_at_commit(false); /* the worker reports it */
	policy_wake_committed();
}

static void
at_transaction(XactEvent event, void *argument)
{
	(void) argument;
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			policy_indexes_before_commit();
			if (pending.plan)
				make_ready();
			break;
		case XACT_EVENT_COMMIT:
			commit_now();
			memset(&pending, 0, sizeof(pending));
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			/* COMMIT PREPARED, perhaps in another session, wakes the worker. */
			policy_wake_aborted();
			memset(&pending, 0, sizeof(pending));
			break;
		default:
			break;
	}
}

void
relation_policy_install(void)
{
	RegisterXactCallback(at_transaction, NULL);
}

/* ---- pgflash_set_cache_policy -------------------------------------------- */

/* Can this kind of relation, or its partitions, have blocks in the cache? */
static void
check_kind(Relation relation)
{
	const char *name = RelationGetRelationName(relation);
	char kind = relation->rd_rel->relkind;

	if (kind == RELKIND_TOASTVALUE)
		ereport(
			ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
		     errmsg("cannot set the cache policy of TOAST table \"%s\"", name),
		     errhint("Set it for the table that it belongs to.")));
	if (kind != RELKIND_RELATION && kind != RELKIND_INDEX &&
	    kind != RELKIND_MATVIEW && kind != RELKIND_PARTITIONED_TABLE &&
	    kind != RELKIND_PARTITIONED_INDEX)
		ereport(
			ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
		     errmsg("\"%s\" is not a table, index, or materialized view", name),
		     errdetail_relkind_not_supported(kind)));
	if (relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
		        (errcode(ERRCODE_WRONG_OBJECT_TYPE),
		         errmsg("cannot set the cache policy of temporary relation "
		                "\"%s\"",
		                name),
		         errdetail("Temporary relations are not cached.")));
	if (IsSystemRelation(relation))
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("permission denied: \"%s\" is a system catalog",
		                       name)));
}

static void
check_right(Oid relation, const Relation opened)
{
	if (!compat_relation_ownercheck(relation, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
		               get_relkind_objtype(opened->rd_rel->relkind),
		               RelationGetRelationName(opened));
}

/* Report now if there is no room: the commit could not. */
static void
check_room(Oid table)
{
	PolicyPlan *plan = policy_plan(table);
	uint32 limit = bridge_cache_policy_limit();
	uint32 others = bridge_cache_policy_of_others(MyDatabaseId);

	if (others > limit || plan->count > limit - others)
		ereport(ERROR,
		        (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		         errmsg("too many relations have a cache policy"),
		         errdetail("%u files would have one, in all databases; a "
		                   "cache of this size can tell %u apart.",
		                   plan->count + others, limit),
		         errhint("A table with a TOAST table counts as three files. "
		                 "Set pgflash.cache_size to more.")));
	pfree(plan->files);
	pfree(plan);
}

static Oid
require_table(void)
{
	Oid table = policy_table();

	if (!OidIsValid(table))
		ereport(ERROR,
		        (errcode(ERRCODE_UNDEFINED_TABLE),
		         errmsg("the table pgflash_cache_policies of the extension "
		                "pgflash is missing"),
		         errhint("%s", catalog_remedy(catalog_look()))));
	return table;
}

Datum
pgflash_set_cache_policy(PG_FUNCTION_ARGS)
{
	CachePolicy policy = POLICY_DEFAULT;
	PolicyIndex noted;
	Oid relation;
	Relation opened;
	Oid table;

	shmem_require_preloaded();
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
		                errmsg("the relation must not be null")));
	relation = PG_GETARG_OID(0);
	if (!PG_ARGISNULL(1))
	{
		char *word = text_to_cstring(PG_GETARG_TEXT_PP(1));

		if (!bridge_cache_policy_of_word(word, &policy))
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			                errmsg("invalid cache policy \"%s\"", word),
			                errhint("The cache policies are keep, none and "
			                        "default.")));
	}
	PreventCommandIfReadOnly("pgflash_set_cache_policy()");
	PreventCommandDuringRecovery("pgflash_set_cache_policy()");

	/* Note the name by which it was found; once it is locked, compare. */
	policy_index_note(relation, &noted);
	opened = relation_open(relation, AccessShareLock);
	check_right(relation, opened);
	check_kind(opened);
	relation_close(opened, NoLock);

	table = require_table();
	policy_need();
	policy_table_lock(table);
	relation = policy_index_now(&noted);
	Assert(OidIsValid(relation));
	if (PG_ARGISNULL(1))
		policy_table_forget(table, relation);
	else
		policy_table_set(table, relation, policy);
	if (policy != POLICY_DEFAULT)
		check_room(table);
	pending.plan = true;
	PG_RETURN_VOID();
}

/* ---- pgflash_cache_policy ------------------------------------------------ */

static void
list_relation(ReturnSetInfo *result, Oid relation, const char *name,
              CachePolicy policy, Oid set_on)
{
	bool nulls[CACHE_POLICY_COLUMNS] = {
		[CACHE_POLICY_ROW_RELATION] = !OidIsValid(relation),
		[CACHE_POLICY_ROW_SET_ON] = !OidIsValid(set_on),
	};
	Datum values[CACHE_POLICY_COLUMNS] = {
		[CACHE_POLICY_ROW_RELATION] = ObjectIdGetDatum(relation),
		[CACHE_POLICY_ROW_NAME] = CStringGetTextDatum(name),
		[CACHE_POLICY_ROW_POLICY] =
			CStringGetTextDatum(bridge_cache_policy_word(policy)),
		[CACHE_POLICY_ROW_SET_ON] = ObjectIdGetDatum(set_on),
	};

	Assert(name != NULL && OidIsValid(relation) == OidIsValid(set_on));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_cache_policy_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = row_type_rows(fcinfo, &cache_policy_columns);
	Oid table = require_table();
	HTAB *relations = policy_plan_relations(table);
	HASH_SEQ_STATUS walk;
	PlannedRelation *planned;
	ListCell *cell;

	hash_seq_init(&walk, relations);
	while ((planned = hash_seq_search(&walk)) != NULL)
	{
		char *name = relation_name_text(planned->relation);

		if (name != NULL)
			list_relation(result, planned->relation, name, planned->policy,
			              planned->set_on);
	}
	foreach (cell, policy_table_rows(table))
	{
		const PolicyRow *row = lfirst(cell);

		if (!OidIsValid(row->relation))
			list_relation(result, InvalidOid, row->name, row->policy,
			              InvalidOid);
	}
	return (Datum) 0;
}
