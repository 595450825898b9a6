/*
 * index_test.c
 *		Entries: found, claimed, published, doomed, dropped, taken over.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

static Rig rig;
static FcFile file;

static void
open_rig(uint32_t slots)
{
	rig_open(&rig, slots, 64);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
}

static FcTicket
ticket_for(uint32_t block)
{
	FcTicket ticket;
	FcSeen seen;

	IGNORE(fc_read_look_up(&rig.cache, &file, block, &ticket, &seen));
	return ticket;
}

static uint64_t
key_of(uint32_t block)
{
	return fc_key(file.number, block);
}

static FcAtomic64 *
meta_of(uint32_t slot)
{
	return &fc_set(rig.cache.shared, slot / FC_WAYS)->meta[slot % FC_WAYS];
}

static FcState
state_of(uint32_t slot)
{
	return fc_meta_state(atomic_load(meta_of(slot)));
}

static FcSeen
claim(FcCache *cache, uint32_t block, FcTicket *ticket)
{
	FcSeen seen;

	*ticket = ticket_for(block);
	MUST(fc_claim(cache, ticket, &seen) == FC_OK);
	return seen;
}

static FcSeen
publish(uint32_t block, uint32_t crc)
{
	FcTicket ticket;
	FcSeen seen = claim(&rig.cache, block, &ticket);

	MUST(fc_claim_publish(&rig.cache, &ticket, &seen, FC_VALID, crc) == FC_OK);
	return seen;
}

static void
test_life_of_an_entry(void)
{
	FcTicket ticket;
	FcSeen seen;
	FcSeen found;
	FcHome home;

	open_rig(256);
	OK(!fc_index_find(rig.cache.shared, key_of(3), &found), "an empty index");
	seen = claim(&rig.cache, 3, &ticket);
	OK(seen.slot / FC_WAYS == fc_index_set_of(rig.cache.shared, key_of(3)),
	   "a claim is in the set of its key");
	OK(state_of(seen.slot) == FC_FILLING &&
	       fc_meta_high(atomic_load(meta_of(seen.slot))) == rig.cache.token,
	   "it is signed by its owner");
	OK(!fc_index_find(rig.cache.shared, key_of(3), &found),
	   "what is being filled is not found");
	OK(fc_claim_publish(&rig.cache, &ticket, &seen, FC_VALID, 0xdeadbeef) ==
	       FC_OK,
	   "it is published");
	OK(fc_index_find(rig.cache.shared, key_of(3), &found) &&
	       found.slot == seen.slot && fc_meta_high(found.meta) == 0xdeadbeef,
	   "and found, with its checksum");
	OK(!fc_index_find(rig.cache.shared, key_of(4), &seen) &&
	       !fc_index_find(rig.cache.shared, fc_key(file.number + 1, 3), &seen),
	   "by its whole key");
	OK(fc_index_holds(rig.cache.shared, key_of(3), &found), "it holds");

	uint64_t before = atomic_load(
		&fc_set(rig.cache.shared, found.slot / FC_WAYS)->generation);

	OK(fc_index_invalidate(&rig.cache, key_of(3), &home) &&
	       home.generation == before + 1,
	   "invalidating says that it was cached, and moves the generation");
	OK(!fc_index_holds(rig.cache.shared, key_of(3), &found) &&
	       state_of(found.slot) == FC_EMPTY,
	   "it is empty");
	OK(!fc_index_invalidate(&rig.cache, key_of(3), &home) &&
	       home.generation == before + 2,
	   "invalidating nothing moves the generation too");

	ticket = ticket_for(3);
	MUST(fc_claim(&rig.cache, &ticket, &seen) == FC_OK);
	OK(seen.slot == found.slot, "a block comes back to the way it had");
	fc_claim_abandon(&rig.cache, &ticket, &seen);
	OK(state_of(seen.slot) == FC_EMPTY, "an abandoned claim is empty");
	OK(fc_file_used_slots(&rig.cache) == 0, "and counts for nothing");
	rig_close(&rig);
}

/* With one set, so that it is every key's home. */
static void
test_whole_key(void)
{
	FcSeen seen;
	FcSeen other_seen;
	FcHome home;
	unsigned found = 0;
	unsigned held = 0;
	unsigned dropped = 0;

	open_rig(FC_WAYS);
	publish(3, 1);
	MUST(fc_index_find(rig.cache.shared, key_of(3), &seen));
	for (unsigned bit = 0; bit < 64; bit++)
	{
		uint64_t other = key_of(3) ^ 1ULL << bit;

		found += fc_index_find(rig.cache.shared, other, &other_seen);
		held += fc_index_holds(rig.cache.shared, other, &seen);
		dropped += fc_index_drop(rig.cache.shared, other, &seen);
		dropped += fc_index_invalidate(&rig.cache, other, &home) != FC_HELD_NOT;
	}
	OK(found == 0 && held == 0, "each bit of a key counts: for who looks");
	OK(dropped == 0 && fc_index_holds(rig.cache.shared, key_of(3), &seen),
	   "... and for who drops");
	rig_close(&rig);
}

static void
test_drop(void)
{
	FcSeen old;
	FcSeen seen;

	open_rig(64);
	publish(3, 1);
	MUST(fc_index_find(rig.cache.shared, key_of(3), &old));
	OK(fc_index_drop(rig.cache.shared, key_of(3), &old), "an entry is dropped");
	OK(!fc_index_drop(rig.cache.shared, key_of(3), &old), "once");
	publish(3, 1);
	OK(!fc_index_drop(rig.cache.shared, key_of(3), &old) &&
	       fc_index_find(rig.cache.shared, key_of(3), &seen) &&
	       seen.slot == old.slot && seen.meta != old.meta,
	   "the same block with the same checksum is another entry");
	rig_close(&rig);
}

/*
 * The entry is not emptied in between, and by chance its checksum is the same.
 */
static void
test_eviction(void)
{
	uint64_t before[FC_WAYS];
	FcSeen seen;

	open_rig(FC_WAYS);
	for (uint32_t block = 0; block < FC_WAYS; block++)
		publish(block, 1);
	for (uint32_t slot = 0; slot < FC_WAYS; slot++)
		before[slot] = atomic_load(meta_of(slot));
	seen = publish(FC_WAYS, 1);
	OK(atomic_load(meta_of(seen.slot)) != before[seen.slot],
	   "a block that takes another one's way is another entry");
	rig_close(&rig);
}

static void
test_doom(void)
{
	FcTicket ticket;
	FcCache other;
	FcHome home;

	open_rig(64);
	rig_attach(&rig, &other);

	FcSeen seen = claim(&other, 3, &ticket);

	OK(!fc_index_invalidate(&rig.cache, key_of(3), &home) &&
	       state_of(seen.slot) == FC_DOOMED,
	   "a change dooms a fill");
	OK(fc_meta_high(atomic_load(meta_of(seen.slot))) == other.token,
	   "whose slot stays its own");
	fc_index_invalidate(&rig.cache, key_of(3), &home);
	OK(state_of(seen.slot) == FC_DOOMED, "twice is once");

	/* As if the generations had matched: the doom alone is enough. */
	ticket.set_generation = home.generation;
	OK(fc_claim_publish(&other, &ticket, &seen, FC_VALID, 1) == FC_SKIP &&
	       state_of(seen.slot) == FC_EMPTY,
	   "a doomed fill is not published");
	OK(fc_count_sum(&rig.cache, FC_COUNT_insert_skip_modification) == 1,
	   "and counted");
	rig_detach(&other);
	rig_close(&rig);
}

/* Others hold all 64 ways: a fill is skipped, an orphan is taken over. */
static void
test_busy_sets(void)
{
	FcCache other;
	FcTicket ticket;
	FcTicket late;
	FcSeen seen;

	open_rig(64);
	rig_attach(&rig, &other);
	MUST(fc_process_begin(&rig.cache) == FC_OK);
	for (uint32_t block = 0; block < FC_WAYS; block++)
		(void) claim(&other, block, &ticket);
	late = ticket_for(100);
	OK(fc_claim(&rig.cache, &late, &seen) == FC_SKIP &&
	       fc_count_sum(&rig.cache, FC_COUNT_insert_skip_writer_overloaded) ==
	           1,
	   "a set full of fills takes no other");
	OK(fc_count_sum(&rig.cache, FC_COUNT_takeovers) == 0,
	   "nothing is taken from the living");

	fc_process_end(&other);
	OK(fc_claim(&rig.cache, &late, &seen) == FC_OK,
	   "what the dead held is taken over");
	OK(fc_count_sum(&rig.cache, FC_COUNT_takeovers) == FC_WAYS, "all of it");

	/* The owner thought dead was only slow: the slot is no longer its own. */
	FcSeen stale = { .slot = seen.slot, .meta = 0 };
	FcCache slow = rig.cache;

	slow.token = 0xffff0001;
	stale.meta = fc_meta_next(0, FC_FILLING, slow.token);
	late.block = 0;
	fc_claim_abandon(&slow, &late, &stale);
	OK(atomic_load(meta_of(seen.slot)) == seen.meta,
	   "who lost a claim cannot abandon its successor's");
	fc_cache_close(&other);
	rig_close(&rig);
}

/* The sequence wraps in its own bits. */
static void
test_sequence(void)
{
	uint64_t meta = fc_meta_next(0, FC_EMPTY, 0);

	for (int i = 0; i < 3; i++)
		meta =
			fc_meta_next(meta | FC_META_SEQUENCE_MASK, FC_FILLING, 0x12345678);
	OK(fc_meta_state(meta) == FC_FILLING && fc_meta_high(meta) == 0x12345678,
	   "a sequence that wraps touches neither state nor owner");
	OK((meta & FC_META_SEQUENCE_MASK) == 0, "and starts over");
}

/* Every slot belongs to one set, and sets share the load. */
static void
test_spread(void)
{
	uint32_t count[64] = { 0 };
	uint32_t least = UINT32_MAX;
	uint32_t most = 0;

	open_rig(64 * FC_WAYS);
	for (uint32_t block = 0; block < 64000; block++)
		count[fc_index_set_of(rig.cache.shared, key_of(block))]++;
	for (int i = 0; i < 64; i++)
	{
		least = count[i] < least ? count[i] : least;
		most = count[i] > most ? count[i] : most;
	}

	/* 1000 each, standard deviation 32: six of them either way. */
	OK(least > 800 && most < 1200, "blocks spread over the sets: %u to %u",
	   least, most);
	rig_close(&rig);
}

/* A drive may lay out its channels one by one. */
static void
test_spread_of_a_few(void)
{
	uint32_t count[FC_WAYS] = { 0 };
	uint32_t least = UINT32_MAX;
	uint32_t most = 0;

	open_rig(64 * FC_WAYS);
	for (uint32_t block = 0; block < 1024; block++)
		count[publish(block, block).slot % FC_WAYS]++;
	for (int i = 0; i < FC_WAYS; i++)
	{
		least = count[i] < least ? count[i] : least;
		most = count[i] > most ? count[i] : most;
	}

	/*
	 * 16 each; if every set were filled from its first way, the last would be
	 * empty.
	 */
	OK(least >= 8 && most <= 24,
	   "a cache that is a quarter full lies evenly over its sets: %u to %u",
	   least, most);
	rig_close(&rig);
}

static void
test_walks(void)
{
	FcSeen seen;
	FcFile other = fc_file(file_id(8));

	open_rig(256);
	MUST(fc_file_enter(&rig.cache, &other) == FC_OK);
	for (uint32_t block = 0; block < 50; block++)
		publish(block, block);
	fc_index_invalidate_file(&rig.cache, other.number, 0, UINT32_MAX);
	OK(fc_file_used_slots(&rig.cache) == 50,
	   "another file's blocks are left alone");
	fc_index_invalidate_file(&rig.cache, file.number, 10, 20);

	unsigned wrong = 0;

	for (uint32_t block = 0; block < 50; block++)
		wrong += fc_index_find(rig.cache.shared, key_of(block), &seen) ==
		         (block >= 10 && block < 20);
	OK(wrong == 0, "a range is dropped by a walk, and nothing else");
	OK(fc_count_sum(&rig.cache, FC_COUNT_eviction_invalidated) == 10,
	   "and counted");
	fc_index_clear(&rig.cache);
	OK(fc_file_used_slots(&rig.cache) == 0, "a clear drops everything");
	rig_close(&rig);
}

int
main(void)
{
	test_life_of_an_entry();
	test_whole_key();
	test_drop();
	test_eviction();
	test_doom();
	test_busy_sets();
	test_sequence();
	test_spread();
	test_spread_of_a_few();
	test_walks();
	return tap_done();
}
