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

	RequestAddinShmemSpace(bridge_memory_size());
	compat_request_wait_event(BRIDGE_WAIT_EVENT);
}

/* The memory goes away before the next file call of the postmaster. */
static void
detach(int code, Datum argument)
{
	(void) code;
	(void) argument;
	bridge_detach();
}

static void
startup(void)
{
	void *memory;
	bool found;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	memory = ShmemInitStruct("pgflash", bridge_memory_size(), &found);
	LWLockRelease(AddinShmemInitLock);

	/* Only where children are started another way than by fork. */
	if (found)
		return;

	bridge_create(memory, compat_wait_event(BRIDGE_WAIT_EVENT));
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
