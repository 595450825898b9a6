/*
 * resize_test.c
 *		Growing and shrinking undisturbed: what stays, what moves, what is
 *		waited for.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "homes.h"
#include "tap.h"

static Rig rig;
static FcFile file;

static void
open_sized(uint32_t slots, uint32_t slots_max)
{
	FcConfig config = { .slot_count = slots,
		                .slot_count_max = slots_max,
		                .file_count = 4,
		                .process_count = 8,
		                .replacement = &fc_replacement_lfu };

	rig_open_with(&rig, &config);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
}

static void
put(uint32_t block)
{
	static Page page;
	FcTicket ticket;

	if (fc_read(&rig.cache, &file, block, &page, &ticket) != FC_MISS)
		return;
	page_make(&page, 7, block, 1);
	(void) fc_fill(&rig.cache, &ticket, &page);
	rig_flush(&rig);
}

/* Blocks below the limit that are served, and correctly. */
static uint32_t
count_hits(uint32_t limit)
{
	static Page page;
	uint32_t hits = 0;

	for (uint32_t block = 0; block < limit; block++)
	{
		FcTicket ticket;

		if (fc_read(&rig.cache, &file, block, &page, &ticket) != FC_OK)
			continue;
		MUST(page_is(&page, 7, block, 1));
		hits++;
	}
	return hits;
}

static void
resize_to(FcCache *cache, uint32_t slots)
{
	unsigned steps = 0;

	MUST(fc_resize_begin(cache, slots) == FC_OK);
	while (fc_resize_step(cache, 1))
		MUST(++steps < 100000);
}

static void
test_homes(void)
{
	open_sized(64 * FC_WAYS, 256 * FC_WAYS);

	const FcShared *shared = rig.cache.shared;
	uint32_t count[128] = { 0 };
	uint32_t moved = 0;
	uint32_t elsewhere = 0;
	uint32_t least = UINT32_MAX;

	for (uint32_t block = 0; block < 128000; block++)
	{
		uint64_t key = fc_key(3, block);
		uint32_t small = fc_home(shared, key, 64);
		uint32_t large = fc_home(shared, key, 128);

		count[large]++;
		moved += small != large;
		elsewhere += small != large && large < 64;
	}
	for (uint32_t i = 0; i < 128; i++)
		least = count[i] < least ? count[i] : least;
	OK(elsewhere == 0, "growing moves blocks into new sets only");

	/* 64000 expected, standard deviation 179. */
	OK(moved > 62900 && moved < 65100, "to twice the size, half of them: %u",
	   moved);

	/* 1000 each, standard deviation 32. */
	OK(least > 800, "and all sets get their share: %u at least", least);
	rig_close(&rig);
}

static void
test_grow(void)
{
	open_sized(1024, 4096);
	for (uint32_t block = 0; block < 800; block++)
		put(block);

	uint32_t before = count_hits(800);
	uint64_t inserts = fc_count_sum(&rig.cache, FC_COUNT_inserts);

	MUST(before > 700);
	OK(fc_geometry_slot_count(&rig.cache) == 1024,
	   "a cache begins with its size");
	MUST(fc_resize_begin(&rig.cache, 2048) == FC_OK);
	MUST(fc_resize_step(&rig.cache, 1024 / FC_WAYS / 2));
	OK(count_hits(800) == before, "every block is found while it grows");
	while (fc_resize_step(&rig.cache, 1))
		;

	uint32_t after = count_hits(800);
	uint64_t moved = fc_count_sum(&rig.cache, FC_COUNT_moved_blocks);

	OK(fc_geometry_slot_count(&rig.cache) == 2048, "it grows to twice that");
	OK(after == before, "and keeps every block: %u of %u", after, before);
	OK(moved > before * 4 / 10 && moved < before * 6 / 10,
	   "of which half had to move: %u of %u", (unsigned) moved, before);
	OK(fc_count_sum(&rig.cache, FC_COUNT_inserts) == inserts,
	   "which is not counted as inserts");
	OK(all_at_home(rig.cache.shared) && fc_file_used_slots(&rig.cache) == after,
	   "each is where it belongs, once");

	for (uint32_t block = 0; block < 1900; block++)
		put(block);
	OK(count_hits(1900) > 1700, "and the new room is used: %u blocks",
	   count_hits(1900));
	rig_close(&rig);
}

static void
test_shrink(void)
{
	open_sized(2048, 2048);
	for (uint32_t block = 0; block < 1000; block++)
		put(block);

	uint32_t before = count_hits(1000);

	resize_to(&rig.cache, 1024);

	uint32_t after = count_hits(1000);

	OK(fc_geometry_slot_count(&rig.cache) == 1024 &&
	       fc_geometry_size(&rig.cache).room_slots == 1024,
	   "it shrinks to half, and says what room it needs");
	OK(before > 990 && after > before * 9 / 10,
	   "what fits stays: %u of %u blocks", after, before);
	OK(all_at_home(rig.cache.shared) && fc_file_used_slots(&rig.cache) == after,
	   "each is where it belongs, once");

	/* Twice as much as will fit. */
	resize_to(&rig.cache, 2048);
	for (uint32_t block = 0; block < 2000; block++)
		put(block);
	resize_to(&rig.cache, 512);
	after = count_hits(2000);
	OK(after > 500 && after <= 512,
	   "too many for it: it stays full (%u of 512)", after);
	rig_close(&rig);
}

/*
 * A layout after a crash is computed with the size of that moment, but for the
 * memory of the start.
 */
static void
test_layout_is_of_the_maximum(void)
{
	const uint32_t most = 1U << 22;
	FcConfig config = { .slot_count_max = most,
		                .process_count = 8,
		                .replacement = &fc_replacement_lfu };
	FcShared all;
	uint32_t others = 0;

	config.slot_count = most;
	MUST(fc_layout(&config, &all));
	for (uint32_t slots = FC_WAYS; slots < most; slots *= 2)
	{
		FcShared layout;

		config.slot_count = slots;
		MUST(fc_layout(&config, &layout));
		others += memcmp(&layout, &all, sizeof(all)) != 0;
	}
	OK(others == 0, "memory is laid out alike whatever the size of now");
}

static void
test_limits(void)
{
	open_sized(128, 256);
	OK(fc_resize_begin(&rig.cache, 257) == FC_INVALID &&
	       fc_resize_begin(&rig.cache, 320) == FC_INVALID &&
	       fc_resize_begin(&rig.cache, 0) == FC_INVALID,
	   "no size but multiples of a set up to the maximum");
	MUST(fc_resize_begin(&rig.cache, 256) == FC_OK);
	OK(fc_resize_begin(&rig.cache, 128) == FC_SKIP,
	   "a second change waits for the first one");

	FcSize size = fc_geometry_size(&rig.cache);

	OK(size.changing && size.slots == 256 && size.slots_max == 256 &&
	       size.room_slots == 256 && size.done == 0,
	   "the size says what it is about to be");
	MUST(fc_resize_step(&rig.cache, 1));
	OK(fc_geometry_size(&rig.cache).done == 0.5, "and how far it has come");
	OK(!fc_resize_step(&rig.cache, 1) &&
	       !fc_geometry_size(&rig.cache).changing &&
	       fc_resize_begin(&rig.cache, 128) == FC_OK,
	   "when it is over, another one may begin");

	MUST(fc_mode_set(&rig.cache, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	OK(!fc_resize_step(&rig.cache, 10) &&
	       fc_geometry_size(&rig.cache).changing &&
	       fc_resize_begin(&rig.cache, 256) == FC_OFF,
	   "offline nothing moves any more");
	rig_close(&rig);
}

/* Slots being written are waited for; then they are not written any more. */
static void
test_drain(void)
{
	FcCache filler;
	FcTicket ticket;
	FcSeen claim;
	static Page page;
	uint32_t block = 0;

	open_sized(256, 256);
	rig_attach(&rig, &filler);
	while (fc_index_set_of(rig.cache.shared, fc_key(file.number, block)) < 2)
		block++;
	MUST(fc_read(&filler, &file, block, &page, &ticket) == FC_MISS);
	MUST(fc_claim(&filler, &ticket, &claim) == FC_OK);
	MUST(fc_resize_begin(&rig.cache, 128) == FC_OK);
	for (int i = 0; i < 10; i++)
		(void) fc_resize_step(&rig.cache, 10);
	OK(fc_geometry_size(&rig.cache).changing &&
	       fc_geometry_size(&rig.cache).room_slots >= claim.slot &&
	       fc_geometry_size(&rig.cache).slots == 128,
	   "room is kept for a slot that is being written");
	OK(fc_claim_publish(&filler, &ticket, &claim, FC_VALID, 0) == FC_SKIP,
	   "whose fill comes to nothing");
	OK(!fc_resize_step(&rig.cache, 10) &&
	       fc_geometry_size(&rig.cache).room_slots == 128,
	   "and then given back");

	resize_to(&rig.cache, 256);
	MUST(fc_read(&filler, &file, block, &page, &ticket) == FC_MISS);
	MUST(fc_claim(&filler, &ticket, &claim) == FC_OK);
	fc_process_end(&filler);
	resize_to(&rig.cache, 128);
	OK(fc_geometry_size(&rig.cache).room_slots == 128,
	   "nobody waits for the dead");
	fc_cache_close(&filler);
	rig_close(&rig);
}

/* A cache of 4 sets with a block beyond so many of them, in the ring. */
static void
stage_beyond(uint32_t sets)
{
	static Page page;
	FcTicket ticket;
	uint32_t block = 0;

	open_sized(4 * FC_WAYS, 4 * FC_WAYS);
	while (fc_index_set_of(rig.cache.shared, fc_key(file.number, block)) < sets)
		block++;
	MUST(fc_read(&rig.cache, &file, block, &page, &ticket) == FC_MISS);
	page_make(&page, 7, block, 1);
	MUST(fc_fill(&rig.cache, &ticket, &page) == FC_OK);
}

/*
 * The writer has begun to write a slot of a set that is removed, and the device
 * takes its time.  When the room is given back, the host truncates the file: is
 * a write still under way that would land beyond the new end, or in a slot
 * assigned to another block when the cache grew again?
 */
static bool
writes_land_in_the_file(void)
{
	FcCache writing;
	FcWriter *writer;
	off_t end;
	bool in_file;

	stage_beyond(2);
	MUST(fc_cache_attach(&writing, rig.memory, &fc_replacement_lfu,
	                     &rig.slow.device) == FC_OK);
	MUST(fc_writer_begin(&writing, &writer) == FC_OK);
	rig.slow.holds = true;
	fc_writer_run(writer, 0);
	MUST(rig.slow.deferred_count == 1);

	MUST(fc_resize_begin(&rig.cache, 2 * FC_WAYS) == FC_OK);
	for (int i = 0; i < 10; i++)
		(void) fc_resize_step(&rig.cache, 10);
	end = FC_SLOTS_OFFSET +
	      (off_t) fc_geometry_size(&rig.cache).room_slots * FC_BLOCK_SIZE;
	in_file = rig.slow.deferred[0].asked.offset < end;

	/* Then it completes, and the room is given back. */
	rig.slow.holds = false;
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	MUST(fc_writer_end(writer, 0) == FC_OK);
	MUST(!fc_resize_step(&rig.cache, 10) &&
	     fc_geometry_size(&rig.cache).room_slots == 2 * FC_WAYS);
	rig_detach(&writing);
	rig_close(&rig);
	return in_file;
}

static void
test_drain_of_writes(void)
{
	OK(writes_land_in_the_file(),
	   "room is kept for what the device is still writing");
	fc_test_broken = FC_BREAK(DRAIN);
	OK(!writes_land_in_the_file(),
	   "negative control: cut off before, it is written behind the file's end");
	fc_test_broken = 0;
}

/* A stalled device is waited for; a dead one takes its blocks with it. */
static void
test_stalls(void)
{
	open_sized(1024, 2048);
	for (uint32_t block = 0; block < 500; block++)
		put(block);

	uint32_t before = count_hits(500);
	FcHealth *health = &rig.cache.shared->health[0];
	uint64_t epoch = atomic_load(&rig.cache.shared->mode_word);

	MUST(fc_resize_begin(&rig.cache, 2048) == FC_OK);
	atomic_store(&health->state, FC_DEVICE_STALLED);
	for (int i = 0; i < 5; i++)
		MUST(fc_resize_step(&rig.cache, 100));
	OK(fc_geometry_size(&rig.cache).changing &&
	       fc_geometry_size(&rig.cache).done == 0,
	   "while the device stalls nothing moves");
	atomic_store(&health->state, FC_DEVICE_IN_SERVICE);
	atomic_store(&health->writes_late, 1);
	for (int i = 0; i < 5; i++)
		MUST(fc_resize_step(&rig.cache, 100));
	OK(fc_geometry_size(&rig.cache).changing &&
	       fc_geometry_size(&rig.cache).done == 0,
	   "nor while it is late with writes");
	OK(atomic_load(&rig.cache.shared->mode_word) == epoch,
	   "and what others read meanwhile counts");
	atomic_store(&health->writes_late, 0);
	while (fc_resize_step(&rig.cache, 1))
		;
	OK(count_hits(500) == before, "and nothing is lost by it");
	rig_close(&rig);
}

int
main(void)
{
	alarm(900);
	test_homes();
	test_grow();
	test_shrink();
	test_limits();
	test_layout_is_of_the_maximum();
	test_drain();
	test_drain_of_writes();
	test_stalls();
	return tap_done();
}
