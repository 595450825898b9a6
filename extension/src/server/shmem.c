/*
 * shmem.c
 *		Our parts of PostgreSQL's shared memory.
 *
 * Code that needs shared memory adds a part while the library is being loaded:
 * its size, and what to do with the memory.  The memory is requested before
 * shared memory is laid out (shmem_request_hook) and passed to the part once it
 * exists (shmem_startup_hook), both in the postmaster; children inherit the
 * result.
 *
 * When a child crashes, the postmaster releases the memory and creates it
 * again, and the parts start again.  So it does not matter what dying processes
 * left undone.  In either case the memory is fresh from the operating system
 * (mmap or shmget) and never handed out twice.  So it is all zeros, as core
 * requires.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "server/shmem.h"

static shmem_request_hook_type previous_request_hook;
static shmem_startup_hook_type previous_startup_hook;

/* More than the library has. */
#define PARTS_MAX 24

static const SharedPart *parts[PARTS_MAX];
static int part_count;

/*
 * If the postmaster has not loaded the library, a call of one of our SQL
 * functions does.
 */
static bool preloaded;

void
shmem_require_preloaded(void)
{
	if (!preloaded)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		     errmsg("pgflash must be loaded by shared_preload_libraries"),
		     errhint("Add pgflash to shared_preload_libraries and restart the "
		             "server.")));
}

void
shmem_add(const SharedPart *part)
{
	Assert(preloaded && part->name != NULL && part->start != NULL);
	if (part_count == PARTS_MAX)
		elog(ERROR, "too many parts of shared memory");
	parts[part_count++] = part;
}

static void
request(void)
{
	if (previous_request_hook)
		previous_request_hook();

	for (int i = 0; i < part_count; i++)
	{
		if (parts[i]->request != NULL)
			parts[i]->request();
		RequestAddinShmemSpace(parts[i]->size_bytes());
	}
}

/* NULL if the memory is not wanted, or already exists. */
static void *
memory_of(const SharedPart *part)
{
	size_t size_bytes = part->size_bytes();
	void *memory = NULL;
	bool found = true;

	if (size_bytes > 0)
	{
		LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
		memory = ShmemInitStruct(part->name, size_bytes, &found);
		LWLockRelease(AddinShmemInitLock);
	}

	/* It is found only where children are not started by fork. */
	return found ? NULL : memory;
}

static void
end(int code, Datum argument)
{
	(void) argument;
	for (int i = part_count - 1; i >= 0; i--)
	{
		if (parts[i]->end != NULL)
			parts[i]->end(code == 0);
	}
}

static void
startup(void)
{
	Assert(!IsUnderPostmaster);
	if (previous_startup_hook)
		previous_startup_hook();

	for (int i = 0; i < part_count; i++)
	{
		void *memory = memory_of(parts[i]);

		if (memory != NULL)
			parts[i]->start(memory);
	}
	on_shmem_exit(end, (Datum) 0);
}

void
shmem_install(void)
{
	Assert(process_shared_preload_libraries_in_progress && !preloaded);
	preloaded = true;
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup;
}
