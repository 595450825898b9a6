/*
 * cache_test.c
 *		Reads, fills and changes of one process: answers, counters, modes.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "blocks.h"
#include "tap.h"

/* ---- reads and fills ----------------------------------------------------- */

static void
test_read_and_fill(void)
{
	Rig rig;
	FcFileInfo info;
	static unsigned char odd[FC_BLOCK_SIZE + 1];

	rig_open(&rig, 256, 64);

	FcFile file = fc_file(file_id(7));

	OK(look(&rig, &file, 3) == FC_STALE, "a file not entered: stale");
	file = entered(&rig, 7);
	OK(look(&rig, &file, 3) == FC_MISS, "an empty cache misses");
	page_make(&page, 7, 3, 1);
	OK(fc_fill(&rig.cache, &ticket, &page) == FC_OK, "a miss can be filled");
	OK(serves(&rig, &file, 3, 1), "and then hits, byte for byte");
	OK(look(&rig, &file, 4) == FC_MISS, "its neighbour misses");
	OK(fc_read_would_hit(&rig.cache, &file, 3) &&
	       !fc_read_would_hit(&rig.cache, &file, 4),
	   "and so the hint says");

	OK(fc_read(&rig.cache, &file, 3, odd + 1, &ticket) == FC_OK &&
	       memcmp(odd + 1, &page, sizeof(page)) == 0,
	   "a buffer of any alignment will do");
	rig.flash.device.direct = true;
	memset(odd, 0, sizeof(odd));
	OK(fc_read(&rig.cache, &file, 3, odd + 1, &ticket) == FC_OK &&
	       memcmp(odd + 1, &page, sizeof(page)) == 0,
	   "with O_DIRECT too");

	MUST(look(&rig, &file, 5) == FC_MISS);

	FcTicket first = ticket;

	OK(put(&rig, &file, 5) == FC_OK, "another process may fill it first");
	OK(fc_fill(&rig.cache, &first, &page) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_exists) == 1,
	   "then the fill is skipped, and why is counted");

	OK(count_of(&rig, FC_COUNT_hits) == 3 &&
	       count_of(&rig, FC_COUNT_misses) == 4 &&
	       count_of(&rig, FC_COUNT_inserts) == 2,
	   "hits, misses and inserts are counted");
	OK(fc_file_info(&rig.cache, file.number, &info) && info.hits == 3 &&
	       info.misses == 4 && info.cached_blocks == 2,
	   "for the file too");
	OK(fc_file_used_slots(&rig.cache) == 2, "two slots are used");

	fc_read_disk_done(&rig.cache, &file, 2, 16384, 1000);
	OK(fc_file_info(&rig.cache, file.number, &info) &&
	       info.disk_read_ns == 1000 &&
	       count_of(&rig, FC_COUNT_disk_reads) == 1 &&
	       count_of(&rig, FC_COUNT_disk_read_bytes) == 16384,
	   "reads of the disk are counted for file and cache");
	rig_close(&rig);
}

static void
test_hits_can_be_verified(void)
{
	Rig rig;
	FcFileId id;

	rig_open(&rig, 256, 64);

	FcFile file = entered(&rig, 7);

	MUST(put(&rig, &file, 3) == FC_OK && serves(&rig, &file, 3, 1));

	FcTicket hit = ticket;

	OK(fc_read_hit_holds(&rig.cache, &hit), "a hit holds");
	OK(fc_read_slot(&rig.cache, hit.slot, &back, &id, &ticket) == FC_OK &&
	       id.relation == 7 && ticket.block == 3 && page_is(&back, 7, 3, 1),
	   "its slot tells the block and can be read");

	uint32_t block = 0;

	OK(fc_read_slot_block(&rig.cache, hit.slot, &id, &block) &&
	       id.relation == 7 && block == 3,
	   "its slot tells the block without being read");
	OK(!fc_read_slot_block(&rig.cache, (hit.slot + 1) % 256, &id, &block),
	   "an empty slot has none");
	OK(fc_read_slot(&rig.cache, (hit.slot + 1) % 256, &back, &id, &ticket) ==
	       FC_MISS,
	   "an empty slot cannot");

	change_blocks(&rig.cache, &file, 3, 1);
	OK(!fc_read_hit_holds(&rig.cache, &hit), "after a change it does not hold");
	OK(put(&rig, &file, 3) == FC_OK && !fc_read_hit_holds(&rig.cache, &hit),
	   "nor after the block was filled again");
	fc_read_hit_drop(&rig.cache, &hit);
	OK(fc_read_would_hit(&rig.cache, &file, 3),
	   "dropping an old hit drops nothing");
	MUST(look(&rig, &file, 3) == FC_OK);
	fc_read_hit_drop(&rig.cache, &ticket);
	OK(!fc_read_would_hit(&rig.cache, &file, 3),
	   "dropping a hit drops its entry");

	MUST(put(&rig, &file, 3) == FC_OK && look(&rig, &file, 3) == FC_OK);
	hit = ticket;
	change_blocks(&rig.cache, &file, 500, FC_BLOCKS_ALL);
	OK(!fc_read_hit_holds(&rig.cache, &hit),
	   "a hit does not hold once the file was truncated");
	rig_close(&rig);
}

static Rig *acting;
static FcFile acting_on;

static void
write_block_3(void)
{
	change_blocks(&acting->cache, &acting_on, 3, 1);
}

static void
test_slots_can_be_read(void)
{
	Rig rig;
	FcFileId id;
	uint32_t slot;
	uint32_t block;

	rig_open(&rig, 256, 64);
	acting = &rig;
	acting_on = entered(&rig, 7);
	for (int i = 0; i < 5; i++)
	{
		MUST(put(&rig, &acting_on, 3) == FC_OK);
		MUST(look(&rig, &acting_on, 3) == FC_OK);
		slot = ticket.slot;
		switch (i)
		{
			case 0:
				rig.flash.read_fault = FAULT_FLIP;
				OK(fc_read_slot(&rig.cache, slot, &back, &id, &ticket) ==
				           FC_MISS &&
				       count_of(&rig, FC_COUNT_corrupt_slots) == 1 &&
				       !fc_read_would_hit(&rig.cache, &acting_on, 3),
				   "a corrupt slot is found by reading it, and dropped");
				break;
			case 1:
				rig.flash.read_fault = FAULT_EIO;
				OK(fc_read_slot(&rig.cache, slot, &back, &id, &ticket) ==
				       FC_MISS,
				   "a slot that cannot be read tells nothing");
				fc_cache_clear(&rig.cache);
				break;
			case 2:
				rig.flash.on_read = write_block_3;
				OK(fc_read_slot(&rig.cache, slot, &back, &id, &ticket) ==
				       FC_MISS,
				   "nor does one whose block changes meanwhile");
				break;
			case 3:
				MUST(fc_mode_set(&rig.cache, FC_PASSTHROUGH, FC_REASON_USER) ==
				     FC_OK);
				OK(fc_read_slot(&rig.cache, slot, &back, &id, &ticket) ==
				           FC_OK &&
				       page_is(&back, 7, 3, 1),
				   "a warm slot can be verified in passthrough");
				MUST(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_NONE) ==
				     FC_OK);
				fc_cache_clear(&rig.cache);
				break;
			case 4:
				/* As by a process killed in fc_file_retire(). */
				atomic_fetch_add(
					&fc_generations(rig.cache.shared)[acting_on.number], 1);
				OK(fc_read_slot(&rig.cache, slot, &back, &id, &ticket) ==
				           FC_MISS &&
				       !fc_read_slot_block(&rig.cache, slot, &id, &block),
				   "nor does a block of a retired file");
				break;
		}
	}
	rig_close(&rig);
}

static void
test_fills_refused(void)
{
	Rig rig;
	FcReplacement picky = fc_replacement_lfu;
	FcConfig config = { .slot_count = FC_WAYS,
		                .file_count = 64,
		                .process_count = 2,
		                .replacement = &picky };
	FcCache other[2];

	picky.choose = choose_nobody;
	rig_open_with(&rig, &config);

	FcFile file = entered(&rig, 7);

	for (uint32_t block = 0; block < FC_WAYS; block++)
		MUST(put(&rig, &file, block) == FC_OK);
	OK(put(&rig, &file, 100) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_not_useful) == 1 &&
	       count_of(&rig, FC_COUNT_eviction_aged_out) == 0,
	   "a policy may refuse a block");

	fc_process_end(&rig.cache);
	for (int i = 0; i < 2; i++)
	{
		other[i] = rig.cache;
		MUST(fc_process_begin(&other[i]) == FC_OK);
	}
	fc_cache_clear(&rig.cache);
	OK(put(&rig, &file, 3) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_writer_overloaded) == 1,
	   "a process that finds no place fills nothing");

	FcFile next = fc_file(file_id(8));

	OK(fc_file_enter(&rig.cache, &next) == FC_FULL, "nor enters a file");
	OK(fc_file_enter(&rig.cache, &file) == FC_OK,
	   "but finds one that is known");
	rig_close(&rig);
}

static void
test_eviction(void)
{
	Rig rig;

	rig_open(&rig, FC_WAYS, 64);

	FcFile file = entered(&rig, 7);
	unsigned wrong = 0;
	unsigned cached = 0;

	for (uint32_t block = 0; block < 1000; block++)
		wrong += put(&rig, &file, block) != FC_OK;
	OK(wrong == 0, "a full cache makes room");
	for (uint32_t block = 0; block < 1000; block++)
	{
		FcStatus status = look(&rig, &file, block);

		cached += status == FC_OK;
		wrong += status == FC_OK && !page_is(&back, 7, block, 1);
	}
	OK(cached == FC_WAYS && wrong == 0, "and holds as many as it has slots");
	OK(count_of(&rig, FC_COUNT_eviction_aged_out) == 1000 - FC_WAYS,
	   "the others aged out");
	OK(fc_file_used_slots(&rig.cache) == FC_WAYS, "all slots are used");
	rig_close(&rig);
}

/* ---- changes ------------------------------------------------------------- */

static void
test_write_and_refresh(void)
{
	Rig rig;

	rig_open(&rig, 256, 64);

	FcFile file = entered(&rig, 7);

	fc_change_begin(&rig.cache, &file, 3, 1, &change);
	fc_change_end(&rig.cache, &file, &change);
	page_make(&page, 7, 3, 2);
	OK(fc_change_fill(&rig.cache, &change, &page) == FC_SKIP &&
	       !fc_read_would_hit(&rig.cache, &file, 3),
	   "a block that was not cached is not put in by a write");

	MUST(put(&rig, &file, 3) == FC_OK);
	fc_change_begin(&rig.cache, &file, 3, 1, &change);
	OK(look(&rig, &file, 3) == FC_MISS, "a block that changes is not served");
	fc_change_end(&rig.cache, &file, &change);
	OK(look(&rig, &file, 3) == FC_MISS, "nor when it has changed");
	page_make(&page, 7, 3, 2);
	OK(fc_change_fill(&rig.cache, &change, &page) == FC_OK &&
	       serves(&rig, &file, 3, 2),
	   "until its copy is refreshed");
	OK(count_of(&rig, FC_COUNT_updates) == 1 &&
	       count_of(&rig, FC_COUNT_inserts) == 2 &&
	       count_of(&rig, FC_COUNT_invalidations) == 2 &&
	       count_of(&rig, FC_COUNT_eviction_invalidated) == 1,
	   "all of which is counted");

	/* A write that failed: begin and end, and no refresh. */
	change_blocks(&rig.cache, &file, 3, 1);
	OK(look(&rig, &file, 3) == FC_MISS, "a failed write leaves a miss");

	/* A process filled it between the two halves: that copy is dropped, too. */
	fc_change_begin(&rig.cache, &file, 3, 1, &change);
	MUST(put(&rig, &file, 3) == FC_OK);
	fc_change_end(&rig.cache, &file, &change);
	OK(!fc_read_would_hit(&rig.cache, &file, 3), "a fill meanwhile is dropped");
	page_make(&page, 7, 3, 3);
	OK(fc_change_fill(&rig.cache, &change, &page) == FC_SKIP,
	   "and gives no right to refresh");

	/* Another block of the set changed: the ticket's generation is old. */
	FcFile other = entered(&rig, 8);
	uint32_t neighbour = 0;

	while (fc_index_set_of(rig.cache.shared, fc_key(other.number, neighbour)) !=
	       fc_index_set_of(rig.cache.shared, fc_key(file.number, 3)))
		neighbour++;
	MUST(put(&rig, &file, 3) == FC_OK);
	fc_change_begin(&rig.cache, &file, 3, 1, &change);
	change_blocks(&rig.cache, &other, neighbour, 1);
	fc_change_end(&rig.cache, &file, &change);
	OK(fc_change_fill(&rig.cache, &change, &page) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_modification) == 1,
	   "a change of the set by somebody else forbids the refresh");
	rig_close(&rig);
}

static void
test_ranges(void)
{
	static const uint32_t counts[] = { 0, 1, 2, 100, 128, 129, 500 };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
	{
		Rig rig;
		unsigned wrong = 0;

		rig_open(&rig, 4096, 64);

		FcFile file = entered(&rig, 7);

		for (uint32_t block = 0; block < 1000; block++)
			MUST(put(&rig, &file, block) == FC_OK);
		fc_change_begin(&rig.cache, &file, 300, counts[i], &change);
		for (uint32_t block = 300; block < 300 + counts[i]; block++)
			wrong += fc_read_would_hit(&rig.cache, &file, block);
		fc_change_end(&rig.cache, &file, &change);
		MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
		for (uint32_t block = 0; block < 1000; block++)
			wrong += fc_read_would_hit(&rig.cache, &file, block) ==
			         (block >= 300 && block < 300 + counts[i]);
		OK(wrong == 0, "a change of %u blocks drops them, and only them",
		   counts[i]);
		OK(counts[i] == 1 ||
		       fc_change_fill(&rig.cache, &change, &page) == FC_SKIP,
		   "and is not refreshed");
		rig_close(&rig);
	}
}

static void
test_old_tickets(void)
{
	Rig rig;

	rig_open(&rig, 256, 64);

	FcFile file = entered(&rig, 7);
	FcTicket old;

	MUST(look(&rig, &file, 3) == FC_MISS);
	old = ticket;
	fc_change_begin(&rig.cache, &file, 3, 1, &change);
	OK(fc_fill(&rig.cache, &old, &page) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_modification) == 1,
	   "a ticket of before a change fills nothing");
	fc_change_end(&rig.cache, &file, &change);

	MUST(look(&rig, &file, 3) == FC_MISS);
	old = ticket;
	change_blocks(&rig.cache, &file, 900, FC_BLOCKS_ALL);
	OK(fc_fill(&rig.cache, &old, &page) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_not_current) == 1,
	   "nor one of before a truncation, wherever it was");

	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	MUST(look(&rig, &file, 3) == FC_MISS);
	old = ticket;
	fc_cache_clear(&rig.cache);
	OK(fc_fill(&rig.cache, &old, &page) == FC_SKIP &&
	       count_of(&rig, FC_COUNT_insert_skip_not_current) == 2,
	   "nor one of before the cache was cleared");
	OK(fc_file_used_slots(&rig.cache) == 0, "the cache is empty");
	rig_close(&rig);
}

/* ---- modes --------------------------------------------------------------- */

static void
test_modes(void)
{
	Rig rig;
	FcReason reason;
	FcConfig config = { .slot_count = 64,
		                .process_count = 4,
		                .replacement = &fc_replacement_lfu };

	memory_device_open(&rig.flash, 64);
	rig.memory_size = fc_cache_memory_needed(&config);
	rig.memory = shared_memory(rig.memory_size);
	MUST(fc_cache_create(&rig.cache, rig.memory, &config, &rig.flash.device) ==
	     FC_OK);
	OK(fc_mode(&rig.cache, &reason) == FC_PASSTHROUGH &&
	       reason == FC_REASON_STARTING,
	   "a new cache serves nothing until it is told to");

	FcFile file = entered(&rig, 7);

	OK(look(&rig, &file, 3) == FC_OFF, "so a read is told that it is off");
	OK(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_NONE) == FC_OK &&
	       fc_mode(&rig.cache, &reason) == FC_SERVE && reason == FC_REASON_NONE,
	   "told to, it serves");

	MUST(put(&rig, &file, 3) == FC_OK && put(&rig, &file, 4) == FC_OK);
	MUST(look(&rig, &file, 5) == FC_MISS);

	FcTicket old = ticket;

	MUST(fc_mode_set(&rig.cache, FC_PASSTHROUGH, FC_REASON_USER) == FC_OK);
	OK(look(&rig, &file, 3) == FC_OFF &&
	       !fc_read_would_hit(&rig.cache, &file, 3),
	   "passthrough serves nothing");
	OK(fc_fill(&rig.cache, &old, &page) == FC_SKIP, "fills nothing");
	fc_change_begin(&rig.cache, &file, 4, 1, &change);
	fc_change_end(&rig.cache, &file, &change);
	OK(fc_change_fill(&rig.cache, &change, &page) == FC_SKIP,
	   "refreshes nothing");
	MUST(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	OK(serves(&rig, &file, 3, 1), "stays warm");
	OK(look(&rig, &file, 4) == FC_MISS, "and goes on invalidating");
	OK(fc_fill(&rig.cache, &old, &page) == FC_SKIP,
	   "a ticket of before it fills nothing after it");

	MUST(fc_mode_set(&rig.cache, FC_OFFLINE, FC_REASON_READ_ERRORS) == FC_OK);
	OK(fc_mode(&rig.cache, &reason) == FC_OFFLINE &&
	       reason == FC_REASON_READ_ERRORS,
	   "offline says why");
	OK(fc_mode_set(&rig.cache, FC_SERVE, FC_REASON_USER) == FC_INVALID &&
	       fc_mode_set(&rig.cache, FC_PASSTHROUGH, FC_REASON_USER) ==
	           FC_INVALID,
	   "there is no way back");
	OK(fc_mode_set(&rig.cache, FC_OFFLINE, FC_REASON_USER) == FC_OK &&
	       fc_mode(&rig.cache, &reason) == FC_OFFLINE &&
	       reason == FC_REASON_READ_ERRORS,
	   "the first reason stays");
	OK(look(&rig, &file, 3) == FC_OFF, "nothing is served");

	FcFileId id;

	uint32_t block;

	OK(fc_read_slot(&rig.cache, 0, &back, &id, &ticket) == FC_OFF &&
	       !fc_read_slot_block(&rig.cache, 0, &id, &block),
	   "nor verified, nor told");
	rig_close(&rig);
}

static void
test_configs(void)
{
	static const FcConfig bad[] = {
		{ .slot_count = 0,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 63,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 65,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 64,
		  .process_count = 0,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 64,
		  .process_count = 65536,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 64, .process_count = 1 },
		{ .slot_count = 64,
		  .file_count = 12,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 64,
		  .file_count = 1,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 64,
		  .ring_pages = 12,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
		{ .slot_count = 64,
		  .ring_pages = 2048,
		  .process_count = 1,
		  .replacement = &fc_replacement_lfu },
	};
	static char memory[64] __attribute__((aligned(64)));
	FcCache cache;
	bool refused = true;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused &= fc_cache_memory_needed(&bad[i]) == 0 &&
		           fc_cache_create(&cache, memory, &bad[i], NULL) == FC_INVALID;
	OK(refused, "a config that cannot work is refused");
	OK(fc_cache_attach(&cache, memory, &fc_replacement_lfu, NULL) == FC_INVALID,
	   "memory that holds no cache is refused");
}

/* A hint may come with whatever a handle held long ago. */
static void
test_prefetches(void)
{
	static const uint32_t firsts[] = { 0, 3, 0x40000000, FC_BLOCKS_ALL - 1,
		                               FC_BLOCKS_ALL };
	Rig rig;

	rig_open(&rig, 256, 64);

	FcFile unknown = fc_file(file_id(7));
	FcFile file = entered(&rig, 8);
	FcFile stale = file;
	size_t size = fc_cache_memory_size(&rig.cache);
	void *before = malloc(size);

	MUST(before != NULL && look(&rig, &file, 3) == FC_MISS);
	MUST(put(&rig, &file, 3) == FC_OK);
	fc_file_retire(&rig.cache, file_id(8));
	file = entered(&rig, 8);
	MUST(look(&rig, &file, 3) == FC_MISS && put(&rig, &file, 3) == FC_OK);
	memcpy(before, rig.cache.shared, size);
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
	{
		fc_read_prefetch(&rig.cache, &unknown, firsts[i], 1);
		fc_read_prefetch(&rig.cache, &stale, firsts[i], FC_RUN_BLOCKS_MAX);
		fc_read_prefetch(&rig.cache, &file, firsts[i], FC_RUN_BLOCKS_MAX);
	}
	OK(memcmp(before, rig.cache.shared, size) == 0,
	   "a prefetch changes nothing, of whatever file and blocks");
	free(before);
	rig_close(&rig);
}

int
main(void)
{
	test_read_and_fill();
	test_prefetches();
	test_hits_can_be_verified();
	test_slots_can_be_read();
	test_fills_refused();
	test_eviction();
	test_write_and_refresh();
	test_ranges();
	test_old_tickets();
	test_modes();
	test_configs();
	return tap_done();
}
