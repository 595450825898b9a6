/*
 * replacement_lfu_test.c
 *		LFU: which blocks go and stay, what the ghost remembers, and that no
 *		state, however torn, leads out of bounds.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

static uint64_t state[64];
static const FcReplacementPlace place = { .set = state, .set_count = 1 };

static FcCandidate
candidate(uint32_t number)
{
	return (FcCandidate){ .fingerprint = (uint32_t) fc_mix(number + 1) };
}

static void
fill(unsigned way, uint32_t number)
{
	FcCandidate new = candidate(number);

	fc_replacement_lfu.filled(&place, way, &new);
}

static void
evict(unsigned way, uint32_t number)
{
	FcCandidate old = candidate(number);

	fc_replacement_lfu.evicted(&place, way, &old);
}

static void
touch(unsigned way, unsigned times)
{
	while (times-- > 0)
		fc_replacement_lfu.touched(&place, way);
}

static unsigned
choose(uint64_t usable)
{
	FcCandidate new = candidate(9999);

	return fc_replacement_lfu.choose(&place, &new, usable);
}

static void
begin(void)
{
	MUST(fc_replacement_lfu.set_state_size <= sizeof(state));
	MUST(fc_replacement_lfu.set_state_size % 8 == 0);
	memset(state, 0xa5, sizeof(state));
	memset(state, 0, fc_replacement_lfu.set_state_size);
}

static void
test_choice(void)
{
	begin();
	for (unsigned way = 0; way < FC_WAYS; way++)
		fill(way, way);
	OK(choose(~0ULL) == 0, "among equals the one longest idle goes");
	OK(choose(~1ULL) == 1, "if it may");
	OK(choose(1ULL << 63) == 63, "a single usable way is taken");

	for (unsigned way = 0; way < FC_WAYS; way++)
		touch(way, way == 40 ? 1 : 2);
	OK(choose(~0ULL) == 40, "who was read least goes");
	touch(40, 5);
	OK(choose(~0ULL) == 0, "a block that is read again stays");
	OK(state[fc_replacement_lfu.set_state_size / 8] == 0xa5a5a5a5a5a5a5a5ULL,
	   "nothing is written behind the state");
}

/* A block that was read often, left, and comes back beats one read twice. */
static void
test_ghost(void)
{
	begin();
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		fill(way, way);
		touch(way, 3);
	}
	touch(0, 6);
	evict(0, 0);
	fill(0, 500); /* a stranger: read once */
	OK(choose(~0ULL) == 0, "a stranger is the first to go");

	evict(0, 500);
	fill(0, 0);
	OK(choose(~0ULL) != 0, "a block that comes back is remembered");

	/* More strangers than the ghost holds: it is forgotten. */
	evict(0, 0);
	for (uint32_t number = 1000; number < 1000 + 2 * FC_WAYS; number++)
	{
		fill(0, number);
		evict(0, number);
	}
	fill(0, 0);
	OK(choose(~0ULL) == 0, "but not for ever");
}

static void
test_ageing(void)
{
	begin();
	for (unsigned way = 0; way < FC_WAYS; way++)
		fill(way, way);
	touch(7, 200); /* yesterday's favourite */
	for (int round = 0; round < 120; round++)
	{
		for (unsigned way = 0; way < FC_WAYS; way++)
		{
			if (way != 7)
				touch(way, 1);
		}
	}
	OK(choose(~0ULL) == 7, "yesterday's favourite can be overtaken");
}

/* The state is in shared memory without a lock: it may hold anything. */
static void
test_torn_states(Random *random)
{
	unsigned wrong = 0;

	for (int round = 0; round < 20000; round++)
	{
		uint64_t usable =
			random_next(random) & random_next(random) & random_next(random);

		if (round % 100 == 0)
			begin();
		for (unsigned i = 0; i < fc_replacement_lfu.set_state_size / 8; i++)
		{
			if (one_in(random, 8))
				state[i] = random_next(random);
		}
		if (usable == 0)
			usable = 1;

		unsigned way = choose(usable);

		wrong += way != FC_WAY_NONE && (usable & (1ULL << way)) == 0;
		if (way == FC_WAY_NONE)
			continue;
		evict(way, random_below(random, 1000));
		fill(way, random_below(random, 1000));
		touch(random_below(random, FC_WAYS), random_below(random, 3));
	}
	OK(wrong == 0, "the choice is a usable way, whatever the state holds");
	OK(state[fc_replacement_lfu.set_state_size / 8] == 0xa5a5a5a5a5a5a5a5ULL,
	   "nothing is written behind the state");
}

int
main(void)
{
	Random random = { .state = 4 };

	test_choice();
	test_ghost();
	test_ageing();
	test_torn_states(&random);
	return tap_done();
}
