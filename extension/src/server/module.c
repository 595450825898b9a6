/*
 * module.c
 *		Start reading here: how the extension is put together.
 *
 * pgflash extends shared_buffers by a second level on flash, for an unmodified
 * PostgreSQL.  PostgreSQL has no hook for its storage, so the library replaces
 * entries of the server executable's own import table by functions of its own
 * (imports.c): when the server calls pread(), it calls us.  This happens once,
 * in the postmaster, before any child is forked.
 *
 * The directories beside this one each have a README: what it is, who may call
 * it, and what it must never do.  They differ in what they include:
 *
 *	libc and core only	hooks/, account/
 *	PostgreSQL			server/, load/, policy/, sampler/, snapshot/,
 *						statement/
 *	both				bridge/
 *
 * A hook may run anywhere: in the postmaster, in a critical section, in a
 * signal handler, in a process without shared memory.  So no hook allocates,
 * reports, waits, or takes a lock of PostgreSQL's; the worker reports for it,
 * within a second.
 *
 * The rule above all others: the cache may always say "miss".  Every failure
 * here ends with the query reading its block from disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "bridge/bridge.h"
#include "load/load.h"
#include "load/load_channel.h"
#include "load/load_list.h"
#include "policy/relation_policy.h"
#include "sampler/sampler.h"
#include "server/background.h"
#include "server/benefit.h"
#include "settings.h"
#include "server/restrict.h"
#include "server/shmem.h"
#include "server/visits.h"
#include "server/worker.h"
#include "snapshot/snapshot.h"
#include "statement/statement.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* Install what only a cache needs. */
static void
install_cache(void)
{
	worker_register();
	bridge_writer_register();
	policy_worker_register();
	policy_commands_install();
	relation_policy_install();
}

void
_PG_init(void)
{
	/*
	 * If a function call loads the library later, earlier file calls were
	 * missed.
	 */
	if (!process_shared_preload_libraries_in_progress)
		return;

	Assert(!IsUnderPostmaster); /* children inherit all of it */
	settings_define();
	shmem_install();
	restrict_install();
	visits_install();
	if (bridge_prepare())
	{
		bridge_memory_install();
		statement_install();
		statement_explain_install();
		benefit_install();
		load_install();
		load_list_install();
		load_channel_install();
		if (bridge_wanted())
			install_cache();
	}

	/*
	 * Registered last: if max_worker_processes is too low, the cache comes
	 * first.
	 */
	snapshot_worker_register();
	sampler_install();
	background_install();
}
