/*
 * shared.h
 *		The shared memory of a cache: its head, and what all of core knows about
 *		it.
 *
 * One block of memory, all zeros except its head after fc_cache_create() has
 * laid it out (layout.c).  Arrays follow the head, each with a header file of
 * its own:
 *
 *	FcShared | staging ring | processes | counters, also by device | changes in
 *	flight | generations, tags and lines of files, chunks (file.h) |
 *	cache policies | replacement | sets (index.h)
 *
 * They refer to each other by offset and number, never by pointer: the same
 * bytes are valid wherever a process has mapped them.  All zeros is an empty
 * cache, so creating one of 100 GB touches one page and takes no time.  No key
 * is 0, since file numbers begin at 1; an entry of zeros is empty; a file's
 * generation of 0 was never used; and every replacement policy begins with a
 * state of zeros.
 *
 * All shared accesses are sequentially consistent unless a line says otherwise.
 * The protocol rests on one argument, used again and again: a filler makes its
 * claim visible, THEN compares generations; a changer advances the generation,
 * THEN looks for claims.  Whatever the interleaving, at least one of them sees
 * the other.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_SHARED_H
#define FCACHE_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broken.h"
#include "fcache/housekeeping.h"
#include "fcache/life.h"

/*
 * "pgfcach" and the number of the layout: memory found at a start may have
 * another.
 */
#define FC_MAGIC (0x70676663616368ULL << 8 | 5)

typedef _Atomic uint64_t FcAtomic64;
typedef _Atomic uint32_t FcAtomic32;

/* ---- counters ------------------------------------------------------------ */

typedef struct FcShard
{
	FcAtomic64 counter[FC_COUNTER_COUNT];
	struct
	{
		FcAtomic64 total_ns;
		FcAtomic64 bucket[FC_HISTOGRAM_BUCKETS];
	} timer[FC_TIMER_COUNT];
	FcAtomic64 disk_calls; /* reads of the disk, or of some memory */
	FcAtomic64 disk_waits; /* ... of them, slow enough to be the disk's */
	FcAtomic64 disk_wait_ns;
} __attribute__((aligned(64))) FcShard;

/* ---- health -------------------------------------------------------------- */

/* Failures of one kind in the present window of time; see health.c. */
typedef struct FcFailures
{
	FcAtomic64 window_start_ns;
	FcAtomic32 count;
} FcFailures;

/* Sums at the beginning of a window of time. */
typedef struct FcWindow
{
	uint64_t reads;
	uint64_t ns;
	uint64_t begin_ns;
} FcWindow;

/* The same for reads of the disk. */
typedef struct FcDiskSums
{
	uint64_t calls;
	uint64_t waits; /* of them, not from memory */
	uint64_t wait_ns;
} FcDiskSums;

typedef struct FcHealth
{
	FcAtomic32 state;       /* an FcDeviceState */
	FcAtomic32 writes_late; /* the writer waits long for it; see flights.c */
	FcFailures read_errors;
	FcFailures write_errors;
	FcFailures corrupt;

	/* From here on: housekeeping's own notes. */
	uint32_t noted_state;
	uint32_t times_bypassed; /* in a row, and not mistakenly */
	bool hung;               /* this time: a probe was late */
	uint32_t good_probes;
	uint64_t probes_ns;
	uint64_t noted_ns;
	uint64_t probe_due_ns;
	FcWindow window;
} FcHealth;

/* ---- write budget -------------------------------------------------------- */

#define FC_BUDGET_HOURS FC_WEAR_HOURS

typedef struct FcBudget
{
	FcAtomic64 bytes_per_day; /* 0 = unlimited */
	_Atomic int64_t left;     /* bytes in the bucket */
	FcAtomic64 poured_ns;     /* bytes were added up to then */

	/*
	 * By the budget's own clock, which continues over restarts; see budget.c.
	 */
	uint64_t ahead_ns;                /* of the monotonic clock */
	uint64_t begun_ns;                /* writes are known since then */
	FcAtomic64 hour[FC_BUDGET_HOURS]; /* blocks */

	/* Of the last record in each cache file; see wear.c. */
	uint32_t sequence[FC_DEVICES_MAX];
} FcBudget;

/* ---- staging ------------------------------------------------------------- */

/*
 * The staging ring has at most this many pages; a reference has 12 bits for the
 * number.
 */
#define FC_RING_MAX 1024

/* Must the writer be woken? */
enum
{
	FC_WRITER_AWAKE,
	FC_WRITER_DOZES, /* it will look on its own in a moment */
	FC_WRITER_SLEEPS
};

/* ---- the head of the memory ---------------------------------------------- */

struct FcShared
{
	uint64_t magic;
	uint32_t set_count; /* sets that there is memory for; see geometry.h */
	uint32_t set_size;  /* bytes */
	uint32_t device_count;
	uint32_t file_count;
	uint32_t process_count;
	uint32_t shard_count; /* of counters, a power of 2 */
	uint32_t
		change_counter_count; /* counters of changes in flight, a power of 2 */
	uint32_t chunk_count;     /* a power of 2 */
	uint32_t cache_policy_count; /* a power of 2 */
	/* The policy's: its state in the sets is useless to another one. */
	uint32_t replacement_hash;
	uint32_t ring_count; /* a power of 2 */
	uint64_t memory_size;
	uint64_t staged_offset; /* heads of the ring's pages */
	uint64_t ring_offset;   /* the pages, aligned for direct I/O */
	uint64_t processes_offset;
	uint64_t shards_offset;
	uint64_t device_shards_offset;
	uint64_t change_counters_offset; /* changes in flight; see stamp.c */
	uint64_t generations_offset;
	uint64_t tags_offset;
	uint64_t files_offset;
	uint64_t chunks_offset;
	uint64_t cache_policies_offset;
	uint64_t replacement_offset; /* the policy's state of all sets */
	uint64_t sets_offset;

	/*
	 * mode | reason << 8 | epoch << 16: one word, so that all change together
	 */
	FcAtomic64 mode_word __attribute__((aligned(64)));
	FcAtomic64 geometry; /* how many sets are in use; see geometry.h */

	FcAtomic32 resizer;   /* token of the resizing process, 0 = none */
	FcAtomic32 walk_at;   /* the set where the walk continues */
	FcAtomic32 room_sets; /* sets that the cache files must have room for */

	FcAtomic32 file_lock
		__attribute__((aligned(64))); /* owner token, 0 = free */
	FcAtomic64 absent_epoch;          /* odd while a file becomes known */

	FcAtomic32 asleep_count; /* files of an earlier life, or a few fewer */
	FcAtomic32 audit_wanted; /* the counts cannot be trusted */
	FcIdentity identity;     /* the cluster it belongs to; 0 = none */
	uint64_t nonce;          /* of this life of the cache file */
	FcAtomic64 map_nonce;    /* of the life whose map is loaded; 0 = none */
	FcAtomic32 control;      /* CRC of the cluster's control file */
	FcAtomic32 control_next; /* ... of the content being written */
	uint32_t map_sets;       /* of each of its files */
	FcAtomic32 map_next;     /* the part to load next */
	FcAtomic32 unsynced;     /* see fc_map_unsynced_set() */

	FcAtomic32 cache_policies_used; /* one was set that is not the default */
	/* ... and the numbers' copies are not updated yet */
	FcAtomic32 cache_policies_changed;
	FcAtomic32
		cache_policy_drop_wanted; /* a file of policy none may have blocks */
	FcAtomic32 keep_ways;         /* of a set, for keep: its share */

	FcHealth health[FC_DEVICES_MAX] __attribute__((aligned(64)));
	/* Changes in flight | begun << 32, of any file. */
	FcAtomic64 everyone __attribute__((aligned(64)));

	/* Housekeeping's notes on the disk. */
	FcDiskSums disk_window;
	uint64_t disk_mean_ns; /* lately; 0 = not known */

	FcBudget budget __attribute__((aligned(64)));

	FcAtomic32 ring_writer
		__attribute__((aligned(64))); /* the writer's token, 0 = none */
	FcAtomic32 ring_rest;        /* FC_WRITER_*; it waits for this to change */
	FcAtomic32 ring_called;      /* it must not sleep now */
	FcAtomic32 ring_stood_in_us; /* by others, since it began */
	FcAtomic64 ring_busy[FC_RING_MAX / 64];   /* pages in use: a hint */
	FcAtomic64 ring_staged[FC_RING_MAX / 64]; /* ... for the writer to see */
};

#define FC_AT(shared, offset, type)                                            \
	((type *) (void *) ((char *) (shared) + (shared)->offset))

static inline FcShard *
fc_shards(const FcShared *shared)
{
	return FC_AT(shared, shards_offset, FcShard);
}

/* The shard that a process adds to. */
static inline uint32_t
fc_own_shard(const FcCache *cache)
{
	FC_ASSERT(cache->process < cache->shared->process_count);
	return cache->process & (cache->shared->shard_count - 1);
}

/*
 * Murmur's 64-bit finaliser: every bit of the result depends on every input
 * bit.
 */
static inline uint64_t
fc_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ (x >> 33);
}

static inline FcMode
fc_word_mode(uint64_t mode_word)
{
	return (FcMode) (mode_word & 0xff);
}

/* ---- layout.c ------------------------------------------------------------ */

/* Sizes and offsets of everything; false if the config cannot work. */
extern bool fc_layout(const FcConfig *config, FcShared *shared);

/* ---- cache.c ------------------------------------------------------------- */

/* Fill in a process's handle on memory that is laid out. */
extern FC_MUST_CHECK FcStatus fc_cache_open(FcCache *cache, FcShared *shared,
                                            const FcReplacement *replacement,
                                            FcDevice *devices);

/* ---- mode.c -------------------------------------------------------------- */

/* Advance only the epoch: everything that began before becomes invalid. */
extern void fc_mode_new_epoch(FcShared *shared);

#endif
