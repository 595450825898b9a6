/*
 * visits.h
 *		Processes that go into one database for a moment, and who sends them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_VISITS_H
#define PGFLASH_VISITS_H

#include "postgres.h"

/* Who sends visitors. */
typedef enum VisitLauncher
{
	VISITS_POLICIES,
	VISITS_SNAPSHOTS,
	VISITS_LAUNCHERS
} VisitLauncher;

/* What somebody goes into databases for. */
typedef struct VisitKind
{
	VisitLauncher launcher;
	const char *name; /* of the process; "of database N" is added */
	const char *type;
	const char
		*function; /* of the library; its argument is the database's OID */
	int limit_ms;  /* who is there for longer is asked to leave */
} VisitKind;

/* ---- launchers ----------------------------------------------------------------------- */

/* So many visits of a launcher may be under way: one, and those that do not leave. */
#define VISITS_MAX 4

typedef enum VisitSent
{
	VISIT_SENT,
	VISIT_NO_WORKER, /* max_worker_processes are in use */
	VISIT_NO_PLACE   /* those who were sent are still there */
} VisitSent;

/* What a visitor has to say. */
typedef struct VisitAnswer
{
	uint32 word; /* 0: it died, or could not do its work now */
	uint64 number;
} VisitAnswer;

/* Send a visitor into a database of somebody's, where none of this launcher is. */
extern VisitSent visits_begin(const VisitKind *kind, Oid database, Oid owner);

/* Take the answer of a visit that is over, however it went; false: there is none. */
extern bool visits_over(Oid *database_out, VisitAnswer *answer_out);

/* Is a visitor of this launcher in the database? */
extern bool visits_inside(Oid database);

/* Is another one to be waited for before the next is sent? */
extern bool visits_wait(void);

/*
 * Send a visitor and wait until it is gone, or was asked to leave and did not: then it
 * has said nothing.
 */
extern VisitSent visits_send(const VisitKind *kind, Oid database, Oid owner,
                             VisitAnswer *answer_out);

/* Ask for memory, once, whoever registers launchers. */
extern void visits_install(void);

/* Register a launcher, which is connected to no database, with the postmaster. */
extern void visits_register_launcher(const char *name, const char *function);

/* What a launcher begins with. */
extern void visits_launcher_begin(void);

/* Milliseconds by a clock that nobody sets, forward or back. */
extern int64 visits_clock_ms(void);

/* Sleep so long, or until the latch is set or a visit may be over. */
extern void visits_sleep(int64 wait_ms);

/* Read postgresql.conf again if that was asked for; true if so. */
extern bool visits_reload(void);

/* ---- visitors ------------------------------------------------------------------------ */

/* Leave word for the launcher. */
extern void visits_answer(VisitAnswer answer);

/*
 * All that a visitor does: go into the database, work there, and end.  What it does counts
 * in the database's statistics only if it is counted.
 */
extern void visits_work(Oid database, bool counted, void (*work)(void));

#endif
