/*
 * module.c
 *		Start reading here: how the extension is put together.
 *
 * pgflash extends shared_buffers by a second level on flash, for a PostgreSQL that
 * knows nothing of it.  PostgreSQL has no hook for its storage, so the library
 * points entries of the server executable's own import table at functions of its
 * own (imports.c): when the server calls pread(), it calls us.  All of that
 * happens once, in the postmaster, before any child is forked.
 *
 *	module.c	_PG_init, and the order of everything; nobody calls it
 *	preloaded.c	was all of this in time?
 *	settings.c	pgflash.cache_file, pgflash.cache_size and the others
 *	shmem.c		our parts of shared memory
 *	background.c	what our background workers have in common
 *	bridge.c	where PostgreSQL and core meet
 *	bridge_runtime.c	what hooks have to hand, filled in
 *	bridge_memory.c	what the hooks share: cache, advice, accounting
 *	bridge_words.c	what is said of the cache, in the log and in the views
 *	bridge_views.c	what SQL asks of it
 *	bridge_devices.c	the same for the cache files
 *	bridge_restart.c, bridge_mounts.c	what outlives a restart, and whether it may be used
 *	bridge_resize.c	the size of the cache follows the setting
 *	worker.c	self-test, housekeeping, log
 *	writer.c	what is staged goes to flash
 *	views.c		SQL functions behind the views
 *	advice_view.c	the one behind pgflash_cache_advice
 *	account_setup.c, account_view.c	the accounting's: pgflash_io and its kin
 *	sampler.c, sampler_*.c	what sessions are doing, and its views
 *	wait_views.c	which wait events there are
 *	relation_policy.c, policy_*.c, relation_name.c: keep and none for a relation
 *	snapshot.c, snapshot_*.c: what was counted, kept in tables
 *	visits.c	processes that go into a database for a moment
 *	outside.c	which databases there are, and which have the extension
 *	catalog.c	the extension in a database's catalog
 *	page.c		is this the block that PostgreSQL asked for?
 *	--- up to here PostgreSQL's world; from here on libc and core only ---
 *	imports.c	rewriting the server's import table (objects.c)
 *	libraries.c	... and those of libraries, now and when one is loaded
 *	hooks.c		the functions that stand in for libc's
 *	library_calls.c	those that do so in libraries
 *	reads.c		page cache, then flash, then disk
 *	changes.c	every way a file changes, announced to the cache (announce.c)
 *	names.c		every way a name changes its file, likewise
 *	classes.c	keep and none, as core knows them
 *	files.c		file descriptor -> what the file is
 *	paths.c		path -> what the file is
 *	advice.c	what a cache of another size would bring
 *	account.c, account_writes.c, account_relations.c, account_source.c,
 *	account_sums.c	what every call took
 *	sample_ring.c	what the sampler saw
 *	wait_class.c	what a wait event means to a client
 *	memory_limit.c	how much memory the server may have
 *	runtime.h	what hooks have to hand
 *
 * A hook may run anywhere: in the postmaster, in a critical section, in a signal
 * handler, in a process without shared memory.  So no hook allocates, reports,
 * waits, or takes a lock of PostgreSQL's; what there is to say is said by the
 * worker a second later.
 *
 * One law stands above all: the cache may always answer "miss".  Every failure in
 * here ends with the query reading its block from disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "background.h"
#include "bridge.h"
#include "preloaded.h"
#include "relation_policy.h"
#include "sampler.h"
#include "settings.h"
#include "shmem.h"
#include "snapshot.h"
#include "visits.h"
#include "worker.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

/* What only a cache needs. */
static void
install_cache(void)
{
	worker_register();
	writer_register();
	policy_worker_register();
	policy_commands_install();
	relation_policy_install();
}

void
_PG_init(void)
{
	/* Loaded later, by a function call: too late to see every file call. */
	if (!process_shared_preload_libraries_in_progress)
		return;

	preloaded_note();
	settings_define();
	shmem_install();
	visits_install();
	if (bridge_prepare())
	{
		bridge_memory_install();
		if (bridge_wanted())
			install_cache();
	}

	/* Last: where max_worker_processes are too few, the cache comes first. */
	snapshot_worker_register();
	sampler_install();
	background_install();
}
