/*
 * replacement_gittins_test.c
 *		What the policy learns: frequency or recency, whichever pays; loops,
 *		scans, relations; and that no state, however torn, leads out of bounds.
 *
 * A cache of a few sets is simulated without the index: only keys.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

#define SETS_MAX 8
#define NO_BLOCK UINT32_MAX

static const FcReplacement *const policy = &fc_replacement_gittins;
static uint64_t set_state[SETS_MAX][64];
static uint64_t shared_state[16384];

static struct
{
	uint32_t sets;
	uint32_t key[SETS_MAX][FC_WAYS];
	uint64_t reads;
	uint64_t hits;
	uint64_t fills;
} cache;

static void
begin(uint32_t sets)
{
	MUST(policy->set_state_size + 8 <= sizeof(set_state[0]));
	MUST(policy->shared_state_size + 8 <= sizeof(shared_state));
	memset(set_state, 0xa5, sizeof(set_state));
	memset(shared_state, 0xa5, sizeof(shared_state));
	memset(shared_state, 0, policy->shared_state_size);
	memset(&cache, 0, sizeof(cache));
	memset(cache.key, 0xff, sizeof(cache.key));
	cache.sets = sets;
	for (uint32_t set = 0; set < sets; set++)
		memset(set_state[set], 0, policy->set_state_size);
}

static bool
nothing_behind(void)
{
	return set_state[0][policy->set_state_size / 8] == 0xa5a5a5a5a5a5a5a5ULL &&
	       shared_state[policy->shared_state_size / 8] == 0xa5a5a5a5a5a5a5a5ULL;
}

static FcCandidate
candidate(uint32_t block, uint8_t relation)
{
	return (FcCandidate){ .fingerprint = (uint32_t) fc_mix(block + 1),
		                  .relation = relation };
}

static FcReplacementPlace
place(uint32_t set, uint32_t sets)
{
	return (FcReplacementPlace){ .set = set_state[set],
		                         .shared = shared_state,
		                         .set_number = set,
		                         .set_count = sets };
}

/* One read, as the index plays it; true = hit. */
static bool
read_block(uint32_t block, uint8_t relation)
{
	uint32_t set = (uint32_t) (fc_mix(block) >> 32) % cache.sets;
	FcReplacementPlace at = place(set, cache.sets);
	FcCandidate new = candidate(block, relation);
	uint32_t *key = cache.key[set];
	unsigned free = FC_WAY_NONE;

	cache.reads++;
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		if (key[way] == block)
		{
			policy->touched(&at, way);
			cache.hits++;
			return true;
		}
		if (key[way] == NO_BLOCK && free == FC_WAY_NONE)
			free = way;
	}

	policy->missed(&at, &new);
	if (free == FC_WAY_NONE)
	{
		free = policy->choose(&at, &new, ~0ULL);
		if (free == FC_WAY_NONE)
			return false;

		FcCandidate old = candidate(key[free], 0);

		policy->evicted(&at, free, &old);
	}
	policy->filled(&at, free, &new);
	key[free] = block;
	cache.fills++;
	return false;
}

static void
reset_counts(void)
{
	cache.reads = cache.hits = cache.fills = 0;
}

static double
hit_ratio(void)
{
	return (double) cache.hits / (double) cache.reads;
}

/* ---- before anything is known -------------------------------------------- */

static void
test_new_states(void)
{
	begin(1);
	for (uint32_t block = 0; block < FC_WAYS; block++)
		(void) read_block(block, 0);
	OK(cache.fills == FC_WAYS, "an empty set takes what comes");

	FcReplacementPlace at = place(0, 1);
	FcCandidate new = candidate(FC_WAYS, 0);

	policy->missed(&at, &new);
	OK(policy->choose(&at, &new, ~0ULL) == 0,
	   "with nothing learned the oldest goes");
	OK(policy->choose(&at, &new, ~1ULL) == 1, "if it may");
	OK(policy->choose(&at, &new, 1ULL << 63) == 63 ||
	       policy->choose(&at, &new, 1ULL << 63) == FC_WAY_NONE,
	   "only usable ways are named");
	OK(policy->set_state_size <= 6 * FC_WAYS,
	   "a set's state has 6 bytes a block");
}

/* ---- what it learns ------------------------------------------------------ */

/*
 * Half of the reads go to a hot set of three quarters of the cache, the other
 * half to blocks that never come back.  By recency alone a hot block that is
 * read once in 2 * 192 reads of the cache lies between 192 strangers: gone.
 */
static void
test_scans(Random *random)
{
	const uint32_t hot = 4 * FC_WAYS * 3 / 4;
	uint32_t stranger = 1000000;

	begin(4);
	for (int i = 0; i < 100000; i++)
	{
		if (i == 50000)
			reset_counts();
		if (one_in(random, 2))
			(void) read_block(stranger++, 0);
		else
			(void) read_block(random_below(random, hot), 0);
	}
	OK(hit_ratio() > 0.9 * 0.5, "a scan does not push out what is read often");
	OK((double) cache.fills < 0.1 * (double) cache.reads,
	   "and is not written to flash");
}

/* A loop of twice the cache: recency keeps nothing of it, the best half. */
static void
test_loops(void)
{
	begin(4);
	for (uint32_t i = 0; i < 100000; i++)
	{
		if (i == 50000)
			reset_counts();
		(void) read_block(i % (2 * 4 * FC_WAYS), 0);
	}
	OK(hit_ratio() > 0.9 * 0.5, "half of a loop of twice the cache stays");
}

/*
 * Each new block is read four times, soon, and never again.  Strangers must be
 * admitted, and blocks that were read four times must go.
 */
static void
test_recency(Random *random)
{
	begin(4);
	for (uint32_t newest = 200; newest < 30000; newest++)
	{
		if (newest == 15000)
			reset_counts();
		(void) read_block(newest, 0);
		for (int again = 0; again < 3; again++)
			(void) read_block(newest - random_below(random, 100), 0);
	}
	OK(hit_ratio() > 0.9 * 0.75,
	   "blocks that are read soon or never find their place");
}

/* The hot set changes for good; the old one was read more often. */
static void
test_moving(Random *random)
{
	const uint32_t hot = 4 * FC_WAYS / 2;
	uint32_t stranger = 1000000;

	begin(4);
	for (uint32_t i = 0; i < 100000; i++)
	{
		uint32_t first = i < 80000 ? 0 : 5000;

		if (i == 90000)
			reset_counts();
		if (one_in(random, 2))
			(void) read_block(stranger++, 0);
		else
			(void) read_block(first + random_below(random, hot), 0);
	}
	OK(hit_ratio() > 0.9 * 0.5, "yesterday's favourites are overtaken");
}

/*
 * Two relations, both too large for the cache, read in the same way except that
 * every block of one is read again soon.
 */
static void
test_relations(void)
{
	uint64_t fills[2] = { 0 };

	begin(1);
	for (uint32_t i = 100; i < 30000; i++)
	{
		for (uint8_t relation = 0; relation < 2; relation++)
		{
			uint64_t before = cache.fills;

			(void) read_block(i * 2 + relation, relation);
			if (i > 15000)
				fills[relation] += cache.fills - before;
		}
		(void) read_block((i - 40) * 2, 0);
	}
	OK(fills[0] > 10000 && fills[1] < 1000,
	   "one relation is worth the write and another is not");
}

/*
 * All blocks are alike, and there are twice as many as have room: whichever are
 * cached, half of the reads are hits.
 */
static void
test_equals(Random *random)
{
	begin(4);
	for (int i = 0; i < 100000; i++)
	{
		if (i == 50000)
			reset_counts();
		(void) read_block(random_below(random, 2 * 4 * FC_WAYS), 0);
	}
	OK(cache.fills < (cache.reads - cache.hits) / 10,
	   "a block is not written to displace an equal one");
}

/* What a cached block counts. */
static unsigned
count_of(unsigned way)
{
	FcReplacementPlace at = place(0, 1);
	FcCandidate moving = candidate(0, 0);

	policy->moves(&at, way, &moving);
	return moving.note;
}

/*
 * A read counts half after 4096 reads of the set, and the highest count, 7,
 * stands for 8 to 16 reads; two counts lower are half as many.
 */
static void
test_fading_counts(void)
{
	FcReplacementPlace at = place(0, 1);

	begin(1);
	for (uint32_t block = 0; block < FC_WAYS; block++)
		(void) read_block(block, 0);
	for (int i = 0; i < 100; i++)
		policy->touched(&at, 0);
	OK(count_of(0) == 7, "a block that is read over and over counts most");
	for (int i = 0; i < 4096; i++)
		policy->touched(&at, 1);
	policy->touched(&at, 0);
	OK(count_of(0) == 5 || count_of(0) == 6,
	   "reads of long ago count half when it is read again");
}

/* ---- blocks that are loaded ---------------------------------------------- */

static FcCandidate
loaded(uint32_t block, unsigned heat)
{
	FcCandidate new = candidate(block, 1);

	new.loaded = true;
	new.note = (uint8_t) heat;
	return new;
}

static void
test_loads_are_no_reads(void)
{
	static uint64_t set_before[64];
	static uint64_t shared_before[sizeof(shared_state) / 8];
	FcReplacementPlace at = place(0, 1);
	FcCandidate new = loaded(1000000, 0);

	begin(1);
	for (uint32_t i = 0; i < 100 * FC_WAYS; i++)
		(void) read_block(i % FC_WAYS, 1);
	memcpy(set_before, set_state[0], sizeof(set_before));
	memcpy(shared_before, shared_state, sizeof(shared_before));
	OK(policy->choose(&at, &new, ~0ULL) == FC_WAY_NONE,
	   "blocks that are read make no room for what is loaded");
	OK(memcmp(set_before, set_state[0], sizeof(set_before)) == 0 &&
	       memcmp(shared_before, shared_state, sizeof(shared_before)) == 0,
	   "which is not remembered, either");
}

static void
test_heats(void)
{
	FcReplacementPlace at = place(0, 1);
	unsigned heat = 0;
	bool ordered = true;

	begin(1);

	/* Some blocks are read often, others now and then. */
	for (uint32_t i = 0; i < 400 * FC_WAYS; i++)
		(void) read_block(i % 4 == 0 ? i / 4 % 1000 + 100 : i % 32, 1);
	for (unsigned way = 0; way < FC_WAYS; way++)
		ordered &= policy->heat(&at, way) < FC_HEATS &&
		           (cache.key[0][way] >= 100 ||
		            policy->heat(&at, way) == FC_HEATS - 1);
	OK(ordered, "blocks that are read often have the highest heat");

	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		FcCandidate new = loaded(way, way % FC_HEATS);

		policy->filled(&at, way, &new);
	}
	ordered = true;
	for (unsigned way = 0; way < FC_WAYS; way++)
	{
		ordered &= way % FC_HEATS == 0 || policy->heat(&at, way) >= heat;
		heat = policy->heat(&at, way);
	}
	OK(ordered, "a hotter block stays the hotter one where it is loaded");
}

/* ---- where it learns ----------------------------------------------------- */

static void
test_watched_sets(void)
{
	static uint64_t before[sizeof(shared_state) / 8];
	FcReplacementPlace watched = place(0, 1U << 20);
	FcReplacementPlace other = place(1, 1U << 20);

	begin(2);
	policy->touched(&watched, 3);
	memcpy(before, shared_state, sizeof(before));
	policy->touched(&other, 3);
	OK(memcmp(before, shared_state, sizeof(before)) == 0,
	   "most sets of a large cache write nothing that is shared");
	policy->touched(&watched, 3);
	OK(memcmp(before, shared_state, sizeof(before)) != 0, "some do");

	/*
	 * While a cache is resized, there may be more sets than the policy knows.
	 */
	other.set_number = UINT32_MAX;
	for (uint32_t count = 1; count < 3000; count++)
	{
		other.set_count = count;
		policy->touched(&other, 3);
	}
	OK(nothing_behind(), "a set of no known number does no harm");
}

/* The states are in shared memory without a lock: they may hold anything. */
static void
test_torn_states(Random *random)
{
	unsigned wrong = 0;

	begin(1);
	for (int round = 0; round < 20000; round++)
	{
		FcReplacementPlace at = place(0, 1);
		FcCandidate new = candidate(random_below(random, 1000),
		                            (uint8_t) random_below(random, 256));
		uint64_t usable =
			random_next(random) & random_next(random) & random_next(random);

		for (unsigned i = 0; i < policy->set_state_size / 8; i++)
		{
			if (one_in(random, 8))
				set_state[0][i] = random_next(random);
		}
		for (int i = 0; i < 100; i++)
			shared_state[random_below(
				random, (uint32_t) policy->shared_state_size / 8)] =
				random_next(random);
		if (usable == 0)
			usable = 1;

		policy->missed(&at, &new);
		new.loaded = one_in(random, 4);
		if (one_in(random, 4))
			new.note = (uint8_t) random_next(random);

		unsigned way = policy->choose(&at, &new, usable);

		wrong += way != FC_WAY_NONE && (usable & (1ULL << way)) == 0;
		wrong += policy->heat(&at, random_below(random, FC_WAYS)) >= FC_HEATS;
		if (way == FC_WAY_NONE)
			continue;
		policy->evicted(&at, way, &new);
		policy->filled(&at, way, &new);
		for (uint32_t times = random_below(random, 100); times > 0; times--)
			policy->touched(&at, random_below(random, FC_WAYS));
	}
	OK(wrong == 0, "the choice is a usable way, whatever the states hold");
	OK(nothing_behind(), "nothing is written behind the states");
}

int
main(void)
{
	Random random = { .state = 4 };

	test_new_states();
	test_scans(&random);
	test_loops();
	test_recency(&random);
	test_moving(&random);
	test_relations();
	test_equals(&random);
	test_fading_counts();
	test_loads_are_no_reads();
	test_heats();
	test_watched_sets();
	test_torn_states(&random);
	return tap_done();
}
