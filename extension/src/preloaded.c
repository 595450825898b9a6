/*
 * preloaded.c
 *		Was the library loaded by shared_preload_libraries?
 *
 * Whoever calls an SQL function of ours loads the library, if the postmaster has not.
 * There are no settings, no shared memory and no redirected file calls then, and the
 * functions have nothing to tell: each begins with preloaded_require().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "preloaded.h"

static bool preloaded = false;

void
preloaded_note(void)
{
	preloaded = true;
}

void
preloaded_require(void)
{
	if (!preloaded)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		     errmsg("pgflash must be loaded by shared_preload_libraries"),
		     errhint("Add pgflash to shared_preload_libraries and restart the "
		             "server.")));
}
