/*
 * statement_explain.c
 *		EXPLAIN (ANALYZE, FLASH): where the blocks of a statement came from.
 *
 * PostgreSQL 18 lets an extension add an option, and lines below a plan.  The
 * numbers are those of the whole statement; see docs/decisions for why nodes
 * have none of their own.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "bridge/bridge.h"
#include "server/compat.h"
#include "statement/statement.h"

#if COMPAT_EXPLAIN_OPTIONS

#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"

#define NS_OF_MS 1000000.0

static explain_per_plan_hook_type previous_plan;
static explain_validate_options_hook_type previous_validate;
static int explain_id;

/* In the order in which a read tries them. */
static const struct
{
	AccountKind kind;
	const char *name;
} sources[] = { { ACCOUNT_PAGE_CACHE_READ, "Page Cache" },
	            { ACCOUNT_FLASH_READ, "Flash" },
	            { ACCOUNT_DISK_READ, "Disk" } };

/* The state of an EXPLAIN with the option points here. */
static char chosen;

static void
choose(ExplainState *state, DefElem *option, ParseState *parse)
{
	(void) parse;
	SetExplainExtensionState(state, explain_id,
	                         defGetBoolean(option) ? &chosen : NULL);
}

static bool
is_chosen(ExplainState *state)
{
	return GetExplainExtensionState(state, explain_id) != NULL;
}

static void
validate(ExplainState *state, List *options, ParseState *parse)
{
	if (previous_validate != NULL)
		previous_validate(state, options, parse);
	if (is_chosen(state) && !state->analyze)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("EXPLAIN option %s requires ANALYZE", "FLASH")));
}

static void
show_text(ExplainState *state, const StatementSums *sums)
{
	ExplainIndentText(state);
	appendStringInfo(state->str, "Shared Buffers: hit=" UINT64_FORMAT "\n",
	                 sums->hits);
	for (Size i = 0; i < lengthof(sources); i++)
	{
		AccountKind kind = sources[i].kind;

		ExplainIndentText(state);
		appendStringInfo(
			state->str,
			"%s: blocks=" UINT64_FORMAT " reads=" UINT64_FORMAT " time=%.3f\n",
			sources[i].name, sums->reads.bytes[kind] / BLCKSZ,
			sums->reads.calls[kind], (double) sums->reads.ns[kind] / NS_OF_MS);
	}
}

static void
show_properties(ExplainState *state, const StatementSums *sums)
{
	ExplainPropertyInteger("Shared Hit Blocks", NULL, (int64) sums->hits,
	                       state);
	for (Size i = 0; i < lengthof(sources); i++)
	{
		AccountKind kind = sources[i].kind;
		const char *name = sources[i].name;

		ExplainPropertyInteger(psprintf("%s Read Blocks", name), NULL,
		                       (int64) (sums->reads.bytes[kind] / BLCKSZ),
		                       state);
		ExplainPropertyInteger(psprintf("%s Reads", name), NULL,
		                       (int64) sums->reads.calls[kind], state);
		ExplainPropertyFloat(psprintf("%s Read Time", name), "ms",
		                     (double) sums->reads.ns[kind] / NS_OF_MS, 3,
		                     state);
	}
}

static void
show(PlannedStmt *plan, IntoClause *into, ExplainState *state,
     const char *query, ParamListInfo parameters, QueryEnvironment *environment)
{
	const StatementSums *sums =
		is_chosen(state) ? statement_running(plan) : NULL;

	if (previous_plan != NULL)
		previous_plan(plan, into, state, query, parameters, environment);
	if (sums == NULL)
		return;

	ExplainOpenGroup("Block Sources", "Block Sources", true, state);
	if (state->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainIndentText(state);
		appendStringInfoString(state->str, "Block Sources:\n");
		state->indent++;
		show_text(state, sums);
		state->indent--;
	}
	else
		show_properties(state, sums);
	ExplainCloseGroup("Block Sources", "Block Sources", true, state);
}

void
statement_explain_install(void)
{
	if (!bridge_redirected())
		return;
	explain_id = GetExplainExtensionId("pgflash");
	RegisterExtensionExplainOption("flash", choose COMPAT_EXPLAIN_BOOLEAN);
	previous_plan = explain_per_plan_hook;
	explain_per_plan_hook = show;
	previous_validate = explain_validate_options_hook;
	explain_validate_options_hook = validate;
}

#else

void
statement_explain_install(void)
{
}

#endif
