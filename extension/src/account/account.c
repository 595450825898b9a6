/*
 * account.c
 *		Exact accounting of the server's file calls.
 *
 * Each call that passes through the hooks is counted where it happens, in
 * shared memory.  It is counted under backend type, class of file and kind of
 * call (a cell: bytes, time, histogram of times), and for a relation's file
 * also under the relation (account_relations.c).  The time is what the caller
 * waited, from the call to its return.  PostgreSQL has no such counter, and
 * other tools sample waits.
 *
 * A process counts each call at once, so no counts are lost however it ends.
 * If the server recreates its memory after a process has crashed, the
 * postmaster carries the counts over; they are only numbers, and nothing else
 * depends on them.
 *
 * Locking: none.  Additions are relaxed atomics.  A cache line that moves
 * between processors costs more than everything else, so each processor has
 * counters of its own: backend types with many processes have SHARDS blocks of
 * cells, and a relation has a few copies of its counters (account_relations.c).
 * A process looks up its processor once in LOOK_AFTER calls; after a move, it
 * counts a few calls with another processor's counters, which is just as
 * correct.  A reader adds up all of them.  The sums may lag a few calls behind
 * one another, and never decrease.
 *
 * Rows of cells: data files have one for each of the first 31 tablespaces and
 * one for all others, so that counting by tablespace takes no further work and
 * the counts outlive its contents; the other classes of files have one each.
 *
 * Since PostgreSQL 18 a process may read for another one (an I/O worker).  Its
 * reads are counted under the type of the requesting process, and marked, since
 * that process may not have waited for them.  For this, every process keeps its
 * type in shared memory.
 *
 * account_writes.c has the rest of the accounting of writes, account_sums.c the
 * sums, and account_asked.c what was read for a process.
 *
 * Runs in hooks: no allocation, no report, no wait; errno is left alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "account/account_shared.h"
#include "broken.h"
#include "fcache/assert.h"
#include "hooks/runtime.h"

#define SHARDS 16

/* Backend types, parallel workers included. */
#define TYPES_MAX 64

/* The kernel is asked for the source of one read in so many. */
#define TURNS 16

/* A process looks up its type and processor again after this many calls. */
#define LOOK_AFTER 16

AccountMemory account_memory;

static AccountServer server;
static bool wanted;
static uint32_t first_block[TYPES_MAX + 1];

/* Memory that is kept across a crash of a process. */
static void *kept;

/* This process, as last looked up. */
static struct
{
	AccountBlock *block; /* NULL: not looked at */
	int backend_type;
	int parallel_number;
	int process_number;
	int reads_for; /* its own number, or that of its leader */
	unsigned processor;
	unsigned calls;
	unsigned turn; /* starts at a random value */
} own;

/* ---- memory -------------------------------------------------------------- */

static unsigned
shards_of(unsigned type)
{
	bool many = type == server.backend_types || (server.many >> type & 1) != 0;

	FC_ASSERT(type <= server.backend_types);
	return many ? SHARDS : 1;
}

void
account_want(const AccountServer *of)
{
	server = *of;
	if (server.backend_types >= TYPES_MAX)
		return;
	first_block[0] = 0;
	for (unsigned type = 0; type <= server.backend_types; type++)
		first_block[type + 1] = first_block[type] + shards_of(type);
	wanted = true;
}

static size_t
lines(size_t bytes)
{
	size_t line = _Alignof(RelationCounters);

	return (bytes + line - 1) / line * line;
}

/* Lay out the parts from base on, in *memory; returns the total size. */
static size_t
lay_out(AccountMemory *memory, char *base)
{
	size_t size = 0;

	memory->shared = (void *) (base + size);
	size += lines(sizeof(AccountShared));
	memory->process = (void *) (base + size);
	size += lines(server.process_count * sizeof(uint32_t));
	memory->asked = (void *) (base + size);
	size += lines(server.process_count * sizeof(AccountAsked));
	memory->blocks = (void *) (base + size);
	size += lines(first_block[server.backend_types + 1] * sizeof(AccountBlock));
	memory->keys = (void *) (base + size);
	size += lines(server.relations * sizeof(RelationKey));
	memory->relations = (void *) (base + size);
	size += lines((server.relations + (size_t) 1) * sizeof(RelationPlace));
	memory->places = server.relations;
	return size;
}

static size_t
laid_out_size(void)
{
	AccountMemory nowhere;

	return lay_out(&nowhere, NULL);
}

size_t
account_memory_size(void)
{
	return wanted ? laid_out_size() + _Alignof(RelationCounters) : 0;
}

void
account_create(void *memory, int64_t since)
{
	FC_ASSERT(memory != NULL && wanted);
	uintptr_t line = _Alignof(RelationCounters);
	uintptr_t base = ((uintptr_t) memory + line - 1) / line * line;
	AccountMemory fresh;
	size_t size = lay_out(&fresh, (char *) base);

	own.block = NULL;
	if (kept != NULL)
	{
		memcpy((void *) base, kept, size);
		free(kept);
		kept = NULL;
		for (uint32_t i = 0; i < server.process_count; i++)
			atomic_store(&fresh.process[i], 0);
		account_memory = fresh;
		account_relations_tidy();
		return;
	}

	memset((void *) base, 0, sizeof(AccountShared));
	fresh.shared->since = since;
	atomic_store(&fresh.shared->tablespace[0], TABLESPACE_DEFAULT);
	atomic_store(&fresh.shared->tablespace[1], TABLESPACE_GLOBAL);
	account_memory = fresh;
	account_source_begin();
}

void
account_detach(bool keep)
{
	if (keep && account_memory.shared != NULL)
	{
		kept = malloc(laid_out_size());
		if (kept != NULL)
			memcpy(kept, account_memory.shared, laid_out_size());
	}
	account_memory.shared = NULL;
	own.block = NULL;
}

void
account_in_child(void)
{
	own.block = NULL;
	own.turn = (unsigned) getpid();
	account_asked_in_child();
}

bool
account_attached(void)
{
	return account_is_mapped();
}

unsigned
account_wal_segment_bytes(void)
{
	return (unsigned) *server.wal_segment_bytes;
}

unsigned
account_backend_types(void)
{
	return server.backend_types + 1;
}

const AccountBlock *
account_blocks_of(unsigned type, unsigned *count_out)
{
	FC_ASSERT(type <= server.backend_types);
	*count_out = shards_of(type);
	return &account_memory.blocks[first_block[type]];
}

/* ---- where a process counts ---------------------------------------------- */

static unsigned
own_type(void)
{
	if (*server.parallel_number >= 0)
		return server.backend_types;
	return (unsigned) *server.backend_type < server.backend_types
	           ? (unsigned) *server.backend_type
	           : 0;
}

static AccountBlock *
block_of(unsigned type)
{
	unsigned shard = own.processor % shards_of(type);

	FC_ASSERT(type <= server.backend_types);
	return &account_memory.blocks[first_block[type] + shard];
}

/* Where the kernel does not tell, the number of the process serves as well. */
static unsigned
processor(void)
{
	int saved_errno = errno;
	int number = sched_getcpu();

	errno = saved_errno;
	return (unsigned) (number >= 0 ? number : getpid());
}

/*
 * What a process that reads for another one must know about it: its type, and
 * the process for which its reads count, both + 1; 0: nothing is known.
 */
#define KNOWN(type, reads_for)                                                 \
	((uint32_t) (type) + 1 + ((uint32_t) ((reads_for) + 1) << 8))
#define KNOWN_TYPE(known)      ((known) & UINT8_MAX)
#define KNOWN_READS_FOR(known) ((int) ((known) >> 8) - 1)

static void
leave_self(unsigned type)
{
	FC_ASSERT(type <= server.backend_types && type < UINT8_MAX);
	uint32_t known = KNOWN(type, own.reads_for);
	_Atomic uint32_t *at;

	if (own.process_number < 0 ||
	    (uint32_t) own.process_number >= server.process_count)
		return;

	/*
	 * Relaxed: a single number.  If it is seen late, a read is counted for the
	 * type of the process that had this place before.
	 */
	at = &account_memory.process[own.process_number];
	if (atomic_load_explicit(at, memory_order_relaxed) != known)
		atomic_store_explicit(at, known, memory_order_relaxed);
}

/* A process learns its type late, and some change it. */
static __attribute__((noinline)) void
look_at_self(void)
{
	unsigned type = own_type();

	own.backend_type = *server.backend_type;
	own.parallel_number = *server.parallel_number;
	own.process_number = *server.process_number;
	own.reads_for = own.parallel_number < 0 || FC_BROKEN(ACCOUNT_LEADER)
	                    ? own.process_number
	                    : *server.leader_number;
	own.processor = processor();
	own.block = block_of(type);
	leave_self(type);
}

static void
know_self(void)
{
	if (++own.calls % LOOK_AFTER == 0 || own.block == NULL ||
	    own.backend_type != *server.backend_type ||
	    own.parallel_number != *server.parallel_number ||
	    own.process_number != *server.process_number)
		look_at_self();
}

static AccountAsked *
place_of(int process)
{
	return process >= 0 && (uint32_t) process < server.process_count
	           ? &account_memory.asked[process]
	           : NULL;
}

/* Of this process, or NULL. */
static const AccountAsked *
own_place(void)
{
	if (!account_attached())
		return NULL;
	if (own.block == NULL || own.process_number != *server.process_number ||
	    own.parallel_number != *server.parallel_number)
		look_at_self();
	return place_of(own.reads_for);
}

bool
account_asked_since(uint64_t *calls)
{
	uint64_t before = *calls;

	if (account_attached())
		*calls = account_asked_calls(own_place());
	return *calls != before;
}

void
account_asked(AccountReads *out)
{
	FC_ASSERT(out != NULL);
	account_asked_sum(own_place(), out);
}

/*
 * The block of the process that requested the read, if that is another process,
 * and the process for which the read counts.
 */
static AccountBlock *
block_of_requester(int fd, int *reads_for_out)
{
	int requester =
		server.read_asked_by == NULL ? -1 : server.read_asked_by(fd);
	uint32_t known;

	*reads_for_out = own.reads_for;
	if (requester < 0 || (uint32_t) requester >= server.process_count)
		return NULL;

	/*
	 * Relaxed: the request reached this process through a lock of the server,
	 * and the requester had stored this before.
	 */
	known = atomic_load_explicit(&account_memory.process[requester],
	                             memory_order_relaxed);
	if (KNOWN_TYPE(known) == 0 || KNOWN_TYPE(known) > server.backend_types + 1)
		return NULL;
	*reads_for_out = KNOWN_READS_FOR(known);
	return block_of(KNOWN_TYPE(known) - 1u);
}

/* ---- which cell ---------------------------------------------------------- */

/* The number of the file's tablespace. */
static unsigned
tablespace_of(OpenFile *file)
{
	uint32_t oid = file->file.id.tablespace;
	unsigned number = 0;

	if (file->account.tablespace > 0)
		return file->account.tablespace - 1u;

	for (; number < ACCOUNT_TABLESPACES - 1; number++)
	{
		_Atomic uint32_t *at = &account_memory.shared->tablespace[number];
		uint32_t found = 0;

		if (atomic_compare_exchange_strong(at, &found, oid) || found == oid)
			break;
	}
	FC_ASSERT(number < ACCOUNT_TABLESPACES);
	file->account.tablespace = (uint8_t) (number + 1);
	return number;
}

static int
class_of(const OpenFile *file)
{
	switch ((FileClass) file->class)
	{
		case FILE_RELATION:
			return ACCOUNT_DATA;
		case FILE_TEMP_RELATION:
			return ACCOUNT_TEMP_RELATION;
		case FILE_TEMPORARY:
			return ACCOUNT_TEMP;
		case FILE_WAL:
			return ACCOUNT_WAL;
		case FILE_WAL_INIT:
			return ACCOUNT_WAL_INIT;
		case FILE_SLRU:
			return ACCOUNT_SLRU;
		case FILE_CONTROL:
			return ACCOUNT_CONTROL;
		case FILE_OTHER:
		case FILE_DATA_DIRECTORY:
		case FILE_ALIAS:
			return ACCOUNT_OTHER;
		case FILE_UNKNOWN:
		case FILE_DEVICE:
			break;
	}
	return -1;
}

static unsigned
row_of(OpenFile *file)
{
	int class = class_of(file);

	FC_ASSERT(class >= 0 && class < ACCOUNT_CLASSES);
	return class == ACCOUNT_DATA ? tablespace_of(file)
	                             : ACCOUNT_TABLESPACES + (unsigned) class - 1;
}

/* ---- counting ------------------------------------------------------------ */

static unsigned
bucket_of(uint64_t ns)
{
	unsigned log = 63 - (unsigned) __builtin_clzll(ns | 1);

	if (log < ACCOUNT_BUCKET_FIRST)
		return 0;
	log -= ACCOUNT_BUCKET_FIRST;
	return log < ACCOUNT_BUCKETS ? log : ACCOUNT_BUCKETS - 1;
}

static void
count_for_relation(OpenFile *file, AccountKind kind, uint64_t bytes,
                   uint64_t ns)
{
	FC_ASSERT(file->class == FILE_RELATION);
	_Atomic uint64_t *counter =
		account_relation_of(file, own.processor)->counter;

	switch (kind)
	{
		case ACCOUNT_DISK_READ:
		case ACCOUNT_PAGE_CACHE_READ:
		case ACCOUNT_FLASH_READ:
			account_add(&counter[RELATION_READS + 2 * kind], 1);
			account_add(&counter[RELATION_READS + 2 * kind + 1], ns);
			account_add(&counter[RELATION_READ_BYTES], bytes);
			break;
		case ACCOUNT_WRITE:
		case ACCOUNT_EXTEND:
			counter += kind == ACCOUNT_WRITE ? RELATION_WRITE : RELATION_EXTEND;
			account_add(&counter[0], 1);
			account_add(&counter[1], bytes);
			account_add(&counter[2], ns);
			break;
		case ACCOUNT_SYNC:
			account_add(&counter[RELATION_SYNC], 1);
			account_add(&counter[RELATION_SYNC + 1], ns);
			break;
		case ACCOUNT_KINDS:
			break;
	}
}

/* Count a call.  Returns the cell, to which callers may add more. */
static AccountCell *
count(const Accounted *call, AccountBlock *block, AccountKind kind,
      uint64_t bytes, uint64_t ns)
{
	AccountCell *cell = &block->cell[row_of(call->file)][kind];

	FC_ASSERT(block != NULL && kind < ACCOUNT_KINDS);
	account_add(&cell->bucket[bucket_of(ns)], 1);
	account_add(&cell->bytes, bytes);
	account_add(&cell->ns, ns);
	if (call->file->class == FILE_RELATION)
		count_for_relation(call->file, kind, bytes, ns);
	return cell;
}

/* The same for a read, which another process may have requested. */
static void
count_read(const Accounted *call, AccountBlock *block, AskedRead *read,
           bool told)
{
	AccountCell *cell = count(call, block, read->kind, read->bytes, read->ns);

	if (told)
		account_add(&cell->told_calls, 1);
	if (read->worker)
	{
		account_add(&cell->worker_calls, 1);
		account_add(&cell->worker_ns, read->ns);
	}
	if (call->file->class != FILE_RELATION)
		return;
	read->own = read->process == own.reads_for && own.parallel_number < 0;
	read->place = place_of(read->process);
	read->processor = own.processor;
	account_asked_count(read);
}

bool
account_admit(Accounted *call, OpenFile *file)
{
	if (file == NULL || !account_attached() || class_of(file) < 0)
		return false;
	know_self();
	FC_ASSERT(own.block != NULL);
	call->file = file;
	return true;
}

void
account_start(Accounted *call, OpenFile *file)
{
	if (!account_admit(call, file))
		return;
	call->turn = ++own.turn % TURNS == 0;
	call->begin_ns = fc_clock_ns();
}

void
account_count(const Accounted *call, AccountKind kind, uint64_t bytes)
{
	int saved_errno = errno;
	uint64_t ns = fc_clock_ns() - call->begin_ns;

	FC_ASSERT(call->file != NULL && kind < ACCOUNT_KINDS);
	(void) count(call, own.block, kind, bytes, ns);
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : saved_errno;
}

void
account_count_read(const Accounted *call, AccountSource source, int fd,
                   size_t size, ssize_t got)
{
	int saved_errno = errno;
	uint64_t ns = fc_clock_ns() - call->begin_ns;
	AskedRead read = { .bytes = got > 0 ? (uint64_t) got : 0, .ns = ns };
	AccountBlock *requester = block_of_requester(fd, &read.process);
	bool disk = source == SOURCE_DISK;

	FC_ASSERT(call->file != NULL && source <= SOURCE_FLASH);
	if (source == SOURCE_UNTOLD)
		disk = account_source_is_disk(bucket_of(ns), size);
	else if (call->turn && source != SOURCE_FLASH)
		account_source_learn(bucket_of(ns), size, disk);
	read.kind = disk ? ACCOUNT_DISK_READ : ACCOUNT_PAGE_CACHE_READ;
	if (source == SOURCE_FLASH)
		read.kind = ACCOUNT_FLASH_READ;

	read.worker = requester != NULL;
	count_read(call, requester != NULL ? requester : own.block, &read,
	           source != SOURCE_UNTOLD);
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : saved_errno;
}

AccountLater
account_read_begins(OpenFile *file)
{
	Accounted call;

	if (!setting_account || !account_admit(&call, file))
		return (AccountLater){ .type = 0 };
	return (AccountLater){ .type = (uint8_t) (own_type() + 1),
		                   .asked_by = own.reads_for };
}

void
account_read_ended(const AccountLater *read, OpenFile *file,
                   AccountSource source, size_t size, ssize_t got, uint64_t ns)
{
	bool disk = source == SOURCE_UNTOLD
	                ? account_source_is_disk(bucket_of(ns), size)
	                : source == SOURCE_DISK;
	AskedRead counted = { .process = read->asked_by,
		                  .worker = true,
		                  .kind = disk ? ACCOUNT_DISK_READ
		                               : ACCOUNT_PAGE_CACHE_READ,
		                  .bytes = got > 0 ? (uint64_t) got : 0,
		                  .ns = ns };
	int saved_errno = errno;
	Accounted call;

	FC_ASSERT(source != SOURCE_FLASH && read->type <= server.backend_types + 1);
	if (read->type == 0 || !account_attached() || !account_admit(&call, file))
		return;
	count_read(&call, block_of(read->type - 1u), &counted,
	           source != SOURCE_UNTOLD);
	errno = saved_errno;
}
