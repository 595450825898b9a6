/*
 * load.c
 *		The list of files to load into the cache.
 *
 * A file is the main fork of a relation.  It is known by its number, not by
 * the relation, because the loader is connected to no database; so it works on
 * a standby as well.  If the relation is rewritten meanwhile, its old file is
 * gone, and loading it fails.
 *
 * Files are loaded in the order of the requests.  Those that are done stay in
 * the list, for the view, until their places are needed.
 *
 * A file in the directory of PostgreSQL's own statistics keeps the list over a
 * restart.  The loader writes it about once a second while it works, and
 * resumes from it after a crash.  If it is damaged, or of another server, it
 * names files that do not exist or that nobody wants to load: that costs time,
 * never a wrong block.
 *
 * Locking: one lock for everything, held for a few instructions or for a walk
 * through the list.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "load/load.h"
#include "server/shmem.h"

#define TRANCHE "pgflash_load"

#define LIST_FILE     PGSTAT_STAT_PERMANENT_DIRECTORY "/pgflash_load.stat"
#define LIST_FILE_NEW LIST_FILE ".tmp"

/* Changes whenever LoadFile does. */
#define LIST_MAGIC 0x50464c01

typedef struct ListHeader
{
	uint32 magic;
	uint32 count;
	pg_crc32c crc; /* of the files after it */
} ListHeader;

typedef struct Shared
{
	uint64 last_id;
	bool changed; /* since the list was written */
	char reason[128];
	LoadFile file[LOAD_FILES_MAX];
} Shared;

static Shared *shared;
static LWLock *lock;

static bool
is_open(const LoadFile *file)
{
	return file->id != 0 &&
	       (file->state == LOAD_WAITING || file->state == LOAD_RUNNING);
}

bool
load_attached(void)
{
	return shared != NULL;
}

/* ---- the list ------------------------------------------------------------ */

/* A free place, or else that of the oldest request that is done. */
static LoadFile *
find_place(void)
{
	LoadFile *found = NULL;

	for (int i = 0; i < LOAD_FILES_MAX; i++)
	{
		LoadFile *file = &shared->file[i];

		if (!is_open(file) && (found == NULL || file->id < found->id))
			found = file;
	}
	return found;
}

static bool
is_listed(const LoadFile *wanted)
{
	for (int i = 0; i < LOAD_FILES_MAX; i++)
	{
		const LoadFile *file = &shared->file[i];

		if (is_open(file) && file->filenode == wanted->filenode &&
		    file->tablespace == wanted->tablespace &&
		    file->database == wanted->database)
			return true;
	}
	return false;
}

bool
load_add(const LoadFile *file)
{
	LoadFile *place = NULL;
	bool listed;

	Assert(file->filenode != 0);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	listed = is_listed(file);
	if (!listed)
		place = find_place();
	if (place != NULL)
	{
		*place = *file;
		place->id = ++shared->last_id;
		place->state = LOAD_WAITING;
		place->queued_at = GetCurrentTimestamp();
		shared->changed = true;
	}
	LWLockRelease(lock);
	return listed || place != NULL;
}

uint64
load_cancel(Oid database, Oid relation)
{
	uint64 count = 0;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < LOAD_FILES_MAX; i++)
	{
		LoadFile *file = &shared->file[i];

		if (!is_open(file) ||
		    (OidIsValid(relation) &&
		     (file->relation != relation ||
		      (OidIsValid(file->database) && file->database != database))))
			continue;
		file->state = LOAD_CANCELLED;
		file->ended_at = GetCurrentTimestamp();
		shared->changed = true;
		count++;
	}
	LWLockRelease(lock);
	return count;
}

/* The open file that was asked for first; the lock is held. */
static LoadFile *
first_open(void)
{
	LoadFile *first = NULL;

	for (int i = 0; i < LOAD_FILES_MAX; i++)
	{
		LoadFile *file = &shared->file[i];

		if (is_open(file) && (first == NULL || file->id < first->id))
			first = file;
	}
	return first;
}

bool
load_pending(void)
{
	bool pending;

	if (shared == NULL)
		return false;
	LWLockAcquire(lock, LW_SHARED);
	pending = first_open() != NULL;
	LWLockRelease(lock);
	return pending;
}

bool
load_next(LoadFile *out)
{
	LoadFile *first;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	first = first_open();
	if (first != NULL)
	{
		if (first->began_at == 0)
			first->began_at = GetCurrentTimestamp();
		first->state = LOAD_RUNNING;
		*out = *first;
	}
	LWLockRelease(lock);
	return first != NULL;
}

bool
load_store(const LoadFile *file)
{
	bool stored = false;

	Assert(file->done <= file->blocks &&
	       file->cached + file->loaded + file->refused == file->done);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < LOAD_FILES_MAX && !stored; i++)
	{
		LoadFile *place = &shared->file[i];

		if (place->id != file->id || !is_open(place))
			continue;
		*place = *file;
		if (!is_open(place))
			place->ended_at = GetCurrentTimestamp();
		shared->changed = stored = true;
	}
	LWLockRelease(lock);
	return stored;
}

bool
load_get(uint32 place, LoadFile *out)
{
	Assert(place < LOAD_FILES_MAX);
	LWLockAcquire(lock, LW_SHARED);
	*out = shared->file[place];
	LWLockRelease(lock);
	return out->id != 0;
}

void
load_set_reason(const char *why)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	snprintf(shared->reason, sizeof(shared->reason), "%s",
	         why == NULL ? "" : why);
	LWLockRelease(lock);
}

const char *
load_reason(void)
{
	static char reason[sizeof(shared->reason)];

	LWLockAcquire(lock, LW_SHARED);
	snprintf(reason, sizeof(reason), "%s", shared->reason);
	LWLockRelease(lock);
	return reason[0] == '\0' ? NULL : reason;
}

/* ---- the file of the list ------------------------------------------------ */

static pg_crc32c
checksum(const LoadFile *files, uint32 count)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, files, count * sizeof(LoadFile));
	FIN_CRC32C(crc);
	return crc;
}

/* Copy what is still to be loaded; returns whether it has to be written. */
static bool
copy_open(LoadFile *files, uint32 *count)
{
	bool changed;

	*count = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	changed = shared->changed;
	shared->changed = false;
	for (int i = 0; i < LOAD_FILES_MAX; i++)
	{
		if (is_open(&shared->file[i]))
			files[(*count)++] = shared->file[i];
	}
	LWLockRelease(lock);
	return changed;
}

static bool
write_list(FILE *to, const LoadFile *files, uint32 count)
{
	ListHeader header = { .magic = LIST_MAGIC,
		                  .count = count,
		                  .crc = checksum(files, count) };

	return fwrite(&header, sizeof(header), 1, to) == 1 &&
	       fwrite(files, sizeof(LoadFile), count, to) == count;
}

/* Write the file and close it, whatever happens; returns 0 or why it failed. */
static int
write_file(const LoadFile *files, uint32 count)
{
	FILE *to = AllocateFile(LIST_FILE_NEW, PG_BINARY_W);
	int error;

	if (to == NULL)
		return errno;
	error = write_list(to, files, count) ? 0 : errno;
	if (FreeFile(to) != 0 && error == 0)
		error = errno;
	return error;
}

static bool
has_changed(void)
{
	bool changed;

	LWLockAcquire(lock, LW_SHARED);
	changed = shared->changed;
	LWLockRelease(lock);
	return changed;
}

void
load_save(void)
{
	static bool is_failing; /* since the last time that it was written */
	LoadFile *files;
	uint32 count;
	int error;

	if (!has_changed())
		return;
	files = palloc(LOAD_FILES_MAX * sizeof(LoadFile));
	if (copy_open(files, &count))
	{
		error = write_file(files, count);
		if (error == 0)
			(void) durable_rename(LIST_FILE_NEW, LIST_FILE, LOG);
		else
		{
			/* Otherwise a cancelled file would be loaded after a restart. */
			LWLockAcquire(lock, LW_EXCLUSIVE);
			shared->changed = true;
			LWLockRelease(lock);
		}
		errno = error;
		if (error != 0 && !is_failing)
			ereport(LOG,
			        (errcode_for_file_access(),
			         errmsg("could not write file \"%s\": %m", LIST_FILE_NEW)));
		is_failing = error != 0;
	}
	pfree(files);
}

/* No other process has the memory yet. */
static void
read_list(FILE *from)
{
	ListHeader header;

	if (fread(&header, sizeof(header), 1, from) != 1 ||
	    header.magic != LIST_MAGIC || header.count > LOAD_FILES_MAX ||
	    fread(shared->file, sizeof(LoadFile), header.count, from) !=
	        header.count ||
	    header.crc != checksum(shared->file, header.count))
	{
		memset(shared->file, 0, sizeof(shared->file));
		ereport(LOG, (errmsg("ignoring invalid file \"%s\"", LIST_FILE)));
		return;
	}
	for (uint32 i = 0; i < header.count; i++)
	{
		LoadFile *file = &shared->file[i];

		file->state = LOAD_WAITING;
		shared->last_id = Max(shared->last_id, file->id);
	}
}

/* ---- shared memory ------------------------------------------------------- */

static void
request(void)
{
	RequestNamedLWLockTranche(TRANCHE, 1);
}

static size_t
size_bytes(void)
{
	return sizeof(Shared);
}

static void
start(void *memory)
{
	FILE *from;

	shared = memory;
	memset(shared, 0, sizeof(Shared));
	lock = &GetNamedLWLockTranche(TRANCHE)->lock;
	from = AllocateFile(LIST_FILE, PG_BINARY_R);
	if (from == NULL)
		return;
	read_list(from);
	(void) FreeFile(from);
}

static void
end(bool for_good)
{
	(void) for_good;
	shared = NULL;
}

void
load_install(void)
{
	static const SharedPart part = { .name = "pgflash load",
		                             .size_bytes = size_bytes,
		                             .start = start,
		                             .request = request,
		                             .end = end };

	shmem_add(&part);
}
