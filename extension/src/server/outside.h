/*
 * outside.h
 *		What can be known about a database without connecting to it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_OUTSIDE_H
#define PGFLASH_OUTSIDE_H

#include "postgres.h"

#include "nodes/pg_list.h"

/* A database that accepts connections. */
typedef struct ListedDatabase
{
	Oid oid;
	Oid owner;
	Oid tablespace;
	bool is_template;
	NameData name;
} ListedDatabase;

/*
 * List all of them, by OID; in a transaction.  False: another session has
 * locked the list.
 */
extern bool outside_databases(List **databases_out);

/* Is the extension installed there? */
typedef enum Outside
{
	OUTSIDE_UNKNOWN, /* it cannot be determined now */
	OUTSIDE_STRANGER,
	OUTSIDE_THERE
} Outside;

/*
 * Waits for no lock and never fails; must not be called in a transaction.
 * *owner_out: the database's owner, if the database exists.
 */
extern Outside outside_look(Oid database, Oid *owner_out);

#endif
