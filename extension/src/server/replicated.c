/*
 * replicated.c
 *		Rows of our tables that another server's logical replication brings.
 *
 * A publication FOR ALL TABLES includes the tables of extensions.  What they
 * hold is about the server that wrote it.  Applied to the same tables of a
 * subscriber, it would at best be wrong, and at worst have a key that is there
 * already: then the subscription stops, with all its tables.  So a trigger
 * ignores it.  Physical replication knows no triggers: standbys get all.
 *
 * The trigger is one that fires when session_replication_role is replica, as in
 * a process that applies changes.  It is so in our own writers, too (rights.c),
 * so it asks which of both this process is.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"
#include "replication/logicalworker.h"

#include "broken.h"

PG_FUNCTION_INFO_V1(pgflash_ignore_replicated);

Datum
pgflash_ignore_replicated(PG_FUNCTION_ARGS)
{
	TriggerData *call = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(call->tg_event) ||
	    !TRIGGER_FIRED_FOR_ROW(call->tg_event))
		ereport(ERROR,
		        (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
		         errmsg("function \"%s\" must be called BEFORE each row, by a "
		                "trigger",
		                "pgflash_ignore_replicated")));
	if (IsLogicalWorker() && !FC_BROKEN(REPLICATED))
		PG_RETURN_POINTER(NULL);
	PG_RETURN_POINTER(TRIGGER_FIRED_BY_UPDATE(call->tg_event)
	                      ? call->tg_newtuple
	                      : call->tg_trigtuple);
}
