/*
 * rights.h
 *		With whose rights our own work is done, and with which settings.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_RIGHTS_H
#define PGFLASH_RIGHTS_H

#include "postgres.h"

/* What rights_back() gives back; an error does, too. */
typedef struct Rights
{
	Oid user;
	int context;
} Rights;

/*
 * From here on as the owner of the extension, as pg_monitor, or as whoever it is: none
 * of them can become somebody else.  In a transaction, and back before its end.
 */
extern Rights rights_as_owner(Oid owner);
extern Rights rights_as_monitor(void);
extern Rights rights_as_now(void);
extern void rights_back(Rights before);

/* A background worker's settings, once it is connected to a database. */
extern void rights_settle(void);

#endif
