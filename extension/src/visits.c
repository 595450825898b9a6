/*
 * visits.c
 *		Processes that go into one database for a moment, and who sends them.
 *
 * A process can be connected to one database in its life, and while it is, that
 * database can be neither dropped nor copied.  So what has to be done in databases is
 * done by two kinds of process: a launcher is connected to none (it reads the list of
 * databases, which all share) and sends a visitor into one at a time, which does its
 * work and is gone.  A visit is shorter than the seconds that DROP DATABASE and CREATE
 * DATABASE wait for others to leave.
 *
 * What a visitor has to say goes through shared memory of whoever sent it; a visitor
 * that died said nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <time.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "background.h"
#include "visits.h"

/* pg_database.datconnlimit of a database whose DROP was cut off. */
#define DATABASE_INVALID (-2)

static int
by_oid(const ListCell *left, const ListCell *right)
{
	Oid a = ((const ListedDatabase *) lfirst(left))->oid;
	Oid b = ((const ListedDatabase *) lfirst(right))->oid;

	return a < b ? -1 : a > b;
}

List *
visits_databases(void)
{
	List *list = NIL;
	Relation databases = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(databases, 0, NULL);
	HeapTuple tuple;

	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		ListedDatabase *listed;

		/* One that is half dropped has a limit of connections of its own. */
		if (!form->datallowconn || form->datconnlimit == DATABASE_INVALID)
			continue;
		listed = palloc(sizeof(ListedDatabase));
		listed->oid = form->oid;
		listed->is_template = form->datistemplate;
		listed->name = form->datname;
		list = lappend(list, listed);
	}
	table_endscan(scan);
	table_close(databases, AccessShareLock);
	list_sort(list, by_oid);
	return list;
}

bool
visits_send(const VisitKind *kind, Oid database)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;

	background_describe(&worker, kind->type, kind->function);
	snprintf(worker.bgw_name, BGW_MAXLEN, "%s of database %u", kind->name,
	         database);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	worker.bgw_notify_pid = MyProcPid;

	/* All of max_worker_processes are in use: another time. */
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		return false;
	if (WaitForBackgroundWorkerShutdown(handle) == BGWH_POSTMASTER_DIED)
		proc_exit(1);
	pfree(handle);
	return true;
}

void
visits_enter(Oid database)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
}

void
visits_register_launcher(const char *name, const char *function)
{
	BackgroundWorker worker;

	background_describe(&worker, name, function);
	worker.bgw_flags |= BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 5;
	background_submit(&worker);
}

void
visits_launcher_begin(void)
{
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
}

int64
visits_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void
visits_sleep(int64 wait_ms)
{
	/* Waiting for a visitor takes the latch's wake-ups, but not what they are about. */
	if (ShutdownRequestPending || ConfigReloadPending)
		return;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
	                 (long) Max(wait_ms, 0), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

bool
visits_reload(void)
{
	if (!ConfigReloadPending)
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}
