/*
 * file.h
 *		The lines of the file dictionary, and the calls that the rest of core
 *		may use.
 *
 * file.c assigns numbers and releases them, stamp.c detects whether a file
 * was changed, chunk.c counts a file's cached blocks.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_FILE_H
#define FCACHE_FILE_H

#include "shared.h"

/*
 * A file number's line.  Its tag (a hash of the id, 0 = the place is free) and
 * its generation are in separate arrays: tags are searched, and the
 * generation is read at every call and must not share a cache line with
 * counters.
 *
 * A generation holds the number's state: live, retired (or never used: 0), or
 * asleep, which means that the file is known from an earlier life of the cache
 * and was not compared yet.  So one atomic step retires a number and makes
 * every handle on it stale; nothing can happen in between.  Generations only
 * grow, over all uses of a number, so a handle of an earlier use can never look
 * current.
 */
typedef struct FcFileEntry
{
	FcFileId id; /* changes only while retired, and under the lock */
	FcAtomic32 cached_blocks; /* over all uses of the number */
	FcAtomic32 high;          /* one past the highest block ever cached */
	FcAtomic32 cache_policy;  /* an FcCachePolicy; see cache_policy.c */
	FcAtomic32 stamped;       /* the value of changes when the stamp was set */
	FcAtomic64 hits;
	FcAtomic64 misses;
	FcAtomic64 disk_read_ns;
	FcAtomic64 changes; /* begun so far, over all uses; see stamp.c */
	FcAtomic64 stamp;   /* 0 = none */
} FcFileEntry;

_Static_assert(sizeof(FcFileEntry) == 72, "memory per file is documented");

/* A generation is a count << 2 | one of these. */
#define FC_NUMBER_RETIRED 0ULL
#define FC_NUMBER_LIVE    1ULL
#define FC_NUMBER_ASLEEP  2ULL

#define FC_GENERATION_STATE 3ULL
#define FC_GENERATION_ONE   4ULL

static inline uint64_t
fc_generation_state(uint64_t generation)
{
	return generation & FC_GENERATION_STATE;
}

/* The next generation, in this state. */
static inline uint64_t
fc_generation_next(uint64_t generation, uint64_t state)
{
	FC_ASSERT(state <= FC_NUMBER_ASLEEP);
	return (generation & ~FC_GENERATION_STATE) + FC_GENERATION_ONE + state;
}

/* A file lies within this many places of its hash, or it has no number. */
#define FC_FILE_PROBES 256

/* Blocks that share one counter of cached blocks; see chunk.c. */
#define FC_CHUNK_BLOCKS 1024

static inline FcAtomic64 *
fc_generations(const FcShared *shared)
{
	return FC_AT(shared, generations_offset, FcAtomic64);
}

static inline FcAtomic32 *
fc_tags(const FcShared *shared)
{
	return FC_AT(shared, tags_offset, FcAtomic32);
}

static inline FcFileEntry *
fc_files(const FcShared *shared)
{
	return FC_AT(shared, files_offset, FcFileEntry);
}

static inline FcAtomic32 *
fc_chunks(const FcShared *shared)
{
	return FC_AT(shared, chunks_offset, FcAtomic32);
}

/* Changes in flight | begun << 32, by a hash of the file's name. */
static inline FcAtomic64 *
fc_stamp_change_counters(const FcShared *shared)
{
	return FC_AT(shared, change_counters_offset, FcAtomic64);
}

/* ---- file.c: numbers ----------------------------------------------------- */

/* Take the file lock; false if it is not available soon. */
extern bool fc_file_lock(FcCache *cache);
extern void fc_file_unlock(FcCache *cache);

/* The number of a file that is live or asleep, with its generation. */
extern uint32_t fc_file_find(const FcShared *shared, const FcFileId *id,
                             uint64_t *generation_out);

extern uint64_t fc_file_hash(const FcFileId *id);

/* Make the file with this number findable by its name. */
extern void fc_file_tag(FcShared *shared, uint32_t number);

/*
 * Retire and free a number if it still has this generation; false if another
 * process was faster.
 */
extern bool fc_file_drop(FcCache *cache, uint32_t number, uint64_t generation);

/* Drop a sleeper that was not compared in time. */
extern void fc_file_drop_sleeper(FcCache *cache, uint32_t number,
                                 uint64_t generation);

/* Invalidate a range of a file's blocks, and every fill of them under way. */
extern void fc_file_invalidate(FcCache *cache, uint32_t number, uint32_t first,
                               uint32_t count);

/* ---- stamp.c: was the file changed? -------------------------------------- */

/* What one change adds to a counter of changes, and subtracts from it. */
#define FC_CHANGE_COUNTED_IN  ((1ULL << 32) + 1)
#define FC_CHANGE_COUNTED_OUT 1ULL

/* Count a change in, before the real one, and out, after it. */
extern void fc_stamp_count_in(FcCache *cache, FcFile *file, FcChange *change);
extern void fc_stamp_count_out(FcCache *cache, const FcFile *file,
                               FcChange *change);

/* Changes in flight of files whose names hash alike. */
extern FcAtomic64 *fc_stamp_counter_of_file(const FcShared *shared,
                                            const FcFileId *id);

/* Is a change of this ticket's file, or of one with its counter, under way? */
extern bool fc_stamp_changing(const FcShared *shared, const FcTicket *ticket);

/* ---- chunk.c: how much of the file is cached ----------------------------- */

/* The number of blocks around this one that are, or may be, in the index. */
extern FcAtomic32 *fc_chunk_of(const FcShared *shared, uint32_t number,
                               uint32_t block);

/* A block of a file enters the index (is claimed), or has left it. */
extern void fc_chunk_enter(const FcShared *shared, uint32_t number,
                           uint32_t block);
extern void fc_chunk_leave(const FcShared *shared, uint32_t number,
                           uint32_t block);

/*
 * Ask before a block is made to leave: is it counted?  An unfinished audit has
 * yet to count the blocks that stay.
 */
static inline bool
fc_blocks_counted(const FcShared *shared)
{
	return atomic_load(&shared->audit_wanted) == 0;
}

#endif
