/*
 * compat.h
 *		The differences between PostgreSQL 15, 16, 17, 18 and 19.
 *
 * The only file that may test PG_VERSION_NUM.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_COMPAT_H
#define PGFLASH_COMPAT_H

#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/backend_status.h"
#include "utils/tuplestore.h" /* funcapi.h has it until 18 */
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "pgflash is made for PostgreSQL 15 to 19"
#endif

#define COMPAT_MAJOR (PG_VERSION_NUM / 10000)

/* What a hook of the parser is given. */
#if PG_VERSION_NUM >= 190000
#define COMPAT_JUMBLE const struct JumbleState
#else
#define COMPAT_JUMBLE struct JumbleState
#endif

/* A part of a query that earlier versions reject. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_SINCE_18(text) text
#else
#define COMPAT_SINCE_18(text) ""
#endif

/* Relation files were renamed in 16. */
#if PG_VERSION_NUM >= 160000
#include "utils/relfilenumbermap.h"
#define compat_relation_of_file(tablespace, number)                            \
	RelidByRelfilenumber(tablespace, number)
#else
#include "utils/relfilenodemap.h"
#define compat_relation_of_file(tablespace, number)                            \
	RelidByRelfilenode(tablespace, number)
#endif

/* So was their identity: tablespace, database and number. */
#include "storage/buf_internals.h"
#include "storage/smgr.h"
#include "utils/relmapper.h"
#if PG_VERSION_NUM >= 160000
typedef RelFileLocator CompatFile;
#define COMPAT_FILE_OF(relation)     ((relation)->rd_locator)
#define COMPAT_FILE_TABLESPACE(file) ((file).spcOid)
#define COMPAT_FILE_DATABASE(file)   ((file).dbOid)
#define COMPAT_FILE_NUMBER(file)     ((file).relNumber)
#define compat_mapped_file(path, relation)                                     \
	RelationMapOidToFilenumberForDatabase(path, relation)
#else
typedef RelFileNode CompatFile;
#define COMPAT_FILE_OF(relation)     ((relation)->rd_node)
#define COMPAT_FILE_TABLESPACE(file) ((file).spcNode)
#define COMPAT_FILE_DATABASE(file)   ((file).dbNode)
#define COMPAT_FILE_NUMBER(file)     ((file).relNode)
#define compat_mapped_file(path, relation)                                     \
	RelationMapOidToFilenodeForDatabase(path, relation)
#endif

static inline CompatFile
compat_file(Oid tablespace, Oid database, Oid number)
{
#if PG_VERSION_NUM >= 160000
	return (CompatFile){ .spcOid = tablespace,
		                 .dbOid = database,
		                 .relNumber = number };
#else
	return (CompatFile){ .spcNode = tablespace,
		                 .dbNode = database,
		                 .relNode = number };
#endif
}

/* Only for permanent relations, not for temporary ones. */
static inline SMgrRelation
compat_smgr(CompatFile file)
{
#if PG_VERSION_NUM >= 170000
	return smgropen(file, INVALID_PROC_NUMBER);
#else
	return smgropen(file, InvalidBackendId);
#endif
}

/* A page aligned as the kernel requires for reads. */
#if PG_VERSION_NUM >= 160000
#define COMPAT_IO_ALIGN PG_IO_ALIGN_SIZE
typedef PGIOAlignedBlock CompatPage;
#else
#define COMPAT_IO_ALIGN 4096
typedef PGAlignedBlock CompatPage;
#endif

/*
 * The shared buffer that has the block, until another process evicts it; or
 * InvalidBuffer.
 */
static inline Buffer
compat_buffer_of(CompatFile file, BlockNumber block)
{
	BufferTag tag;
	uint32 hash;
	int found;

#if PG_VERSION_NUM >= 160000
	InitBufferTag(&tag, &file, MAIN_FORKNUM, block);
#else
	INIT_BUFFERTAG(tag, file, MAIN_FORKNUM, block);
#endif
	hash = BufTableHashCode(&tag);
	LWLockAcquire(BufMappingPartitionLock(hash), LW_SHARED);
	found = BufTableLookup(&tag, hash);
	LWLockRelease(BufMappingPartitionLock(hash));
	return found < 0 ? InvalidBuffer : found + 1;
}

/* So was the check whether a role owns a relation. */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_class.h"
#define compat_relation_ownercheck(relation, role)                             \
	object_ownercheck(RelationRelationId, relation, role)
#else
#define compat_relation_ownercheck(relation, role)                             \
	pg_class_ownercheck(relation, role)
#endif

/*
 * Walk the locks that a process holds or waits for in one of the lock manager's
 * partitions, whose lock the caller holds: the first, or NULL, and the next.
 */
#if PG_VERSION_NUM >= 160000
static inline const PROCLOCK *
compat_first_lock(const PGPROC *proc, int partition)
{
	const dlist_node *head = &proc->myProcLocks[partition].head;

	/* A list that was never used is all zeros. */
	return head->next == NULL || head->next == head
	           ? NULL
	           : dlist_container(PROCLOCK, procLink, head->next);
}

static inline const PROCLOCK *
compat_next_lock(const PGPROC *proc, int partition, const PROCLOCK *lock)
{
	dlist_node *next = lock->procLink.next;

	return next == &proc->myProcLocks[partition].head
	           ? NULL
	           : dlist_container(PROCLOCK, procLink, next);
}
#else
static inline const PROCLOCK *
compat_first_lock(const PGPROC *proc, int partition)
{
	const SHM_QUEUE *queue = &proc->myProcLocks[partition];

	return queue->next == NULL
	           ? NULL
	           : (const PROCLOCK *) SHMQueueNext(queue, queue,
	                                             offsetof(PROCLOCK, procLink));
}

static inline const PROCLOCK *
compat_next_lock(const PGPROC *proc, int partition, const PROCLOCK *lock)
{
	return (const PROCLOCK *) SHMQueueNext(&proc->myProcLocks[partition],
	                                       &lock->procLink,
	                                       offsetof(PROCLOCK, procLink));
}
#endif

/*
 * Is a background worker of this name registered?  For the postmaster, whose
 * list differs in 18.
 */
static inline bool
compat_worker_listed(const char *name)
{
#if PG_VERSION_NUM >= 180000
	dlist_iter at;

	dlist_foreach (at, &BackgroundWorkerList)
	{
		RegisteredBgWorker *one =
			dlist_container(RegisteredBgWorker, rw_lnode, at.cur);
#else
	slist_iter at;

	slist_foreach(at, &BackgroundWorkerList)
	{
		RegisteredBgWorker *one =
			slist_container(RegisteredBgWorker, rw_lnode, at.cur);
#endif
		if (strcmp(one->rw_worker.bgw_name, name) == 0)
			return true;
	}
	return false;
}

/* 15 has no name for this number. */
#ifdef BACKEND_NUM_TYPES
#define COMPAT_BACKEND_TYPES BACKEND_NUM_TYPES
#else
#define COMPAT_BACKEND_TYPES (B_LOGGER + 1)
#endif

/*
 * The number of this process, and that of a parallel worker's leader; at most
 * MaxBackends for processes that can have a leader.
 */
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#define compat_process_number (&MyProcNumber)
#define compat_leader_number  (&ParallelLeaderProcNumber)
#else
#include "storage/backendid.h"
#define compat_process_number (&MyBackendId)
#define compat_leader_number  (&ParallelLeaderBackendId)
#endif

typedef void CompatAioEnd(uint64 user_data, int result,
                          void (*claim)(uint64 user_data));

/*
 * Since 18 an I/O worker may read for another process.  The handle that it is
 * working on tells which one; it is in the worker's error context
 * (IoWorkerMain).  We check that it is a handle, and for this descriptor;
 * nothing is locked.
 */
#if PG_VERSION_NUM >= 180000
#include "storage/aio_internal.h"

#define COMPAT_READS_FOR_OTHERS true

/* The data of an io_uring entry is the address of its handle. */
static inline int64
compat_aio_handle_number(uint64 user_data)
{
	uintptr_t handles;

	if (pgaio_ctl == NULL)
		return -1;
	handles = (uintptr_t) pgaio_ctl->io_handles;
	if (user_data < handles ||
	    (user_data - handles) % sizeof(PgAioHandle) != 0 ||
	    (user_data - handles) / sizeof(PgAioHandle) >=
	        pgaio_ctl->io_handle_count)
		return -1;
	return (int64) ((user_data - handles) / sizeof(PgAioHandle));
}

/*
 * Do what the server does when it reaps an entry's completion, under the lock
 * on its ring: io_uring_wait_cqes() is called under that lock, and its caller
 * then examines the handle again.  This is true of 18 and 19.
 */
#if PG_VERSION_NUM < 200000
#pragma weak pgaio_io_process_completion

static inline void
compat_aio_end(uint64 user_data, int result, void (*claim)(uint64 user_data))
{
	PgAioHandle *handle = (PgAioHandle *) (uintptr_t) user_data;

	/* From here on, a handler that ends this process restarts the server. */
	START_CRIT_SECTION();
	claim(user_data);
	if (handle->state == PGAIO_HS_SUBMITTED)
		pgaio_io_process_completion(handle, result);
	END_CRIT_SECTION();
}

static inline CompatAioEnd *
compat_aio_complete(void)
{
	return pgaio_io_process_completion != NULL ? compat_aio_end : NULL;
}
#else
static inline CompatAioEnd *
compat_aio_complete(void)
{
	return NULL;
}
#endif

static inline int
compat_read_asked_by(int fd)
{
	const ErrorContextCallback *context = error_context_stack;
	const PgAioHandle *handle;

	if (MyBackendType != B_IO_WORKER || context == NULL ||
	    compat_aio_handle_number((uintptr_t) context->arg) < 0)
		return -1;
	handle = context->arg;
	return handle->op_data.read.fd == fd ? handle->owner_procno : -1;
}

/*
 * The number of handles for asynchronous reads: io_max_concurrency for each
 * process.  If that is unset, the server chooses at most 64
 * (AioChooseMaxConcurrency).
 */
static inline uint32
compat_aio_handles(void)
{
	int each = io_max_concurrency > 0 ? io_max_concurrency : 64;

	return (uint32) (MaxBackends + NUM_AUXILIARY_PROCS) * (uint32) each;
}
#else
#define COMPAT_READS_FOR_OTHERS false

static inline int
compat_read_asked_by(int fd)
{
	(void) fd;
	return -1;
}

static inline uint32
compat_aio_handles(void)
{
	return 0;
}

static inline int64
compat_aio_handle_number(uint64 user_data)
{
	(void) user_data;
	return -1;
}

static inline CompatAioEnd *
compat_aio_complete(void)
{
	return NULL;
}
#endif

/*
 * An extension's own wait event.  Since 17 it can have one by name; in earlier
 * versions a tranche of lightweight locks is used instead, which must be
 * requested in advance.
 */
static inline void
compat_request_wait_event(const char *name)
{
#if PG_VERSION_NUM < 170000
	RequestNamedLWLockTranche(name, 1);
#else
	(void) name;
#endif
}

#if PG_VERSION_NUM < 170000
#define COMPAT_WAIT_TYPE_OF_EXTENSIONS "LWLock"
#else
#define COMPAT_WAIT_TYPE_OF_EXTENSIONS "Extension"
#endif

static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM < 170000
	return PG_WAIT_LWLOCK | GetNamedLWLockTranche(name)->lock.tranche;
#else
	return WaitEventExtensionNew(name);
#endif
}

/*
 * What sessions are doing: an array of PgBackendStatus in shared memory.  Since
 * 17 it is in the order of the array of PGPROCs.  In earlier versions a session
 * has another number there, and the auxiliary processes come last, by kind.
 */
#if PG_VERSION_NUM >= 170000
#define COMPAT_STATUS_SLOTS (MaxBackends + NUM_AUXILIARY_PROCS)
#else
#define COMPAT_STATUS_SLOTS (MaxBackends + NUM_AUXPROCTYPES)
#endif

static inline volatile PgBackendStatus *
compat_status_of(PgBackendStatus *array, uint32 place, const PGPROC *proc)
{
#if PG_VERSION_NUM >= 170000
	(void) proc;
	return &array[place];
#else
	int number = proc->backendId;

	if (number > 0 && number <= MaxBackends)
		return &array[number - 1];
	if (place < (uint32) MaxBackends)
		return NULL;
	for (int i = MaxBackends; i < COMPAT_STATUS_SLOTS; i++)
	{
		if (array[i].st_procpid == proc->pid)
			return &array[i];
	}
	return NULL;
#endif
}

/* A state that 18 introduced: a session that is still connecting. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_STATE_STARTING STATE_STARTING
#else
#define COMPAT_STATE_STARTING 255
#endif

#if PG_VERSION_NUM >= 190000
#define COMPAT_WAIT_BUFFER PG_WAIT_BUFFER
#elif PG_VERSION_NUM >= 170000
#define COMPAT_WAIT_BUFFER PG_WAIT_BUFFERPIN
#else
#define COMPAT_WAIT_BUFFER PG_WAIT_BUFFER_PIN
#endif

/* The parameters of the executor's and planner's hooks. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_RUN_PARAMETERS                                                  \
	QueryDesc *query, ScanDirection direction, uint64 count
#define COMPAT_RUN_ARGUMENTS query, direction, count
#else
#define COMPAT_RUN_PARAMETERS                                                  \
	QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define COMPAT_RUN_ARGUMENTS query, direction, count, once
#endif

#if PG_VERSION_NUM >= 190000
#define COMPAT_PLAN_PARAMETERS                                                 \
	Query *query, const char *text, int options, ParamListInfo parameters,     \
		struct ExplainState *explain
#define COMPAT_PLAN_ARGUMENTS query, text, options, parameters, explain
#else
#define COMPAT_PLAN_PARAMETERS                                                 \
	Query *query, const char *text, int options, ParamListInfo parameters
#define COMPAT_PLAN_ARGUMENTS query, text, options, parameters
#endif

/* Options of EXPLAIN that extensions add, since 18. */
#if PG_VERSION_NUM >= 180000
#define COMPAT_EXPLAIN_OPTIONS 1
#else
#define COMPAT_EXPLAIN_OPTIONS 0
#endif

#if PG_VERSION_NUM >= 190000
#define COMPAT_EXPLAIN_BOOLEAN , GUCCheckBooleanExplainOption
#else
#define COMPAT_EXPLAIN_BOOLEAN
#endif

/* The arguments for calling another signal handler: 19 adds the sender. */
#if PG_VERSION_NUM >= 190000
#define COMPAT_SIGNAL         postgres_signal_arg, pg_siginfo
#define COMPAT_SIGNAL_IGNORED PG_SIG_IGN
#else
#define COMPAT_SIGNAL         postgres_signal_arg
#define COMPAT_SIGNAL_IGNORED SIG_IGN
#endif

/* A logical walsender with nothing to send. */
#if PG_VERSION_NUM >= 170000
#define COMPAT_WAIT_EVENT_NO_WAL WAIT_EVENT_WAL_SENDER_WAIT_FOR_WAL
#else
#define COMPAT_WAIT_EVENT_NO_WAL WAIT_EVENT_WAL_SENDER_WAIT_WAL
#endif

#endif
