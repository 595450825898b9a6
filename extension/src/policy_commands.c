/*
 * policy_commands.c
 *		What other people's commands mean for cache policies.
 *
 * A rewrite gives a relation another file, partitions come and go, relations and
 * whole databases are dropped.  Rather than know each case, whatever may be one
 * makes the commit wake the worker, which looks at the database as it is then.
 *
 * One command needs more: REINDEX CONCURRENTLY builds another index and gives it the
 * old one's name, so that the row's OID is that of an index that is gone.  Which
 * indexes have rows is noted before the command, and afterwards the rows move to
 * those that have their names on the same tables now.  (If the command fails between
 * its swap and its end, the row stays with the old index, as its leftovers do.)
 *
 * Whether there is a policy in the server at all is asked when the change is true: the
 * first may come while a command runs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "relation_policy.h"

static ProcessUtility_hook_type previous_utility;

/* ---- REINDEX CONCURRENTLY ------------------------------------------------------ */

typedef struct NotedIndex
{
	Oid index;
	Oid table; /* that it is of */
	char *schema;
	char *name;
} NotedIndex;

static bool
is_concurrent_reindex(Node *command)
{
	bool concurrently = false;
	ListCell *cell;

	if (nodeTag(command) != T_ReindexStmt)
		return false;
	foreach (cell, ((ReindexStmt *) command)->params)
	{
		DefElem *option = lfirst(cell);

		if (strcmp(option->defname, "concurrently") == 0)
			concurrently = defGetBoolean(option);
	}
	return concurrently;
}

/* In memory that outlives the command's own commits. */
static List *
note_indexes(void)
{
	MemoryContext before = MemoryContextSwitchTo(PortalContext);
	Oid rows = policy_table();
	List *noted = NIL;
	ListCell *cell;

	foreach (cell, OidIsValid(rows) ? policy_table_rows(rows) : NIL)
	{
		const PolicyRow *row = lfirst(cell);
		NotedIndex *index;

		if (!OidIsValid(row->relation) ||
		    get_rel_relkind(row->relation) != RELKIND_INDEX)
			continue;
		index = palloc(sizeof(NotedIndex));
		index->index = row->relation;
		index->table = IndexGetRelation(row->relation, true);
		index->schema = get_namespace_name(get_rel_namespace(row->relation));
		index->name = get_rel_name(row->relation);
		noted = lappend(noted, index);
	}
	MemoryContextSwitchTo(before);
	return noted;
}

static void
follow_indexes(List *noted)
{
	Oid rows = noted == NIL ? InvalidOid : policy_table();
	ListCell *cell;

	if (!OidIsValid(rows))
		return;
	foreach (cell, noted)
	{
		const NotedIndex *old = lfirst(cell);
		Oid schema = get_namespace_oid(old->schema, true);
		Oid now = OidIsValid(schema) ? get_relname_relid(old->name, schema)
		                             : InvalidOid;

		if (OidIsValid(now) && now != old->index &&
		    get_rel_relkind(now) == RELKIND_INDEX &&
		    IndexGetRelation(now, true) == old->table &&
		    get_rel_relkind(old->index) == '\0')
			policy_table_move(rows, old->index, now);
	}
}

/* ---- all commands ------------------------------------------------------------------ */

/* May the command change which files a relation has, or which partitions? */
static bool
may_move_files(Node *command)
{
	switch (nodeTag(command))
	{
		case T_VacuumStmt:
		case T_ReindexStmt:
		case T_TruncateStmt:
			return true;
		case T_TransactionStmt:
			return ((TransactionStmt *) command)->kind ==
			       TRANS_STMT_COMMIT_PREPARED;
		default:
			return GetCommandLogLevel(command) == LOGSTMT_DDL;
	}
}

static void
utility(PlannedStmt *statement, const char *query, bool read_only_tree,
        ProcessUtilityContext context, ParamListInfo parameters,
        QueryEnvironment *environment, DestReceiver *destination,
        QueryCompletion *completion)
{
	NodeTag tag = nodeTag(statement->utilityStmt);
	bool list = tag == T_CreateExtensionStmt || tag == T_CreatedbStmt ||
	            tag == T_DropdbStmt;
	bool moves = may_move_files(statement->utilityStmt);
	List *indexes =
		policy_worker_needed() && is_concurrent_reindex(statement->utilityStmt)
			? note_indexes()
			: NIL;

	if (previous_utility != NULL)
		previous_utility(statement, query, read_only_tree, context, parameters,
		                 environment, destination, completion);
	else
		standard_ProcessUtility(statement, query, read_only_tree, context,
		                        parameters, environment, destination,
		                        completion);

	if (!list && !moves)
		return;
	if (!IsTransactionState())
	{
		/* Its last commit has been. */
		if (list || policy_worker_needed())
			policy_worker_wake(MyDatabaseId);
		return;
	}
	follow_indexes(indexes);
	relation_policy_wake_at_commit(list);
}

void
policy_commands_install(void)
{
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
