/*
 * index.c
 *		Which slot holds a block: sets of 64 entries, without a lock.
 *
 * A block's key chooses its set; the entry's number is the slot's number.  An
 * entry is empty, valid, or held by the one process that fills its slot:
 *
 *	EMPTY --claim--> FILLING --publish--> VALID --invalidate, claim-->
 *	                 FILLING --invalidate--> DOOMED --abandon--> EMPTY
 *
 * Every step is one compare-and-swap of the entry's meta word, and claiming and
 * emptying move its sequence, so a step taken by anybody else makes ours fail.
 * A slot in FILLING or DOOMED belongs to its owner, who may be writing it: nobody
 * else takes it until the owner lets go, or is gone.
 *
 * Why no stale block can be published.  A filler claims the entry and writes the
 * key, then compares the generations it noted before the real read.  A changer
 * moves the generation, then looks at all 64 keys.  If the changer's look came
 * before the key was written, the filler's comparison comes after the move and
 * fails.  If it came later, the changer finds the claim and dooms it, or finds
 * it valid and empties it.
 *
 * The same block may come to lie in two ways, if two processes fill it at once;
 * both copies are right, and invalidation, which always looks at every way,
 * takes both.
 *
 * SPDX-License-Identifier: PostgreSQL
 */

#include "devices.h"
#include "shared.h"

/* A claim lost to other processes this often counts as "writer overloaded". */
#define CLAIM_TRIES 4

static FcSet *
set_of_slot(const FcShared *shared, uint32_t slot)
{
	return fc_set(shared, slot / FC_WAYS);
}

static bool
same_key(uint64_t a, uint64_t b)
{
	if (FC_BROKEN(FULL_KEY))
		return (uint32_t) a == (uint32_t) b;
	return a == b;
}

static FcCandidate
candidate_of(const FcShared *shared, uint64_t key)
{
	const FcFileId *id = &fc_files(shared)[fc_key_file(key)].id;
	uint64_t relation =
		(uint64_t) id->database << 32 ^ (uint64_t) id->relation << 2 ^ id->fork;

	return (FcCandidate){
		.fingerprint = (uint32_t) fc_mix(key),
		.relation = (uint8_t) fc_mix(relation),
	};
}

static FcPolicyPlace
policy_place(const FcShared *shared, uint32_t set_number)
{
	return (FcPolicyPlace){
		.set = fc_set(shared, set_number)->policy_state,
		.shared = FC_AT(shared, policy_offset, void),
		.set_number = set_number,
		.set_count = fc_geometry_new(atomic_load(&shared->geometry)),
	};
}

/* ---- looking ------------------------------------------------------------- */

static bool
find_in(const FcShared *shared, uint32_t number, uint64_t key, FcSeen *seen)
{
	FcSet *set = fc_set(shared, number);

	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		if (!same_key(
				atomic_load_explicit(&set->key[way], memory_order_relaxed),
				key))
			continue;

		/* The key is this entry's only if it stands between two equal metas. */
		uint64_t meta = atomic_load(&set->meta[way]);

		if (fc_meta_state(meta) != FC_VALID ||
		    !same_key(atomic_load(&set->key[way]), key) ||
		    atomic_load(&set->meta[way]) != meta)
			continue;
		seen->slot = number * FC_WAYS + way;
		seen->meta = meta;
		return true;
	}
	return false;
}

bool
fc_index_find(const FcShared *shared, uint64_t key, FcSeen *seen)
{
	uint64_t geometry = atomic_load(&shared->geometry);
	uint32_t home = fc_home(shared, key, fc_geometry_new(geometry));

	if (find_in(shared, home, key, seen))
		return true;
	if (!fc_geometry_moving(geometry))
		return false;

	/* It may not have been moved yet. */
	FC_POINT("looked-at-new-home");
	uint32_t old_home = fc_home(shared, key, fc_geometry_old(geometry));

	return old_home != home && find_in(shared, old_home, key, seen);
}

bool
fc_index_holds(const FcShared *shared, uint64_t key, const FcSeen *seen)
{
	FcSet *set = set_of_slot(shared, seen->slot);
	unsigned way = seen->slot % FC_WAYS;

	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&set->meta[way]) == seen->meta &&
	       same_key(atomic_load(&set->key[way]), key) &&
	       atomic_load(&set->meta[way]) == seen->meta;
}

void
fc_index_touch(FcCache *cache, const FcSeen *seen)
{
	FcPolicyPlace place = policy_place(cache->shared, seen->slot / FC_WAYS);

	cache->policy->touched(&place, seen->slot % FC_WAYS);
}

/* ---- changing -------------------------------------------------------------- */

/* Empty a valid entry; the key stays, to recognise the way by. */
static bool
empty(const FcShared *shared, FcSet *set, unsigned way, uint64_t meta)
{
	uint64_t key = atomic_load(&set->key[way]);
	bool counted = fc_blocks_counted(shared);

	if (!atomic_compare_exchange_strong(&set->meta[way], &meta,
	                                    fc_meta_next(meta, FC_EMPTY, 0)))
		return false;
	if (counted)
		fc_file_block_leaves(shared, fc_key_file(key), (uint32_t) key);
	return true;
}

/* A fill under way is no longer wanted; its owner will find out. */
static bool
doom(FcSet *set, unsigned way, uint64_t meta)
{
	if (FC_BROKEN(DOOM))
		return true;
	return atomic_compare_exchange_strong(&set->meta[way], &meta,
	                                      (meta & ~FC_META_STATE_MASK) |
	                                          (uint64_t) FC_DOOMED);
}

/* Take the claim away from an owner that will never come back. */
static bool
take_over(FcCache *cache, FcSet *set, unsigned way, uint64_t meta)
{
	/*
	 * What the owner counted in stays counted: whether it did is not known, and
	 * chunk counters may be too high but not too low.
	 */
	if (!atomic_compare_exchange_strong(&set->meta[way], &meta,
	                                    fc_meta_next(meta, FC_EMPTY, 0)))
		return false;
	fc_count(cache, FC_COUNT_takeovers, 1);
	return true;
}

bool
fc_index_drop(const FcShared *shared, uint64_t key, const FcSeen *seen)
{
	FcSet *set = set_of_slot(shared, seen->slot);

	return fc_index_holds(shared, key, seen) &&
	       empty(shared, set, seen->slot % FC_WAYS, seen->meta);
}

/* Whatever this way holds of the block, make it go. */
static bool
invalidate_way(FcCache *cache, FcSet *set, unsigned way, uint64_t key)
{
	/*
	 * A failed swap means that somebody else moved the entry on.  If it still
	 * has our key then, look again; if not, whoever claimed it will compare the
	 * generation that we have already moved.
	 */
	while (same_key(atomic_load(&set->key[way]), key))
	{
		uint64_t meta = atomic_load(&set->meta[way]);

		FC_POINT("entry-looked-at");
		switch (fc_meta_state(meta))
		{
			case FC_EMPTY:
			case FC_DOOMED:
				return false;
			case FC_FILLING:
				if (doom(set, way, meta))
					return false;
				break;
			case FC_VALID:
				if (empty(cache->shared, set, way, meta))
					return true;
				break;
		}
		if (FC_BROKEN(LOOK_AGAIN))
			return false;
	}
	return false;
}

bool
fc_index_doom(const FcShared *shared, const FcSeen *seen)
{
	return doom(set_of_slot(shared, seen->slot), seen->slot % FC_WAYS,
	            seen->meta);
}

bool
fc_index_take_over(FcCache *cache, const FcSeen *seen)
{
	FcState state = fc_meta_state(seen->meta);

	return (state == FC_FILLING || state == FC_DOOMED) &&
	       fc_owner_gone(cache, fc_meta_high(seen->meta)) &&
	       take_over(cache, set_of_slot(cache->shared, seen->slot),
	                 seen->slot % FC_WAYS, seen->meta);
}

static bool
invalidate_in(FcCache *cache, uint64_t key, FcHome *home)
{
	FcSet *set = fc_set(cache->shared, home->set);
	bool was_cached = false;

	home->generation = atomic_fetch_add(&set->generation, 1) + 1;
	FC_POINT("set-generation-moved");
	if (FC_BROKEN(INVALIDATE) ||
	    (FC_BROKEN(BYPASSED) && !fc_set_usable(cache, home->set)))
		return false;

	/* Not relaxed: no look may come before the generation's move. */
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		if (same_key(atomic_load(&set->key[way]), key) &&
		    invalidate_way(cache, set, way, key))
			was_cached = true;
		if (FC_BROKEN(EVERY_WAY) && was_cached)
			break;
	}

	if (was_cached)
		fc_count(cache, FC_COUNT_eviction_invalidated, 1);
	return was_cached;
}

/* At both homes: the old one first, since that is the way a block moves. */
static bool
invalidate_homes(FcCache *cache, uint64_t key, uint64_t geometry,
                 FcHome *home_out)
{
	FcShared *shared = cache->shared;
	FcHome home = { .set = fc_home(shared, key, fc_geometry_new(geometry)) };
	FcHome old = { .set = fc_home(shared, key, fc_geometry_old(geometry)) };
	bool twice = old.set != home.set && !FC_BROKEN(OLD_HOME);
	bool old_first = !FC_BROKEN(HOME_ORDER);
	bool was_cached = false;

	if (twice && old_first)
		was_cached |= invalidate_in(cache, key, &old);
	FC_POINT("between-homes");
	was_cached |= invalidate_in(cache, key, &home);
	if (twice && !old_first)
		was_cached |= invalidate_in(cache, key, &old);
	*home_out = home;
	return was_cached;
}

bool
fc_index_invalidate(FcCache *cache, uint64_t key, FcHome *home_out)
{
	bool was_cached = false;
	FcFrame frame;

	/* Again if the size began or ceased to change meanwhile: see resize.c. */
	do
	{
		frame = fc_frame(cache->shared);
		FC_POINT("frame-noted");
		was_cached |= invalidate_homes(cache, key, frame.geometry, home_out);
	} while (!fc_frame_stands(cache->shared, &frame) && !FC_BROKEN(FRAME));
	return was_cached;
}

/* ---- filling --------------------------------------------------------------- */

/* What a filler finds in a set. */
typedef struct Survey
{
	bool exists;
	unsigned same_way; /* emptied, but the same block's; or FC_WAY_NONE */
	uint64_t free;
	uint64_t usable;
	uint64_t busy;
	uint64_t meta[FC_WAYS];
} Survey;

static void
survey_set(FcSet *set, uint64_t key, Survey *survey)
{
	survey->exists = false;
	survey->same_way = FC_WAY_NONE;
	survey->free = survey->usable = survey->busy = 0;

	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		uint64_t meta = atomic_load(&set->meta[way]);
		bool ours = atomic_load(&set->key[way]) == key;
		FcState state = fc_meta_state(meta);

		survey->meta[way] = meta;
		if (state == FC_EMPTY)
		{
			survey->free |= 1ULL << way;
			if (ours)
				survey->same_way = way;
		}
		else if (state == FC_VALID)
		{
			survey->usable |= 1ULL << way;
			survey->exists |= ours;
		}
		else
		{
			survey->busy |= 1ULL << way;
			survey->exists |= ours && state == FC_FILLING;
		}
	}
}

/* Free the ways whose owner is gone; true if there were any. */
static bool
free_orphans(FcCache *cache, FcSet *set, const Survey *survey)
{
	bool freed = false;

	for (uint64_t busy = survey->busy; busy != 0; busy &= busy - 1)
	{
		unsigned way = (unsigned) __builtin_ctzll(busy);
		uint64_t meta = survey->meta[way];

		if ((FC_BROKEN(PIN) || fc_owner_gone(cache, fc_meta_high(meta))) &&
		    take_over(cache, set, way, meta))
			freed = true;
	}
	return freed;
}

/* One of the ways, which is not empty, by chance. */
static unsigned
any_of(uint64_t ways, uint32_t chance)
{
	for (unsigned skip = chance % (unsigned) __builtin_popcountll(ways);
	     skip > 0; skip--)
		ways &= ways - 1;
	return (unsigned) __builtin_ctzll(ways);
}

/* The way to use, or FC_WAY_NONE with the reason counted. */
static unsigned
choose_way(FcCache *cache, const FcPolicyPlace *place, uint64_t key,
           const FcCandidate *candidate, const Survey *survey)
{
	if (survey->same_way != FC_WAY_NONE)
		return survey->same_way;
	if (survey->free != 0)
		return (unsigned) __builtin_ctzll(survey->free);
	if (survey->busy != 0)
		fc_count(cache, FC_COUNT_eviction_buffer_pinned, 1);
	if (survey->usable == 0)
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_WAY_NONE;
	}

	bool must;
	uint64_t usable =
		fc_class_usable(cache->shared, fc_set(cache->shared, place->set_number),
	                    fc_key_file(key), survey->usable, &must);
	unsigned way = usable == 0
	                   ? FC_WAY_NONE
	                   : cache->policy->choose(place, candidate, usable);

	/* The policy would rather not; then it is all the same who goes. */
	if (way == FC_WAY_NONE && must)
		way = any_of(usable, candidate->fingerprint);
	if (way == FC_WAY_NONE)
		fc_count(cache, FC_COUNT_insert_skip_not_useful, 1);
	return way;
}

/* The block that lay in the way leaves. */
static void
evict(FcCache *cache, const FcPolicyPlace *place, unsigned way)
{
	FcSet *set = fc_set(cache->shared, place->set_number);
	uint64_t key = atomic_load(&set->key[way]);
	FcCandidate old = candidate_of(cache->shared, key);

	cache->policy->evicted(place, way, &old);
	fc_file_block_leaves(cache->shared, fc_key_file(key), (uint32_t) key);
	fc_count(cache, FC_COUNT_eviction_aged_out, 1);
}

/* The new one takes its place. */
static void
take_way(FcCache *cache, FcSet *set, unsigned way, uint64_t key)
{
	fc_file_block_enters(cache->shared, fc_key_file(key), (uint32_t) key);
	FC_POINT("claimed-old-key");
	atomic_store(&set->key[way], key);
	FC_POINT("claimed-new-key");
}

/* from: where the block lies now, if it is to move; else it was missed. */
static FcStatus
claim_way(FcCache *cache, const FcTicket *ticket, const FcSeen *from,
          FcSeen *claim)
{
	uint64_t key = fc_key(ticket->file, ticket->block);
	FcSet *set = fc_set(cache->shared, ticket->set);
	FcPolicyPlace place = policy_place(cache->shared, ticket->set);
	FcCandidate candidate = candidate_of(cache->shared, key);
	bool told = false;

	if (from != NULL)
	{
		FcPolicyPlace old = policy_place(cache->shared, from->slot / FC_WAYS);

		cache->policy->moves(&old, from->slot % FC_WAYS, &candidate);
		told = true;
	}

	if (cache->token == 0 && fc_process_begin(cache) != FC_OK)
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_SKIP;
	}

	for (int try = 0; try < CLAIM_TRIES; try++)
	{
		Survey survey;

		survey_set(set, key, &survey);
		if (survey.busy != 0 && (survey.free == 0 || survey.exists) &&
		    free_orphans(cache, set, &survey))
			continue;
		if (survey.exists)
		{
			fc_count(cache, FC_COUNT_insert_skip_exists, 1);
			return FC_SKIP;
		}

		/* An emptied way of its own is no miss: a change emptied it. */
		if (!told && survey.same_way == FC_WAY_NONE)
		{
			cache->policy->missed(&place, &candidate);
			told = true;
		}

		unsigned way = choose_way(cache, &place, key, &candidate, &survey);

		if (way == FC_WAY_NONE)
			return FC_SKIP;

		uint64_t meta = survey.meta[way];
		uint64_t claimed = fc_meta_next(meta, FC_FILLING, cache->token);

		FC_POINT("way-chosen");
		if (!atomic_compare_exchange_strong(&set->meta[way], &meta, claimed))
			continue;

		claim->slot = ticket->set * FC_WAYS + way;
		claim->meta = claimed;
		if (fc_meta_state(meta) == FC_VALID)
			evict(cache, &place, way);
		if (way != survey.same_way)
			cache->policy->filled(&place, way, &candidate);
		take_way(cache, set, way, key);
		return FC_OK;
	}

	fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
	return FC_SKIP;
}

FcStatus
fc_index_claim(FcCache *cache, const FcTicket *ticket, FcSeen *claim)
{
	return claim_way(cache, ticket, NULL, claim);
}

FcStatus
fc_index_claim_move(FcCache *cache, const FcTicket *ticket, const FcSeen *from,
                    FcSeen *claim)
{
	return claim_way(cache, ticket, from, claim);
}

/* Does everything stand as the ticket noted it?  Counts what does not. */
static bool
ticket_holds(FcCache *cache, const FcTicket *ticket, FcSet *set)
{
	FcShared *shared = cache->shared;

	if ((!FC_BROKEN(MODE_CHECK) &&
	     atomic_load(&shared->mode_word) != ticket->mode_word) ||
	    (!FC_BROKEN(FILE_GENERATION) &&
	     atomic_load(&fc_generations(shared)[ticket->file]) !=
	         ticket->file_generation))
	{
		fc_count(cache, FC_COUNT_insert_skip_not_current, 1);
		return false;
	}
	if (!FC_BROKEN(SET_GENERATION) &&
	    atomic_load(&set->generation) != ticket->set_generation)
	{
		fc_count(cache, FC_COUNT_insert_skip_modification, 1);
		return false;
	}
	return true;
}

FcStatus
fc_index_publish(FcCache *cache, const FcTicket *ticket, const FcSeen *claim,
                 uint32_t crc)
{
	FcSet *set = set_of_slot(cache->shared, claim->slot);
	unsigned way = claim->slot % FC_WAYS;
	uint64_t meta = claim->meta;
	uint64_t valid = ((uint64_t) crc << 32) | (meta & FC_META_SEQUENCE_MASK) |
	                 (uint64_t) FC_VALID;

	if (!ticket_holds(cache, ticket, set))
	{
		fc_index_abandon(cache, ticket, claim);
		return FC_SKIP;
	}
	FC_POINT("generations-compared");

	if (atomic_compare_exchange_strong(&set->meta[way], &meta, valid))
		return FC_OK;

	fc_count(cache, FC_COUNT_insert_skip_modification, 1);
	fc_index_abandon(cache, ticket, claim);
	return FC_SKIP;
}

void
fc_index_abandon(FcCache *cache, const FcTicket *ticket, const FcSeen *claim)
{
	FcSet *set = set_of_slot(cache->shared, claim->slot);
	unsigned way = claim->slot % FC_WAYS;
	uint64_t doomed =
		(claim->meta & ~FC_META_STATE_MASK) | (uint64_t) FC_DOOMED;
	uint64_t meta = atomic_load(&set->meta[way]);

	while (meta == claim->meta || meta == doomed)
	{
		if (atomic_compare_exchange_weak(&set->meta[way], &meta,
		                                 fc_meta_next(meta, FC_EMPTY, 0)))
		{
			fc_file_block_leaves(cache->shared, ticket->file, ticket->block);
			return;
		}
	}
}

/* ---- walking everything ---------------------------------------------------- */

/* What a walk is after, and what it has got. */
typedef struct Walk
{
	bool everything;
	uint32_t number; /* ... or blocks of this file, */
	uint32_t first;  /* from here */
	uint32_t last;   /* to before here */
	uint64_t dropped;
} Walk;

static bool
wanted(const Walk *walk, uint64_t key)
{
	return walk->everything ||
	       (fc_key_file(key) == walk->number && (uint32_t) key >= walk->first &&
	        (uint32_t) key < walk->last);
}

static void
walk_set(FcCache *cache, FcSet *set, Walk *walk)
{
	if (walk->everything)
		atomic_fetch_add(&set->generation, 1);
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		uint64_t key = atomic_load(&set->key[way]);

		if (wanted(walk, key))
			walk->dropped += invalidate_way(cache, set, way, key);
	}
}

/*
 * While the size changes a block may move from a set the walk has not come to
 * into one that it has left behind: then it walks twice, for a block moves once.
 */
static void
walk_sets(FcCache *cache, Walk *walk)
{
	FcShared *shared = cache->shared;
	FcFrame frame;

	do
	{
		frame = fc_frame(shared);

		bool twice =
			fc_geometry_moving(frame.geometry) && !FC_BROKEN(TWO_WALKS);

		for (int time = 0; time <= twice; time++)
		{
			for (uint32_t i = 0; i < fc_geometry_sets(frame.geometry); i++)
			{
				walk_set(cache, fc_set(shared, i), walk);
				FC_POINT("set-walked");
			}
		}
	} while (!fc_frame_stands(shared, &frame) && !FC_BROKEN(FRAME));
	fc_count(cache, FC_COUNT_eviction_invalidated, walk->dropped);
}

void
fc_index_invalidate_file(FcCache *cache, uint32_t number, uint32_t first,
                         uint32_t last)
{
	Walk walk = { .number = number, .first = first, .last = last };

	walk_sets(cache, &walk);
}

void
fc_index_clear(FcCache *cache)
{
	Walk walk = { .everything = true };

	walk_sets(cache, &walk);
}
