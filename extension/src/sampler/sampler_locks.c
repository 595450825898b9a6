/*
 * sampler_locks.c
 *		Lock waits by object: which table, which kind of lock, which mode.
 *
 * PostgreSQL does not count waits for locks by object, and a wait event names
 * only the kind of lock.  So the sampler adds the waits that it sees to a table
 * in shared memory, by object.  The lock that the session's PGPROC points to
 * names the object.  A session that waits for another transaction meanwhile
 * holds the tuple lock of the row that it wants, and that lock names the
 * relation.  If it holds none (it waits for a unique key that another
 * transaction has just inserted), the relation is unknown.  If the session has
 * been granted its lock but has not woken yet, only the wait event is known.
 *
 * Locking: the lock that a session waits for is read without locking, and is
 * discarded if its session's wait has changed.  The locks that a session holds
 * are read under the lock manager's partition locks, one at a time, in shared
 * mode, for a few instructions, and only if that one is free.  The table has
 * one writer; an entry is complete before it is marked as used, and stays.
 *
 * Crash: as the ring, the table begins empty when PostgreSQL restarts its
 * processes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "port/atomics.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/builtins.h"

#include "sampler/sampler.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_lock_waits_rows);

/* Objects with an entry of their own; all others share one. */
#define OBJECTS_MAX 1000
#define SLOTS       2048 /* a power of two */

/* The type of the entry for all others; no lock has it. */
#define TYPE_OTHER PG_UINT8_MAX

StaticAssertDecl(OBJECTS_MAX < SLOTS, "a search for a free slot ends");
StaticAssertDecl(LOCKTAG_LAST_TYPE < TYPE_OTHER, "others have a type");

typedef struct LockObject
{
	Oid database;
	Oid relation;
	uint8 type;    /* LockTagType */
	uint8 mode;    /* LOCKMODE; NoLock: granted meanwhile */
	uint16 unused; /* 0: all bytes are compared */
} LockObject;

StaticAssertDecl(sizeof(LockObject) == 2 * sizeof(Oid) + 4, "no padding");

typedef struct LockWaits
{
	pg_atomic_uint32 used;
	LockObject object;
	pg_atomic_uint64 samples;
	pg_atomic_uint64 covers_us;
} LockWaits;

typedef struct LockTable
{
	uint32 count; /* for the writer only */
	LockWaits slot[SLOTS];
	LockWaits others;
} LockTable;

static LockTable *table;

/* ---- shared memory ------------------------------------------------------- */

static size_t
table_size_bytes(void)
{
	return MAXALIGN(sizeof(LockTable));
}

static void
start_waits(LockWaits *waits)
{
	pg_atomic_init_u32(&waits->used, 0);
	pg_atomic_init_u64(&waits->samples, 0);
	pg_atomic_init_u64(&waits->covers_us, 0);
}

static void
start_table(void *memory)
{
	table = memory;
	memset(table, 0, sizeof(LockTable));
	for (int i = 0; i < SLOTS; i++)
		start_waits(&table->slot[i]);
	start_waits(&table->others);
	table->others.object.type = TYPE_OTHER;
}

void
sampler_locks_install(void)
{
	static const SharedPart part = { .name = "pgflash lock waits",
		                             .size_bytes = table_size_bytes,
		                             .start = start_table };

	shmem_add(&part);
}

/* ---- what a session waits for -------------------------------------------- */

/*
 * Read the lock that a session waits for; false if it does not wait.  The
 * barrier keeps the copies before the second look at what it waits for.
 */
static bool
read_wait(volatile PGPROC *proc, LOCKTAG *tag, LOCKMODE *mode)
{
	volatile LOCK *lock = (volatile LOCK *) proc->waitLock;

	if (lock == NULL)
		return false;

	/*
	 * If the lock is gone, its memory may hold another lock, but is never
	 * unmapped.
	 */
	*tag = *(const LOCKTAG *) &lock->tag;
	*mode = proc->waitLockMode;
	pg_read_barrier();
	return (volatile LOCK *) proc->waitLock == lock;
}

static bool
names_relation(const LOCKTAG *tag)
{
	switch ((LockTagType) tag->locktag_type)
	{
		case LOCKTAG_RELATION:
		case LOCKTAG_RELATION_EXTEND:
		case LOCKTAG_PAGE:
		case LOCKTAG_TUPLE:
			return true;
		default:
			return false;
	}
}

/* Find the tuple lock in one part of the locks that a session holds. */
static bool
find_tuple_lock(const PGPROC *proc, int partition, LOCKTAG *tag)
{
	LWLock *lock = LockHashPartitionLockByIndex(partition);
	bool found = false;

	Assert(partition >= 0 && partition < NUM_LOCK_PARTITIONS);
	if (!LWLockConditionalAcquire(lock, LW_SHARED))
		return false;
	for (const PROCLOCK *held = compat_first_lock(proc, partition);
	     held != NULL && !found; held = compat_next_lock(proc, partition, held))
	{
		*tag = held->tag.myLock->tag;
		found = tag->locktag_type == LOCKTAG_TUPLE && held->holdMask != 0;
	}
	LWLockRelease(lock);
	return found;
}

/*
 * The relation of the row that a session waits for, from the row's tuple lock.
 */
static bool
row_of_waiter(const PGPROC *proc, LOCKTAG *tag)
{
	for (int i = 0; i < NUM_LOCK_PARTITIONS; i++)
	{
		if (compat_first_lock(proc, i) != NULL && find_tuple_lock(proc, i, tag))
			return true;
	}
	return false;
}

static LockObject
object_of(PGPROC *proc, uint32 wait_event)
{
	LockObject object = { .type = (uint8) (wait_event & PG_UINT8_MAX) };
	LOCKTAG tag;
	LOCKTAG row;
	LOCKMODE mode;

	if (!read_wait(proc, &tag, &mode) || tag.locktag_type != object.type ||
	    mode <= NoLock || mode > MaxLockMode)
		return object;
	object.mode = (uint8) mode;
	if (tag.locktag_type == LOCKTAG_TRANSACTION && row_of_waiter(proc, &row))
		tag = row;
	if (names_relation(&tag))
	{
		object.database = tag.locktag_field1;
		object.relation = tag.locktag_field2;
	}
	return object;
}

/* ---- the table ----------------------------------------------------------- */

/* Find the entry of an object, or make one. */
static LockWaits *
entry_of(const LockObject *object)
{
	uint32 place = hash_bytes((const unsigned char *) object, sizeof(*object));

	for (;; place++)
	{
		LockWaits *entry = &table->slot[place % SLOTS];

		if (pg_atomic_read_u32(&entry->used) == 0)
		{
			if (table->count == OBJECTS_MAX)
				return &table->others;
			entry->object = *object;

			/*
			 * The entry is complete before it is marked as used; entries are
			 * read with the matching barrier.
			 */
			pg_write_barrier();
			pg_atomic_write_u32(&entry->used, 1);
			table->count++;
			return entry;
		}
		if (memcmp(&entry->object, object, sizeof(*object)) == 0)
			return entry;
	}
}

void
sampler_locks_count(uint32 place, uint32 wait_event, uint32 covers_us)
{
	LockObject object;
	LockWaits *entry;

	Assert(place < sampler_process_count);
	Assert(pg_atomic_read_u32(&sampler_shared->pid) == (uint32) MyProcPid);
	object = object_of(&ProcGlobal->allProcs[place], wait_event);
	if (object.type > LOCKTAG_LAST_TYPE) /* should not happen */
		return;
	entry = entry_of(&object);
	pg_atomic_fetch_add_u64(&entry->samples, 1);
	pg_atomic_fetch_add_u64(&entry->covers_us, covers_us);
}

/* ---- the view ------------------------------------------------------------ */

static void
put_waits(ReturnSetInfo *result, LockWaits *waits)
{
	const LockObject *object = &waits->object;
	bool is_other = object->type == TYPE_OTHER;
	Datum values[6];
	bool nulls[6] = { 0 };
	int column = 0;

	Assert(result->setDesc->natts == lengthof(values));
	Assert(is_other || object->type <= LOCKTAG_LAST_TYPE);
	nulls[column] = !OidIsValid(object->database);
	values[column++] = ObjectIdGetDatum(object->database);
	nulls[column] = !OidIsValid(object->relation);
	values[column++] = ObjectIdGetDatum(object->relation);
	values[column++] = CStringGetTextDatum(
		is_other ? "other" : LockTagTypeNames[object->type]);
	nulls[column] = is_other;
	values[column++] = is_other ? (Datum) 0
	                            : CStringGetTextDatum(GetLockmodeName(
									  DEFAULT_LOCKMETHOD, object->mode));
	values[column++] =
		Int64GetDatum((int64) pg_atomic_read_u64(&waits->samples));
	values[column++] =
		Float8GetDatum((double) pg_atomic_read_u64(&waits->covers_us) / 1e6);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_lock_waits_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &lock_waits_columns);
	if (table == NULL)
		return (Datum) 0;

	for (int i = 0; i < SLOTS; i++)
	{
		if (pg_atomic_read_u32(&table->slot[i].used) == 0)
			continue;

		/* In use, so complete: see entry_of(). */
		pg_read_barrier();
		put_waits(result, &table->slot[i]);
	}
	if (pg_atomic_read_u64(&table->others.samples) > 0)
		put_waits(result, &table->others);
	return (Datum) 0;
}
