/*
 * visits.h
 *		Processes that enter one database for a moment, and their launchers.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_VISITS_H
#define PGFLASH_VISITS_H

#include "postgres.h"

/* The launchers that send visitors. */
typedef enum VisitLauncher
{
	VISITS_POLICIES,
	VISITS_SNAPSHOTS,
	VISITS_LAUNCHERS
} VisitLauncher;

/* A purpose of visits. */
typedef struct VisitKind
{
	VisitLauncher launcher;
	const char *name; /* of the process; "of database N" is added */
	const char *type;
	const char
		*function; /* of the library; its argument is the database's OID */
	int limit_ms;  /* a visitor that stays longer is asked to leave */
} VisitKind;

/* ---- launchers ----------------------------------------------------------- */

/*
 * How many visits of a launcher may be in progress: one, plus those that do not
 * leave.
 */
#define VISITS_MAX 4

typedef enum VisitSent
{
	VISIT_SENT,
	VISIT_NO_WORKER, /* max_worker_processes are in use */
	VISIT_NO_PLACE   /* too many visitors have not left yet */
} VisitSent;

/* What a visitor reports. */
typedef struct VisitAnswer
{
	uint32 word; /* 0: it died, or could not work now */
	uint64 number;
} VisitAnswer;

/*
 * Send a visitor into a database, owned by owner, in which this launcher has
 * none.
 */
extern VisitSent visits_begin(const VisitKind *kind, Oid database, Oid owner);

/*
 * Fetch the answer of a visit that is over, however it ended; false: none is
 * over.
 */
extern bool visits_over(Oid *database_out, VisitAnswer *answer_out);

/* Is a visitor of this launcher in the database? */
extern bool visits_inside(Oid database);

/* Must the launcher wait for a visitor before it sends the next? */
extern bool visits_wait(void);

/*
 * Send a visitor and wait until it is gone, or does not leave when asked; then
 * there is no answer.
 */
extern VisitSent visits_send(const VisitKind *kind, Oid database, Oid owner,
                             VisitAnswer *answer_out);

/* Request memory, once, before any launcher is registered. */
extern void visits_install(void);

/* Register a launcher, connected to no database, with the postmaster. */
extern void visits_register_launcher(const char *name, const char *function);

/* A launcher calls this first. */
extern void visits_launcher_begin(void);

/* Milliseconds by a clock that is never set forward or back. */
extern int64 visits_clock_ms(void);

/* Sleep for this long, or until the latch is set or a visit may be over. */
extern void visits_sleep(int64 wait_ms);

/* Read postgresql.conf again if that was requested; returns whether it was. */
extern bool visits_reload(void);

/* ---- visitors ------------------------------------------------------------ */

/* Leave an answer for the launcher. */
extern void visits_answer(VisitAnswer answer);

/*
 * All that a visitor does: connect to the database, work there, and exit.  Its
 * activity is included in the database's statistics only if counted is true.
 */
extern void visits_work(Oid database, bool counted, void (*work)(void));

#endif
