/*
 * statement.c
 *		Follows each statement, and counts what was read for it.
 *
 * The accounting knows what was read for this session (account_asked.c), and
 * PostgreSQL how many blocks it found in shared buffers.  Hooks note both
 * before and after each step of a statement's execution: a cursor runs in
 * several steps, with other statements between them.  Commands that the
 * executor does not run are one step.  What is read between two steps at the
 * top level, for example while a statement is parsed and planned, belongs to
 * the second one.
 *
 * Levels are those of pg_stat_statements: a statement that runs during another
 * one is nested, and part of it; EXECUTE counts for the statement that it
 * executes.  So the sums of the top-level statements are what all statements
 * read, each block once.
 *
 * A statement that fails is counted, too, because it may have waited for the
 * disk for an hour.  Its failure is noticed when the memory of its execution is
 * released, or by a step that no such memory outlives: its start, its end, and
 * that of a command.  A FATAL error (pg_terminate_backend(), a lost client)
 * does not return to the steps; they end when the process does (leave()).
 *
 * Parallel workers count nothing here: what they read belongs to their leader.
 * The workers of a statement that fails may read for another moment, which is
 * not counted.
 *
 * Cost: while blocks are found in shared buffers, a step reads a few counters
 * twice.  A statement searches its place in the sums once, at its end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "optimizer/planner.h"
#include "storage/ipc.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

#include "bridge/bridge.h"
#include "broken.h"
#include "server/compat.h"
#include "settings.h"
#include "statement/statement.h"

/* A statement between its start and its end, in the memory of its execution. */
typedef struct Statement
{
	QueryDesc *query;
	bool wanted; /* it will be counted */
	bool shown;  /* ... and then be the last statement */
	StatementKey key;
	StatementSums sums;
	dlist_node node;
	MemoryContextCallback released;
} Statement;

/* A step of a running statement, inside another one or at the top level. */
typedef struct Step
{
	StatementSums *sums;
	const StatementKey *key; /* of what is counted when it ends, or NULL */
	bool shown;
	struct Step *outer;
} Step;

static planner_hook_type previous_planner;
static ExecutorStart_hook_type previous_start;
static ExecutorRun_hook_type previous_run;
static ExecutorFinish_hook_type previous_finish;
static ExecutorEnd_hook_type previous_end;
static ProcessUtility_hook_type previous_utility;

/* The number of enclosing statements and other steps. */
static int level;

static dlist_head running = DLIST_STATIC_INIT(running);

static Step *step;

/*
 * What has been given to steps: everything up to some moment.  What was read
 * since then is given to the steps that are running when the next one begins or
 * ends.  At the top level none is running, and the one that begins gets it.
 */
static struct
{
	uint64 hits;
	uint64 calls; /* of account_asked_since() */
	AccountReads reads;
} given;

/* Was the last top-level statement counted, so that given is up to date? */
static bool known;

static struct
{
	bool any;
	bool asked_for; /* by the running top-level statement */
	StatementKey key;
	StatementSums sums;
} last;

/* ---- steps --------------------------------------------------------------- */

static void
add_reads(AccountReads *to, const AccountReads *after,
          const AccountReads *before)
{
	for (int i = 0; i < ACCOUNT_SOURCES; i++)
	{
		to->calls[i] += after->calls[i] - before->calls[i];
		to->bytes[i] += after->bytes[i] - before->bytes[i];
		to->ns[i] += after->ns[i] - before->ns[i];
	}
	to->worker_ns += after->worker_ns - before->worker_ns;
}

/* Give what was read until now to the running steps, if any. */
static void
give(void)
{
	uint64 hits = (uint64) pgBufferUsage.shared_blks_hit;
	AccountReads reads;

	for (Step *one = step; one != NULL; one = one->outer)
		one->sums->hits += hits - given.hits;
	given.hits = hits;
	if (!account_asked_since(&given.calls))
		return;
	account_asked(&reads);
	for (Step *one = step; one != NULL; one = one->outer)
		add_reads(&one->sums->reads, &reads, &given.reads);
	given.reads = reads;
}

/* A statement has ended. */
static void
count(const StatementKey *key, const StatementSums *sums, bool shown)
{
	if (key->toplevel && shown && !last.asked_for)
	{
		last.any = true;
		last.key = *key;
		last.sums = *sums;
	}
	statement_sums_add(key, sums);
}

static void
step_ends(const Step *ended)
{
	Assert(step == ended);
	give();
	step = ended->outer;
	if (ended->key != NULL)
		count(ended->key, ended->sums, ended->shown);
}

/* The process ends in the middle of steps: they are below us on the stack. */
static void
leave(int code, Datum nothing)
{
	(void) code;
	(void) nothing;
	while (step != NULL && !FC_BROKEN(STATEMENT_FATAL))
		step_ends(step);
}

static void
step_begins(Step *begun, StatementSums *sums)
{
	if (step != NULL || !known)
		give();
	*begun = (Step){ .sums = sums, .outer = step };
	step = begun;
}

/*
 * Functions that the planner evaluates run outside any step; what they read is
 * left to the top-level statement that is being planned.
 */
static bool
may_follow(void)
{
	return !IsParallelWorker() && (level == 0 || step != NULL || !known);
}

/* A statement begins: should it be counted? */
static bool
wanted_now(void)
{
	static bool told;
	bool wanted =
		may_follow() &&
		(setting_track_statements == TRACK_STATEMENTS_ALL ||
	     (setting_track_statements == TRACK_STATEMENTS_TOP && level == 0));

	/*
	 * After ShutdownPostgres(), so that it is called before; and at the first
	 * statement, outside of what sets up such a callback and cancels it.
	 */
	if (!told)
		before_shmem_exit(leave, (Datum) 0);
	told = true;
	if (level > 0)
		return wanted;
	last.asked_for = false;
	/* What was read while nothing was counted belongs to no statement. */
	if (wanted && !known)
		give();
	return known = wanted;
}

/* Did a client send it?  Otherwise a trigger runs it during a commit. */
static bool
is_sent(void)
{
	return ActivePortal != NULL;
}

static StatementKey
key_now(int64 query_id)
{
	return (StatementKey){ .user = GetUserId(),
		                   .database = MyDatabaseId,
		                   .query_id = query_id,
		                   .toplevel = level == 0 };
}

/* ---- planner ------------------------------------------------------------- */

/* Functions that are evaluated during planning are not at the top level. */
static PlannedStmt *
plan(COMPAT_PLAN_PARAMETERS)
{
	PlannedStmt *result;

	level++;
	PG_TRY();
	{
		result = previous_planner != NULL
		             ? previous_planner(COMPAT_PLAN_ARGUMENTS)
		             : standard_planner(COMPAT_PLAN_ARGUMENTS);
	}
	PG_FINALLY();
	{
		level--;
	}
	PG_END_TRY();
	return result;
}

/* ---- executor ------------------------------------------------------------ */

static Statement *
find(const QueryDesc *query)
{
	dlist_iter at;

	dlist_foreach (at, &running)
	{
		Statement *statement = dlist_container(Statement, node, at.cur);

		if (statement->query == query)
			return statement;
	}
	return NULL;
}

/* The memory of an execution is released: it has ended or failed. */
static void
released(void *of)
{
	Statement *statement = of;

	/*
	 * The process ends, and the callback of temporary tables aborts the
	 * transaction before leave() is called.  Steps must end while their sums
	 * are there.
	 */
	if (shmem_exit_inprogress)
		leave(0, (Datum) 0);
	dlist_delete(&statement->node);
	if (statement->wanted)
		count(&statement->key, &statement->sums, statement->shown);
}

static void
begin(QueryDesc *query, const StatementKey *key, bool wanted,
      const StatementSums *taken)
{
	Statement *statement =
		MemoryContextAlloc(query->estate->es_query_cxt, sizeof(Statement));

	statement->query = query;
	statement->wanted = wanted;
	statement->shown = is_sent();
	statement->key = *key;
	statement->sums = *taken;
	statement->released.func = released;
	statement->released.arg = statement;
	dlist_push_head(&running, &statement->node);
	MemoryContextRegisterResetCallback(query->estate->es_query_cxt,
	                                   &statement->released);
}

static void
start(QueryDesc *query, int flags)
{
	/* Without ANALYZE, EXPLAIN executes nothing. */
	bool wanted = wanted_now() && (flags & EXEC_FLAG_EXPLAIN_ONLY) == 0;
	bool follow = may_follow();
	StatementKey key = key_now((int64) query->plannedstmt->queryId);
	StatementSums taken = { .calls = 1 };
	Step own;

	if (follow)
		step_begins(&own, &taken);
	own.key = wanted ? &key : NULL;
	own.shown = is_sent();
	PG_TRY();
	{
		if (previous_start != NULL)
			previous_start(query, flags);
		else
			standard_ExecutorStart(query, flags);
		own.key = NULL; /* from now on it is counted when it is released */
	}
	PG_FINALLY();
	{
		if (follow)
			step_ends(&own);
	}
	PG_END_TRY();

	if (wanted || (query->instrument_options != 0 && follow))
		begin(query, &key, wanted, &taken);
}

static void
run(COMPAT_RUN_PARAMETERS)
{
	Statement *volatile statement = find(query);
	Step own;

	if (statement != NULL)
		step_begins(&own, &statement->sums);
	level++;
	PG_TRY();
	{
		if (previous_run != NULL)
			previous_run(COMPAT_RUN_ARGUMENTS);
		else
			standard_ExecutorRun(COMPAT_RUN_ARGUMENTS);
	}
	PG_FINALLY();
	{
		level -= !FC_BROKEN(STATEMENT_LEVEL);
		if (statement != NULL)
			step_ends(&own);
	}
	PG_END_TRY();
	level -= FC_BROKEN(STATEMENT_LEVEL);
}

static void
finish(QueryDesc *query)
{
	Statement *volatile statement = find(query);
	Step own;

	if (statement != NULL)
		step_begins(&own, &statement->sums);
	level++;
	PG_TRY();
	{
		if (previous_finish != NULL)
			previous_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		level--;
		if (statement != NULL)
			step_ends(&own);
	}
	PG_END_TRY();
}

/* The end of a statement that is followed. */
static void
end_of(QueryDesc *query, Statement *statement)
{
	/* Copy it: it is in the memory of the execution, which is released. */
	Statement ended = *statement;
	Step own;

	statement->wanted = false;
	step_begins(&own, &ended.sums);
	own.key = ended.wanted ? &ended.key : NULL;
	own.shown = ended.shown;
	PG_TRY();
	{
		if (previous_end != NULL)
			previous_end(query);
		else
			standard_ExecutorEnd(query);
	}
	PG_FINALLY();
	{
		step_ends(&own);
	}
	PG_END_TRY();
}

static void
end(QueryDesc *query)
{
	Statement *statement = find(query);

	if (statement != NULL)
		end_of(query, statement);
	else if (previous_end != NULL)
		previous_end(query);
	else
		standard_ExecutorEnd(query);
}

/* ---- other commands ------------------------------------------------------ */

/*
 * The query identifier of a command; other hooks may have hidden it from this
 * one.
 */
static int64
command_query_id(const PlannedStmt *statement)
{
	int64 query_id = (int64) statement->queryId;

	return query_id == 0 && level == 0 ? (int64) pgstat_get_my_query_id()
	                                   : query_id;
}

static void
utility(PlannedStmt *statement, const char *query, bool read_only_tree,
        ProcessUtilityContext context, ParamListInfo parameters,
        QueryEnvironment *environment, DestReceiver *destination,
        QueryCompletion *completion)
{
	/* Copy what is needed afterwards: the statement may be gone by then. */
	NodeTag tag = nodeTag(statement->utilityStmt);
	bool passes = tag == T_ExecuteStmt || tag == T_PrepareStmt;
	bool wanted = !passes && wanted_now();
	StatementKey key = key_now(command_query_id(statement));
	StatementSums sums = { .calls = 1 };
	Step own;

	if (wanted)
	{
		step_begins(&own, &sums);
		own.key = &key;
		own.shown = tag != T_TransactionStmt;
	}
	level += !passes;
	PG_TRY();
	{
		if (previous_utility != NULL)
			previous_utility(statement, query, read_only_tree, context,
			                 parameters, environment, destination, completion);
		else
			standard_ProcessUtility(statement, query, read_only_tree, context,
			                        parameters, environment, destination,
			                        completion);
	}
	PG_FINALLY();
	{
		level -= !passes;
		if (wanted)
			step_ends(&own);
	}
	PG_END_TRY();
}

/* ---- for others ---------------------------------------------------------- */

const StatementSums *
statement_last(StatementKey *key_out)
{
	last.asked_for = true;
	*key_out = last.key;
	return last.any ? &last.sums : NULL;
}

const StatementSums *
statement_running(const PlannedStmt *plan_of)
{
	dlist_iter at;

	dlist_foreach (at, &running)
	{
		Statement *statement = dlist_container(Statement, node, at.cur);

		if (statement->query->plannedstmt == plan_of)
			return &statement->sums;
	}
	return NULL;
}

void
statement_install(void)
{
	Assert(process_shared_preload_libraries_in_progress);
	if (!bridge_redirected())
		return;
	statement_sums_install();

	previous_planner = planner_hook;
	planner_hook = plan;
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
	previous_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = finish;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = end;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
}
