/*
 * relation_policy.h
 *		keep, none and default: what the files that deal with them have of each
 *		other.
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

/* ---- relation_name.c: a relation in a row that outlives dump and restore ---- */

typedef enum NameState
{
	NAME_HOLDS,   /* it has the relation's OID */
	NAME_FOUND,   /* it has a name, and there is a relation of that name */
	NAME_PENDING, /* ... and there is none as yet */
	NAME_GONE     /* the relation is no more */
} NameState;

/* The relation that a value means now; InvalidOid if there is none. */
extern NameState relation_name_look(Datum value, Oid *relation_out);

/* The OID it has, whether there still is such a relation or not. */
extern Oid relation_name_number(Datum value);

/* The relation's qualified name; NULL if it is gone. */
extern char *relation_name_text(Oid relation);

/* The value for a relation of this database. */
extern Datum relation_name_of(Oid relation);

/* ---- policy_table.c: the rows of one database ---------------------------------- */

/* A row of the table, the relation found or not. */
typedef struct PolicyRow
{
	Oid relation; /* InvalidOid: no such relation */
	char *name;   /* as a dump would write it */
	CachePolicy policy;
} PolicyRow;

/*
 * The table of this database; InvalidOid if the extension is not there.  Who
 * writes it, or makes a plan of it to be carried out, holds POLICY_TABLE_LOCK until
 * that is done: so no plan overtakes a later one.
 */
extern Oid policy_table(void);

#define POLICY_TABLE_LOCK ShareUpdateExclusiveLock

extern void policy_table_lock(Oid table);

extern List *policy_table_rows(Oid table);

/* Is there a row with the relation's OID, be it gone or not? */
extern bool policy_table_has(Oid table, Oid relation);

/* Give the relation a row, or take its row away. */
extern void policy_table_set(Oid table, Oid relation, CachePolicy policy);
extern void policy_table_forget(Oid table, Oid relation);

/* The relation's row is another's from now on. */
extern void policy_table_move(Oid table, Oid from, Oid to);

/* Drop rows of relations that are gone, note numbers where only names stood. */
extern void policy_table_tidy(Oid table);

/* ---- policy_plan.c: which file gets which policy -------------------------------- */

/* A relation that has a policy, of its own or of a partitioned parent. */
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

/* In the current memory context; table may be InvalidOid: an empty plan. */
extern PolicyPlan *policy_plan(Oid table);

/* Carry the plan out for this database; false: not all of it, try again. */
extern bool policy_plan_apply(const PolicyPlan *plan, uint32 *unplaced_out);

/* ---- policy_wake.c: who is to be woken when something changed ---------------------- */

/* Ask for its memory. */
extern void policy_wake_install(void);

/* A number for a plan that is carried out. */
extern uint32_t policy_round(void);

/* Have this database looked at soon, or the list of databases (InvalidOid). */
extern void policy_wake(Oid database);

/*
 * May there be a policy in this server?  If not, nobody has to be woken.
 *
 * Who makes a plan of rows says that there are some first, and who commits a change of
 * files asks afterwards: so the plan knows of the change, or the launcher is woken.
 */
extern bool policy_needed(void);
extern void policy_need(void);

/* The launcher's: it is to be woken from now on, until it ends. */
extern void policy_wake_me(void);

/* Was the list of databases to be looked at?  Asked once for each time. */
extern bool policy_list_wanted(void);

/* Each database that was woken since the last time; true if all were. */
extern bool policy_take_woken(void (*wake)(Oid database));

/* No database has a policy.  False if one has got one meanwhile, or that is known. */
extern bool policy_need_not(void);

/* ---- policy_worker.c: policies are in force, whatever happens --------------------- */

/* Register the worker, ask for its memory. */
extern void policy_worker_register(void);

/* ---- relation_policy.c: SQL functions, and what a commit does ---------------------- */

extern void relation_policy_install(void);

/*
 * The commit is to wake the worker for this database if there are policies then, and in
 * any case if the list of databases or extensions has changed.
 */
extern void relation_policy_wake_at_commit(bool list);

/* ---- policy_indexes.c: indexes whose place another one takes -------------------------- */

/* A relation, and if it is an index what it is told by: its name, and its table. */
typedef struct PolicyIndex
{
	Oid relation;
	Oid table; /* InvalidOid: it is no index */
	Oid schema;
	NameData name;
} PolicyIndex;

extern void policy_index_note(Oid relation, PolicyIndex *noted);

/* The index that has taken its place; itself if none has. */
extern Oid policy_index_now(const PolicyIndex *noted);

/* A command that may replace indexes, and what is known of them. */
typedef struct PolicyWatch
{
	bool concurrently; /* it commits, while others set policies */
	MemoryContext memory;
	List *created; /* OIDs */
	List *noted;   /* PolicyIndex */
} PolicyWatch;

/*
 * A command begins, which may replace indexes or not (NULL); it is done; it ends, done or
 * not.  outer: the command that it is part of.
 */
extern PolicyWatch *policy_indexes_begin(PolicyWatch *watch);
extern void policy_indexes_done(void);
extern void policy_indexes_end(PolicyWatch *outer);

extern void policy_indexes_before_commit(void);
extern void policy_indexes_install(void);

/* ---- policy_commands.c: what other commands mean for policies ------------------------ */

extern void policy_commands_install(void);

#endif
