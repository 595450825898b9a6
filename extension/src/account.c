/*
 * account.c
 *		Exact accounting of the server's file calls.
 *
 * Each call that passes the hooks is counted where it happens, in shared memory:
 * once under backend type, class of file and kind of call (a cell: bytes, time,
 * histogram of times), and for a relation's file also under the relation
 * (account_relations.c).  The time is what the caller waited, from its call to its
 * answer.  PostgreSQL has no such counter: everybody else samples waits.
 *
 * A process counts at once and keeps nothing back, so it may end in any way without
 * taking counts with it.  If the server makes its memory anew after a crash of one
 * of its processes, the postmaster carries the counts over: they are mere numbers,
 * which nothing is looked up by.
 *
 * Locking: none.  Counters are added to with relaxed atomics.  Processes of a kind
 * that there are many of spread over SHARDS blocks of cells, by process id, so that
 * they seldom meet on a cache line.  A reader adds the blocks up; what it gets may
 * be some calls old for one counter against another, and never goes back.
 *
 * Rows of cells: data files have one for each of the first 31 tablespaces and one
 * for all others, so that a tablespace's counts need no further work and outlive
 * what lies in it; the other classes of files have one each.
 *
 * Since PostgreSQL 18 a process may read for another one (an io worker).  What it
 * reads is counted under the type of who asked, and marked, since the asking process
 * has perhaps not waited for it.  Every process leaves its type in shared memory
 * for this.
 *
 * Runs in hooks: no allocation, no report, no wait; errno is left alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account_calls.h"
#include "account_shared.h"
#include "broken.h"
#include "runtime.h"

#define SHARDS 16

/* Backend types, parallel workers included. */
#define TYPES_MAX 64

/* One read in so many is asked where it came from. */
#define TURNS 16

AccountMemory account_memory;

static AccountServer server;
static bool wanted;
static uint32_t first_block[TYPES_MAX + 1];

/* Memory that a crash took away. */
static void *kept;

/* This process, as it was when last looked at. */
static struct
{
	AccountBlock *block; /* NULL: not looked at */
	int backend_type;
	int parallel_number;
	int process_number;
	unsigned turn; /* begins anywhere */
} own;

/* ---- memory --------------------------------------------------------------- */

static unsigned
shards_of(unsigned type)
{
	bool many = type == server.backend_types || (server.many >> type & 1) != 0;

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

/* Lay the parts out from base on, in *memory; the size of all. */
static size_t
lay_out(AccountMemory *memory, char *base)
{
	size_t size = 0;

	memory->shared = (void *) (base + size);
	size += lines(sizeof(AccountShared));
	memory->process_type = (void *) (base + size);
	size += lines(server.process_count);
	memory->blocks = (void *) (base + size);
	size += lines(first_block[server.backend_types + 1] * sizeof(AccountBlock));
	memory->keys = (void *) (base + size);
	size += lines(server.relations * sizeof(RelationKey));
	memory->relations = (void *) (base + size);
	size += lines((server.relations + (size_t) 1) * sizeof(RelationCounters));
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
			atomic_store(&fresh.process_type[i], 0);
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
}

bool
account_attached(void)
{
	return account_memory.shared != NULL && *runtime.shared_memory != NULL;
}

/* ---- who counts where ------------------------------------------------------ */

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
	unsigned shard = (unsigned) getpid() % shards_of(type);

	return &account_memory.blocks[first_block[type] + shard];
}

/* A process learns late what it is, and some become another. */
static __attribute__((noinline)) void
look_at_self(void)
{
	own.backend_type = *server.backend_type;
	own.parallel_number = *server.parallel_number;
	own.process_number =
		server.process_number == NULL ? -1 : *server.process_number;
	own.block = block_of(own_type());
	if (own.process_number >= 0 &&
	    (uint32_t) own.process_number < server.process_count)
		atomic_store_explicit(&account_memory.process_type[own.process_number],
		                      (uint8_t) (own_type() + 1), memory_order_relaxed);
}

static void
know_self(void)
{
	if (own.block == NULL || own.backend_type != *server.backend_type ||
	    own.parallel_number != *server.parallel_number ||
	    (server.process_number != NULL &&
	     own.process_number != *server.process_number))
		look_at_self();
}

/* The block of who asked for a read, if that is another process. */
static AccountBlock *
block_of_asker(int fd)
{
	int asker = server.read_asked_by == NULL ? -1 : server.read_asked_by(fd);
	uint8_t type;

	if (asker < 0 || (uint32_t) asker >= server.process_count)
		return NULL;
	type = atomic_load_explicit(&account_memory.process_type[asker],
	                            memory_order_relaxed);
	return type == 0 || type > server.backend_types + 1 ? NULL
	                                                    : block_of(type - 1u);
}

/* ---- which cell --------------------------------------------------------------- */

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

	return class == ACCOUNT_DATA ? tablespace_of(file)
	                             : ACCOUNT_TABLESPACES + (unsigned) class - 1;
}

/* ---- counting ------------------------------------------------------------------ */

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
	_Atomic uint64_t *counter = account_relation_of(file)->counter;

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

/* Count a call; the cell is for whoever has more to say of it. */
static AccountCell *
count(const Accounted *call, AccountBlock *block, AccountKind kind,
      uint64_t bytes, uint64_t ns)
{
	AccountCell *cell = &block->cell[row_of(call->file)][kind];

	account_add(&cell->bucket[bucket_of(ns)], 1);
	account_add(&cell->bytes, bytes);
	account_add(&cell->ns, ns);
	if (call->file->class == FILE_RELATION)
		count_for_relation(call->file, kind, bytes, ns);
	return cell;
}

static bool
counted(OpenFile *file)
{
	return file != NULL && account_attached() && class_of(file) >= 0;
}

void
account_start(Accounted *call, OpenFile *file)
{
	if (!counted(file))
		return;
	know_self();
	call->file = file;
	call->turn = ++own.turn % TURNS == 0;
	call->begin_ns = fc_now_ns();
}

void
account_count(const Accounted *call, AccountKind kind, uint64_t bytes)
{
	int after = errno;
	uint64_t ns = fc_now_ns() - call->begin_ns;

	(void) count(call, own.block, kind, bytes, ns);
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : after;
}

void
account_count_read(const Accounted *call, AccountSource source, int fd,
                   size_t size, ssize_t got)
{
	int after = errno;
	uint64_t ns = fc_now_ns() - call->begin_ns;
	AccountBlock *asker = block_of_asker(fd);
	bool disk = source == SOURCE_DISK;
	AccountKind kind = ACCOUNT_FLASH_READ;
	AccountCell *cell;

	if (source == SOURCE_UNTOLD)
		disk = account_source_is_disk(bucket_of(ns), size);
	else if (call->turn && source != SOURCE_FLASH)
		account_source_learn(bucket_of(ns), size, disk);
	if (source != SOURCE_FLASH)
		kind = disk ? ACCOUNT_DISK_READ : ACCOUNT_PAGE_CACHE_READ;

	cell = count(call, asker != NULL ? asker : own.block, kind,
	             got > 0 ? (uint64_t) got : 0, ns);
	if (source != SOURCE_UNTOLD)
		account_add(&cell->told_calls, 1);
	if (asker != NULL)
	{
		account_add(&cell->worker_calls, 1);
		account_add(&cell->worker_ns, ns);
	}
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : after;
}

/* ---- writes --------------------------------------------------------------------- */

/*
 * Does the write begin where the file ends, or beyond?  Asking the kernel costs some
 * 0.4 us, so an entry remembers how long its file was at least, which
 * holds until any file is cut off.
 */
static bool
begins_at_end(AccountFile *known, int fd, off_t offset, size_t size)
{
	uint64_t truncations = account_get(&account_memory.shared->truncations);
	struct stat status;

	if (known->truncations != truncations)
	{
		known->truncations = truncations;
		known->end_bytes = 0;
	}
	if (offset < 0 || (uint64_t) offset + size <= known->end_bytes ||
	    fstat(fd, &status) != 0)
		return false;
	known->end_bytes = (uint64_t) status.st_size;
	return (uint64_t) offset >= known->end_bytes;
}

void
account_start_write(Accounted *call, OpenFile *file, int fd, off_t offset,
                    size_t size)
{
	int before = errno;

	if (!counted(file))
		return;
	know_self();
	call->file = file;
	call->offset = offset;
	call->extends =
		(file->class == FILE_RELATION || file->class == FILE_TEMP_RELATION) &&
		begins_at_end(&file->account, fd, offset, size);
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : before;
	call->begin_ns = fc_now_ns();
}

/*
 * WAL is written in whole pages, so the page that a commit ends in is written again
 * with the next one.  How much is rewritten is known by what was written so far.
 */
static void
note_wal(const FcFileId *segment, off_t offset, uint64_t size)
{
	AccountShared *shared = account_memory.shared;
	uint64_t begin =
		((uint64_t) segment->relation << 32) +
		(uint64_t) segment->segment * (unsigned) *server.wal_segment_bytes +
		(uint64_t) offset;
	uint64_t end = begin + size;
	uint64_t before = account_get(&shared->wal_end);

	if (begin < before)
		account_add(&shared->wal_rewritten,
		            (end < before ? end : before) - begin);
	while (before < end && !atomic_compare_exchange_weak_explicit(
							   &shared->wal_end, &before, end,
							   memory_order_relaxed, memory_order_relaxed))
		;
}

void
account_count_write(const Accounted *call, ssize_t put)
{
	int after = errno;
	uint64_t ns = fc_now_ns() - call->begin_ns;
	uint64_t bytes = put > 0 ? (uint64_t) put : 0;
	OpenFile *file = call->file;

	(void) count(call, own.block,
	             call->extends ? ACCOUNT_EXTEND : ACCOUNT_WRITE, bytes, ns);
	if (call->extends &&
	    file->account.end_bytes < (uint64_t) call->offset + bytes)
		file->account.end_bytes = (uint64_t) call->offset + bytes;
	if (file->class == FILE_WAL && bytes > 0)
		note_wal(&file->file.id, call->offset, bytes);
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : after;
}

void
account_truncated(void)
{
	if (account_attached())
		account_add(&account_memory.shared->truncations, 1);
}

/* ---- views ----------------------------------------------------------------------- */

int64_t
account_since(void)
{
	return account_memory.shared->since;
}

unsigned
account_backend_types(void)
{
	return server.backend_types + 1;
}

static void
add_cell(AccountSum *sum, const AccountCell *cell)
{
	for (int i = 0; i < ACCOUNT_BUCKETS; i++)
	{
		uint64_t calls = account_get(&cell->bucket[i]);

		sum->bucket[i] += calls;
		sum->calls += calls;
	}
	sum->bytes += account_get(&cell->bytes);
	sum->ns += account_get(&cell->ns);
	sum->told_calls += account_get(&cell->told_calls);
	sum->worker_calls += account_get(&cell->worker_calls);
	sum->worker_ns += account_get(&cell->worker_ns);
}

void
account_sum(unsigned backend_type, AccountClass class, AccountKind kind,
            AccountSum *out)
{
	unsigned row =
		class == ACCOUNT_DATA ? 0 : ACCOUNT_TABLESPACES + (unsigned) class - 1;
	unsigned rows = class == ACCOUNT_DATA ? ACCOUNT_TABLESPACES : 1;

	memset(out, 0, sizeof(*out));
	for (uint32_t block = first_block[backend_type];
	     block < first_block[backend_type + 1]; block++)
	{
		for (unsigned i = row; i < row + rows; i++)
			add_cell(out, &account_memory.blocks[block].cell[i][kind]);
	}
}

bool
account_tablespace(unsigned number, uint32_t *oid_out)
{
	*oid_out = 0;
	if (number < ACCOUNT_TABLESPACES - 1)
		*oid_out = atomic_load(&account_memory.shared->tablespace[number]);
	return number == ACCOUNT_TABLESPACES - 1 || *oid_out != 0;
}

void
account_sum_tablespace(unsigned number, AccountKind kind, AccountSum *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t block = 0; block < first_block[server.backend_types + 1];
	     block++)
		add_cell(out, &account_memory.blocks[block].cell[number][kind]);
}

void
account_wal(AccountWal *out)
{
	AccountSum sum;

	memset(out, 0, sizeof(*out));
	for (unsigned type = 0; type <= server.backend_types; type++)
	{
		account_sum(type, ACCOUNT_WAL, ACCOUNT_WRITE, &sum);
		out->write.calls += sum.calls;
		out->write.bytes += sum.bytes;
		out->write.ns += sum.ns;
		account_sum(type, ACCOUNT_WAL, ACCOUNT_SYNC, &sum);
		out->sync.calls += sum.calls;
		out->sync.ns += sum.ns;
	}
	out->rewritten_bytes = account_get(&account_memory.shared->wal_rewritten);
}
