/*
 * replacement_lfu.c
 *		Least frequently used, with ageing and a ghost.
 *
 * Below shared_buffers recency says little: a block read a moment ago is in
 * memory now.  Frequency says more if it is remembered beyond a block's stay.
 * So each way has a count of reads (0-15) and the set's clock at the last one;
 * the block with the lowest count is evicted, the oldest first.  An evicted
 * block leaves its count in the ghost, a ring of twice as many fingerprints as
 * ways; when the block returns, it continues with that count plus one.  Every
 * AGE_PERIOD reads of the set all counts are halved, so that blocks once
 * popular can be overtaken.
 *
 * A fingerprint has 12 bits, so a ghost of 128 mistakes one unknown block in 32
 * for a known one, which misjudges that block and does no other harm.
 *
 * Counts are bytes written without a lock; a lost increment is a lost
 * increment.
 *
 * This is not the policy in use (replacement_gittins.c is), but the one it must
 * beat, and simple enough for tests to predict.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "fcache/assert.h"
#include "fcache/replacement.h"

#define COUNT_MAX  15
#define GHOST_SIZE (2 * FC_WAYS)

/* Reads of a set between two halvings: 16 for each way. */
#define AGE_PERIOD (16 * FC_WAYS)

typedef struct LfuSet
{
	uint16_t clock;        /* reads of the set; wraps */
	uint16_t ghost_at;     /* the ring's next place */
	uint16_t since_ageing; /* reads */
	uint16_t unused;
	uint8_t count[FC_WAYS];
	uint16_t last_read[FC_WAYS];
	uint16_t ghost[GHOST_SIZE]; /* fingerprint << 4 | count; 0 = none */
} LfuSet;

_Static_assert(sizeof(LfuSet) % 8 == 0, "policy states lie side by side");

static uint16_t
ghost_print(const FcCandidate *candidate)
{
	return (uint16_t) ((candidate->fingerprint >> 20) << 4);
}

static void
age(LfuSet *set)
{
	for (unsigned way = 0; way < FC_WAYS; way++)
		set->count[way] /= 2;
	for (unsigned i = 0; i < GHOST_SIZE; i++)
		set->ghost[i] =
			(uint16_t) ((set->ghost[i] & 0xfff0) | (set->ghost[i] & 0xf) / 2);
}

static void
tick(LfuSet *set, unsigned way)
{
	FC_ASSERT(way < FC_WAYS);
	set->last_read[way] = set->clock++;
	if (++set->since_ageing > AGE_PERIOD)
	{
		age(set);
		set->since_ageing = 1;
	}
}

static void
lfu_touched(const FcReplacementPlace *place, unsigned way)
{
	LfuSet *set = place->set;

	FC_ASSERT(way < FC_WAYS);
	if (set->count[way] < COUNT_MAX)
		set->count[way]++;
	tick(set, way);
}

static void
lfu_missed(const FcReplacementPlace *place, FcCandidate *candidate)
{
	(void) place;
	(void) candidate;
}

static void
lfu_moves(const FcReplacementPlace *place, unsigned way, FcCandidate *candidate)
{
	(void) place;
	(void) way;
	candidate->note = 0;
}

static unsigned
lfu_heat(const FcReplacementPlace *place, unsigned way)
{
	const LfuSet *set = place->set;
	unsigned heat = 0;

	FC_ASSERT(way < FC_WAYS);
	while (heat < FC_HEATS - 1 && set->count[way] >> (heat + 1) != 0)
		heat++;
	return heat;
}

static unsigned
lfu_choose(const FcReplacementPlace *place, const FcCandidate *candidate,
           uint64_t usable)
{
	const LfuSet *set = place->set;
	unsigned best = FC_WAY_NONE;
	uint32_t best_rank = 0;

	FC_ASSERT(usable != 0);
	if (candidate->loaded)
		return FC_WAY_NONE;
	for (uint64_t ways = usable; ways != 0; ways &= ways - 1)
	{
		unsigned way = (unsigned) __builtin_ctzll(ways);
		uint16_t idle = (uint16_t) (set->clock - set->last_read[way]);

		/* Fewest reads first, then longest idle. */
		uint32_t rank =
			((uint32_t) (COUNT_MAX - set->count[way] % (COUNT_MAX + 1)) << 16) |
			idle;

		if (best == FC_WAY_NONE || rank > best_rank)
		{
			best = way;
			best_rank = rank;
		}
	}
	return best;
}

static void
lfu_filled(const FcReplacementPlace *place, unsigned way,
           const FcCandidate *candidate)
{
	LfuSet *set = place->set;
	uint16_t print = ghost_print(candidate);
	unsigned count = 1;

	FC_ASSERT(way < FC_WAYS);
	if (candidate->loaded)
	{
		set->count[way] = (uint8_t) ((1U << candidate->note % FC_HEATS) - 1);
		set->last_read[way] = set->clock;
		return;
	}
	for (unsigned i = 0; i < GHOST_SIZE; i++)
	{
		if ((set->ghost[i] & 0xfff0) == print && (set->ghost[i] & 0xf) != 0)
		{
			count = (set->ghost[i] & 0xf) + 1u;
			set->ghost[i] = 0;
			break;
		}
	}
	set->count[way] = (uint8_t) (count < COUNT_MAX ? count : COUNT_MAX);
	tick(set, way);
}

static void
lfu_evicted(const FcReplacementPlace *place, unsigned way,
            const FcCandidate *old)
{
	LfuSet *set = place->set;
	unsigned at = set->ghost_at % GHOST_SIZE;

	FC_ASSERT(way < FC_WAYS);
	set->ghost[at] = (uint16_t) (ghost_print(old) | (set->count[way] & 0xf));
	set->ghost_at = (uint16_t) ((at + 1) % GHOST_SIZE);
}

const FcReplacement fc_replacement_lfu = {
	.name = "lfu",
	.set_state_size = sizeof(LfuSet),
	.touched = lfu_touched,
	.missed = lfu_missed,
	.moves = lfu_moves,
	.heat = lfu_heat,
	.choose = lfu_choose,
	.filled = lfu_filled,
	.evicted = lfu_evicted,
};
