/*
 * curve_stack.c
 *		The blocks of a curve's sample, in the order of their last requests.
 *
 * There are three tables.  Places (open addressing) find a block's position.
 * Positions are assigned in order of requests, and a block moves to the newest
 * at each of its requests.  A bit for each position that is a block's last one,
 * with sums by the group, counts how many blocks come after one.  When
 * positions run out, they are assigned again, in the same order.
 *
 * Only for the process that holds the curve's lock.  If two are nevertheless at
 * work at once (curve.c), they mix up figures and nothing else: every position
 * is masked and every loop bounded.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "curve_stack.h"

#include <string.h>

/* ---- positions ----------------------------------------------------------- */

/* Not every processor has an instruction for it. */
static uint32_t
count_bits(uint64_t x)
{
	x -= (x >> 1) & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (uint32_t) ((x * 0x0101010101010101ULL) >> 56);
}

void
fc_curve_stack_set_bit(const FcCurve *curve, uint32_t position)
{
	position &= fc_curve_stack_positions(curve) - 1;
	fc_curve_stack_bits(curve)[position / 64] |= 1ULL << position % 64;
	fc_curve_stack_groups(curve)[position / (64 * GROUP_WORDS)]++;
}

void
fc_curve_stack_clear_bit(const FcCurve *curve, uint32_t position)
{
	position &= fc_curve_stack_positions(curve) - 1;
	fc_curve_stack_bits(curve)[position / 64] &= ~(1ULL << position % 64);
	fc_curve_stack_groups(curve)[position / (64 * GROUP_WORDS)]--;
}

/* How many blocks have a position below this one? */
uint32_t
fc_curve_stack_rank(const FcCurve *curve, uint32_t position)
{
	const uint64_t *bits = fc_curve_stack_bits(curve);
	const uint64_t *groups = fc_curve_stack_groups(curve);
	uint32_t word;
	uint32_t group;
	uint64_t rank = 0;

	if (position > fc_curve_stack_positions(curve))
		position = fc_curve_stack_positions(curve);
	word = position / 64;
	group = word / GROUP_WORDS;

	for (uint32_t i = 0; i < group; i++)
		rank += groups[i];
	for (uint32_t i = group * GROUP_WORDS; i < word; i++)
		rank += count_bits(bits[i]);
	if (position % 64 != 0)
		rank += count_bits(bits[word] & ((1ULL << position % 64) - 1));
	return (uint32_t) rank;
}

/* Assign positions again, from 0 on, in the same order. */
void
fc_curve_stack_renumber(const FcCurve *curve)
{
	FcCurveShared *shared = curve->shared;
	uint64_t *places = fc_curve_stack_places(curve);
	uint32_t count = fc_curve_stack_positions(curve);

	for (uint32_t i = 0; i < count; i++)
	{
		if (places[i] != 0)
			places[i] = (places[i] & ~POSITION_MASK) |
			            (fc_curve_stack_rank(
							 curve, fc_curve_stack_position(curve, places[i])) &
			             POSITION_MASK);
	}
	shared->frontier = fc_curve_stack_rank(curve, shared->frontier);
	for (int i = 0; i < FC_CURVE_HOURS; i++)
		shared->hour[i] = fc_curve_stack_rank(curve, shared->hour[i]);

	shared->next = shared->tracked;
	memset(fc_curve_stack_bits(curve), 0,
	       (size_t) ((char *) fc_curve_stack_places(curve) -
	                 (char *) fc_curve_stack_bits(curve)));
	for (uint32_t i = 0; i < shared->next; i++)
		fc_curve_stack_set_bit(curve, i);
}

/* ---- places -------------------------------------------------------------- */

static uint32_t
home_of(const FcCurve *curve, uint64_t place)
{
	return (uint32_t) (place >> 14) & (fc_curve_stack_positions(curve) - 1);
}

/* The block's place, or the free one where it belongs. */
uint32_t
fc_curve_stack_find(const FcCurve *curve, uint64_t name)
{
	const uint64_t *places = fc_curve_stack_places(curve);
	uint32_t mask = fc_curve_stack_positions(curve) - 1;
	uint32_t i = home_of(curve, name);

	for (uint32_t probe = 0; probe <= mask; probe++, i = (i + 1) & mask)
	{
		if (places[i] == 0 || (places[i] & ~POSITION_MASK) == name)
			break;
	}
	return i;
}

/* Forget a block, and move up the blocks that its place had displaced. */
static void
forget(const FcCurve *curve, uint32_t place)
{
	uint64_t *places = fc_curve_stack_places(curve);
	uint32_t mask = fc_curve_stack_positions(curve) - 1;
	uint32_t hole = place;
	uint32_t i = place;

	FC_ASSERT(places[place] != 0 && curve->shared->tracked > 0);
	fc_curve_stack_clear_bit(curve,
	                         fc_curve_stack_position(curve, places[place]));
	for (uint32_t probe = 0; probe < mask; probe++)
	{
		i = (i + 1) & mask;
		if (places[i] == 0)
			break;
		if (((i - home_of(curve, places[i])) & mask) >= ((i - hole) & mask))
		{
			places[hole] = places[i];
			hole = i;
		}
	}
	places[hole] = 0;
	curve->shared->tracked--;
}

/*
 * Forget the blocks whose hash is below the bar or whose position is below this
 * one.
 */
void
fc_curve_stack_forget_below(const FcCurve *curve, uint32_t bar,
                            uint32_t position)
{
	const uint64_t *places = fc_curve_stack_places(curve);

	for (uint32_t i = 0; i < fc_curve_stack_positions(curve); i++)
	{
		while (places[i] != 0 && curve->shared->tracked > 0 &&
		       ((uint32_t) (places[i] >> 32) < bar ||
		        fc_curve_stack_position(curve, places[i]) < position))
			forget(curve, i);
	}
}
