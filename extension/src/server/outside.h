/*
 * outside.h
 *		What can be known of a database without going into it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_OUTSIDE_H
#define PGFLASH_OUTSIDE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* A database that can be connected to. */
typedef struct ListedDatabase
{
	Oid oid;
	Oid owner;
	Oid tablespace;
	bool is_template;
	NameData name;
} ListedDatabase;

/*
 * All of them, by OID; in a transaction with a snapshot.  False: somebody has locked
 * the list.
 */
extern bool outside_databases(List **databases_out);

/* Is the extension there? */
typedef enum Outside
{
	OUTSIDE_UNKNOWN, /* it cannot be told now */
	OUTSIDE_STRANGER,
	OUTSIDE_THERE
} Outside;

/*
 * Waits for no lock, and fails for no reason; not in a transaction.  *owner_out: whose
 * database it is, if it is there.
 */
extern Outside outside_look(Oid database, Oid *owner_out);

#endif
