/*
 * files.c
 *		The file dictionary: which number stands for which segment file.
 *
 * Entries of the index name a file by number.  The dictionary gives numbers out,
 * takes them back when the file is unlinked, and knows how much of each file is
 * cached, so that cutting off or dropping a large file does not mean looking for
 * millions of blocks that were never cached.
 *
 * How a name is found: its number is a place in an open table, at most
 * FC_FILE_PROBES places after the hash of its id.  A live file never moves, so
 * searching needs no lock: it looks through all the places.  Only giving a
 * number (fc_file_enter) and taking numbers back (the sweep) hold the file lock.
 *
 * Life of a number: free (tag 0, generation even), live (tag set, generation
 * odd), retired (tag set, generation even), swept: free again.  The step from live
 * to retired is one atomic addition, so it is whole wherever a process is killed,
 * and every handle on the number is stale from that moment.  Number 0 is never
 * given, so that no key is 0.
 *
 * A writer need not enter a file: what the dictionary does not know has nothing
 * cached.  The order matters: a reader enters the file BEFORE its real read, a
 * writer looks again AFTER its real write.  So either the writer finds the file,
 * or the reader's read begins after the write.  absent_epoch spares the writer
 * the search: while it is even and unchanged, no file has become known.
 *
 * Locking: the file lock is a word with the owner's token.  Waiting for it is
 * bounded; an owner that died, or is the caller itself, is taken over, which is
 * safe because each step leaves the table whole.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "shared.h"

/* Spins before a lock counts as not to be had: some tens of microseconds. */
#define LOCK_SPINS 2000

/* ---- names -------------------------------------------------------------- */

static uint64_t
hash_of(const FcFileId *id)
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
	return (generation & 1) != 0;
}

/* The number of a live file, with its generation; or FC_FILE_NONE. */
static uint32_t
find(const FcShared *shared, const FcFileId *id, uint64_t *generation_out)
{
	uint64_t hash = hash_of(id);
	uint32_t probes = probes_of(shared);

	for (uint32_t probe = 0; probe < probes; probe++)
	{
		uint32_t number = place_of(shared, hash, probe);

		if (atomic_load(&fc_tags(shared)[number]) != tag_of(hash))
			continue;

		/* The id is good only if the number stayed live while we read it. */
		uint64_t generation = atomic_load(&fc_generations(shared)[number]);

		if (!live(generation) || !same_id(&fc_files(shared)[number].id, id))
			continue;
		FC_POINT("id-compared");
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load(&fc_generations(shared)[number]) != generation)
			return find(shared, id, generation_out);
		*generation_out = generation;
		return number;
	}
	return FC_FILE_NONE;
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
	return atomic_load(&fc_generations(cache->shared)[file->number]) ==
	       file->generation;
}

bool
fc_file_resolve(const FcCache *cache, FcFile *file)
{
	FcShared *shared = cache->shared;

	if (fc_file_current(cache, file))
		return true;

	uint64_t epoch = atomic_load(&shared->absent_epoch);

	if (file->number == FC_FILE_NONE && file->absent_epoch != 0 &&
	    (FC_BROKEN(ABSENT) || file->absent_epoch == epoch))
		return false;

	file->number = find(shared, &file->id, &file->generation);
	if (file->number != FC_FILE_NONE)
		return true;
	file->absent_epoch = (epoch & 1) == 0 || FC_BROKEN(ABSENT) ? epoch : 0;
	return false;
}

/* ---- the file lock ------------------------------------------------------- */

bool
fc_files_lock(FcCache *cache)
{
	FcAtomic32 *lock = &cache->shared->file_lock;

	if (cache->token == 0 && fc_process_begin(cache) != FC_OK)
		return false;

	for (unsigned spin = 0; spin < LOCK_SPINS; spin++)
	{
		uint32_t owner = 0;

		if (atomic_compare_exchange_strong(lock, &owner, cache->token))
			return true;

		/* Own token: a signal handler cut off our own critical section. */
		if (owner == cache->token || spin == LOCK_SPINS - 1)
		{
			if (fc_owner_gone(cache, owner) &&
			    atomic_compare_exchange_strong(lock, &owner, cache->token))
			{
				fc_count(cache, FC_COUNT_takeovers, 1);
				return true;
			}
		}
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	return false;
}

void
fc_files_unlock(FcCache *cache)
{
	uint32_t mine = cache->token;

	atomic_compare_exchange_strong(&cache->shared->file_lock, &mine, 0);
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

/* Under the lock: make a free number the file's. */
static void
give_number(FcShared *shared, uint32_t number, const FcFileId *id)
{
	FcFileEntry *entry = &fc_files(shared)[number];

	entry->id = *id;
	atomic_store(&entry->cached_blocks, 0);
	atomic_store(&entry->high, 0);
	atomic_store(&entry->hits, 0);
	atomic_store(&entry->misses, 0);
	atomic_store(&entry->disk_read_ns, 0);
	atomic_store(&entry->file_class, FC_BROKEN(CLASS_ENTER)
	                                     ? FC_CLASS_DEFAULT
	                                     : fc_class_of(shared, id));
	FC_POINT("number-written");

	/* Odd already if an earlier owner of the lock died in between. */
	atomic_fetch_or(&shared->absent_epoch, 1);
	atomic_store(&fc_tags(shared)[number], tag_of(hash_of(id)));
	FC_POINT("tag-written");

	uint64_t retired = atomic_fetch_add(&fc_generations(shared)[number], 1);

	FC_ASSERT(!live(retired));
	(void) retired;
	atomic_fetch_add(&shared->absent_epoch, 1);
}

FcStatus
fc_file_enter(FcCache *cache, FcFile *file)
{
	FcShared *shared = cache->shared;
	FcStatus status = FC_OK;

	if (fc_file_current(cache, file))
		return FC_OK;

	file->absent_epoch = 0;
	file->number = find(shared, &file->id, &file->generation);
	if (file->number != FC_FILE_NONE)
		return FC_OK;

	if (!fc_files_lock(cache))
		return FC_FULL;

	/* Somebody else may have entered it while we waited. */
	file->number = find(shared, &file->id, &file->generation);
	if (file->number == FC_FILE_NONE)
	{
		uint32_t number = free_place(shared, hash_of(&file->id));

		if (number == FC_FILE_NONE)
		{
			atomic_store(&shared->clear_wanted, 1);
			fc_count(cache, FC_COUNT_file_shortages, 1);
			status = FC_FULL;
		}
		else
		{
			give_number(shared, number, &file->id);
			FC_POINT("number-given");
			file->number = find(shared, &file->id, &file->generation);
			if (file->number == FC_FILE_NONE)
				status = FC_FULL; /* unlinked at once by another process */
		}
	}
	fc_files_unlock(cache);
	return status;
}

/* ---- leaving ------------------------------------------------------------- */

/* Make a live number retired; false if somebody else did. */
static bool
retire_number(FcCache *cache, uint32_t number, uint64_t generation)
{
	if (!atomic_compare_exchange_strong(&fc_generations(cache->shared)[number],
	                                    &generation, generation + 1))
		return false;
	atomic_fetch_add(&cache->shared->retired_count, 1);
	return true;
}

void
fc_file_retire(FcCache *cache, FcFileId id)
{
	uint64_t generation;
	uint32_t number;

	if (fc_mode(cache, NULL) == FC_OFFLINE)
		return;

	/* A truncation at the same time moves the generation: look again. */
	while ((number = find(cache->shared, &id, &generation)) != FC_FILE_NONE)
	{
		FC_POINT("file-found");
		if (retire_number(cache, number, generation))
		{
			fc_count(cache, FC_COUNT_invalidations, 1);
			fc_file_invalidate(cache, number, 0, FC_BLOCKS_ALL);
		}
	}
}

/* ---- what of a file is cached --------------------------------------------- */

void
fc_file_invalidate(FcCache *cache, uint32_t number, uint32_t first,
                   uint32_t count)
{
	FcShared *shared = cache->shared;

	/* First the generation (by two: live stays live), then what is there. */
	atomic_fetch_add(&fc_generations(shared)[number], 2);
	FC_POINT("file-generation-moved");
	if (FC_BROKEN(INVALIDATE))
		return;

	uint32_t high = atomic_load(&fc_files(shared)[number].high);
	uint32_t last =
		count == FC_BLOCKS_ALL || first + count < first || first + count > high
			? high
			: first + count;
	uint64_t probed = 0;

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

		/* More to look for than there is to look at: walk the index. */
		probed += chunk_end - block;
		if (probed > (uint64_t) shared->set_count * FC_WAYS)
		{
			fc_index_invalidate_file(cache, number, block, last);
			return;
		}

		for (; block < chunk_end; block++)
		{
			uint64_t generation;

			fc_index_invalidate(cache, fc_key(number, block), &generation);
		}
	}
}

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
	out->file_class = (FcClass) atomic_load(&entry->file_class);
	atomic_thread_fence(memory_order_seq_cst);

	/* A truncation moves the generation and leaves the name: that is fine. */
	uint64_t now = atomic_load(&fc_generations(shared)[number]);

	return live(now) && same_id(&entry->id, &out->id);
}

uint32_t
fc_file_count(const FcCache *cache)
{
	return cache->shared->file_count;
}

uint32_t
fc_slot_count(const FcCache *cache)
{
	return cache->shared->set_count * FC_WAYS;
}

uint32_t
fc_used_slots(const FcCache *cache)
{
	uint64_t used = 0;

	for (uint32_t number = 0; number < cache->shared->file_count; number++)
		used += atomic_load(&fc_files(cache->shared)[number].cached_blocks);
	return used > fc_slot_count(cache) ? fc_slot_count(cache) : (uint32_t) used;
}

/* ---- the sweep ------------------------------------------------------------ */

static uint64_t *
sweep_bits(const FcShared *shared)
{
	return FC_AT(shared, sweep_offset, uint64_t);
}

/* Retire everything: only so can a full dictionary make room again. */
static void
retire_all(FcCache *cache)
{
	FcShared *shared = cache->shared;

	for (uint32_t number = 0; number < shared->file_count; number++)
	{
		uint64_t generation = atomic_load(&fc_generations(shared)[number]);

		while (live(generation) && !retire_number(cache, number, generation))
			generation = atomic_load(&fc_generations(shared)[number]);
	}
	fc_count(cache, FC_COUNT_clears, 1);
}

/*
 * Give retired numbers back: those of which the index holds nothing any more,
 * neither blocks nor fills.
 */
void
fc_files_sweep(FcCache *cache)
{
	FcShared *shared = cache->shared;
	uint64_t *bits = sweep_bits(shared);
	uint32_t words = (shared->file_count + 63) / 64;
	bool clear = atomic_load(&shared->clear_wanted) != 0;

	if (!clear && atomic_load(&shared->retired_count) < shared->file_count / 8)
		return;
	if (!fc_files_lock(cache))
		return;

	/* Retired numbers may be room enough; else everything has to go. */
	if (clear && atomic_load(&shared->retired_count) < shared->file_count / 8)
		retire_all(cache);
	atomic_store(&shared->clear_wanted, 0);

	memset(bits, 0, words * sizeof(uint64_t));
	for (uint32_t number = 0; number < shared->file_count; number++)
	{
		if (atomic_load(&fc_tags(shared)[number]) != 0 &&
		    !live(atomic_load(&fc_generations(shared)[number])))
			bits[number / 64] |= 1ULL << (number % 64);
	}

	if (!FC_BROKEN(SWEEP))
		fc_index_sweep_files(cache, bits);

	uint32_t waiting = 0;

	for (uint32_t number = 0; number < shared->file_count; number++)
	{
		if (atomic_load(&fc_tags(shared)[number]) == 0 ||
		    live(atomic_load(&fc_generations(shared)[number])))
			continue;
		if (bits[number / 64] & (1ULL << (number % 64)))
		{
			atomic_store(&fc_files(shared)[number].cached_blocks, 0);
			atomic_store(&fc_tags(shared)[number], 0);
		}
		else
			waiting++;
	}
	atomic_store(&shared->retired_count, waiting);
	fc_files_unlock(cache);
}
