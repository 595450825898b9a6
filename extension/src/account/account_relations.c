/*
 * account_relations.c
 *		Counters of relations, by file number: a table in shared memory.
 *
 * A relation's fork has one place, however many segment files it has.  Its key
 * is taken from the names of its files (tablespace, database, file number,
 * fork), since hooks know nothing else; views find the relation's name.  A key
 * may be in any of WINDOW places from that of its hash on, so a search reads a
 * few cache lines of keys.  That happens once per descriptor: the open file's
 * entry remembers the place and its life.
 *
 * A place has RELATION_COPIES copies of the counters.  A process adds to the
 * copy that its processor's number selects; readers add up all copies.  Keys
 * and tags are stored separately, in cache lines that counting only reads.
 *
 * A place's tag consists of its state and its life, a number that changes when
 * the place is given to another relation:
 *
 *	EMPTY	never used
 *	CLAIMED	a process is giving it to a relation
 *	LIVE	in use by a relation
 *	GONE	likewise, but the relation's file was removed
 *
 * A place that is gone keeps its counts until it is needed, so that a regular
 * reader sees what happened to a relation before it was dropped or rewritten.
 * A new relation takes an empty place, or else one that is gone; otherwise it
 * is counted in the last place, "other", until a relation is removed.
 *
 * Locking: none.  A place is claimed by compare-and-swap, filled, and published
 * by a store of its tag.  Two processes that meet the same relation for the
 * first time at the same moment look at the same places in the same order.  So
 * one finds what the other has claimed, waits some nanoseconds, and shares it;
 * if it takes longer, the call counts as "other".  If they claim two different
 * places that are just gone, the relation has two places, and readers add them
 * up.  A call in progress while its place is given away may be counted for the
 * new relation; totals are kept elsewhere and stay right.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <string.h>

#include "account/account_calls.h"
#include "account/account_shared.h"
#include "broken.h"
#include "fcache/assert.h"
#include "hooks/runtime.h"

#define WINDOW      64
#define SPINS       200
#define CLAIM_TRIES 4

#define NO_PLACE UINT32_MAX

enum
{
	EMPTY,
	CLAIMED,
	LIVE,
	GONE
};

#define TAG(life, state) ((uint64_t) (life) << 2 | (state))

typedef struct Key
{
	uint64_t space_and_database;
	uint64_t relation_and_fork;
} Key;

/* The result of a search; places are NO_PLACE if there is none. */
typedef struct Found
{
	uint32_t place; /* of the key */
	uint64_t tag;   /* its tag, while it had the key */
	uint32_t empty; /* the first empty one */
	uint32_t gone;
	bool busy; /* another process takes too long to claim a place */
} Found;

static unsigned
state_of(uint64_t tag)
{
	return (unsigned) (tag & 3);
}

/*
 * Acquire: a process that sees a place live sees the key and the zeros that
 * give() stored.
 */
static uint64_t
tag_of(uint32_t place)
{
	FC_ASSERT(place < account_memory.places);
	return atomic_load_explicit(&account_memory.keys[place].tag,
	                            memory_order_acquire);
}

static Key
key_of(FcFileId id)
{
	return (Key){ (uint64_t) id.tablespace << 32 | id.database,
		          (uint64_t) id.relation << 32 | id.fork };
}

static bool
same(Key a, Key b)
{
	return a.space_and_database == b.space_and_database &&
	       a.relation_and_fork == b.relation_and_fork;
}

static Key
key_at(uint32_t place)
{
	const RelationKey *key = &account_memory.keys[place];

	FC_ASSERT(place < account_memory.places);
	return (Key){ account_get(&key->space_and_database),
		          account_get(&key->relation_and_fork) };
}

static uint32_t
window_size(void)
{
	return account_memory.places < WINDOW ? account_memory.places : WINDOW;
}

/* The first place that a key may have. */
static uint32_t
first_place(Key key)
{
	uint64_t hash = key.space_and_database * 0x9e3779b97f4a7c15ULL;

	FC_ASSERT(account_memory.places > 0);
	hash = (hash ^ key.relation_and_fork) * 0xff51afd7ed558ccdULL;
	hash = (hash ^ hash >> 32) * 0xc4ceb9fe1a85ec53ULL;
	return (uint32_t) ((hash >> 32) % account_memory.places);
}

static uint32_t
next_place(uint32_t place)
{
	return place + 1 < account_memory.places ? place + 1 : 0;
}

/* A place's tag, once no process is claiming it. */
static uint64_t
settled_tag(uint32_t place)
{
	uint64_t tag = tag_of(place);

	for (int i = 0; state_of(tag) == CLAIMED && i < SPINS; i++)
	{
		/* The fence keeps the compiler from merging the loads. */
		atomic_signal_fence(memory_order_seq_cst);
		tag = tag_of(place);
	}
	return tag;
}

/*
 * Does the place have the key, and has it had it ever since its tag was this?
 * The fence keeps the loads of the key before the second load of the tag.  With
 * the fence in give(), a process that sees a word of the next key sees the next
 * life.
 */
static bool
has_key(uint32_t place, uint64_t tag, Key key)
{
	if (!same(key_at(place), key))
		return false;
	atomic_thread_fence(memory_order_acquire);
	return tag_of(place) >> 2 == tag >> 2;
}

static Found
search(Key key)
{
	Found found = { NO_PLACE, 0, NO_PLACE, NO_PLACE, false };
	uint32_t place = first_place(key);

	for (uint32_t i = 0; i < window_size(); i++, place = next_place(place))
	{
		uint64_t tag = settled_tag(place);

		switch (state_of(tag))
		{
			case EMPTY:
				if (found.empty == NO_PLACE)
					found.empty = place;
				break;
			case CLAIMED:
				found.busy = true;
				break;
			case GONE:
				if (found.gone == NO_PLACE)
					found.gone = place;
				/* fall through */
			default:
				if (has_key(place, tag, key))
				{
					found.place = place;
					found.tag = tag;
					return found;
				}
				break;
		}
	}
	return found;
}

/* Relaxed: the store of the tag in give() releases it. */
static void
clear(RelationPlace *place)
{
	int copies = FC_BROKEN(ACCOUNT_ANEW) ? 1 : RELATION_COPIES;

	for (int copy = 0; copy < copies; copy++)
	{
		for (int i = 0; i < RELATION_COUNTERS; i++)
			atomic_store_explicit(&place->copy[copy].counter[i], 0,
			                      memory_order_relaxed);
	}
}

/*
 * Give a place to a relation; false if another process was faster.  *tag is the
 * place's old tag and becomes its new one.
 */
static bool
give(uint32_t place, uint64_t *tag, Key key)
{
	RelationKey *at = &account_memory.keys[place];
	uint64_t life = (*tag >> 2) + 1;

	FC_ASSERT(state_of(*tag) == EMPTY || state_of(*tag) == GONE);
	if (!atomic_compare_exchange_strong(&at->tag, tag, TAG(life, CLAIMED)))
		return false;

	/*
	 * Without it, 64-bit ARM may make a store below visible before the tag of
	 * this life, which a store-conditional has written.  The key's stores are
	 * relaxed: the tag's release publishes them.
	 */
	atomic_thread_fence(memory_order_release);
	clear(&account_memory.relations[place]);
	atomic_store_explicit(&at->space_and_database, key.space_and_database,
	                      memory_order_relaxed);
	atomic_store_explicit(&at->relation_and_fork, key.relation_and_fork,
	                      memory_order_relaxed);
	*tag = TAG(life, LIVE);
	atomic_store_explicit(&at->tag, *tag, memory_order_release);
	return true;
}

/* The key's place and its tag; a new place if it has none. */
static uint32_t
find_or_take(Key key, uint64_t *tag_out, bool *full_out)
{
	*full_out = false;
	for (int i = 0; i < CLAIM_TRIES; i++)
	{
		Found found = search(key);
		uint32_t free = found.empty != NO_PLACE ? found.empty : found.gone;

		*tag_out = found.tag;
		if (found.place != NO_PLACE || found.busy)
			return found.place;
		if (free == NO_PLACE)
		{
			*full_out = true;
			return NO_PLACE;
		}
		*tag_out = tag_of(free);
		if ((state_of(*tag_out) == EMPTY || state_of(*tag_out) == GONE) &&
		    give(free, tag_out, key))
			return free;
	}
	return NO_PLACE;
}

/* The place of an open file's relation, or else the one for "other". */
static __attribute__((noinline)) uint32_t
look_up(OpenFile *file)
{
	AccountFile *known = &file->account;
	uint32_t epoch =
		(uint32_t) account_get(&account_memory.shared->relation_epoch) + 1;
	uint32_t place;
	uint64_t tag;
	bool full;

	FC_ASSERT(account_is_mapped());
	known->place = 0;
	if (known->full_epoch == epoch || account_memory.places == 0)
		return account_memory.places;

	place = find_or_take(key_of(file->file.id), &tag, &full);
	if (place == NO_PLACE)
	{
		known->full_epoch = full ? epoch : 0;
		return account_memory.places;
	}
	known->life = (uint32_t) (tag >> 2);
	known->place = place + 1;
	return place;
}

RelationCounters *
account_relation_of(OpenFile *file, unsigned processor)
{
	const AccountFile *known = &file->account;
	uint32_t place = known->place - 1;

	/*
	 * Relaxed: if a life ends meanwhile, or its end is seen late, a call is
	 * counted for the next relation, as the essay says.
	 */
	if (known->place == 0 ||
	    (uint32_t) (atomic_load_explicit(&account_memory.keys[place].tag,
	                                     memory_order_relaxed) >>
	                2) != known->life)
		place = look_up(file);
	FC_ASSERT(place <= account_memory.places);
	return &account_memory.relations[place].copy[processor % RELATION_COPIES];
}

/* ---- files created and removed ------------------------------------------- */

/* The place of the relation with this path, if that is a fork's first file. */
static Found
find_path(const char *path)
{
	Found found = { .place = NO_PLACE };
	FilePlace place;

	if (!account_is_mapped() || account_memory.places == 0)
		return found;
	place = paths_classify(&runtime.root, path);
	if (place.class != FILE_RELATION || place.id.segment != 0)
		return found;
	return search(key_of(place.id));
}

/* Change the state of the relation with this path from one to another. */
static bool
set_state(const char *path, unsigned from, unsigned to)
{
	Found found = find_path(path);

	FC_ASSERT(from != to && to != CLAIMED);
	return found.place != NO_PLACE && state_of(found.tag) == from &&
	       atomic_compare_exchange_strong(&account_memory.keys[found.place].tag,
	                                      &found.tag, TAG(found.tag >> 2, to));
}

void
account_removed(const char *path)
{
	if (set_state(path, LIVE, GONE))
		account_add(&account_memory.shared->relation_epoch, 1);
}

/*
 * Unlogged relations get new files of the same names after a crash, and all
 * file numbers recur eventually.  Counts continue, so that they never decrease.
 */
void
account_created(const char *path)
{
	(void) set_state(path, GONE, LIVE);
}

void
account_relations_tidy(void)
{
	for (uint32_t place = 0; place < account_memory.places; place++)
	{
		uint64_t tag = tag_of(place);

		/* The key may not have been written. */
		if (state_of(tag) == CLAIMED)
			atomic_store(&account_memory.keys[place].tag,
			             TAG((tag >> 2) + 1, EMPTY));
	}
}

/* ---- views --------------------------------------------------------------- */

uint32_t
account_relation_places(void)
{
	return account_memory.places;
}

/* Does a place with this tag belong to a relation? */
static bool
is_given(uint64_t tag)
{
	return state_of(tag) == LIVE || state_of(tag) == GONE;
}

static void
set_key(AccountRelation *out, Key key)
{
	out->tablespace = (uint32_t) (key.space_and_database >> 32);
	out->database = (uint32_t) key.space_and_database;
	out->relation = (uint32_t) (key.relation_and_fork >> 32);
	out->fork = (uint32_t) key.relation_and_fork;
}

static void
add_counters(AccountRelation *out, uint32_t place)
{
	const RelationPlace *from = &account_memory.relations[place];
	int copies = FC_BROKEN(ACCOUNT_COPIES) ? 1 : RELATION_COPIES;
	uint64_t counter[RELATION_COUNTERS] = { 0 };

	FC_ASSERT(place <= account_memory.places);
	for (int copy = 0; copy < copies; copy++)
	{
		for (int i = 0; i < RELATION_COUNTERS; i++)
			counter[i] += account_get(&from->copy[copy].counter[i]);
	}

	out->read_bytes += counter[RELATION_READ_BYTES];
	for (int kind = ACCOUNT_DISK_READ; kind <= ACCOUNT_FLASH_READ; kind++)
	{
		out->kind[kind].calls += counter[RELATION_READS + 2 * kind];
		out->kind[kind].ns += counter[RELATION_READS + 2 * kind + 1];
	}
	for (int i = 0; i < 2; i++)
	{
		const uint64_t *of =
			&counter[i == 0 ? RELATION_WRITE : RELATION_EXTEND];
		AccountCount *to = &out->kind[i == 0 ? ACCOUNT_WRITE : ACCOUNT_EXTEND];

		to->calls += of[0];
		to->bytes += of[1];
		to->ns += of[2];
	}
	out->kind[ACCOUNT_SYNC].calls += counter[RELATION_SYNC];
	out->kind[ACCOUNT_SYNC].ns += counter[RELATION_SYNC + 1];
}

/* Add up the places of a key; false if this is not the first of them. */
static bool
add_places(Key key, uint32_t first, AccountRelation *out)
{
	uint32_t place = first_place(key);
	bool is_first = true;

	for (uint32_t i = 0; i < window_size(); i++, place = next_place(place))
	{
		uint64_t tag = tag_of(place);

		if (!is_given(tag) || !same(key_at(place), key))
			continue;
		if (is_first && place != first)
			return false;
		is_first = false;
		out->gone = out->gone && state_of(tag) == GONE;
		add_counters(out, place);
	}
	return !is_first;
}

bool
account_relation(uint32_t place, AccountRelation *out)
{
	uint64_t tag;
	Key key;

	FC_ASSERT(place <= account_memory.places);
	memset(out, 0, sizeof(*out));
	if (place == account_memory.places)
	{
		add_counters(out, place);
		return true;
	}

	tag = tag_of(place);
	if (!is_given(tag))
		return false;
	key = key_at(place);
	set_key(out, key);
	out->gone = true;
	return add_places(key, place, out) && tag_of(place) >> 2 == tag >> 2;
}

/*
 * Counters only grow, so the sum is unchanged if and only if all of them are.
 */
static uint64_t
sum_of(uint32_t place)
{
	const RelationPlace *of = &account_memory.relations[place];
	int copies = FC_BROKEN(ACCOUNT_CHANGES) ? 1 : RELATION_COPIES;
	uint64_t sum = 0;

	FC_ASSERT(place <= account_memory.places);
	for (int copy = 0; copy < copies; copy++)
	{
		for (int i = 0; i < RELATION_COUNTERS; i++)
			sum += account_get(&of->copy[copy].counter[i]);
	}
	return sum;
}

bool
account_relation_changed(uint32_t place, AccountSeen *seen,
                         AccountRelation *out)
{
	bool is_other = place == account_memory.places;
	AccountSeen now = { .tag = is_other ? 0 : tag_of(place) };

	FC_ASSERT(place <= account_memory.places);
	if (!is_other && !is_given(now.tag))
		return false;

	/* Read before the counters: what is added in between is seen next time. */
	now.sum = sum_of(place);
	if (now.tag == seen->tag && now.sum == seen->sum)
		return false;

	memset(out, 0, sizeof(*out));
	add_counters(out, place);
	if (!is_other)
	{
		set_key(out, key_at(place));
		out->gone = state_of(now.tag) == GONE;

		/* As in has_key(). */
		atomic_thread_fence(memory_order_acquire);
		if (tag_of(place) >> 2 != now.tag >> 2)
			return false;
	}
	*seen = now;
	return true;
}
