/*
 * shmem.c
 *		Our piece of PostgreSQL's shared memory.
 *
 * Asked for before it is laid out (shmem_request_hook), filled when it is there
 * (shmem_startup_hook).  When a child crashes the postmaster gives the memory back
 * and makes it anew, and we begin with an empty cache again: what the dying
 * processes left undone is nobody's worry then.  Either way the memory is fresh
 * from the operating system (mmap or shmget) and never handed out twice, so it is
 * all zeros, which is what core wants of it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "account.h"
#include "advice.h"
#include "bridge.h"
#include "compat.h"
#include "module.h"

static shmem_request_hook_type previous_request_hook;
static shmem_startup_hook_type previous_startup_hook;

static void
request(void)
{
	if (previous_request_hook)
		previous_request_hook();

	if (bridge_wanted())
		RequestAddinShmemSpace(bridge_memory_size());
	RequestAddinShmemSpace(advice_memory_size());
	if (bridge_redirected())
		account_setup();
	RequestAddinShmemSpace(account_memory_size());
	compat_request_wait_event(BRIDGE_WAIT_EVENT);
}

/* The memory goes away before the next file call of the postmaster. */
static void
detach(int code, Datum argument)
{
	(void) argument;
	if (code == 0)
		bridge_end();
	bridge_detach();
	advice_detach();

	/* Not the end: the memory will be made anew, after a crash of a process. */
	account_detach(code != 0);
}

/* Memory of this name; NULL if it is there already, or not wanted. */
static void *
memory_of(const char *name, size_t size)
{
	void *memory = NULL;
	bool found = true;

	if (size > 0)
	{
		LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
		memory = ShmemInitStruct(name, size, &found);
		LWLockRelease(AddinShmemInitLock);
	}

	/* Found only where children are started another way than by fork. */
	return found ? NULL : memory;
}

static void
startup(void)
{
	void *cache;
	void *advice;
	void *account;

	if (previous_startup_hook)
		previous_startup_hook();

	cache = memory_of("pgflash", bridge_wanted() ? bridge_memory_size() : 0);
	advice = memory_of("pgflash advice", advice_memory_size());
	if (advice != NULL)
		advice_create(advice);
	account = memory_of("pgflash account", account_memory_size());
	if (account != NULL)
		account_create(account, GetCurrentTimestamp());
	if (cache != NULL)
		bridge_create(cache, compat_wait_event(BRIDGE_WAIT_EVENT));
	on_shmem_exit(detach, (Datum) 0);
}

void
shmem_install_hooks(void)
{
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup;
}
