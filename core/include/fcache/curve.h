/*
 * curve.h
 *		The miss-ratio curve: what would a cache of another size bring?
 *
 * The curve is independent of the cache: it needs only the stream of requests,
 * so it works while the cache is off, and where there is none.
 *
 *	for each read of a block that only flash or disk could serve:
 *		fc_curve_count(), and if fc_curve_wants(hash): fc_curve_note(hash)
 *	for a view: fc_curve_read(), then fc_curve_hit_ratio() for any size
 *
 * Every process uses the same memory through its own FcCurve handle.  No
 * function waits, allocates or makes a system call except to read the clock.
 * All of them may be called from a signal handler, and SIGKILL may interrupt
 * them anywhere.  Only fc_curve_read() waits, for a moment.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_CURVE_H
#define FCACHE_CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fcache/cache.h"

/* More tracked blocks would cost more than they would reveal. */
#define FC_CURVE_TRACKED_MIN 1024
#define FC_CURVE_TRACKED_MAX 8192

typedef struct FcCurveShared FcCurveShared;

typedef struct FcCurve
{
	FcCurveShared *shared; /* NULL: no curve */
	uint32_t tracked_max;
	uint32_t shard; /* any number; best a different one in each process */
} FcCurve;

/*
 * Blocks to track for a cache of this many blocks: one in 24 to 48, within
 * limits.
 */
extern uint32_t fc_curve_tracked_for(uint64_t cache_blocks);

/* About 16 bytes for each tracked block, and 11 kB. */
extern size_t fc_curve_memory_size(uint32_t tracked_max);

/*
 * Fill in a handle.  Memory of all zeros (64-byte aligned) is a curve that has
 * seen nothing.  tracked_max must be the same for all processes, and a power of
 * 2 within the limits.
 */
extern FC_MUST_CHECK FcStatus fc_curve_attach(FcCurve *curve, void *memory,
                                              uint32_t tracked_max);

/* A block's hash; the file's part can be kept with its descriptor. */
extern uint64_t fc_curve_file_hash(FcFileId id);

static inline uint64_t
fc_curve_hash(uint64_t file_hash, uint32_t block)
{
	uint64_t x = file_hash ^ ((uint64_t) block * 0x9e3779b97f4a7c15ULL);

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ (x >> 32);
}

/*
 * A block that is requested alone takes a seek of a disk; one of a run takes
 * hardly any.  So what a hit saves depends on how blocks are requested, and the
 * two kinds are counted and timed separately.
 */
typedef enum FcCurveKind
{
	FC_CURVE_ALONE,
	FC_CURVE_IN_RUNS,
	FC_CURVE_KINDS
} FcCurveKind;

/* Count so many requests, each for so many blocks at once. */
extern void fc_curve_count(FcCurve *curve, uint64_t blocks, uint64_t times);

/* Is the block in the sample? */
extern bool fc_curve_wants(const FcCurve *curve, uint64_t hash);

/*
 * A block of the sample was requested.  Skipped if another process is noting
 * one.
 */
extern void fc_curve_note(FcCurve *curve, uint64_t hash);

/* The same at a given time (milliseconds, monotonic): for tests. */
extern void fc_curve_note_at(FcCurve *curve, uint64_t hash, uint64_t now_ms);

/* So many blocks were read at once, from disk or from flash, in this time. */
extern void fc_curve_disk_read(FcCurve *curve, uint64_t blocks, uint64_t ns);
extern void fc_curve_flash_read(FcCurve *curve, uint64_t blocks, uint64_t ns);

/* ---- readings ------------------------------------------------------------ */

/* Distances below 32 blocks exactly, then 32 buckets for each doubling. */
#define FC_CURVE_BUCKETS 1056

typedef struct FcCurveReading
{
	/* Weights of reuse distances; beyond: blocks not seen before. */
	uint64_t distance[FC_CURVE_BUCKETS];
	uint64_t beyond;
	double seconds; /* the time it represents; old time counts less */
	double requests_per_second;
	double run_share; /* of the requests: for blocks in runs */
	/* Mean per block; 0 = none was timed. */
	double disk_read_ms[FC_CURVE_KINDS];
	double flash_read_ms[FC_CURVE_KINDS];
	double sample_rate; /* the part of all blocks that is in the sample */
	uint32_t tracked;   /* blocks of the sample that were seen */
} FcCurveReading;

extern void fc_curve_read(FcCurve *curve, FcCurveReading *out);
extern void fc_curve_read_at(FcCurve *curve, FcCurveReading *out,
                             uint64_t now_ms);

/*
 * The share of requests that a cache of so many blocks would have served if it
 * dropped the least recently requested block; -1 if nothing is known.
 */
extern double fc_curve_hit_ratio(const FcCurveReading *reading,
                                 uint64_t blocks);

#endif
