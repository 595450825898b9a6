/*
 * bridge_memory.c
 *		What hooks share: the cache, advice and accounting in shared memory.
 *
 * Hooks know nothing of PostgreSQL's shared memory (shmem.c), nor when the
 * number of processes becomes known; this file tells them.  The cache starts
 * last and ends first, since its end reads one of the server's files again
 * (bridge_restart.c), and that read is counted.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/buf_internals.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#include "account/account.h"
#include "bridge/bridge.h"
#include "hooks/advice.h"
#include "hooks/uring.h"
#include "server/compat.h"
#include "settings.h"
#include "server/shmem.h"

/* ---- accounting ---------------------------------------------------------- */

StaticAssertDecl(sizeof(BackendType) == sizeof(int),
                 "the accounting reads a backend type as an int");
StaticAssertDecl(COMPAT_BACKEND_TYPES < 64, "backend types are bits of a word");

/* Called once the number of processes is known. */
static void
describe_server(void)
{
	AccountServer server = {
		.backend_type = (const int *) &MyBackendType,
		.parallel_number = &ParallelWorkerNumber,
		.wal_segment_bytes = &wal_segment_size,
		.backend_types = COMPAT_BACKEND_TYPES,
		.many = UINT64CONST(1) << B_BACKEND,
		.relations = (uint32) setting_account_relations,
		.process_number = compat_process_number,
		.leader_number = compat_leader_number,
		.process_count = (uint32) (MaxBackends + NUM_AUXILIARY_PROCS),
	};

	Assert(MaxBackends > 0);
	if (COMPAT_READS_FOR_OTHERS)
		server.read_asked_by = compat_read_asked_by;
	account_want(&server);
}

static void
request_account(void)
{
	if (bridge_redirected())
		describe_server();
}

static void
start_account(void *memory)
{
	account_create(memory, GetCurrentTimestamp());
}

static void
end_account(bool for_good)
{
	account_detach(!for_good);
}

/* ---- reads by io_uring --------------------------------------------------- */

static const void *
buffers(size_t *size_out)
{
	*size_out = (size_t) NBuffers * BLCKSZ;
	return BufferBlocks;
}

/* Called once the number of processes is known. */
static void
request_uring(void)
{
	UringServer server = { .handles = compat_aio_handles(),
		                   .handle_number = compat_aio_handle_number,
		                   .shared_pages = buffers,
		                   .complete = compat_aio_complete() };

	Assert(MaxBackends > 0);
	if (bridge_redirected() && bridge_uses_uring())
		uring_want(&server);
}

static void
end_uring(bool for_good)
{
	(void) for_good;
	uring_detach();
}

/* ---- advice -------------------------------------------------------------- */

static void
end_advice(bool for_good)
{
	(void) for_good;
	advice_detach();
}

/* ---- the cache ----------------------------------------------------------- */

static void
request_cache(void)
{
	compat_request_wait_event(BRIDGE_WAIT_EVENT);
}

/* 0 if it could not be opened before a crash. */
static size_t
cache_size_bytes(void)
{
	return bridge_wanted() ? bridge_memory_size() : 0;
}

static void
start_cache(void *memory)
{
	bridge_create(memory, compat_wait_event(BRIDGE_WAIT_EVENT));
}

static void
end_cache(bool for_good)
{
	/*
	 * for_good is also false when a postmaster ends because it cannot continue.
	 */
	if (for_good || proc_exit_inprogress)
		bridge_end(for_good); /* may unmap the memory */
	else
		bridge_keep_mode();
	bridge_detach();
}

void
bridge_memory_install(void)
{
	static const SharedPart account = { .name = "pgflash account",
		                                .request = request_account,
		                                .size_bytes = account_memory_size,
		                                .start = start_account,
		                                .end = end_account };
	static const SharedPart advice = { .name = "pgflash advice",
		                               .size_bytes = advice_memory_size,
		                               .start = advice_create,
		                               .end = end_advice };
	static const SharedPart uring = { .name = "pgflash io_uring",
		                              .request = request_uring,
		                              .size_bytes = uring_memory_size,
		                              .start = uring_create,
		                              .end = end_uring };
	static const SharedPart cache = { .name = "pgflash",
		                              .request = request_cache,
		                              .size_bytes = cache_size_bytes,
		                              .start = start_cache,
		                              .end = end_cache };

	Assert(bridge_redirected());
	shmem_add(&account);
	shmem_add(&advice);
	shmem_add(&uring);
	shmem_add(&cache);
}
