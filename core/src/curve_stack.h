/*
 * curve_stack.h
 *		The blocks of a curve's sample, in the order of their last requests.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_CURVE_STACK_H
#define FCACHE_CURVE_STACK_H

#include "fcache/curve.h"
#include "shared.h"

#define FC_CURVE_SHARDS 16

#define FC_CURVE_HOURS 8

/* A place: the upper 50 bits of a hash, and a position. */
#define POSITION_MASK 0x3fffULL
#define USED_BIT      (1ULL << 28) /* so that no used place is 0 */
#define GROUP_WORDS   8            /* words of bits that share a sum */

/* The counts of each kind of request. */
typedef enum FcCurveFigure
{
	FC_CURVE_REQUESTS, /* blocks */
	FC_CURVE_DISK_BLOCKS,
	FC_CURVE_DISK_NS,
	FC_CURVE_FLASH_BLOCKS,
	FC_CURVE_FLASH_NS,
	FC_CURVE_FIGURES
} FcCurveFigure;

typedef struct FcCurveCounts
{
	FcAtomic64 of[FC_CURVE_KINDS][FC_CURVE_FIGURES];
} __attribute__((aligned(64))) FcCurveCounts;

/* Sums, either since the beginning or shrinking. */
typedef struct FcCurveSums
{
	uint64_t of[FC_CURVE_KINDS][FC_CURVE_FIGURES];
	uint64_t ms;
} FcCurveSums;

struct FcCurveShared
{
	FcCurveCounts counts[FC_CURVE_SHARDS];

	FcAtomic64 lock;   /* 1 + time when it was taken, 0 = free */
	FcAtomic32 robbed; /* start over */
	FcAtomic32 bar;    /* in the sample: hashes whose upper half reaches it */

	/* From here on: only for the process that holds the lock. */
	uint32_t counted_bar; /* ... and reaches this: counted, not only tracked */
	uint32_t tracked;
	uint32_t next;     /* the next position to assign */
	uint32_t frontier; /* below it: only blocks that reach counted_bar */
	uint32_t hour[FC_CURVE_HOURS]; /* next, so many hours ago */
	uint32_t ticks;                /* of this hour */
	uint64_t tick_ms; /* when the last one was due; 0 = not begun */

	FcCurveSums seen;   /* of counts, at the last look */
	FcCurveSums window; /* shrinking */
	uint64_t beyond;
	uint64_t distance[FC_CURVE_BUCKETS];

	/* Then: bits, sums of groups, places; see fc_curve_stack_bits(). */
	uint64_t tables[];
};

_Static_assert(sizeof(FcCurveShared) < 11264, "memory is documented");
_Static_assert(2 * FC_CURVE_TRACKED_MAX == POSITION_MASK + 1,
               "a position fits beside its hash");

/* There are twice as many positions, and places, as tracked blocks. */
static inline uint32_t
fc_curve_stack_positions(const FcCurve *curve)
{
	return 2 * curve->tracked_max;
}

static inline uint64_t *
fc_curve_stack_bits(const FcCurve *curve)
{
	return curve->shared->tables;
}

static inline uint64_t *
fc_curve_stack_groups(const FcCurve *curve)
{
	return fc_curve_stack_bits(curve) + fc_curve_stack_positions(curve) / 64;
}

static inline uint64_t *
fc_curve_stack_places(const FcCurve *curve)
{
	return fc_curve_stack_groups(curve) +
	       fc_curve_stack_positions(curve) / (64 * GROUP_WORDS);
}

static inline uint32_t
fc_curve_stack_position(const FcCurve *curve, uint64_t place)
{
	return (uint32_t) (place & (fc_curve_stack_positions(curve) - 1));
}

static inline uint64_t
fc_curve_stack_name(uint64_t hash)
{
	return (hash & ~POSITION_MASK) | USED_BIT;
}

extern void fc_curve_stack_set_bit(const FcCurve *curve, uint32_t position);
extern void fc_curve_stack_clear_bit(const FcCurve *curve, uint32_t position);

/* How many blocks have a position below this one? */
extern uint32_t fc_curve_stack_rank(const FcCurve *curve, uint32_t position);

/* Assign positions again, from 0 on, in the same order. */
extern void fc_curve_stack_renumber(const FcCurve *curve);

/* The block's place, or the free one where it belongs. */
extern uint32_t fc_curve_stack_find(const FcCurve *curve, uint64_t name);

/*
 * Forget the blocks whose hash is below the bar or whose position is below this
 * one.
 */
extern void fc_curve_stack_forget_below(const FcCurve *curve, uint32_t bar,
                                        uint32_t position);

#endif
