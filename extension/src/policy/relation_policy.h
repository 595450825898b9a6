/*
 * relation_policy.h
 *		keep, none and default: what the files that implement them declare for
 *		each other.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_RELATION_POLICY_H
#define PGFLASH_RELATION_POLICY_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/hsearch.h"
#include "utils/relcache.h"

#include "bridge/bridge_cache_policy.h"

/* ---- relation_name.c: a relation in a row that outlives dump and restore - */

typedef enum NameState
{
	NAME_HOLDS,   /* it has the relation's OID */
	NAME_FOUND,   /* it has a name, and there is a relation of that name */
	NAME_PENDING, /* ... and none exists yet */
	NAME_GONE     /* the relation no longer exists */
} NameState;

/* The relation that a value denotes now; InvalidOid if there is none. */
extern NameState relation_name_look(Datum value, Oid *relation_out);

/* The OID in the value, whether or not the relation still exists. */
extern Oid relation_name_number(Datum value);

/* The relation's qualified name; NULL if it no longer exists. */
extern char *relation_name_text(Oid relation);

/* The value for a relation of this database. */
extern Datum relation_name_of(Oid relation);

/* ---- policy_table.c: the rows of one database ---------------------------- */

/* A row of the table, whether or not its relation was found. */
typedef struct PolicyRow
{
	Oid relation; /* InvalidOid: no such relation */
	char *name;   /* as a dump would write it */
	CachePolicy policy;
} PolicyRow;

/*
 * The table of this database; InvalidOid if the extension is not installed.  A
 * process that writes it, or makes and applies a plan, holds POLICY_TABLE_LOCK
 * until that is done, so that plans are applied in order.
 */
extern Oid policy_table(void);

#define POLICY_TABLE_LOCK ShareUpdateExclusiveLock

extern void policy_table_lock(Oid table);

extern List *policy_table_rows(Oid table);

/* Is there a row with the relation's OID, even if the relation is gone? */
extern bool policy_table_has(Oid table, Oid relation);

/* Give the relation a row, or remove its row. */
extern void policy_table_set(Oid table, Oid relation, CachePolicy policy);
extern void policy_table_forget(Oid table, Oid relation);

/* From now on the relation's row belongs to another relation. */
extern void policy_table_move(Oid table, Oid from, Oid to);

/* Drop rows of relations that are gone; replace names by OIDs. */
extern void policy_table_tidy(Oid table);

/* ---- policy_plan.c: which file gets which policy ------------------------- */

/* A relation that has a policy, its own or a partitioned parent's. */
typedef struct PlannedRelation
{
	Oid relation; /* hash key */
	CachePolicy policy;
	Oid set_on;
} PlannedRelation;

/* All relations of this database that have one; a table of PlannedRelation. */
extern HTAB *policy_plan_relations(Oid table);

/* All files that have a policy other than default, TOAST included. */
typedef struct PolicyPlan
{
	PolicyFile *files;
	uint32 count;
	uint32 limit; /* of files; allocated */
} PolicyPlan;

/*
 * Make a plan in the current memory context; table may be InvalidOid: an empty
 * plan.
 */
extern PolicyPlan *policy_plan(Oid table);

/* Apply the plan to this database; false: some could not be set, try again. */
extern bool policy_plan_apply(const PolicyPlan *plan, uint32 *unplaced_out);

/* ---- policy_wake.c: wakes the launcher when something changed ------------ */

/* Request its memory. */
extern void policy_wake_install(void);

/* A new number for a plan that will be applied. */
extern uint32_t policy_round(void);

/* Have this database, or the list of databases (InvalidOid), looked at soon. */
extern void policy_wake(Oid database);

/*
 * May there be a policy in this server?  If not, nobody needs to be woken.
 *
 * A process that makes a plan from rows first declares that there are some.  A
 * process that commits a change of files asks afterwards.  So either the plan
 * includes the change, or the launcher is woken.
 */
extern bool policy_needed(void);
extern void policy_need(void);

/*
 * The commit will wake the worker for this database if there are policies by
 * then, and in any case if the list of databases or extensions has changed.
 */
extern void policy_wake_at_commit(bool list);

/* The transaction has committed, or it has not (yet). */
extern void policy_wake_committed(void);
extern void policy_wake_aborted(void);

/* For the launcher: it is woken from now on, until it ends. */
extern void policy_wake_me(void);

/*
 * Was a look at the list of databases requested?  True once for each request.
 */
extern bool policy_list_wanted(void);

/* Call wake for each database woken since the last call; true: all were. */
extern bool policy_take_woken(void (*wake)(Oid database));

/*
 * Declare that no database has a policy.  False if one has by now, or if that
 * was declared before.
 */
extern bool policy_need_not(void);

/* ---- policy_worker.c: keeps policies in force, whatever happens ---------- */

/* Register the worker, and request its memory. */
extern void policy_worker_register(void);

/* ---- relation_policy.c: SQL functions, and what a commit does ------------ */

extern void relation_policy_install(void);

/* ---- policy_indexes.c: indexes that are replaced by others --------------- */

/* A relation; for an index also its name and its table, which identify it. */
typedef struct PolicyIndex
{
	Oid relation;
	Oid table; /* InvalidOid: not an index */
	Oid schema;
	NameData name;
} PolicyIndex;

extern void policy_index_note(Oid relation, PolicyIndex *noted);

/* The index that has replaced it; itself if none has. */
extern Oid policy_index_now(const PolicyIndex *noted);

/* A command that may replace indexes, and the indexes concerned. */
typedef struct PolicyWatch
{
	bool concurrently; /* it commits, while others set policies */
	MemoryContext memory;
	List *created; /* OIDs */
	List *noted;   /* PolicyIndex */
} PolicyWatch;

/*
 * Call them when a command begins (NULL: it cannot replace indexes), when it
 * succeeded, and when it ends in any way.  outer: the command that it is part
 * of.
 */
extern PolicyWatch *policy_indexes_begin(PolicyWatch *watch);
extern void policy_indexes_done(void);
extern void policy_indexes_end(PolicyWatch *outer);

extern void policy_indexes_before_commit(void);
extern void policy_indexes_install(void);

/* ---- policy_commands.c: what other commands mean for policies ------------ */

extern void policy_commands_install(void);

#endif
