/*
 * visits.h
 *		Processes that go into one database for a moment, and who sends them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_VISITS_H
#define PGFLASH_VISITS_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* A database that can be connected to. */
typedef struct ListedDatabase
{
	Oid oid;
	bool is_template;
	NameData name;
} ListedDatabase;

/* All of them, by OID; in a transaction with a snapshot. */
extern List *visits_databases(void);

/* What somebody goes into databases for. */
typedef struct VisitKind
{
	const char *name; /* of the process; "of database N" is added */
	const char *type;
	const char
		*function; /* of the library; its argument is the database's OID */
} VisitKind;

/*
 * Send a visitor and wait until it is gone, however it went.  False: there was no
 * background worker to be had.
 */
extern bool visits_send(const VisitKind *kind, Oid database);

/* What a visitor begins with: it is connected to the database then. */
extern void visits_enter(Oid database);

/* Register a launcher, which is connected to no database, with the postmaster. */
extern void visits_register_launcher(const char *name, const char *function);

/* What a launcher begins with. */
extern void visits_launcher_begin(void);

/* Milliseconds by a clock that nobody sets, forward or back. */
extern int64 visits_clock_ms(void);

/* Sleep so long, or until the latch is set. */
extern void visits_sleep(int64 wait_ms);

/* Read postgresql.conf again if that was asked for; true if so. */
extern bool visits_reload(void);

#endif
