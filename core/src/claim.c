/*
 * claim.c
 *		How a filler gets a way of a set: from its claim to its publication.
 *
 * A filler surveys the set.  It takes the way that held the same block before,
 * or a free one, or the one that the replacement policy chooses, or none.  The
 * claim is one compare-and-swap.  Then the old block leaves and the key is
 * written.  When the block has been copied, the entry is published if
 * everything that the ticket noted still holds (see index.c for why).  A filler
 * that cannot publish empties the entry again.
 *
 * A claim whose owner is gone is taken over by the next process that needs its
 * way.  An entry whose slot is being written is never taken, because the device
 * may be using the slot; the writer, or its successor after its death, releases
 * it (writer.c).
 *
 * No process waits: after losing a few ways to others, a filler gives up.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "cache_policy.h"
#include "file.h"
#include "geometry.h"
#include "process.h"
#include "staging.h"

/* So many claims lost to other processes count as "writer overloaded". */
#define CLAIM_TRIES 4

/* ---- the replacement policy -------------------------------------------- */

static FcCandidate
candidate_of(const FcShared *shared, uint64_t key)
{
	const FcFileId *id = &fc_files(shared)[fc_key_file(key)].id;
	uint64_t relation =
		(uint64_t) id->database << 32 ^ (uint64_t) id->relation << 2 ^ id->fork;

	FC_ASSERT(fc_key_file(key) < shared->file_count);
	return (FcCandidate){
		.fingerprint = (uint32_t) fc_mix(key),
		.relation = (uint8_t) fc_mix(relation),
	};
}

static FcReplacementPlace
replacement_place(const FcShared *shared, uint32_t set_number)
{
	return (FcReplacementPlace){
		.set = fc_set(shared, set_number)->replacement_state,
		.shared = FC_AT(shared, replacement_offset, void),
		.set_number = set_number,
		.set_count = fc_geometry_new(atomic_load(&shared->geometry)),
	};
}

unsigned
fc_claim_heat(const FcCache *cache, uint32_t slot)
{
	FcReplacementPlace place = replacement_place(cache->shared, slot / FC_WAYS);

	return cache->replacement->heat(&place, slot % FC_WAYS);
}

void
fc_claim_touch(FcCache *cache, const FcSeen *seen)
{
	FcReplacementPlace place =
		replacement_place(cache->shared, seen->slot / FC_WAYS);

	cache->replacement->touched(&place, seen->slot % FC_WAYS);
}

/* ---- the state of the set ------------------------------------------------ */

/* What a filler finds in a set. */
typedef struct Survey
{
	bool exists;
	unsigned same_way; /* emptied, but of the same block; or FC_WAY_NONE */
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
		else if (state == FC_VALID || state == FC_STAGED)
		{
			survey->usable |= 1ULL << way;
			survey->exists |= ours;
		}
		else
		{
			survey->busy |= 1ULL << way;
			survey->exists |=
				ours && (state == FC_FILLING || state == FC_WRITING);
		}
	}
	FC_ASSERT(survey->same_way == FC_WAY_NONE ||
	          (survey->free >> survey->same_way & 1) != 0);
}

/* ---- owners that are gone ---------------------------------------------- */

/* Is it held by a process that will never release it? */
static bool
is_orphan(const FcCache *cache, uint64_t meta)
{
	switch (fc_meta_state(meta))
	{
		case FC_FILLING:
		case FC_DOOMED:
			return fc_process_gone(cache, fc_meta_high(meta));
		case FC_WRITING:
		case FC_WRITING_DOOMED:
			return FC_BROKEN(PIN);
		default:
			return false;
	}
}

bool
fc_claim_take_over(FcCache *cache, const FcSeen *seen)
{
	FcSet *set = fc_set_of_slot(cache->shared, seen->slot);
	uint64_t meta = seen->meta;

	FC_ASSERT(fc_meta_state(meta) != FC_EMPTY);

	/*
	 * We cannot know whether the owner counted the block in, so it stays
	 * counted: chunk counters may be too high but not too low.
	 */
	if (!is_orphan(cache, meta) ||
	    !atomic_compare_exchange_strong(&set->meta[seen->slot % FC_WAYS], &meta,
	                                    fc_meta_next(meta, FC_EMPTY, 0)))
		return false;
	fc_count(cache, FC_COUNT_takeovers, 1);
	return true;
}

/* Free the ways whose fillers are gone; true if there were any. */
static bool
free_orphans(FcCache *cache, uint32_t set_number, const Survey *survey)
{
	bool freed = false;

	for (uint64_t busy = survey->busy; busy != 0; busy &= busy - 1)
	{
		unsigned way = (unsigned) __builtin_ctzll(busy);
		FcSeen seen = { .slot = set_number * FC_WAYS + way,
			            .meta = survey->meta[way] };

		freed |= fc_claim_take_over(cache, &seen);
	}
	return freed;
}

/* ---- claiming ---------------------------------------------------------- */

/* The first of the ways (a set that is not empty), from this one on. */
static unsigned
next_of(uint64_t ways, unsigned from)
{
	uint64_t turned =
		from == 0 ? ways : ways >> from | ways << (FC_WAYS - from);

	FC_ASSERT(ways != 0 && from < FC_WAYS);
	return (from + (unsigned) __builtin_ctzll(turned)) % FC_WAYS;
}

/* A random one of the ways (a set that is not empty). */
static unsigned
any_of(uint64_t ways, uint32_t chance)
{
	FC_ASSERT(ways != 0);
	for (unsigned skip = chance % (unsigned) __builtin_popcountll(ways);
	     skip > 0; skip--)
		ways &= ways - 1;
	return (unsigned) __builtin_ctzll(ways);
}

/* The way to use, or FC_WAY_NONE with the reason counted. */
static unsigned
choose_way(FcCache *cache, const FcReplacementPlace *place, uint64_t key,
           const FcCandidate *candidate, const Survey *survey)
{
	if (survey->same_way != FC_WAY_NONE)
		return survey->same_way;
	if (survey->free != 0)
		return next_of(survey->free, fc_first_way(place->set_number));
	if (candidate->loaded && candidate->note == FC_HEAT_SPARE)
	{
		fc_count(cache, FC_COUNT_insert_skip_not_useful, 1);
		return FC_WAY_NONE;
	}
	if (survey->busy != 0)
		fc_count(cache, FC_COUNT_eviction_buffer_pinned, 1);
	if (survey->usable == 0)
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_WAY_NONE;
	}

	bool must;
	uint64_t usable = fc_cache_policy_usable(
		cache->shared, fc_set(cache->shared, place->set_number),
		fc_key_file(key), survey->usable, &must);
	unsigned way = usable == 0
	                   ? FC_WAY_NONE
	                   : cache->replacement->choose(place, candidate, usable);

	FC_ASSERT(way == FC_WAY_NONE || (usable >> way & 1) != 0);

	/* The replacement policy would rather not fill; then any way is as good. */
	if (way == FC_WAY_NONE && must)
		way = any_of(usable, candidate->fingerprint);
	if (way == FC_WAY_NONE)
		fc_count(cache, FC_COUNT_insert_skip_not_useful, 1);
	return way;
}

/* Evict the block that occupied the way. */
static void
evict(FcCache *cache, const FcReplacementPlace *place, unsigned way,
      uint64_t meta)
{
	FcSet *set = fc_set(cache->shared, place->set_number);
	uint64_t key = atomic_load(&set->key[way]);
	FcCandidate old = candidate_of(cache->shared, key);

	FC_ASSERT(fc_meta_state(meta) == FC_VALID ||
	          fc_meta_state(meta) == FC_STAGED);
	cache->replacement->evicted(place, way, &old);
	fc_chunk_leave(cache->shared, fc_key_file(key), (uint32_t) key);
	fc_count(cache, FC_COUNT_eviction_aged_out, 1);
	if (fc_meta_state(meta) == FC_STAGED)
		fc_staging_free(cache->shared, fc_meta_high(meta));
}

/* Let the new block take its place. */
static void
take_way(FcCache *cache, FcSet *set, unsigned way, uint64_t key)
{
	FC_ASSERT(fc_key_file(key) != FC_FILE_NONE);
	fc_chunk_enter(cache->shared, fc_key_file(key), (uint32_t) key);
	FC_POINT("claimed-old-key");
	atomic_store(&set->key[way], key);
	FC_POINT("claimed-new-key");
}

/*
 * Claim the way as it was surveyed, and evict what lay there; false if another
 * process was faster.
 */
static bool
claim_chosen(FcCache *cache, const FcReplacementPlace *place, unsigned way,
             uint64_t meta, FcSeen *claim)
{
	FcSet *set = fc_set(cache->shared, place->set_number);
	uint64_t claimed = fc_meta_next(meta, FC_FILLING, cache->token);

	if (!atomic_compare_exchange_strong(&set->meta[way], &meta, claimed))
		return false;
	claim->slot = place->set_number * FC_WAYS + way;
	claim->meta = claimed;
	if (fc_meta_state(meta) != FC_EMPTY)
		evict(cache, place, way, meta);
	return true;
}

bool
fc_claim_has_room(const FcCache *cache, uint32_t set_number)
{
	const FcSet *set = fc_set(cache->shared, set_number);

	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		/* Relaxed: only a hint depends on it. */
		uint64_t meta =
			atomic_load_explicit(&set->meta[way], memory_order_relaxed);

		if (fc_meta_state(meta) == FC_EMPTY)
			return true;
	}
	return false;
}

/* told: the replacement policy knows of the candidate already. */
static FcStatus
claim_way(FcCache *cache, const FcTicket *ticket, FcCandidate candidate,
          bool told, FcSeen *claim)
{
	uint64_t key = fc_key(ticket->file, ticket->block);
	FcSet *set = fc_set(cache->shared, ticket->set);
	FcReplacementPlace place = replacement_place(cache->shared, ticket->set);

	if (cache->token == 0 && fc_process_begin(cache) != FC_OK)
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_SKIP;
	}

	FC_ASSERT(cache->token != 0);
	for (int try = 0; try < CLAIM_TRIES; try++)
	{
		Survey survey;

		survey_set(set, key, &survey);
		if (survey.busy != 0 && (survey.free == 0 || survey.exists) &&
		    free_orphans(cache, ticket->set, &survey))
			continue;
		if (survey.exists)
		{
			fc_count(cache, FC_COUNT_insert_skip_exists, 1);
			return FC_SKIP;
		}

		/*
		 * If the block has an emptied way, a change emptied it: this is no
		 * miss.
		 */
		if (!told && survey.same_way == FC_WAY_NONE)
		{
			cache->replacement->missed(&place, &candidate);
			told = true;
		}

		unsigned way = choose_way(cache, &place, key, &candidate, &survey);

		if (way == FC_WAY_NONE)
			return FC_SKIP;

		FC_ASSERT(((survey.free | survey.usable) >> way & 1) != 0);
		FC_POINT("way-chosen");
		if (!claim_chosen(cache, &place, way, survey.meta[way], claim))
			continue;
		if (way != survey.same_way)
			cache->replacement->filled(&place, way, &candidate);
		take_way(cache, set, way, key);
		return FC_OK;
	}

	fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
	return FC_SKIP;
}

FcStatus
fc_claim(FcCache *cache, const FcTicket *ticket, FcSeen *claim)
{
	FC_ASSERT(ticket->file != FC_FILE_NONE);
	return claim_way(
		cache, ticket,
		candidate_of(cache->shared, fc_key(ticket->file, ticket->block)), false,
		claim);
}

FcStatus
fc_claim_load(FcCache *cache, const FcTicket *ticket, unsigned heat,
              FcSeen *claim)
{
	FcCandidate candidate =
		candidate_of(cache->shared, fc_key(ticket->file, ticket->block));

	FC_ASSERT(heat <= FC_HEAT_SPARE);
	if (FC_BROKEN(LOAD_AS_READ))
		return claim_way(cache, ticket, candidate, false, claim);
	candidate.loaded = true;
	candidate.note = (uint8_t) heat;
	return claim_way(cache, ticket, candidate, true, claim);
}

FcStatus
fc_claim_move(FcCache *cache, const FcTicket *ticket, const FcSeen *from,
              FcSeen *claim)
{
	FcCandidate candidate =
		candidate_of(cache->shared, fc_key(ticket->file, ticket->block));
	FcReplacementPlace old =
		replacement_place(cache->shared, from->slot / FC_WAYS);

	FC_ASSERT(fc_meta_serves(from->meta));
	cache->replacement->moves(&old, from->slot % FC_WAYS, &candidate);
	return claim_way(cache, ticket, candidate, true, claim);
}

/* ---- publishing -------------------------------------------------------- */

/* Is it a claim of this process, in the set that the ticket is for? */
static inline bool
is_own(const FcCache *cache, const FcTicket *ticket, const FcSeen *claim)
{
	return fc_meta_state(claim->meta) == FC_FILLING &&
	       fc_meta_high(claim->meta) == cache->token &&
	       (claim->slot / FC_WAYS == ticket->set || FC_BROKEN(MOVE_TICKET));
}

/* Is everything still as the ticket noted it?  Counts what is not. */
static bool
ticket_holds(FcCache *cache, const FcTicket *ticket, FcSet *set)
{
	FcShared *shared = cache->shared;

	FC_ASSERT(ticket->file != FC_FILE_NONE &&
	          ticket->file < shared->file_count);
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
fc_claim_publish(FcCache *cache, const FcTicket *ticket, const FcSeen *claim,
                 FcState state, uint32_t high)
{
	FcSet *set = fc_set_of_slot(cache->shared, claim->slot);
	unsigned way = claim->slot % FC_WAYS;
	uint64_t meta = claim->meta;
	uint64_t published = fc_meta_as(meta, state, high);

	FC_ASSERT(is_own(cache, ticket, claim));
	FC_ASSERT(state == FC_VALID || state == FC_STAGED);
	if (!ticket_holds(cache, ticket, set))
	{
		fc_claim_abandon(cache, ticket, claim);
		return FC_SKIP;
	}
	FC_POINT("generations-compared");

	if (atomic_compare_exchange_strong(&set->meta[way], &meta, published))
		return FC_OK;

	fc_count(cache, FC_COUNT_insert_skip_modification, 1);
	fc_claim_abandon(cache, ticket, claim);
	return FC_SKIP;
}

void
fc_claim_abandon(FcCache *cache, const FcTicket *ticket, const FcSeen *claim)
{
	FcSet *set = fc_set_of_slot(cache->shared, claim->slot);
	unsigned way = claim->slot % FC_WAYS;
	uint64_t doomed =
		fc_meta_as(claim->meta, FC_DOOMED, fc_meta_high(claim->meta));
	uint64_t meta = atomic_load(&set->meta[way]);

	FC_ASSERT(is_own(cache, ticket, claim));
	while (meta == claim->meta || meta == doomed)
	{
		if (atomic_compare_exchange_weak(&set->meta[way], &meta,
		                                 fc_meta_next(meta, FC_EMPTY, 0)))
		{
			fc_chunk_leave(cache->shared, ticket->file, ticket->block);
			return;
		}
	}
}
