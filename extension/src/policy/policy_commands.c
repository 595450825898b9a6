/*
 * policy_commands.c
 *		The effect of other commands on cache policies.
 *
 * A rewrite gives a relation another file, partitions are attached and
 * detached, relations and whole databases are dropped.  We do not handle each
 * case: the commit of any command that may do so wakes the worker, which then
 * examines the database.
 *
 * Two commands need more, since they give an index's name to another index; see
 * policy_indexes.c.
 *
 * Whether the server has any policy is checked when the change takes effect:
 * the first policy may be set while a command runs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/memutils.h"

#include "policy/relation_policy.h"

static ProcessUtility_hook_type previous_utility;

/* ---- commands that replace indexes --------------------------------------- */

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

/* ---- all commands -------------------------------------------------------- */

/* May the command change the files or the partitions of a relation? */
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

/* Run a command.  watch is NULL if it replaces no index. */
static void
run(PolicyWatch *watch, PlannedStmt *statement, const char *query,
    bool read_only_tree, ProcessUtilityContext context,
    ParamListInfo parameters, QueryEnvironment *environment,
    DestReceiver *destination, QueryCompletion *completion)
{
	PolicyWatch *outer = policy_indexes_begin(watch);

	PG_TRY();
	{
		if (previous_utility != NULL)
			previous_utility(statement, query, read_only_tree, context,
			                 parameters, environment, destination, completion);
		else
			standard_ProcessUtility(statement, query, read_only_tree, context,
			                        parameters, environment, destination,
			                        completion);
		policy_indexes_done();
	}
	PG_FINALLY();
	{
		policy_indexes_end(outer);
	}
	PG_END_TRY();
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
	PolicyWatch watch = { .concurrently =
		                      is_concurrent_reindex(statement->utilityStmt) };

	run(watch.concurrently || tag == T_AlterTableStmt ? &watch : NULL,
	    statement, query, read_only_tree, context, parameters, environment,
	    destination, completion);

	if (!list && !moves)
		return;
	if (IsTransactionState())
		policy_wake_at_commit(list);
	else if (list || policy_needed())
		policy_wake(MyDatabaseId); /* the command's last commit is done */
}

void
policy_commands_install(void)
{
	Assert(ProcessUtility_hook != utility); /* it would call itself */
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
	policy_indexes_install();
}
