/*
 * file.c
 *		The file dictionary: it assigns a number to each segment file.
 *
 * Index entries refer to a file by number.  The dictionary assigns numbers,
 * releases them when files are unlinked, and knows how much of each file is
 * cached, so that truncating or dropping a large file does not mean looking for
 * millions of blocks that were never cached.
 *
 * How a name is found: its number is a place in an open-addressed table, at
 * most FC_FILE_PROBES places after the hash of its id.  A live file never
 * moves, so a search needs no lock: it looks through all those places.  Only
 * assigning a number and freeing one hold the file lock.
 *
 * A number is free (tag 0, retired), then live (tag set), then retired (tag
 * set), then free again; between two lives of the cache it is asleep (stamp.c).
 * The step to retired is one swap, so it is atomic wherever a process is
 * killed, and every handle on the number is stale from that moment.  Number 0
 * is never assigned, so that no key is 0.
 *
 * The process that retires a number makes the index forget it, then frees it.
 * From then on the number may be reused at once.  No entry of it can be found
 * valid any more, and a fill still under way carries a generation that will
 * never return, so it is doomed or will notice on its own.  A number whose
 * retirer was killed waits until another process needs its place and does the
 * same.
 *
 * When all places for a new file are taken, the file among them with the fewest
 * cached blocks is displaced: retired as if it were unlinked, though it still
 * exists.  If it has no cached block, there is nothing to forget.  That relies
 * on cached_blocks, which counts over all uses of the number: it rises before a
 * block's key is written and falls after the block left, each time by the
 * process that does it.  So a value read after the retirement is never too low
 * (it stays too high by the blocks that killed processes held).
 *
 * A changer need not enter a file: one that the dictionary does not know has no
 * cached blocks.  The order matters: a reader enters the file BEFORE its real
 * read, a changer looks again AFTER the real change.  So either the changer
 * finds the file, or the reader's read begins after the change.  absent_epoch
 * saves the changer the search: while it is even and unchanged, no file has
 * become known.  The kernel's work for either of them is not an atomic access
 * of ours, so each has a fence between its two steps.  The same holds for an
 * unlink and a look at the name.
 *
 * Locking: the file lock is a word with the owner's token.  Waiting for it is
 * bounded.  If its owner died, or is the caller itself, the lock is taken over,
 * which is safe because each step leaves the table consistent.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "file.h"
#include "cache_policy.h"
#include "geometry.h"
#include "index.h"
#include "process.h"

/* Spins before giving up on the lock: some tens of microseconds. */
#define LOCK_SPINS 2000

/* Attempts to find a place before giving up on a file. */
#define ENTER_TRIES 3

/* ---- names -------------------------------------------------------------- */

uint64_t
fc_file_hash(const FcFileId *id)
{
	uint64_t hash = fc_mix(((uint64_t) id->tablespace << 32) | id->database);

	hash = fc_mix(hash ^ (((uint64_t) id->relation << 32) | id->segment));
	return fc_mix(hash ^ id->fork);
}

static uint32_t
tag_of(uint64_t hash)
{
	return (uint32_t) hash | 1; /* 0 is a free place */
}

static bool
same_id(const FcFileId *a, const FcFileId *b)
{
	return a->tablespace == b->tablespace && a->database == b->database &&
	       a->relation == b->relation && a->fork == b->fork &&
	       a->segment == b->segment;
}

static uint32_t
place_of(const FcShared *shared, uint64_t hash, uint32_t probe)
{
	FC_ASSERT(probe < shared->file_count);
	return ((uint32_t) (hash >> 32) + probe) & (shared->file_count - 1);
}

static uint32_t
probes_of(const FcShared *shared)
{
	return shared->file_count < FC_FILE_PROBES ? shared->file_count
	                                           : FC_FILE_PROBES;
}

static bool
live(uint64_t generation)
{
	return fc_generation_state(generation) == FC_NUMBER_LIVE;
}

static bool
retired(uint64_t generation)
{
	return fc_generation_state(generation) == FC_NUMBER_RETIRED;
}

uint32_t
fc_file_find(const FcShared *shared, const FcFileId *id,
             uint64_t *generation_out)
{
	uint64_t hash = fc_file_hash(id);
	uint32_t probes = probes_of(shared);

	for (uint32_t probe = 0; probe < probes; probe++)
	{
		uint32_t number = place_of(shared, hash, probe);

		if (atomic_load(&fc_tags(shared)[number]) != tag_of(hash))
			continue;

		/*
		 * The id is valid only if the number stayed in use while we read it.
		 * It is read by plain loads: the load of the generation keeps them
		 * after itself, the fence keeps them before the next one.  Only a
		 * process that has seen the tag 0 writes an id, and that tag is stored
		 * after the number was retired.  So a process that sees a byte of the
		 * next id sees the next generation, too.
		 */
		uint64_t generation = atomic_load(&fc_generations(shared)[number]);

		if (retired(generation) || !same_id(&fc_files(shared)[number].id, id))
			continue;
		FC_POINT("id-compared");
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&fc_generations(shared)[number]) != generation)
			return fc_file_find(shared, id, generation_out);
		*generation_out = generation;
		return number;
	}
	return FC_FILE_NONE;
}

/* The number of a live file.  Drops the file if it is still asleep. */
static uint32_t
find_live(FcCache *cache, const FcFileId *id, uint64_t *generation_out)
{
	uint32_t number;

	while ((number = fc_file_find(cache->shared, id, generation_out)) !=
	           FC_FILE_NONE &&
	       !live(*generation_out))
	{
		if (FC_BROKEN(ASLEEP))
			return FC_FILE_NONE;
		fc_file_drop_sleeper(cache, number, *generation_out);
	}
	return number;
}

void
fc_file_tag(FcShared *shared, uint32_t number)
{
	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);
	atomic_store(&fc_tags(shared)[number],
	             tag_of(fc_file_hash(&fc_files(shared)[number].id)));
}

FcFile
fc_file(FcFileId id)
{
	return (FcFile){ .id = id, .number = FC_FILE_NONE };
}

bool
fc_file_current(const FcCache *cache, const FcFile *file)
{
	if (file->number == FC_FILE_NONE)
		return false;
	if (FC_BROKEN(RESOLVE))
		return true;
	FC_ASSERT(file->number < cache->shared->file_count);
	return atomic_load(&fc_generations(cache->shared)[file->number]) ==
	       file->generation;
}

bool
fc_file_resolve(FcCache *cache, FcFile *file)
{
	FcShared *shared = cache->shared;

	if (fc_file_current(cache, file))
		return true;

	uint64_t epoch = atomic_load(&shared->absent_epoch);

	if (file->number == FC_FILE_NONE && file->absent_epoch != 0 &&
	    (FC_BROKEN(ABSENT) || file->absent_epoch == epoch))
		return false;

	file->number = find_live(cache, &file->id, &file->generation);
	if (file->number != FC_FILE_NONE)
		return true;
	file->absent_epoch = (epoch & 1) == 0 || FC_BROKEN(ABSENT) ? epoch : 0;
	return false;
}

/* ---- the file lock ------------------------------------------------------- */

bool
fc_file_lock(FcCache *cache)
{
	FcAtomic32 *lock = &cache->shared->file_lock;

	if (cache->token == 0 && fc_process_begin(cache) != FC_OK)
		return false;

	FC_ASSERT(cache->token != 0);
	for (unsigned spin = 0; spin < LOCK_SPINS; spin++)
	{
		uint32_t owner = 0;

		if (atomic_compare_exchange_strong(lock, &owner, cache->token))
			return true;

		/*
		 * Our own token: a signal handler interrupted our own critical section.
		 */
		if (owner == cache->token || spin == LOCK_SPINS - 1)
		{
			if (fc_process_gone(cache, owner) &&
			    atomic_compare_exchange_strong(lock, &owner, cache->token))
			{
				fc_count(cache, FC_COUNT_takeovers, 1);
				return true;
			}
		}
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("yield");
#endif
	}
	return false;
}

void
fc_file_unlock(FcCache *cache)
{
	uint32_t mine = cache->token;

	FC_ASSERT(mine != 0);
	atomic_compare_exchange_strong(&cache->shared->file_lock, &mine, 0);
}

/* ---- forgetting ---------------------------------------------------------- */

/*
 * Make the index forget a range of blocks; the file's generation has advanced.
 */
static void
forget(FcCache *cache, uint32_t number, uint32_t first, uint32_t count)
{
	FcShared *shared = cache->shared;

	if (FC_BROKEN(INVALIDATE))
		return;

	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);

	/* Blocks that are not counted must be searched for. */
	bool counted = fc_blocks_counted(shared);
	uint32_t high =
		counted ? atomic_load(&fc_files(shared)[number].high) : FC_BLOCKS_ALL;
	uint32_t last =
		count == FC_BLOCKS_ALL || first + count < first || first + count > high
			? high
			: first + count;
	uint64_t probed = 0;

	if (!counted)
	{
		fc_index_invalidate_file(cache, number, first, last);
		return;
	}
	for (uint32_t block = first; block < last;)
	{
		uint32_t chunk_end = (block / FC_CHUNK_BLOCKS + 1) * FC_CHUNK_BLOCKS;

		if (chunk_end > last || chunk_end < block)
			chunk_end = last;

		if (atomic_load(fc_chunk_of(shared, number, block)) == 0)
		{
			block = chunk_end;
			continue;
		}

		/*
		 * More blocks to look up than there are slots: walk the index instead.
		 */
		probed += chunk_end - block;
		if (probed > fc_geometry_slot_count(cache))
		{
			fc_index_invalidate_file(cache, number, block, last);
			return;
		}

		for (; block < chunk_end; block++)
		{
			FcHome home;

			fc_index_invalidate(cache, fc_key(number, block), &home);
		}
	}
}

void
fc_file_invalidate(FcCache *cache, uint32_t number, uint32_t first,
                   uint32_t count)
{
	FC_ASSERT(number != FC_FILE_NONE && count > 0);

	/* The generation's state stays. */
	atomic_fetch_add(&fc_generations(cache->shared)[number], FC_GENERATION_ONE);
	FC_POINT("file-generation-moved");
	forget(cache, number, first, count);
}

/* ---- retiring ------------------------------------------------------------ */

/* May the index hold blocks of this number? */
static bool
may_be_cached(const FcShared *shared, uint32_t number)
{
	return !fc_blocks_counted(shared) ||
	       atomic_load(&fc_files(shared)[number].cached_blocks) != 0;
}

/*
 * Make the index forget a retired number, and free it, unless another process
 * did, as the generation shows.  Without the lock, the number stays until its
 * place is needed.
 */
static void
free_number(FcCache *cache, uint32_t number, uint64_t generation, bool cached)
{
	FcShared *shared = cache->shared;

	FC_ASSERT(retired(generation));
	if (cached && !FC_BROKEN(FORGET))
		forget(cache, number, 0, FC_BLOCKS_ALL);
	FC_POINT("number-forgotten");

	if (!fc_file_lock(cache))
		return;
	if (atomic_load(&fc_generations(shared)[number]) == generation)
		atomic_store(&fc_tags(shared)[number], 0);
	fc_file_unlock(cache);
}

bool
fc_file_drop(FcCache *cache, uint32_t number, uint64_t generation)
{
	FcShared *shared = cache->shared;
	bool cached_before = may_be_cached(shared, number);
	bool asleep = !live(generation);
	uint64_t after = fc_generation_next(generation, FC_NUMBER_RETIRED);

	FC_ASSERT(number != FC_FILE_NONE && !retired(generation));
	FC_POINT("number-retiring");
	if (!atomic_compare_exchange_strong(&fc_generations(shared)[number],
	                                    &generation, after))
		return false;
	if (asleep)
		atomic_fetch_sub(&shared->asleep_count, 1);
	FC_POINT("number-retired");

	/* Searching for its blocks now would take long; the audit finds them. */
	if (!fc_blocks_counted(shared))
		return true;
	free_number(cache, number, after,
	            FC_BROKEN(COUNT_FIRST) ? cached_before
	                                   : may_be_cached(shared, number));
	return true;
}

void
fc_file_drop_sleeper(FcCache *cache, uint32_t number, uint64_t generation)
{
	FC_ASSERT(fc_generation_state(generation) == FC_NUMBER_ASLEEP);
	if (fc_file_drop(cache, number, generation))
		fc_count(cache, FC_COUNT_files_dropped, 1);
}

void
fc_file_retire(FcCache *cache, FcFileId id)
{
	uint64_t generation;
	uint32_t number;

	if (fc_mode(cache, NULL) == FC_OFFLINE)
		return;

	/* At the second call, the real call must come before the search. */
	atomic_thread_fence(memory_order_seq_cst);

	/* A concurrent truncation advances the generation: look again. */
	while ((number = fc_file_find(cache->shared, &id, &generation)) !=
	       FC_FILE_NONE)
	{
		FC_POINT("file-found");
		if (fc_file_drop(cache, number, generation))
			fc_count(cache, FC_COUNT_invalidations, 1);
	}
}

/* Does the number belong to a file like this?  Also returns its generation. */
static bool
is_alike(const FcShared *shared, uint32_t number, const FcFileId *like,
         uint64_t *generation_out)
{
	FC_ASSERT(number != FC_FILE_NONE && number < shared->file_count);
	for (;;)
	{
		uint64_t generation = atomic_load(&fc_generations(shared)[number]);
		const FcFileId *id = &fc_files(shared)[number].id;
		bool alike = id->relation == like->relation && id->fork == like->fork &&
		             id->segment == like->segment;

		if (retired(generation))
			return false;

		/* As in fc_file_find(). */
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&fc_generations(shared)[number]) != generation)
			continue;
		*generation_out = generation;
		return alike;
	}
}

void
fc_file_retire_alike(FcCache *cache, const FcFileId *like)
{
	FcShared *shared = cache->shared;
	uint64_t generation;

	if (fc_mode(cache, NULL) == FC_OFFLINE)
		return;

	/* As in fc_file_retire(). */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t number = 1; number < shared->file_count; number++)
	{
		while (is_alike(shared, number, like, &generation))
		{
			if (fc_file_drop(cache, number, generation))
				fc_count(cache, FC_COUNT_invalidations, 1);
		}
	}
}

/* ---- entering ------------------------------------------------------------ */

static uint32_t
free_place(const FcShared *shared, uint64_t hash)
{
	uint32_t probes = probes_of(shared);

	for (uint32_t probe = 0; probe < probes; probe++)
	{
		uint32_t number = place_of(shared, hash, probe);

		if (number != FC_FILE_NONE &&
		    atomic_load(&fc_tags(shared)[number]) == 0)
			return number;
	}
	return FC_FILE_NONE;
}

/* Under the lock: assign a free number to the file. */
static void
give_number(FcShared *shared, uint32_t number, const FcFileId *id)
{
	FcFileEntry *entry = &fc_files(shared)[number];

	FC_ASSERT(atomic_load(&fc_tags(shared)[number]) == 0);
	entry->id = *id;
	if (FC_BROKEN(RECOUNT))
		atomic_store(&entry->cached_blocks, 0);
	atomic_store(&entry->high, 0);
	atomic_store(&entry->hits, 0);
	atomic_store(&entry->misses, 0);
	atomic_store(&entry->disk_read_ns, 0);
	atomic_store(&entry->stamp, 0);

	/* This makes all permits of earlier uses invalid. */
	atomic_fetch_add(&entry->changes, 1);
	atomic_store(&entry->cache_policy, FC_BROKEN(POLICY_ENTER)
	                                       ? FC_CACHE_POLICY_DEFAULT
	                                       : fc_cache_policy_of(shared, id));
	FC_POINT("number-written");

	/* Already odd if an earlier owner of the lock died in between. */
	atomic_fetch_or(&shared->absent_epoch, 1);
	atomic_store(&fc_tags(shared)[number], tag_of(fc_file_hash(id)));
	FC_POINT("tag-written");

	uint64_t before =
		atomic_fetch_add(&fc_generations(shared)[number], FC_NUMBER_LIVE);

	FC_ASSERT(retired(before));
	(void) before;
	atomic_fetch_add(&shared->absent_epoch, 1);

	/*
	 * This must be visible before the host looks at the file's name, and reads
	 * it.
	 */
	atomic_thread_fence(memory_order_seq_cst);
}

/* The number to free, among all places that a new file could take. */
static uint32_t
choose_victim(const FcShared *shared, uint64_t hash, uint64_t *generation_out)
{
	uint32_t probes = probes_of(shared);
	uint32_t best = FC_FILE_NONE;
	uint32_t fewest_blocks = 0;
	uint64_t fewest_hits = 0;

	for (uint32_t probe = 0; probe < probes; probe++)
	{
		uint32_t number = place_of(shared, hash, probe);
		uint64_t generation = atomic_load(&fc_generations(shared)[number]);
		uint32_t blocks = atomic_load(&fc_files(shared)[number].cached_blocks);
		uint64_t hits = atomic_load(&fc_files(shared)[number].hits);

		if (number == FC_FILE_NONE ||
		    atomic_load(&fc_tags(shared)[number]) == 0)
			continue;
		if (retired(generation))
		{
			/* Its retirer was killed, or could not get the lock. */
			*generation_out = generation;
			return number;
		}
		if (best == FC_FILE_NONE || blocks < fewest_blocks ||
		    (blocks == fewest_blocks && hits < fewest_hits))
		{
			best = number;
			fewest_blocks = blocks;
			fewest_hits = hits;
			*generation_out = generation;
			if (FC_BROKEN(FEWEST))
				break;
		}
	}
	return best;
}

/* Free one of the places that a new file could take. */
static void
make_room(FcCache *cache, uint64_t hash)
{
	uint64_t generation;
	uint32_t number = choose_victim(cache->shared, hash, &generation);

	if (number == FC_FILE_NONE)
		return;
	FC_ASSERT(number < cache->shared->file_count);
	if (retired(generation))
		free_number(cache, number, generation,
		            may_be_cached(cache->shared, number));
	else if (fc_file_drop(cache, number, generation))
		fc_count(cache, FC_COUNT_file_displacements, 1);
}

/*
 * Assign the file a number: FC_FULL if no place is free, FC_SKIP without the
 * lock.
 */
static FcStatus
try_to_enter(FcCache *cache, const FcFileId *id, uint64_t hash)
{
	FcShared *shared = cache->shared;
	uint64_t generation;

	if (!fc_file_lock(cache))
		return FC_SKIP;

	/* Another process may have entered it while we waited. */
	uint32_t number = fc_file_find(shared, id, &generation);

	if (number == FC_FILE_NONE)
	{
		number = free_place(shared, hash);
		if (number != FC_FILE_NONE)
		{
			give_number(shared, number, id);
			FC_POINT("number-given");
		}
	}
	fc_file_unlock(cache);
	return number != FC_FILE_NONE ? FC_OK : FC_FULL;
}

FcStatus
fc_file_enter(FcCache *cache, FcFile *file)
{
	uint64_t hash = fc_file_hash(&file->id);

	if (fc_file_current(cache, file))
		return FC_OK;

	file->absent_epoch = 0;
	for (int try = 0; try < ENTER_TRIES; try++)
	{
		file->number = find_live(cache, &file->id, &file->generation);
		if (file->number != FC_FILE_NONE)
			return FC_OK;

		FC_POINT("file-unknown");
		if (try_to_enter(cache, &file->id, hash) == FC_FULL)
			make_room(cache, hash);
	}

	file->number = find_live(cache, &file->id, &file->generation);
	if (file->number != FC_FILE_NONE)
		return FC_OK;
	fc_count(cache, FC_COUNT_file_shortages, 1);
	return FC_FULL;
}

/* ---- what is cached of a file -------------------------------------------- */

bool
fc_file_info(const FcCache *cache, uint32_t number, FcFileInfo *out)
{
	const FcShared *shared = cache->shared;

	if (number >= shared->file_count ||
	    !live(atomic_load(&fc_generations(shared)[number])))
		return false;

	FcFileEntry *entry = &fc_files(shared)[number];

	out->id = entry->id;
	out->hits = atomic_load(&entry->hits);
	out->misses = atomic_load(&entry->misses);
	out->disk_read_ns = atomic_load(&entry->disk_read_ns);
	out->cached_blocks = atomic_load(&entry->cached_blocks);
	out->cache_policy = (FcCachePolicy) atomic_load(&entry->cache_policy);

	/* As in fc_file_find(). */
	atomic_thread_fence(memory_order_seq_cst);

	/*
	 * A truncation advances the generation and keeps the name, which is fine.
	 */
	uint64_t now = atomic_load(&fc_generations(shared)[number]);

	return live(now) && same_id(&entry->id, &out->id);
}

uint32_t
fc_file_count(const FcCache *cache)
{
	return cache->shared->file_count;
}

uint32_t
fc_file_used_slots(const FcCache *cache)
{
	uint64_t used = 0;

	for (uint32_t number = 0; number < cache->shared->file_count; number++)
		used += atomic_load(&fc_files(cache->shared)[number].cached_blocks);
	return used > fc_geometry_slot_count(cache) ? fc_geometry_slot_count(cache)
	                                            : (uint32_t) used;
}
