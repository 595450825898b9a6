/*
 * replacement_gittins.c
 *		Evicts the block that is expected to gain least for the space it takes.
 *
 * Below shared_buffers neither recency nor frequency can be trusted: a block
 * read a moment ago is in memory now, and a block read often may no longer be
 * needed.  So nothing is assumed.  Blocks fall into classes, by how often a
 * block was read of late, while it was cached or remembered, and by one of
 * eight groups of relations.  For each class the rate of reads is learned as a
 * function of the block's age, the time since its last read.  For each class
 * and age, the rates yield the Gittins index: the best ratio, over all
 * horizons, of the reads expected until the horizon to the time the block is
 * expected to stay for them.  The block with the lowest index is evicted.  A
 * new block whose own index is not clearly higher is not written at all.
 *
 * Time is a set's count of reads, so one table serves caches of all sizes.  A
 * set also remembers GHOSTS blocks that left or were refused, by 8 bits in one
 * of GHOST_ROWS rows of eight, newest first.  One unknown block in 32 is
 * mistaken for one of them, which misjudges that block and does no other harm.
 *
 * How rates are learned.  Some sets are watched.  In these, each read of a
 * block that is cached or remembered counts for its class and age.  At each
 * read of such a set, one of all the blocks it holds or remembers, chosen at
 * random, is counted as having spent time at its class and age.  Reads divided
 * by time is the rate, and nothing must be assumed about blocks that wait for
 * their next read.  The time of a ghost's last read is known in a few rows of
 * each watched set, which have room in the state that all sets share; what is
 * seen there counts for the other rows, too.  A class with little evidence is
 * estimated from all blocks of the same count, these from all blocks, and these
 * from a guess.  Old evidence fades.  One class at a time is updated, by
 * whichever process happens to read a watched set.
 *
 * Nothing is locked.  A lost update loses a count; a torn row forgets a block.
 * Values are limited to their range where they are used.
 *
 * What was tried: docs/decisions.  Figures: bench/results/policy.txt.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <stdbool.h>
#include <string.h>

#include "fcache/assert.h"
#include "fcache/replacement.h"

#define COUNT_BITS 3
#define COUNTS     (1 << COUNT_BITS) /* how often a block was read of late */
#define GROUPS     8                 /* of relations */
#define CLASSES    (COUNTS * GROUPS)

/* The values that FcCandidate.relation can have. */
#define RELATIONS 256

/* Evidence is kept for each class, for each count, and for all blocks. */
#define ROWS    (CLASSES + COUNTS + 1)
#define ALL_ROW (ROWS - 1)

#define GHOST_ROWS 20
#define ROW        8
#define GHOSTS     (GHOST_ROWS * ROW)

/* Ages are measured in ticks of so many reads of the set, and in log steps. */
#define TICK     8
#define AGE_BITS 10
#define AGE_MASK ((1U << AGE_BITS) - 1)
#define AGE_OLD  (3U << (AGE_BITS - 2)) /* the maximum, since clocks wrap */
#define AGES     (2 * AGE_BITS)

/* After so many reads of the set, a read of a block counts half. */
#define HALF_LIFE 4096

/* So many sets are watched; more would bring little. */
#define WATCHED 256

/*
 * Of the ghost rows of all watched sets, this many record the time of each
 * ghost's last read.
 */
#ifndef KNOWN_ROWS
#define KNOWN_ROWS 800
#endif

/*
 * After so many reads of watched sets, the indexes of the next class are
 * updated ...
 */
#define UPDATE_PERIOD 8

/* ... and 1/32 of the next row's evidence is forgotten. */
#define FADE_PERIOD 64
#define FADE_SHIFT  5

/*
 * What one read or one look adds to a counter, scaled so that counters can fade
 * smoothly.
 */
#define ONE 1024U

/* The guess: this many reads, at this chance for each step of the age. */
#define GUESS_READS  20.0f
#define GUESS_CHANCE 0.1f

/* The more general evidence counts as much as this many reads of the class. */
#define LEAN_READS 16.0f

/*
 * A block is written to flash if its index is so much higher than that of the
 * block it displaces, in steps of rank_of(): 1.7 to 1.8 times as high.  A
 * price in reads would be simpler, but it refuses blocks of volumes where
 * recency is all that counts: there no block is expected to be read often.
 */
#define MARGIN 208

/*
 * A loaded block is treated as if its last read was so many ticks ago: eight
 * reads for each way of its set.
 */
#define LOADED_AGE FC_WAYS

/*
 * The lowest index of the highest heat, as rank_of() returns it: one read in as
 * many reads of the set as it has ways.  An index a fourth as high begins the
 * heat below.  A rank's upper byte is the exponent of a float, which is 127 for
 * 1.
 */
#define HEAT_TOP_EXPONENT (127 - 3)
#define HEAT_STEP         2

typedef struct GittinsSet
{
	uint64_t prints[GHOST_ROWS];
	uint16_t block[FC_WAYS]; /* class << AGE_BITS | tick of the last read */
	uint32_t clock;          /* reads of the set; wraps */
	uint8_t counts[GHOST_ROWS][COUNT_BITS]; /* a byte for each bit of a row's */
} GittinsSet;

typedef struct Gittins
{
	uint32_t clock; /* reads of watched sets */
	uint32_t unused;
	uint32_t reads[ROWS][AGES];
	uint32_t looks[ROWS][AGES];
	uint16_t index[CLASSES][AGES];
	uint16_t ghost_age[ROW];         /* by place in its row; see learn_age() */
	uint8_t group[RELATIONS];        /* of relations, + 1; 0 = none yet */
	uint16_t ghost[KNOWN_ROWS][ROW]; /* of watched sets, as GittinsSet.block */
} Gittins;

_Static_assert(sizeof(GittinsSet) <= 6 * FC_WAYS, "memory is documented");
_Static_assert(sizeof(GittinsSet) % 8 == 0, "policy states lie side by side");
_Static_assert(sizeof(Gittins) % 8 == 0, "and what follows is aligned");
_Static_assert(1 << (FC_HEATS - 1) <= COUNTS, "each heat has its count");
_Static_assert(AGE_MASK <= 4 * (HALF_LIFE / TICK / 2), "see count_again()");

/* ---- classes and ages ---------------------------------------------------- */

static unsigned
class_of(unsigned count, unsigned group)
{
	FC_ASSERT(count < COUNTS && group < GROUPS);
	return group * COUNTS + count;
}

static unsigned
count_row(unsigned class)
{
	return CLASSES + class % COUNTS;
}

static unsigned
tick_of(const GittinsSet *set)
{
	return set->clock / TICK & AGE_MASK;
}

static unsigned
age_of(unsigned now, unsigned block)
{
	return (now - block) & AGE_MASK;
}

/* Two steps for each doubling of the age. */
static const uint8_t step_table[AGE_MASK + 1] = {
	[0] = 0,
	[1] = 1,
	[2] = 2,
	[3] = 3,
	[4 ... 5] = 4,
	[6 ... 7] = 5,
	[8 ... 11] = 6,
	[12 ... 15] = 7,
	[16 ... 23] = 8,
	[24 ... 31] = 9,
	[32 ... 47] = 10,
	[48 ... 63] = 11,
	[64 ... 95] = 12,
	[96 ... 127] = 13,
	[128 ... 191] = 14,
	[192 ... 255] = 15,
	[256 ... 383] = 16,
	[384 ... 511] = 17,
	[512 ... 767] = 18,
	[768 ... 1023] = 19,
};

static unsigned
step_of(unsigned age)
{
	return step_table[age & AGE_MASK];
}

/* Ticks from the step's first age to the next step's. */
static unsigned
step_width(unsigned step)
{
	FC_ASSERT(step < AGES);
	return step < 4 ? 1 : 1U << (step / 2 - 1);
}

/*
 * A relation seen for the first time joins the group with the fewest reads, and
 * of those the one with the fewest relations, so that busy relations end up by
 * themselves.
 */
static unsigned
find_group(Gittins *all, unsigned relation)
{
	unsigned best = 0;
	uint64_t best_load = UINT64_MAX;

	FC_ASSERT(relation < RELATIONS);
	for (unsigned group = 0; group < GROUPS; group++)
	{
		uint64_t load = 0;

		for (unsigned count = 0; count < COUNTS; count++)
		{
			for (unsigned step = 0; step < AGES; step++)
				load += all->reads[class_of(count, group)][step];
		}
		load *= RELATIONS;
		for (unsigned other = 0; other < RELATIONS; other++)
			load += all->group[other] == group + 1;
		if (load < best_load)
		{
			best = group;
			best_load = load;
		}
	}
	all->group[relation] = (uint8_t) (best + 1);
	return best;
}

static unsigned
group_of(Gittins *all, unsigned relation)
{
	unsigned group = all->group[relation];

	return group == 0 ? find_group(all, relation) : (group - 1) % GROUPS;
}

/* ---- the table ----------------------------------------------------------- */

/* exp(-x) for x >= 0, approximately, and never 0. */
static float
decay(float x)
{
	return 1.0f / (1.0f + x * (1.0f + x * (0.5f + x * (1.0f / 6 + x / 24))));
}

/* Floats of the same sign are ordered like their bits. */
static uint16_t
rank_of(float ratio)
{
	union
	{
		float number;
		uint32_t bits;
	} u = { .number = ratio };

	return ratio > 0 ? (uint16_t) (u.bits >> 15) : 0;
}

/* Reads of a class per tick, for each step of the age. */
static void
learn_rates(const Gittins *all, unsigned class, float rate[AGES])
{
	const float spent_in_look = (float) (FC_WAYS + GHOSTS) / (float) TICK;
	const unsigned rows[] = { ALL_ROW, count_row(class), class };

	for (unsigned step = 0; step < AGES; step++)
		rate[step] = GUESS_CHANCE / (float) step_width(step);

	for (unsigned level = 0; level < 3; level++)
	{
		const uint32_t *reads = all->reads[rows[level]];
		const uint32_t *looks = all->looks[rows[level]];
		float guess_reads = ONE * (level == 0 ? GUESS_READS : LEAN_READS);

		/*
		 * Reads by ticks, where the guess stands for guess_reads reads in
		 * guess_reads / rate ticks.  Both are multiplied by the rate.
		 */
		for (unsigned step = 0; step < AGES; step++)
		{
			float expected = (float) looks[step] * spent_in_look * rate[step];

			rate[step] *=
				((float) reads[step] + guess_reads) / (expected + guess_reads);
		}
	}
}

/* What a block is expected to do from the age at which a span begins. */
typedef struct Span
{
	float reads; /* within the span */
	float time;  /* in it until it is read or the span ends, in ticks */
	float left;  /* chance that it is not read in the span */
} Span;

/*
 * The index at an age is the ratio of the span that begins there and has the
 * highest ratio of reads to time.  From the last age backwards: if what follows
 * a span has a higher ratio, the span gains by taking it in, and only then.
 */
static void
work_out(Gittins *all, unsigned class)
{
	float rate[AGES];
	Span following[AGES]; /* spans in a row, the nearest last */
	unsigned spans = 0;

	FC_ASSERT(class < CLASSES);
	learn_rates(all, class, rate);
	for (unsigned step = AGES; step-- > 0;)
	{
		float left = decay(rate[step] * (float) step_width(step));
		Span span = { .reads = 1 - left,
			          .time = (1 - left) / rate[step],
			          .left = left };

		for (; spans > 0; spans--)
		{
			const Span *next = &following[spans - 1];

			if (next->reads * span.time < span.reads * next->time)
				break;
			span.reads += span.left * next->reads;
			span.time += span.left * next->time;
			span.left *= next->left;
		}
		following[spans++] = span;
		all->index[class][step] = rank_of(span.reads / span.time);
	}
}

static void
fade(Gittins *all, unsigned row)
{
	FC_ASSERT(row < ROWS);
	for (unsigned step = 0; step < AGES; step++)
	{
		all->reads[row][step] -= all->reads[row][step] >> FADE_SHIFT;
		all->looks[row][step] -= all->looks[row][step] >> FADE_SHIFT;
	}
}

/* ---- watched sets -------------------------------------------------------- */

/* What is known of a watched set's ghosts. */
typedef struct Known
{
	uint32_t first;  /* of its rows in Gittins.ghost */
	uint32_t rows;   /* so many of the set's rows, from its first on */
	uint32_t weight; /* of a known ghost: it stands for others, too */
} Known;

/* Is the set watched? */
static bool
watched(const FcReplacementPlace *place, Known *known)
{
	uint32_t every = (place->set_count + WATCHED - 1) / WATCHED;
	uint32_t which = place->set_number / every;

	if (place->set_number % every != 0)
		return false;

	uint32_t sets = (place->set_count + every - 1) / every;
	uint32_t rows = KNOWN_ROWS / sets;

	known->rows = rows < GHOST_ROWS ? rows : GHOST_ROWS;
	known->first = which * known->rows;
	known->weight = ONE * GHOST_ROWS / known->rows;
	FC_ASSERT(which >= sets || known->first + known->rows <= KNOWN_ROWS);
	return which < sets;
}

static uint32_t
scramble(uint32_t x)
{
	x *= 0x9e3779b1U;
	x ^= x >> 15;
	x *= 0x85ebca77U;
	return x ^ x >> 13;
}

static void
add(uint32_t evidence[ROWS][AGES], unsigned block, unsigned now,
    uint32_t weight)
{
	unsigned class = block >> AGE_BITS;
	unsigned step = step_of(age_of(now, block));

	evidence[class][step] += weight;
	evidence[count_row(class)][step] += weight;
	evidence[ALL_ROW][step] += weight;
}

/*
 * Count a random one of all the blocks that a watched set holds or remembers.
 */
static void
look(const FcReplacementPlace *place, const Known *known, unsigned now)
{
	const GittinsSet *set = place->set;
	Gittins *all = place->shared;
	uint32_t chance = scramble(set->clock + place->set_number * 0x10001U);
	unsigned which =
		(unsigned) (((uint64_t) chance * (FC_WAYS + GHOSTS)) >> 32);

	FC_ASSERT(known->first + known->rows <= KNOWN_ROWS);
	if (which < FC_WAYS)
	{
		add(all->looks, set->block[which], now, ONE);
		return;
	}

	unsigned row = (which - FC_WAYS) / ROW;
	unsigned at = (which - FC_WAYS) % ROW;

	if (row < known->rows && (set->prints[row] >> (8 * at) & 0xff) != 0)
		add(all->looks, all->ghost[known->first + row][at], now, known->weight);
}

static void
do_chores(Gittins *all)
{
	uint32_t clock = all->clock++;

	if (clock == 0)
	{
		for (unsigned class = 0; class < CLASSES; class ++)
			work_out(all, class);
	}
	else if (clock % UPDATE_PERIOD == 0)
		work_out(all, clock / UPDATE_PERIOD % CLASSES);
	if (clock % FADE_PERIOD == 0)
		fade(all, clock / FADE_PERIOD % ROWS);
}

/* A read of the set: advance its clock, and if it is watched, learn. */
static void
tick(const FcReplacementPlace *place)
{
	GittinsSet *set = place->set;
	Known known;
	uint32_t clock = ++set->clock;
	unsigned now = clock / TICK & AGE_MASK;
	uint16_t *block = &set->block[clock % FC_WAYS];

	/* Each block is visited often enough that it never looks young again. */
	if (age_of(now, *block) > AGE_OLD)
		*block =
			(uint16_t) ((*block & ~AGE_MASK) | ((now - AGE_OLD) & AGE_MASK));

	if (!watched(place, &known))
		return;
	look(place, &known, now);
	do_chores(place->shared);
}

/* ---- counts -------------------------------------------------------------- */

/*
 * The count of a block that is read again at this age, in ticks.  A count is a
 * logarithm of the reads that count, in half octaves: 2 log2(reads).  It falls
 * by 2 in HALF_LIFE, and the new read makes 2 log2(1 + 2^(count / 2)) of it,
 * which the table has in 1/256, for counts from -4 to 8.  What lies between
 * two counts becomes the higher one as often as it is closer to that one.
 */
static unsigned
count_again(unsigned count, unsigned age, uint32_t clock)
{
	static const uint16_t again[] = { 165, 224,  300,  395,  512,  651, 812,
		                              992, 1189, 1400, 1623, 1855, 2093 };
	const unsigned step = HALF_LIFE / TICK / 2; /* ticks to fall by 1 */

	FC_ASSERT(count < COUNTS && age <= AGE_MASK);
	unsigned at = (count + 4) * step - age;
	unsigned low = again[at / step];
	unsigned high = again[at / step + 1];
	unsigned exact = low + (high - low) * (at % step) / step;
	unsigned rounded = (exact + (scramble(clock) >> 24)) >> 8;

	return rounded < COUNTS ? rounded : COUNTS - 1;
}

/*
 * When most ghosts were last read is not known, but how old a ghost is that
 * returns from the same place of its row in the sets that know it: the newest
 * come first.  The mean is kept in 1/AGE_UNIT ticks.
 */
#define AGE_UNIT 64
#define AGE_LEAN 16

static void
learn_age(Gittins *all, unsigned at, unsigned age)
{
	int mean = all->ghost_age[at];

	FC_ASSERT(at < ROW && age <= AGE_MASK);
	mean += ((int) (age * AGE_UNIT) - mean) / AGE_LEAN;
	all->ghost_age[at] = (uint16_t) mean;
}

/* ---- ghosts -------------------------------------------------------------- */

static unsigned
row_of(uint32_t fingerprint)
{
	return ((fingerprint & 0xffff) * GHOST_ROWS) >> 16;
}

static unsigned
print_of(uint32_t fingerprint)
{
	unsigned print = fingerprint >> 24;

	return print == 0 ? 1 : print;
}

static void
remember(const FcReplacementPlace *place, uint32_t fingerprint, unsigned block)
{
	GittinsSet *set = place->set;
	Gittins *all = place->shared;
	unsigned row = row_of(fingerprint);
	Known known;

	FC_ASSERT(row < GHOST_ROWS);
	set->prints[row] = set->prints[row] << 8 | print_of(fingerprint);
	for (unsigned bit = 0; bit < COUNT_BITS; bit++)
		set->counts[row][bit] = (uint8_t) (set->counts[row][bit] << 1 |
		                                   (block >> (AGE_BITS + bit) & 1));
	if (watched(place, &known) && row < known.rows)
	{
		uint16_t *ghost = all->ghost[known.first + row];

		memmove(ghost + 1, ghost, (ROW - 1) * sizeof(*ghost));
		ghost[0] = (uint16_t) block;
	}
}

/*
 * Remove the block from the ghosts, and say what it counts now that it is read;
 * false = it is not remembered.
 */
static bool
recall(const FcReplacementPlace *place, const FcCandidate *candidate,
       unsigned *count)
{
	const uint64_t ones = 0x0101010101010101ULL;
	GittinsSet *set = place->set;
	Gittins *all = place->shared;
	unsigned row = row_of(candidate->fingerprint);
	Known known;
	uint64_t prints = set->prints[row];
	uint64_t differ = prints ^ (ones * print_of(candidate->fingerprint));
	uint64_t equal = (differ - ones) & ~differ & (ones << 7);

	if (equal == 0)
		return false;

	unsigned at = (unsigned) __builtin_ctzll(equal) / 8;
	uint64_t newer = (1ULL << (8 * at)) - 1;
	unsigned newer_counts = (1U << at) - 1;

	*count = 0;
	for (unsigned bit = 0; bit < COUNT_BITS; bit++)
	{
		unsigned counts = set->counts[row][bit];

		*count |= (counts >> at & 1) << bit;
		set->counts[row][bit] =
			(uint8_t) ((counts & newer_counts) | (counts >> 1 & ~newer_counts));
	}
	*count = count_again(*count, all->ghost_age[at] / AGE_UNIT, set->clock);
	set->prints[row] = (prints & newer) | (prints >> 8 & ~newer);
	if (watched(place, &known) && row < known.rows)
	{
		uint16_t *ghost = all->ghost[known.first + row];

		add(all->reads, ghost[at], tick_of(set), known.weight);
		learn_age(all, at, age_of(tick_of(set), ghost[at]));
		memmove(ghost + at, ghost + at + 1, (ROW - 1 - at) * sizeof(*ghost));
	}
	return true;
}

/* ---- events -------------------------------------------------------------- */

static uint16_t
block_now(const GittinsSet *set, unsigned class)
{
	return (uint16_t) (class << AGE_BITS | tick_of(set));
}

static void
gittins_touched(const FcReplacementPlace *place, unsigned way)
{
	GittinsSet *set = place->set;

	FC_ASSERT(way < FC_WAYS);
	tick(place);

	unsigned block = set->block[way];
	unsigned class = block >> AGE_BITS;
	unsigned count =
		count_again(class % COUNTS, age_of(tick_of(set), block), set->clock);
	Known known;

	if (watched(place, &known))
		add(((Gittins *) place->shared)->reads, block, tick_of(set), ONE);
	set->block[way] = block_now(set, class_of(count, class / COUNTS));
}

static void
gittins_missed(const FcReplacementPlace *place, FcCandidate *candidate)
{
	unsigned count;

	tick(place);
	candidate->note = 0;
	if (recall(place, candidate, &count))
		candidate->note = (uint8_t) count;
}

static void
gittins_moves(const FcReplacementPlace *place, unsigned way,
              FcCandidate *candidate)
{
	const GittinsSet *set = place->set;

	FC_ASSERT(way < FC_WAYS);
	candidate->note = (uint8_t) ((set->block[way] >> AGE_BITS) % COUNTS);
}

/* The class of a block that is loaded: a high heat stands for many reads. */
static unsigned
loaded_class(Gittins *all, const FcCandidate *candidate)
{
	unsigned count = (1U << candidate->note % FC_HEATS) - 1;

	FC_ASSERT(candidate->loaded);
	return class_of(count, group_of(all, candidate->relation));
}

static unsigned
gittins_heat(const FcReplacementPlace *place, unsigned way)
{
	const GittinsSet *set = place->set;
	const Gittins *all = place->shared;
	unsigned block = set->block[way];
	unsigned step = step_of(age_of(tick_of(set), block));
	int above = (all->index[block >> AGE_BITS][step] >> 8) - HEAT_TOP_EXPONENT;
	int heat = FC_HEATS - 1;

	FC_ASSERT(way < FC_WAYS);
	while (heat > 0 && above < (heat - FC_HEATS + 1) * HEAT_STEP)
		heat--;
	return (unsigned) heat;
}

static unsigned
gittins_choose(const FcReplacementPlace *place, const FcCandidate *candidate,
               uint64_t usable)
{
	const GittinsSet *set = place->set;
	Gittins *all = place->shared;
	unsigned now = tick_of(set);
	unsigned class =
		class_of(candidate->note % COUNTS, group_of(all, candidate->relation));
	uint32_t lowest = UINT32_MAX;

	FC_ASSERT(usable != 0);
	if (candidate->loaded)
		class = loaded_class(all, candidate);

	/*
	 * Find the lowest index, among equals the oldest.  There are no branches,
	 * which makes this loop fast.
	 */
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		unsigned block = set->block[way];
		unsigned age = age_of(now, block);
		uint32_t index = all->index[block >> AGE_BITS][step_of(age)];
		uint32_t rank = index << 16 | (AGE_MASK - age) << 6 | way;

		rank |= (uint32_t) (usable >> way & 1) - 1; /* last, if not usable */
		lowest = rank < lowest ? rank : lowest;
	}

	/*
	 * A loaded block does not evict an equal one: what was loaded first stays.
	 */
	if (candidate->loaded)
		return all->index[class][step_of(LOADED_AGE)] > lowest >> 16
		           ? lowest % FC_WAYS
		           : FC_WAY_NONE;
	if (all->index[class][0] >= (lowest >> 16) + MARGIN)
		return lowest % FC_WAYS;
	remember(place, candidate->fingerprint, block_now(set, class));
	return FC_WAY_NONE;
}

static void
gittins_evicted(const FcReplacementPlace *place, unsigned way,
                const FcCandidate *old)
{
	const GittinsSet *set = place->set;

	FC_ASSERT(way < FC_WAYS);
	remember(place, old->fingerprint, set->block[way]);
}

static void
gittins_filled(const FcReplacementPlace *place, unsigned way,
               const FcCandidate *candidate)
{
	GittinsSet *set = place->set;

	FC_ASSERT(way < FC_WAYS);
	if (candidate->loaded)
	{
		set->block[way] =
			(uint16_t) (loaded_class(place->shared, candidate) << AGE_BITS |
		                ((tick_of(set) - LOADED_AGE) & AGE_MASK));
		return;
	}
	set->block[way] =
		block_now(set, class_of(candidate->note % COUNTS,
	                            group_of(place->shared, candidate->relation)));
}

const FcReplacement fc_replacement_gittins = {
	.name = "gittins",
	.set_state_size = sizeof(GittinsSet),
	.shared_state_size = sizeof(Gittins),
	.touched = gittins_touched,
	.missed = gittins_missed,
	.moves = gittins_moves,
	.heat = gittins_heat,
	.choose = gittins_choose,
	.evicted = gittins_evicted,
	.filled = gittins_filled,
};
