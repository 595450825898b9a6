/*
 * rights.h
 *		The rights and settings for our own work.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_RIGHTS_H
#define PGFLASH_RIGHTS_H

#include "postgres.h"

/* What rights_back() restores; so does an error. */
typedef struct Rights
{
	Oid user;
	int context;
} Rights;

/*
 * Continue as the owner of the extension, as pg_monitor, or as the current
 * user; none of them can then become another role.  Call it in a transaction,
 * and rights_back() before its end.
 */
extern Rights rights_as_owner(Oid owner);
extern Rights rights_as_monitor(void);
extern Rights rights_as_now(void);
extern void rights_back(Rights before);

/* Set a background worker's settings, once it is connected to a database. */
extern void rights_settle(void);

#endif
