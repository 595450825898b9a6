/*
 * rights.c
 *		The rights and settings for our own work.
 *
 * A background worker starts as the bootstrap superuser, and should run no code
 * but ours.  If a view of ours nevertheless called another user's function,
 * that must not run with these rights.  So
 *	- work that only reads (views, functions, statistics) is done as pg_monitor;
 *	- work that writes our tables is done as the owner of the extension, who
 *	  owns the tables and what depends on them, and may no longer be a
 *	  superuser;
 *	- all of it is a security-restricted operation, like an index build: code
 *	  that runs in it cannot change to another role.
 *
 * Of the triggers on our tables only our own fires (replicated.c):
 * session_replication_role is replica.  A user who was granted all rights on
 * all tables of a schema could create others, but only the tables' owner can
 * have them fire nevertheless.
 *
 * The owner of a database may set parameters for it (ALTER DATABASE ... SET),
 * which apply to a worker as to any session.  Those that would make its work
 * fail or wait are reset.  A role set in this way does not matter, since the
 * worker chooses its own.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "broken.h"
#include "server/rights.h"

static const char *const settings[][2] = {
	{ "search_path", "pg_catalog, pg_temp" },
	{ "pgflash.restrict_objects", FC_BROKEN(TRIGGERS) ? "off" : "on" },
	{ "default_transaction_isolation", "read committed" },
	{ "default_transaction_read_only", "off" },
	{ "default_transaction_deferrable", "off" },
	{ "statement_timeout", "0" },
	{ "transaction_timeout", "0" }, /* since 17 */
	{ "row_security", "on" },
	/* Since 17, and minor releases of 15 and 16. */
	{ "restrict_nonsystem_relation_kind", "" },
	{ "session_replication_role", FC_BROKEN(TRIGGERS) ? "origin" : "replica" },
};

static Rights
become(Oid user)
{
	Rights before;

	Assert(IsTransactionState() && OidIsValid(user));
	GetUserIdAndSecContext(&before.user, &before.context);
	if (!FC_BROKEN(RIGHTS))
		SetUserIdAndSecContext(user, before.context |
		                                 SECURITY_LOCAL_USERID_CHANGE |
		                                 SECURITY_RESTRICTED_OPERATION);
	return before;
}

Rights
rights_as_owner(Oid owner)
{
	return become(owner);
}

Rights
rights_as_monitor(void)
{
	return become(ROLE_PG_MONITOR);
}

Rights
rights_as_now(void)
{
	return become(GetUserId());
}

void
rights_back(Rights before)
{
	Assert(IsTransactionState() && OidIsValid(before.user));
	Assert(InSecurityRestrictedOperation() || FC_BROKEN(RIGHTS));
	SetUserIdAndSecContext(before.user, before.context);
}

void
rights_settle(void)
{
	Assert(OidIsValid(MyDatabaseId));
	for (Size i = 0; i < lengthof(settings) && !FC_BROKEN(SETTINGS); i++)
	{
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
			                PGC_S_OVERRIDE);
	}
}
