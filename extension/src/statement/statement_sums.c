/*
 * statement_sums.c
 *		Sums by user, database and query, in shared memory of fixed size.
 *
 * A statement has a place in a set of WAYS places, chosen by a hash of its key.
 * When the set is full, its least used statement moves to the sum of all
 * others, so that the total stays right; statements without an identifier are
 * added to that, too.  Use is counted in calls, and halved whenever the set
 * displaces a statement, so that one that is no longer used leaves in the end.
 *
 * Locking: each set belongs to one of LOCKS locks.  A process that adds to a
 * known statement holds it in shared mode, and adds atomically; one that adds a
 * new statement holds it exclusively.  A process takes no other lock while it
 * holds one of these, and nothing can fail meanwhile, because errors and
 * aborted transactions are counted, too.
 *
 * If a process crashes, the sums are lost, like those of pg_stat_statements.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#include "bridge/bridge.h"
#include "server/shmem.h"
#include "settings.h"
#include "statement/statement.h"

#define TRANCHE "pgflash_statements"
#define WAYS    16
#define LOCKS   64

/* StatementSums consists of this many numbers. */
#define COUNTERS (sizeof(StatementSums) / sizeof(uint64))

typedef struct Entry
{
	StatementKey key; /* query_id 0: the place is empty */
	TimestampTz since;
	uint64 unused; /* its use is the calls beyond these */
	pg_atomic_uint64 counter[COUNTERS];
} Entry;

/* calls is the first of them. */
#define CALLS 0

/* Comparing tags first skips most statements of a set. */
typedef struct Set
{
	uint32 tag[WAYS];
	Entry entry[WAYS];
} Set;

typedef struct Shared
{
	/* Of other statements, by lock and whether at the top. */
	Entry others[LOCKS][2];
	Set set[FLEXIBLE_ARRAY_MEMBER];
} Shared;

static Shared *shared;
static LWLockPadded *locks;

static uint32
set_count(void)
{
	return ((uint32) setting_statements_max + WAYS - 1) / WAYS;
}

static uint64
hash_of(const StatementKey *key)
{
	/* The query's identifier is a hash already. */
	uint64 hash = hash_combine64(
		hash_combine64((uint64) key->query_id, key->user), key->database);

	return hash ^ (hash >> 32) ^ key->toplevel;
}

static LWLock *
lock_of(uint32 set)
{
	return &locks[set % LOCKS].lock;
}

static bool
same(const StatementKey *a, const StatementKey *b)
{
	return a->query_id == b->query_id && a->user == b->user &&
	       a->database == b->database && a->toplevel == b->toplevel;
}

static Entry *
find(Set *set, uint32 tag, const StatementKey *key)
{
	for (int way = 0; way < WAYS; way++)
	{
		if (set->tag[way] == tag && same(&set->entry[way].key, key))
			return &set->entry[way];
	}
	return NULL;
}

/* Skip zeros: most counters of a statement are zero. */
static void
add(Entry *entry, const uint64 *amount)
{
	for (Size i = 0; i < COUNTERS; i++)
	{
		if (amount[i] != 0)
			pg_atomic_fetch_add_u64(&entry->counter[i], (int64) amount[i]);
	}
}

static void
read_entry(Entry *entry, StatementRow *out)
{
	uint64 *to = (uint64 *) &out->sums;

	for (Size i = 0; i < COUNTERS; i++)
		to[i] = pg_atomic_read_u64(&entry->counter[i]);
	out->key = entry->key;
	out->since = entry->since;
}

static void
empty(Entry *entry, TimestampTz since)
{
	memset(&entry->key, 0, sizeof(entry->key));
	entry->since = since;
	entry->unused = 0;
	for (Size i = 0; i < COUNTERS; i++)
		pg_atomic_write_u64(&entry->counter[i], 0);
}

static uint64
use_of(Entry *entry)
{
	return pg_atomic_read_u64(&entry->counter[CALLS]) - entry->unused;
}

/* Make a place in the set, whose lock is held exclusively. */
static int
make_place(Set *set, Entry others[2])
{
	int least = 0;
	StatementRow row;

	for (int way = 0; way < WAYS; way++)
	{
		if (set->entry[way].key.query_id == 0)
			return way;
		if (use_of(&set->entry[way]) < use_of(&set->entry[least]))
			least = way;
	}
	for (int way = 0; way < WAYS; way++)
		set->entry[way].unused += use_of(&set->entry[way]) / 2;
	read_entry(&set->entry[least], &row);
	add(&others[row.key.toplevel], (const uint64 *) &row.sums);
	empty(&set->entry[least], 0);
	return least;
}

/*
 * A statement without an identifier may use any lock, but processes should not
 * all use the same one.
 */
static void
add_nameless(const StatementKey *key, const uint64 *amount)
{
	uint32 lock = (uint32) MyProcPid % LOCKS;

	LWLockAcquire(lock_of(lock), LW_SHARED);
	add(&shared->others[lock][key->toplevel], amount);
	LWLockRelease(lock_of(lock));
}

void
statement_sums_add(const StatementKey *key, const StatementSums *sums)
{
	const uint64 *amount = (const uint64 *) sums;
	uint64 hash = hash_of(key);
	uint32 tag = (uint32) (hash >> 32);
	uint32 number = (uint32) (hash % set_count());
	Set *set;
	Entry *entry;

	if (!statement_sums_attached())
		return;
	if (key->query_id == 0)
	{
		add_nameless(key, amount);
		return;
	}
	set = &shared->set[number];
	LWLockAcquire(lock_of(number), LW_SHARED);
	entry = find(set, tag, key);
	if (entry != NULL)
		add(entry, amount);
	LWLockRelease(lock_of(number));
	if (entry != NULL)
		return;

	LWLockAcquire(lock_of(number), LW_EXCLUSIVE);
	entry = find(set, tag, key);
	if (entry == NULL)
	{
		int way = make_place(set, shared->others[number % LOCKS]);

		set->tag[way] = tag;
		entry = &set->entry[way];
		entry->key = *key;
		entry->since = GetCurrentTimestamp();
	}
	add(entry, amount);
	LWLockRelease(lock_of(number));
}

void
statement_sums_reset(void)
{
	TimestampTz now = GetCurrentTimestamp();

	Assert(statement_sums_attached());
	for (uint32 lock = 0; lock < LOCKS; lock++)
	{
		LWLockAcquire(lock_of(lock), LW_EXCLUSIVE);
		empty(&shared->others[lock][false], now);
		empty(&shared->others[lock][true], now);
		for (uint32 set = lock; set < set_count(); set += LOCKS)
		{
			for (int way = 0; way < WAYS; way++)
				empty(&shared->set[set].entry[way], 0);
		}
		LWLockRelease(lock_of(lock));
	}
}

uint32
statement_sums_places(void)
{
	return statement_sums_attached() ? set_count() * WAYS : 0;
}

static bool
others_row(bool toplevel, StatementRow *out)
{
	uint64 *to = (uint64 *) &out->sums;

	memset(out, 0, sizeof(*out));
	out->key.toplevel = toplevel;
	for (uint32 lock = 0; lock < LOCKS; lock++)
	{
		StatementRow row;

		LWLockAcquire(lock_of(lock), LW_SHARED);
		read_entry(&shared->others[lock][toplevel], &row);
		LWLockRelease(lock_of(lock));
		for (Size i = 0; i < COUNTERS; i++)
			to[i] += ((const uint64 *) &row.sums)[i];
		out->since = row.since;
	}
	return out->sums.calls > 0;
}

bool
statement_sums_row(uint32 place, StatementRow *out)
{
	uint32 places = statement_sums_places();
	uint32 set = place / WAYS;

	Assert(statement_sums_attached() && place < places + STATEMENT_OTHERS);
	if (place >= places)
		return others_row(place > places, out);
	LWLockAcquire(lock_of(set), LW_SHARED);
	read_entry(&shared->set[set].entry[place % WAYS], out);
	LWLockRelease(lock_of(set));
	return out->key.query_id != 0;
}

/* ---- memory -------------------------------------------------------------- */

bool
statement_sums_attached(void)
{
	return shared != NULL;
}

static void
request(void)
{
	RequestNamedLWLockTranche(TRANCHE, LOCKS);
}

static size_t
size_bytes(void)
{
	return offsetof(Shared, set) + set_count() * sizeof(Set);
}

static void
initialize(Entry *entry, TimestampTz since)
{
	/* All zeros is empty; but some machines have no 64-bit atomics. */
	for (Size i = 0; i < COUNTERS; i++)
		pg_atomic_init_u64(&entry->counter[i], 0);
	entry->since = since;
}

static void
start(void *memory)
{
	TimestampTz now = GetCurrentTimestamp();

	shared = memory;
	for (uint32 lock = 0; lock < LOCKS; lock++)
	{
		initialize(&shared->others[lock][false], now);
		initialize(&shared->others[lock][true], now);
	}
	for (uint32 place = 0; place < set_count() * WAYS; place++)
		initialize(&shared->set[place / WAYS].entry[place % WAYS], 0);
	locks = GetNamedLWLockTranche(TRANCHE);
}

static void
end(bool for_good)
{
	(void) for_good;
	shared = NULL;
}

void
statement_sums_install(void)
{
	static const SharedPart part = { .name = "pgflash statements",
		                             .request = request,
		                             .size_bytes = size_bytes,
		                             .start = start,
		                             .end = end };

	StaticAssertStmt(sizeof(StatementSums) % sizeof(uint64) == 0,
	                 "sums are numbers");
	Assert(bridge_redirected());
	shmem_add(&part);
}
