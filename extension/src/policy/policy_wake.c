/*
 * policy_wake.c
 *		Wakes the launcher when policies, or files with one, may have changed.
 *
 * The launcher (policy_worker.c) sleeps most of the time.  A session that
 * commits a change that may have moved files stores the database's OID here and
 * wakes the launcher.  This uses words of shared memory that are changed one by
 * one, without a lock, since a commit must neither wait nor fail.  A
 * superfluous wake-up costs a visit.
 *
 * Memory orders: a session stores a word, then, after a full barrier, reads the
 * launcher's number.  The launcher stores its number, then, after a full
 * barrier, takes words.  So one of the two sees the other.
 *
 * While no database has a policy, the launcher need not be woken.  That is
 * known once all databases have been visited, and ends for good with the first
 * policy.
 *
 * Without a cache this memory does not exist, and no function here has any
 * effect.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"

#include "policy/relation_policy.h"
#include "server/shmem.h"

/*
 * As many databases can be woken between two looks; if there are more, all are
 * woken.
 */
#define WOKEN_MAX 16

/* Is there a policy in any database? */
typedef enum Need
{
	NEED_UNKNOWN, /* not all were visited since the server's start */
	NEED_NO,
	NEED_YES
} Need;

typedef struct WakeShared
{
	pid_t launcher; /* 0 = none; a superfluous signal does no harm */
	pg_atomic_uint32 round;
	pg_atomic_uint32 need;             /* a Need */
	pg_atomic_uint32 woken[WOKEN_MAX]; /* databases; 0 = free */
	pg_atomic_uint32 woken_all;
	pg_atomic_uint32 list_wanted;
} WakeShared;

static WakeShared *shared;

/* The work of the transaction's commit. */
static struct
{
	bool wake; /* the database's files may have changed */
	bool list; /* the list of databases may have changed */
} pending;

static size_t
shared_size_bytes(void)
{
	return sizeof(WakeShared);
}

static void
start_shared(void *memory)
{
	shared = memory;
	shared->launcher = 0;
	pg_atomic_init_u32(&shared->round, 0);
	pg_atomic_init_u32(&shared->need, NEED_UNKNOWN);
	for (int i = 0; i < WOKEN_MAX; i++)
		pg_atomic_init_u32(&shared->woken[i], 0);
	pg_atomic_init_u32(&shared->woken_all, 0);
	pg_atomic_init_u32(&shared->list_wanted, 0);
}

void
policy_wake_install(void)
{
	static const SharedPart part = { .name = "pgflash policy wake-ups",
		                             .size_bytes = shared_size_bytes,
		                             .start = start_shared };

	shmem_add(&part);
}

/* ---- processes that change something ------------------------------------- */

uint32_t
policy_round(void)
{
	return shared == NULL ? 0 : pg_atomic_add_fetch_u32(&shared->round, 1);
}

/*
 * Read after the commit, without a barrier: the commit's locks are full
 * barriers, as are policy_need() and the commit of the session that calls it.
 * So either we see the need, or the visit that follows it sees what we
 * committed.
 */
bool
policy_needed(void)
{
	return shared != NULL && pg_atomic_read_u32(&shared->need) != NEED_NO;
}

void
policy_need(void)
{
	if (shared != NULL)
		(void) pg_atomic_exchange_u32(&shared->need, NEED_YES);
}

static void
note_woken(Oid database)
{
	Assert(OidIsValid(database)); /* 0: the place is free */
	for (int i = 0; i < WOKEN_MAX; i++)
	{
		uint32 seen = 0;

		if (pg_atomic_compare_exchange_u32(&shared->woken[i], &seen,
		                                   database) ||
		    seen == database)
			return;
	}
	(void) pg_atomic_exchange_u32(&shared->woken_all, 1);
}

void
policy_wake(Oid database)
{
	if (shared == NULL)
		return;
	if (OidIsValid(database))
		note_woken(database);
	else
		(void) pg_atomic_exchange_u32(&shared->list_wanted, 1);
	if (shared->launcher != 0)
		kill(shared->launcher, SIGUSR1);
}

/* ---- the launcher -------------------------------------------------------- */

static void
forget_launcher(int code, Datum argument)
{
	(void) code;
	(void) argument;
	Assert(shared->launcher == MyProcPid);
	shared->launcher = 0;
}

void
policy_wake_me(void)
{
	Assert(shared != NULL && shared->launcher == 0);
	on_shmem_exit(forget_launcher, (Datum) 0);
	shared->launcher = MyProcPid;
}

bool
policy_list_wanted(void)
{
	Assert(shared->launcher == MyProcPid);
	return pg_atomic_exchange_u32(&shared->list_wanted, 0) != 0;
}

bool
policy_take_woken(void (*wake)(Oid database))
{
	Assert(shared->launcher == MyProcPid);
	for (int i = 0; i < WOKEN_MAX; i++)
	{
		Oid database = pg_atomic_exchange_u32(&shared->woken[i], 0);

		if (OidIsValid(database))
			wake(database);
	}
	return pg_atomic_exchange_u32(&shared->woken_all, 0) != 0;
}

bool
policy_need_not(void)
{
	uint32 unknown = NEED_UNKNOWN;

	Assert(shared->launcher == MyProcPid);
	return pg_atomic_compare_exchange_u32(&shared->need, &unknown, NEED_NO);
}

/* ---- the transaction ----------------------------------------------------- */

void
policy_wake_at_commit(bool list)
{
	pending.wake = true;
	pending.list |= list;
}

void
policy_wake_committed(void)
{
	if (pending.wake && (pending.list || policy_needed()))
		policy_wake(MyDatabaseId);
	if (pending.list)
		policy_wake(InvalidOid);
	policy_wake_aborted();
}

void
policy_wake_aborted(void)
{
	pending.wake = pending.list = false;
}
