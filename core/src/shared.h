/*
 * shared.h
 *		The shared memory of a cache, and what the parts of core know of it.
 *
 * One block of memory, zeros but for its head when fc_cache_create() has laid
 * it out:
 *
 *	FcShared | processes | counter shards | shards of devices | file generations | files | chunks
 *	| classes | policy | staging ring | sets
 *
 * Parts name each other by offset and number, never by pointer: the same bytes
 * are valid wherever a process has mapped them.  All zeros is an empty cache, so
 * that making one of 100 GB touches one page and takes no time: no key is 0, since
 * file numbers begin at 1; an entry of zeros is empty, a file's generation of 0
 * was never used, and every policy begins with a state of zeros.
 *
 * The order of all shared accesses is sequentially consistent unless a line
 * says otherwise.  The protocol rests on one argument, used again and again:
 * a filler makes its claim visible, THEN compares generations; a changer moves
 * the generation, THEN looks for claims.  Whatever the interleaving, at least
 * one of them sees the other.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_SHARED_H
#define FCACHE_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fcache/cache.h"

#define FC_MAGIC 0x70676663616368ULL /* "pgfcach" */

typedef _Atomic uint64_t FcAtomic64;
typedef _Atomic uint32_t FcAtomic32;

/* ---- assertions and sabotage ------------------------------------------- */

#ifdef FC_TEST
#include <stdlib.h>
#define FC_ASSERT(condition) ((condition) ? (void) 0 : abort())
#else
#define FC_ASSERT(condition) ((void) 0)
#endif

/*
 * Negative controls.  In a test build, fc_test_broken is a set of mechanisms
 * that are left out, so that a test can show that it would notice; and
 * FC_POINT(name) lets a test stop a process between any two steps of the
 * protocol.  Neither exists in the library that is shipped.
 */
#ifdef FC_TEST
#define FC_BIT(n) (1ULL << (n))

enum
{
	FC_BREAK_INVALIDATE = FC_BIT(0),     /* changes drop no entry */
	FC_BREAK_SET_GENERATION = FC_BIT(1), /* fills ignore the set's generation */
	FC_BREAK_FILE_GENERATION = FC_BIT(2), /* ... the file's generation */
	FC_BREAK_MODE_CHECK = FC_BIT(3),      /* ... a mode change under way */
	FC_BREAK_ENTRY_COMPARE =
		FC_BIT(4),            /* hits do not look at the entry again */
	FC_BREAK_CRC = FC_BIT(5), /* hits are not checksummed */
	FC_BREAK_SECOND_INVALIDATE = FC_BIT(6), /* nothing after the real write */
	FC_BREAK_RESOLVE = FC_BIT(7),           /* stale handles are believed */
	FC_BREAK_TAKEOVER = FC_BIT(8),  /* dead owners keep what they held */
	FC_BREAK_SELF = FC_BIT(9),      /* ... and so does the process itself */
	FC_BREAK_FORGET = FC_BIT(10),   /* numbers are reused with blocks cached */
	FC_BREAK_DOOM = FC_BIT(11),     /* changes leave pending fills alone */
	FC_BREAK_FULL_KEY = FC_BIT(12), /* keys are compared in part */
	FC_BREAK_REPLAY_FILE = FC_BIT(13), /* hits ignore the file's generation */
	FC_BREAK_PIN = FC_BIT(14),    /* a slot being written can be given away */
	FC_BREAK_ABSENT = FC_BIT(15), /* unknown files are unknown for ever */
	FC_BREAK_EVERY_WAY = FC_BIT(16), /* changes drop one copy of a block */
	FC_BREAK_REFRESH = FC_BIT(17),   /* writers refresh what others changed */
	FC_BREAK_CHUNKS = FC_BIT(18), /* what is cached of a file is not counted */
	FC_BREAK_LOOK_AGAIN = FC_BIT(19), /* changes look at a moving entry once */
	FC_BREAK_KEEP = FC_BIT(20),       /* keep protects nothing */
	FC_BREAK_KEEP_SHARE = FC_BIT(21), /* ... or everything, without a limit */
	FC_BREAK_CLASS_NONE = FC_BIT(22), /* files of class none are looked up */
	FC_BREAK_CLASS_DROP = FC_BIT(23), /* ... and keep the blocks they have */
	FC_BREAK_CLASS_ENTER =
		FC_BIT(24),                /* new numbers do not ask for their class */
	FC_BREAK_FEWEST = FC_BIT(25),  /* who comes first in line is displaced */
	FC_BREAK_RECOUNT = FC_BIT(26), /* a new number's blocks count from 0 */
	FC_BREAK_COUNT_FIRST =
		FC_BIT(27), /* ... and are counted before it retires */
	FC_BREAK_CURVE_TAKEOVER =
		FC_BIT(28), /* what a dead owner left is believed */
	FC_BREAK_CURVE_FRONTIER =
		FC_BIT(29),                    /* blocks of unknown past are counted */
	FC_BREAK_BYPASSED = FC_BIT(30),    /* no changes on a bypassed device */
	FC_BREAK_BUDGET = FC_BIT(31),      /* the write budget limits nothing */
	FC_BREAK_LOST_PAGE = FC_BIT(40),   /* pages of late reads are used again */
	FC_BREAK_OWN_PAGE = FC_BIT(32),    /* flash is read into callers' pages */
	FC_BREAK_READER_BUSY = FC_BIT(41), /* reads within a read go ahead */
	FC_BREAK_OLD_HOME = FC_BIT(42),    /* changes look at the new home only */
	FC_BREAK_HOME_ORDER = FC_BIT(43),  /* ... or at the new home first */
	FC_BREAK_FRAME = FC_BIT(44),       /* ... and not whether the size moved */
	FC_BREAK_EPOCH = FC_BIT(45),       /* old tickets count under a new size */
	FC_BREAK_MOVE_TICKET = FC_BIT(46), /* moves note their ticket at the end */
	FC_BREAK_MOVE_LOOK = FC_BIT(47),   /* ... and do not look back */
	FC_BREAK_TWO_WALKS = FC_BIT(48),   /* walks meet a moving block by chance */
	FC_BREAK_DRAIN = FC_BIT(49),       /* sets that go are not waited for */
	FC_BREAK_STAND_IN_SIGN = FC_BIT(33),  /* who stands in does not sign */
	FC_BREAK_STAND_IN_LIMIT = FC_BIT(34), /* ... and does so for any time */
	FC_BREAK_RING_SEQUENCE = FC_BIT(35),  /* any use of a page will do */
	FC_BREAK_WRITING_DOOM = FC_BIT(36),   /* changes forget what is written */
	FC_BREAK_PAGE_PIN = FC_BIT(37),    /* pages are given back while written */
	FC_BREAK_WRITER_GONE = FC_BIT(38), /* a living writer is taken over */
	FC_BREAK_TAKE_UP = FC_BIT(39),     /* a new writer forgets the dead one's */
	FC_BREAK_STAMP = FC_BIT(53),       /* sleepers wake without a look */
	FC_BREAK_WRITERS = FC_BIT(54),     /* stamps are taken while others write */
	FC_BREAK_STAMP_LATE = FC_BIT(55),  /* stamps outlive changes */
	FC_BREAK_ASLEEP = FC_BIT(56),      /* changers take sleepers for unknown */
	FC_BREAK_DISTRUST = FC_BIT(57),    /* a file that failed gets a stamp */
	FC_BREAK_SYSTEM = FC_BIT(58),      /* another cluster's memory will do */
	FC_BREAK_AHEAD = FC_BIT(50),       /* what was read ahead is anyone's */
	FC_BREAK_GEOMETRY = FC_BIT(51),    /* a map of another layout is used */
	FC_BREAK_CLEAN = FC_BIT(52),       /* a map is used after an unclean end */
	FC_BREAK_DIRECTORY = FC_BIT(59),   /* ... another directory's */
	FC_BREAK_BOOT = FC_BIT(60),        /* ... that of another boot */
	FC_BREAK_NONCE = FC_BIT(61),       /* ... of another life, or part of it */
	FC_BREAK_OFFLINE = FC_BIT(62),     /* ... one that was off */
	FC_BREAK_AUDIT = FC_BIT(63)        /* memory is believed as it is */
};

extern uint64_t fc_test_broken;
extern void (*fc_test_point)(const char *name);
extern uint64_t fc_test_now_ns; /* what the clock says; 0: it is the real one */
extern uint64_t fc_test_tick_ns;  /* ... and goes on by at each look */
extern void *const *fc_test_page; /* where callers want the slots of a run */

#define FC_BROKEN(name)        ((fc_test_broken & FC_BREAK_##name) != 0)
#define FC_CALLERS_PAGE(index) (fc_test_page[index])
#define FC_POINT(name)                                                         \
	do                                                                         \
	{                                                                          \
		if (fc_test_point != NULL)                                             \
			fc_test_point(name);                                               \
	} while (0)
#else
#define FC_BROKEN(name)        0
#define FC_CALLERS_PAGE(index) NULL
#define FC_POINT(name)         ((void) 0)
#endif

/* ---- entries ------------------------------------------------------------ */

/*
 * An entry is two words.  key: file number << 32 | block.  meta:
 *
 *	bits 32-63	VALID: CRC32C of key and content; FILLING, DOOMED: owner token;
 *				STAGED, WRITING, WRITING_DOOMED: reference to a page of the ring
 *	bits  3-31	sequence, + 1 whenever the entry is claimed or emptied
 *	bits  0-2	state
 *
 * The key changes only while the owner holds the entry in FILLING.  From STAGED by
 * WRITING to VALID the sequence stays: it is the same block with the same bytes.
 */
typedef enum FcState
{
	FC_EMPTY,
	FC_FILLING,       /* the owner is copying the block */
	FC_DOOMED,        /* ... but it changed: the owner will empty the entry */
	FC_VALID,         /* the slot holds the block */
	FC_STAGED,        /* a page of the ring does */
	FC_WRITING,       /* ... and is being written to the slot */
	FC_WRITING_DOOMED /* ... but it changed: the writer will empty the entry */
} FcState;

#define FC_META_STATE_MASK    7ULL
#define FC_META_SEQUENCE_ONE  8ULL
#define FC_META_SEQUENCE_MASK 0xfffffff8ULL

static inline FcState
fc_meta_state(uint64_t meta)
{
	return (FcState) (meta & FC_META_STATE_MASK);
}

static inline uint32_t
fc_meta_high(uint64_t meta)
{
	return (uint32_t) (meta >> 32);
}

/* Does the entry say where the block is? */
static inline bool
fc_meta_serves(uint64_t meta)
{
	return fc_meta_state(meta) >= FC_VALID && fc_meta_state(meta) <= FC_WRITING;
}

/* Is it in a page of the ring? */
static inline bool
fc_meta_staged(uint64_t meta)
{
	return fc_meta_state(meta) == FC_STAGED ||
	       fc_meta_state(meta) == FC_WRITING;
}

/* The same entry in another state, its sequence as it is. */
static inline uint64_t
fc_meta_as(uint64_t meta, FcState state, uint32_t high)
{
	return ((uint64_t) high << 32) | (meta & FC_META_SEQUENCE_MASK) |
	       (uint64_t) state;
}

/* The same entry, one step on, in another state. */
static inline uint64_t
fc_meta_next(uint64_t meta, FcState state, uint32_t high)
{
	return ((uint64_t) high << 32) |
	       ((meta + FC_META_SEQUENCE_ONE) & FC_META_SEQUENCE_MASK) |
	       (uint64_t) state;
}

static inline uint64_t
fc_key(uint32_t file, uint32_t block)
{
	return ((uint64_t) file << 32) | block;
}

static inline uint32_t
fc_key_file(uint64_t key)
{
	return (uint32_t) (key >> 32);
}

/* A set: 64 entries and the policy's state behind them. */
typedef struct FcSet
{
	FcAtomic64 generation; /* + 1 at every change of a block of this set */
	FcAtomic64 key[FC_WAYS];
	FcAtomic64 meta[FC_WAYS];
	char policy_state[];
} FcSet;

/* ---- files --------------------------------------------------------------- */

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
	FcAtomic32 file_class;    /* an FcClass; see classes.c */
	FcAtomic64 hits;
	FcAtomic64 misses;
	FcAtomic64 disk_read_ns;
	FcAtomic64 changes; /* begun so far, over all uses; see stamps.c */
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

/* Counters of changes in flight; see stamps.c. */
#define FC_WRITERS 1024

/* A file lies within this many places of its hash, or has no number. */
#define FC_FILE_PROBES 256

/* Blocks that share a counter of what is cached of them; see chunks.c. */
#define FC_CHUNK_BLOCKS 1024

/* ---- classes -------------------------------------------------------------- */

/* A relation whose class is not the default; see classes.c. */
typedef struct FcClassEntry
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	FcAtomic32 word;
} FcClassEntry;

/* A class lies within this many places of its hash. */
#define FC_CLASS_PROBES 64

/* ---- processes ----------------------------------------------------------- */

/*
 * A place in the table of processes: who has it, in one word.
 *
 *	bits 42-63	pid; 0 = free (Linux has no pid beyond 2^22)
 *	bits 16-41	when it was started, in clock ticks since boot; 0 = not known
 *	bits  0-15	incarnation: + 1 whenever the place is taken, never 0
 *
 * An owner's token is incarnation << 16 | place.
 */
typedef struct FcProcess
{
	FcAtomic64 word;
} FcProcess;

/* ---- counters ------------------------------------------------------------ */

#define FC_SHARDS 16

typedef struct FcShard
{
	FcAtomic64 counter[FC_COUNTER_COUNT];
	struct
	{
		FcAtomic64 total_ns;
		FcAtomic64 bucket[FC_HISTOGRAM_BUCKETS];
	} timer[FC_TIMER_COUNT];
	FcAtomic64 disk_calls; /* reads of the disk, or of some memory */
	FcAtomic64 disk_waits; /* ... of them, so slow that it was the disk */
	FcAtomic64 disk_wait_ns;
} __attribute__((aligned(64))) FcShard;

/* What is counted for each device. */
typedef enum FcDeviceCounter
{
	FC_DEVICE_READS,       /* asked for */
	FC_DEVICE_READS_DONE,  /* that gave a whole slot */
	FC_DEVICE_READ_NS,     /* of those */
	FC_DEVICE_READS_AHEAD, /* the same, but done before anybody waited */
	FC_DEVICE_READ_ERRORS,
	FC_DEVICE_READ_TIMEOUTS,
	FC_DEVICE_WRITES,
	FC_DEVICE_WRITES_DONE,
	FC_DEVICE_WRITE_NS,
	FC_DEVICE_WRITE_ERRORS,
	FC_DEVICE_CORRUPT,
	FC_DEVICE_BYPASSED_READS,
	FC_DEVICE_COUNTER_COUNT
} FcDeviceCounter;

typedef struct FcDeviceShard
{
	FcAtomic64 counter[FC_DEVICE_COUNTER_COUNT];
} __attribute__((aligned(64))) FcDeviceShard;

/* ---- health --------------------------------------------------------------- */

/* Failures of one kind in the present window of time; see health.c. */
typedef struct FcFailures
{
	FcAtomic64 window_start_ns;
	FcAtomic32 count;
} FcFailures;

/* Sums as they were when a window of time began. */
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
	uint64_t waits; /* of those that were no memory's */
	uint64_t wait_ns;
} FcDiskSums;

typedef struct FcHealth
{
	FcAtomic32 state; /* an FcDeviceState */
	FcFailures read_errors;
	FcFailures write_errors;
	FcFailures corrupt;

	/* From here on: what housekeeping remembers. */
	uint32_t noted_state;
	uint32_t times_bypassed; /* in a row, and not by mistake */
	bool hung;               /* this time: a probe was late */
	uint32_t good_probes;
	uint64_t probes_ns;
	uint64_t noted_ns;
	uint64_t probe_due_ns;
	FcWindow window;
} FcHealth;

/* ---- write budget ----------------------------------------------------------- */

#define FC_BUDGET_HOURS 24

typedef struct FcBudget
{
	FcAtomic64 bytes_per_day; /* 0 = unlimited */
	_Atomic int64_t left;     /* bytes in the bucket */
	FcAtomic64 poured_ns;     /* up to then */
	FcAtomic64 begun_ns;
	FcAtomic64 hour[FC_BUDGET_HOURS]; /* blocks; see budget.c */
} FcBudget;

/* ---- staging ------------------------------------------------------------- */

/* Pages of the staging ring at most; a reference has 12 bits for the number. */
#define FC_RING_MAX 1024

/* Does the writer have to be woken? */
enum
{
	FC_WRITER_AWAKE,
	FC_WRITER_DOZES, /* it will look by itself in a moment */
	FC_WRITER_SLEEPS
};

/* ---- the whole ----------------------------------------------------------- */

struct FcShared
{
	uint64_t magic;
	uint32_t set_count; /* that there is memory for; see geometry.h */
	uint32_t set_size;  /* bytes */
	uint32_t device_count;
	uint32_t file_count;
	uint32_t process_count;
	uint32_t chunk_count; /* a power of 2 */
	uint32_t class_count; /* a power of 2 */
	uint32_t policy_hash; /* its state in the sets is of no use to another */
	uint32_t ring_count;  /* a power of 2 */
	uint64_t memory_size;
	uint64_t processes_offset;
	uint64_t shards_offset;
	uint64_t device_shards_offset;
	uint64_t generations_offset;
	uint64_t tags_offset;
	uint64_t files_offset;
	uint64_t chunks_offset;
	uint64_t classes_offset;
	uint64_t policy_offset; /* what the policy keeps for all sets */
	uint64_t staged_offset; /* heads of the ring's pages */
	uint64_t ring_offset;   /* the pages, aligned for direct I/O */
	uint64_t sets_offset;

	/* mode | reason << 8 | epoch << 16; one word, so that it moves as one */
	FcAtomic64 mode_word __attribute__((aligned(64)));
	FcAtomic64 geometry; /* how many sets are in use; see geometry.h */

	FcAtomic32 resizer;   /* token of who changes the size, 0 = nobody */
	FcAtomic32 walk_at;   /* the set where the walk goes on */
	FcAtomic32 room_sets; /* that the cache files must have room for */

	FcAtomic32 file_lock
		__attribute__((aligned(64))); /* owner token, 0 = free */
	FcAtomic64 absent_epoch;          /* odd while a file becomes known */

	FcAtomic32 asleep_count; /* files of an earlier life, or a few less */
	FcAtomic32 audit_wanted; /* what is counted is not to be believed */
	FcIdentity identity;     /* whose all this is; 0 = nobody's */
	uint64_t nonce;          /* of this life of the cache file */
	FcAtomic64 map_nonce;    /* of the life whose map is taken in; 0 = none */
	uint32_t map_sets;       /* of each of its files */
	FcAtomic32 map_next;     /* the part of it that is next */

	FcAtomic32 classes_used;      /* a class other than the default was set */
	FcAtomic32 classes_changed;   /* ... and numbers' copies do not know yet */
	FcAtomic32 class_drop_wanted; /* a file of class none may have blocks */
	FcAtomic32 keep_ways;         /* of a set, for keep: its share */

	FcHealth health[FC_DEVICES_MAX] __attribute__((aligned(64)));
	/* Changes in flight | begun << 32: by a hash of the name, and of any file. */
	FcAtomic64 writers[FC_WRITERS] __attribute__((aligned(64)));
	FcAtomic64 everyone __attribute__((aligned(64)));

	/* What housekeeping remembers of the disk. */
	FcDiskSums disk_window;
	uint64_t disk_mean_ns; /* of late; 0 = not known */

	FcBudget budget __attribute__((aligned(64)));

	FcAtomic32 ring_writer
		__attribute__((aligned(64))); /* who writes to flash: token, 0 = none */
	FcAtomic32 ring_rest;        /* FC_WRITER_*; it waits for this to change */
	FcAtomic32 ring_called;      /* it is not to sleep now */
	FcAtomic32 ring_stood_in_us; /* by others, since it began */
	FcAtomic64 ring_busy[FC_RING_MAX / 64];   /* pages in use: a hint */
	FcAtomic64 ring_staged[FC_RING_MAX / 64]; /* ... to be looked at */
};

#define FC_AT(shared, offset, type)                                            \
	((type *) (void *) ((char *) (shared) + (shared)->offset))

static inline FcProcess *
fc_processes(const FcShared *shared)
{
	return FC_AT(shared, processes_offset, FcProcess);
}

static inline FcShard *
fc_shards(const FcShared *shared)
{
	return FC_AT(shared, shards_offset, FcShard);
}

static inline FcDeviceShard *
fc_device_shards(const FcShared *shared)
{
	return FC_AT(shared, device_shards_offset, FcDeviceShard);
}

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

static inline FcClassEntry *
fc_classes(const FcShared *shared)
{
	return FC_AT(shared, classes_offset, FcClassEntry);
}

static inline FcSet *
fc_set(const FcShared *shared, uint32_t number)
{
	return (FcSet *) (void *) ((char *) shared + shared->sets_offset +
	                           (uint64_t) number * shared->set_size);
}

/* Murmur's 64-bit finaliser: every bit of the result depends on every bit in. */
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

/* ---- cache.c ------------------------------------------------------------- */

/* Sizes and offsets of everything; false if the config cannot work. */
extern bool fc_lay_out(const FcConfig *config, FcShared *shared);
extern FC_MUST_CHECK FcStatus fc_open_handle(FcCache *cache, FcShared *shared,
                                             const FcPolicy *policy,
                                             FcDevice *devices);

/* ---- process.c ----------------------------------------------------------- */

/*
 * Is the owner with this token gone, or is it the caller itself, cut off in the
 * middle of something by a signal handler?  Either way nobody will go on.
 */
extern bool fc_owner_gone(const FcCache *cache, uint32_t token);

/* ---- resize.c ------------------------------------------------------------ */

extern void fc_resize_init(FcShared *shared, uint32_t sets);

/* ---- mode.c -------------------------------------------------------------- */

/* The epoch alone moves: whatever began before does not count. */
extern void fc_mode_new_epoch(FcShared *shared);

/* ---- chunks.c ------------------------------------------------------------ */

/* How many of the blocks around this one are, or may be, in the index. */
extern FcAtomic32 *fc_chunk_of(const FcShared *shared, uint32_t number,
                               uint32_t block);

/* A block of a file is claimed for, or has left, the index. */
extern void fc_file_block_enters(const FcShared *shared, uint32_t number,
                                 uint32_t block);
extern void fc_file_block_leaves(const FcShared *shared, uint32_t number,
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

/* ---- classes.c ----------------------------------------------------------- */

/* What the table says of a relation: for a number that is being given. */
extern FcClass fc_class_of(const FcShared *shared, const FcFileId *id);

/* What a number's line says. */
extern FcClass fc_class_of_file(const FcShared *shared, uint32_t number);

/*
 * Of the usable ways, those that a block of this file may take; may be none.
 * *must_out: it has to be one of them, whatever the policy thinks of the block.
 */
extern uint64_t fc_class_usable(const FcShared *shared, const FcSet *set,
                                uint32_t number, uint64_t usable,
                                bool *must_out);

/* Has the saved map's record of this set yet to be looked at?  Then leave the set to it. */
extern bool fc_map_expects(const FcShared *shared, uint32_t set_number);

/* Housekeeping: classes reach the numbers, files of class none lose theirs. */
extern void fc_classes_sweep(FcCache *cache);

/* ---- files.c ------------------------------------------------------------- */

/* The file lock; false if it cannot be had soon. */
extern bool fc_files_lock(FcCache *cache);
extern void fc_files_unlock(FcCache *cache);

/* Make the handle current without giving the file a number; false = unknown. */
extern bool fc_file_resolve(FcCache *cache, FcFile *file);

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

/* Forget a range of a file's blocks, and every fill of it that is under way. */
extern void fc_file_invalidate(FcCache *cache, uint32_t number, uint32_t first,
                               uint32_t count);

/* ---- stamps.c ------------------------------------------------------------ */

/* In writers and in everyone. */
#define FC_WRITER_BEGINS ((1ULL << 32) + 1)
#define FC_WRITER_ENDS   1ULL

/* A change is counted in, before the real one, and out after it. */
extern void fc_writer_begins(FcCache *cache, FcFile *file, FcChange *change);
extern void fc_writer_ends(FcCache *cache, const FcFile *file,
                           FcChange *change);

/* Changes in flight of files whose names hash alike. */
extern FcAtomic64 *fc_writers_of(const FcShared *shared, const FcFileId *id);

/* A sleeper that nobody compared in time. */
extern void fc_file_drop_sleeper(FcCache *cache, uint32_t number,
                                 uint64_t generation);

/* ---- index.c ------------------------------------------------------------- */

/* An entry as it was seen. */
typedef struct FcSeen
{
	uint32_t slot;
	uint32_t crc; /* of what was read from a page of the ring */
	uint64_t meta;
} FcSeen;

/* Find an entry that says where the block is. */
extern bool fc_index_find(const FcShared *shared, uint64_t key, FcSeen *seen);

/*
 * Is the whole entry still as it was seen?  What was read from the ring may have
 * gone on to flash meanwhile.
 */
extern bool fc_index_holds(const FcShared *shared, uint64_t key,
                           const FcSeen *seen);

/* Empty the entry if it is still as it was seen. */
extern bool fc_index_drop(FcShared *shared, uint64_t key, const FcSeen *seen);

/* What a change found of its block. */
typedef enum FcHeld
{
	FC_HELD_NOT,
	FC_HELD,
	FC_HELD_STAGED /* it had not begun to be written to flash */
} FcHeld;

/* The set a block belongs into, and the generation that an invalidation gave it. */
typedef struct FcHome
{
	uint32_t set;
	uint64_t generation;
} FcHome;

/*
 * The block changes: move its set's generation, empty its entry, doom fills of
 * it; at both its homes, if the size changes just now.  Says whether it was
 * cached.
 */
extern FcHeld fc_index_invalidate(FcCache *cache, uint64_t key,
                                  FcHome *home_out);

/* A fill under way is no longer wanted; false if the entry has moved on. */
extern bool fc_index_doom(const FcShared *shared, const FcSeen *seen);

/* Is the owner of what is being filled here gone?  Then it is empty now. */
extern bool fc_index_take_over(FcCache *cache, const FcSeen *seen);

/*
 * Claim a way for the ticket's block.  On FC_OK the caller owns the slot and
 * must publish or abandon it.
 */
extern FC_MUST_CHECK FcStatus fc_index_claim(FcCache *cache,
                                             const FcTicket *ticket,
                                             FcSeen *claim);

/* The same for a block that lies elsewhere and is to move into the ticket's set. */
extern FC_MUST_CHECK FcStatus fc_index_claim_move(FcCache *cache,
                                                  const FcTicket *ticket,
                                                  const FcSeen *from,
                                                  FcSeen *claim);

/*
 * Publish the claimed entry, unless anything changed since the ticket: VALID with
 * the CRC32C of what is in the slot, or STAGED with the reference of a page.
 */
extern FC_MUST_CHECK FcStatus fc_index_publish(FcCache *cache,
                                               const FcTicket *ticket,
                                               const FcSeen *claim,
                                               FcState state, uint32_t high);
extern void fc_index_abandon(FcCache *cache, const FcTicket *ticket,
                             const FcSeen *claim);

/* Walk everything. */
extern void fc_index_invalidate_file(FcCache *cache, uint32_t number,
                                     uint32_t first, uint32_t last);
extern void fc_index_clear(FcCache *cache);

/* ---- cache.c, again ------------------------------------------------------ */

/*
 * Put a copy of a cached block where it belongs now, and count it.  The entry it
 * was copied from is the caller's to drop.
 */
extern void fc_move(FcCache *cache, uint64_t key, const FcSeen *from);

/* ---- staging.c ----------------------------------------------------------- */

/*
 * Copy a block out of the ring, where the entry seen (STAGED or WRITING) says it
 * is.  On true the entry has still to be compared, as after a read of a slot.
 * False: the page is not what the entry meant any more; look the block up again.
 */
extern FC_MUST_CHECK bool fc_staging_read(const FcCache *cache, uint64_t key,
                                          FcSeen *seen, void *page);

/* Wake the writer if it sleeps. */
extern void fc_staging_wake(FcShared *shared);

/* ---- read.c -------------------------------------------------------------- */

/* What an entry says of its block: the CRC32C of key and content. */
extern uint32_t fc_slot_checksum(uint64_t key, const void *page);

/* The bytes of an entry's slot as they are; false if they are not to be had. */
extern bool fc_slot_fetch(FcCache *cache, const FcSeen *seen, void *page);

/* The first half of fc_read(), also used by the replay tool. */
extern FC_MUST_CHECK FcStatus fc_look_up(FcCache *cache, const FcFile *file,
                                         uint32_t block, FcTicket *ticket,
                                         FcSeen *seen);

/* The policy hears of a hit. */
extern void fc_index_touch(FcCache *cache, const FcSeen *seen);

#include "geometry.h"

#endif
