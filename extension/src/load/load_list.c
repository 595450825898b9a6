/*
 * load_list.c
 *		A list of blocks to load into the cache, hottest first.
 *
 * A list has a bitmap of blocks for each segment file and heat.  The function
 * pgflash_cache_list() makes it, on this server or on another one that has the
 * same files.  There is one list at a time; a new one replaces it.
 *
 * The bitmaps are in a file in the directory of PostgreSQL's own statistics: a
 * header, the parts in the order in which they are loaded, their bitmaps.  The
 * file is written before the list takes effect and never changes, so the list
 * outlives a restart.  Then it begins again, and blocks that are cached by
 * then are not read again.  Header, parts and bitmaps have checksums.  A list
 * can only name files and blocks to read: one that is damaged, old, or of
 * another server costs time, never a wrong block.
 *
 * Several processes load a list, each one part at a time.  Shared memory has
 * the number of the next part, and the counts.
 *
 * Locking: one lock, held for a few instructions; a second one, for sessions
 * that bring a new list, held while the file is written.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "pgstat.h"
#include "port/atomics.h"
#include "storage/fd.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "load/load_list.h"
#include "server/shmem.h"

#define TRANCHE "pgflash_load_list"

#define LIST_FILE     PGSTAT_STAT_PERMANENT_DIRECTORY "/pgflash_load_list.stat"
#define LIST_FILE_NEW LIST_FILE ".tmp"

/* Changes whenever the file's format does. */
#define LIST_MAGIC 0x50464c03

typedef struct ListHeader
{
	uint32 magic;
	uint32 parts;
	uint64 id;
	uint64 stored;
	uint64 blocks;
	TimestampTz taken_at;
	pg_crc32c crc; /* of everything above */
	uint32 unused;
} ListHeader;

typedef struct Shared
{
	uint64 last_id;
	pg_atomic_uint32 workers; /* a bit for each that runs, by its number */
	LoadList list;
} Shared;

enum
{
	LOCK_LIST,
	LOCK_FILE,
	LOCKS
};

static Shared *shared;
static LWLockPadded *locks;

BridgeLoadFile
load_list_file(const LoadPart *part)
{
	return (BridgeLoadFile){ .tablespace = part->tablespace,
		                     .database = part->database,
		                     .relation = part->filenode,
		                     .fork = part->fork,
		                     .segment = part->segment };
}

static bool
is_open(const LoadList *list)
{
	return list->id != 0 &&
	       (list->state == LOAD_WAITING || list->state == LOAD_RUNNING);
}

static pg_crc32c
checksum(const void *bytes, size_t size)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes, size);
	FIN_CRC32C(crc);
	return crc;
}

/* ---- its file ------------------------------------------------------------ */

static bool
header_valid(const ListHeader *header)
{
	return header->magic == LIST_MAGIC && header->id != 0 &&
	       header->crc == checksum(header, offsetof(ListHeader, crc));
}

static bool
read_at(int fd, void *into, size_t size, uint64 offset)
{
	return pread(fd, into, size, (off_t) offset) == (ssize_t) size;
}

int
load_list_open(uint64 id)
{
	int fd = OpenTransientFile(LIST_FILE, O_RDONLY | PG_BINARY);
	ListHeader header;

	if (fd < 0)
		return -1;
	if (read_at(fd, &header, sizeof(header), 0) && header_valid(&header) &&
	    header.id == id)
		return fd;
	(void) CloseTransientFile(fd);
	return -1;
}

bool
load_list_part(int fd, uint32 number, LoadPart *out)
{
	uint64 offset = sizeof(ListHeader) + (uint64) number * sizeof(LoadPart);

	Assert(fd >= 0);
	return read_at(fd, out, sizeof(*out), offset) &&
	       out->crc == checksum(out, offsetof(LoadPart, crc));
}

uint8 *
load_list_bitmap(int fd, const LoadPart *part)
{
	uint8 *bitmap = palloc(part->size);

	Assert(part->size > 0);
	if (read_at(fd, bitmap, part->size, part->offset) &&
	    part->bitmap_crc == checksum(bitmap, part->size))
		return bitmap;
	pfree(bitmap);
	return NULL;
}

/* Hottest first; the parts of a file together. */
static int
compare_parts(const void *a, const void *b)
{
	const LoadPart *one = &((const LoadPartSource *) a)->part;
	const LoadPart *other = &((const LoadPartSource *) b)->part;

	if (one->heat != other->heat)
		return one->heat > other->heat ? -1 : 1;
	return memcmp(one, other, offsetof(LoadPart, heat));
}

static bool
write_list(FILE *to, const ListHeader *header, const LoadPartSource *parts)
{
	bool written = fwrite(header, sizeof(*header), 1, to) == 1;

	for (uint32 i = 0; written && i < header->parts; i++)
		written = fwrite(&parts[i].part, sizeof(LoadPart), 1, to) == 1;
	for (uint32 i = 0; written && i < header->parts; i++)
		written = fwrite(parts[i].bitmap, parts[i].part.size, 1, to) == 1;
	return written;
}

/* Write the file of a list; an error if that is impossible. */
static void
write_file(const ListHeader *header, const LoadPartSource *parts)
{
	FILE *to = AllocateFile(LIST_FILE_NEW, PG_BINARY_W);

	if (to == NULL || !write_list(to, header, parts) || FreeFile(to) != 0)
		ereport(ERROR,
		        (errcode_for_file_access(),
		         errmsg("could not write file \"%s\": %m", LIST_FILE_NEW)));
	(void) durable_rename(LIST_FILE_NEW, LIST_FILE, ERROR);
}

/* ---- the list ------------------------------------------------------------ */

/* Make a list the current one. */
static void
adopt(const ListHeader *header)
{
	LWLockAcquire(&locks[LOCK_LIST].lock, LW_EXCLUSIVE);
	shared->last_id = header->id;
	shared->list =
		(LoadList){ .id = header->id,
		            .stored = header->stored,
		            .state = header->parts > 0 ? LOAD_WAITING : LOAD_DONE,
		            .parts = header->parts,
		            .blocks = header->blocks,
		            .taken_at = header->taken_at,
		            .queued_at = GetCurrentTimestamp() };
	LWLockRelease(&locks[LOCK_LIST].lock);
}

void
load_list_replace(LoadPartSource *parts, uint32 count, TimestampTz taken_at,
                  uint64 stored)
{
	ListHeader header = { .magic = LIST_MAGIC,
		                  .parts = count,
		                  .stored = stored,
		                  .taken_at = taken_at };
	uint64 offset = sizeof(header) + (uint64) count * sizeof(LoadPart);

	Assert(shared != NULL);
	qsort(parts, count, sizeof(*parts), compare_parts);
	for (uint32 i = 0; i < count; i++)
	{
		LoadPart *part = &parts[i].part;

		part->offset = offset;
		part->bitmap_crc = checksum(parts[i].bitmap, part->size);
		part->crc = checksum(part, offsetof(LoadPart, crc));
		offset += part->size;
		header.blocks += part->blocks;
	}

	/* An error releases the lock. */
	LWLockAcquire(&locks[LOCK_FILE].lock, LW_EXCLUSIVE);
	header.id = shared->last_id + 1;
	header.crc = checksum(&header, offsetof(ListHeader, crc));
	write_file(&header, parts);
	adopt(&header);
	LWLockRelease(&locks[LOCK_FILE].lock);
}

bool
load_list_get(LoadList *out)
{
	if (shared == NULL)
		return false;
	LWLockAcquire(&locks[LOCK_LIST].lock, LW_SHARED);
	*out = shared->list;
	LWLockRelease(&locks[LOCK_LIST].lock);
	return out->id != 0;
}

bool
load_list_cancel(void)
{
	bool cancelled;

	Assert(shared != NULL);
	LWLockAcquire(&locks[LOCK_FILE].lock, LW_EXCLUSIVE);
	LWLockAcquire(&locks[LOCK_LIST].lock, LW_EXCLUSIVE);
	cancelled = is_open(&shared->list);
	if (cancelled)
	{
		shared->list.state = LOAD_CANCELLED;
		shared->list.ended_at = GetCurrentTimestamp();
	}
	LWLockRelease(&locks[LOCK_LIST].lock);

	/* It must not begin again after a restart. */
	if (cancelled)
		(void) durable_unlink(LIST_FILE, LOG);
	LWLockRelease(&locks[LOCK_FILE].lock);
	return cancelled;
}

/* ---- for the processes that load ----------------------------------------- */

bool
load_list_pending(void)
{
	LoadList list;

	return load_list_get(&list) && is_open(&list) && list.next < list.parts;
}

bool
load_list_begin(uint64 *id_out, uint32 *number_out)
{
	LoadList *list = &shared->list;
	bool begun;

	LWLockAcquire(&locks[LOCK_LIST].lock, LW_EXCLUSIVE);
	begun = is_open(list) && list->next < list->parts;
	if (begun)
	{
		if (list->began_at == 0)
			list->began_at = GetCurrentTimestamp();
		list->state = LOAD_RUNNING;
		list->working++;
		*id_out = list->id;
		*number_out = list->next++;
	}
	LWLockRelease(&locks[LOCK_LIST].lock);
	return begun;
}

bool
load_list_count(uint64 id, const LoadCounts *more)
{
	LoadCounts *counts = &shared->list.counts;
	bool wanted;

	Assert(more->done ==
	       more->cached + more->loaded + more->refused + more->missing);
	LWLockAcquire(&locks[LOCK_LIST].lock, LW_EXCLUSIVE);
	wanted = shared->list.id == id && is_open(&shared->list);
	if (wanted)
	{
		counts->done += more->done;
		counts->cached += more->cached;
		counts->loaded += more->loaded;
		counts->refused += more->refused;
		counts->missing += more->missing;
	}
	LWLockRelease(&locks[LOCK_LIST].lock);
	return wanted;
}

void
load_list_end(uint64 id)
{
	LoadList *list = &shared->list;

	LWLockAcquire(&locks[LOCK_LIST].lock, LW_EXCLUSIVE);
	if (list->id == id)
	{
		Assert(list->working > 0);
		list->working--;
		if (is_open(list) && list->working == 0 && list->next == list->parts)
		{
			list->state = LOAD_DONE;
			list->ended_at = GetCurrentTimestamp();
		}
	}
	LWLockRelease(&locks[LOCK_LIST].lock);
}

static uint32
bit_of(int number)
{
	Assert(shared != NULL && number >= 0 && number < LOAD_WORKERS_MAX);
	return (uint32) 1 << number;
}

bool
load_list_join(int number)
{
	uint32 bit = bit_of(number);

	return (pg_atomic_fetch_or_u32(&shared->workers, bit) & bit) == 0;
}

void
load_list_leave(int number)
{
	Assert(load_list_joined(number));
	(void) pg_atomic_fetch_and_u32(&shared->workers, ~bit_of(number));
}

bool
load_list_joined(int number)
{
	return (pg_atomic_read_u32(&shared->workers) & bit_of(number)) != 0;
}

int
load_list_workers(void)
{
	return __builtin_popcount(pg_atomic_read_u32(&shared->workers));
}

/* ---- shared memory ------------------------------------------------------- */

static void
request(void)
{
	RequestNamedLWLockTranche(TRANCHE, LOCKS);
}

static size_t
size_bytes(void)
{
	return sizeof(Shared);
}

/* Resume the list of the server's last run. */
static void
start(void *memory)
{
	ListHeader header;
	int fd;

	shared = memory;
	memset(shared, 0, sizeof(Shared));
	pg_atomic_init_u32(&shared->workers, 0);
	locks = GetNamedLWLockTranche(TRANCHE);
	fd = OpenTransientFile(LIST_FILE, O_RDONLY | PG_BINARY);
	if (fd < 0)
		return;
	if (read_at(fd, &header, sizeof(header), 0) && header_valid(&header))
		adopt(&header);
	else
		ereport(LOG, (errmsg("ignoring invalid file \"%s\"", LIST_FILE)));
	(void) CloseTransientFile(fd);
}

static void
end(bool for_good)
{
	(void) for_good;
	shared = NULL;
}

void
load_list_install(void)
{
	static const SharedPart part = { .name = "pgflash load list",
		                             .size_bytes = size_bytes,
		                             .start = start,
		                             .request = request,
		                             .end = end };

	shmem_add(&part);
}
