/*
 * file.h
 *		The lines of the file dictionary, and what the rest of core may do with them.
 *
 * file.c gives numbers out and takes them back, stamp.c tells whether a file was
 * changed, chunk.c counts what is cached of it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_FILE_H
#define FCACHE_FILE_H

#include "shared.h"

/*
 * A file number's line.  Its tag (a hash of the id, 0 = place is free) and its
 * generation lie in arrays of their own: tags are searched, and the generation
 * is read at every call and must not share a cache line with counters.
 *
 * A generation holds the number's state: live, retired (or never used: 0), or
 * asleep, that is known from an earlier life of the cache and not compared with
 * its file yet.  So one atomic step retires a number and makes every handle on it
 * stale, and nothing can come between.  Generations only grow, over all uses of a
 * number: a handle of an earlier use can never look current.
 */
typedef struct FcFileEntry
{
	FcFileId id; /* changes only while retired and under the lock */
	FcAtomic32 cached_blocks; /* over all uses of the number */
	FcAtomic32 high;          /* one past the highest block ever cached */
	FcAtomic32 cache_policy;  /* an FcCachePolicy; see cache_policy.c */
	FcAtomic32 stamped;       /* what changes was when the stamp was set */
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

/* One step on, in this state. */
static inline uint64_t
fc_generation_next(uint64_t generation, uint64_t state)
{
	return (generation & ~FC_GENERATION_STATE) + FC_GENERATION_ONE + state;
}

/* A file lies within this many places of its hash, or has no number. */
#define FC_FILE_PROBES 256

/* Blocks that share a counter of what is cached of them; see chunk.c. */
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

/* ---- file.c: numbers ------------------------------------------------------------ */

/* The file lock; false if it cannot be had soon. */
extern bool fc_file_lock(FcCache *cache);
extern void fc_file_unlock(FcCache *cache);

/* The number of a file that is live or asleep, with its generation. */
extern uint32_t fc_file_find(const FcShared *shared, const FcFileId *id,
                             uint64_t *generation_out);

extern uint64_t fc_file_hash(const FcFileId *id);

/* Let the file with this number be found by its name. */
extern void fc_file_tag(FcShared *shared, uint32_t number);

/*
 * Retire a number, and free it, as long as its generation is this one; false if
 * somebody else was faster.
 */
extern bool fc_file_drop(FcCache *cache, uint32_t number, uint64_t generation);

/* A sleeper that nobody compared in time. */
extern void fc_file_drop_sleeper(FcCache *cache, uint32_t number,
                                 uint64_t generation);

/* Forget a range of a file's blocks, and every fill of it that is under way. */
extern void fc_file_invalidate(FcCache *cache, uint32_t number, uint32_t first,
                               uint32_t count);

/* ---- stamp.c: was it changed? ---------------------------------------------------- */

/* What one change adds to, and takes from, a counter of changes. */
#define FC_CHANGE_COUNTED_IN  ((1ULL << 32) + 1)
#define FC_CHANGE_COUNTED_OUT 1ULL

/* A change is counted in, before the real one, and out after it. */
extern void fc_stamp_count_in(FcCache *cache, FcFile *file, FcChange *change);
extern void fc_stamp_count_out(FcCache *cache, const FcFile *file,
                               FcChange *change);

/* Changes in flight of files whose names hash alike. */
extern FcAtomic64 *fc_stamp_counter_of_file(const FcShared *shared,
                                            const FcFileId *id);

/* ---- chunk.c: how much of it is cached ------------------------------------------- */

/* How many of the blocks around this one are, or may be, in the index. */
extern FcAtomic32 *fc_chunk_of(const FcShared *shared, uint32_t number,
                               uint32_t block);

/* A block of a file is claimed for, or has left, the index. */
extern void fc_chunk_enter(const FcShared *shared, uint32_t number,
                           uint32_t block);
extern void fc_chunk_leave(const FcShared *shared, uint32_t number,
                           uint32_t block);

/*
 * To be asked before a block is made to leave: is it to be counted?  An audit that
 * has not come to its end has yet to count those that stay.
 */
static inline bool
fc_blocks_counted(const FcShared *shared)
{
	return atomic_load(&shared->audit_wanted) == 0;
}

#endif
