/*
 * fill_interleaving_test.c
 *		The moments at which a wrong block could be served, one by one.
 *
 * Each scenario stops one process at a point of the protocol, lets another one
 * do its worst there, continues, and reports whether a wrong block was served
 * (or, for scenarios about dead owners, whether something is stuck for ever).
 *
 * Each is run three ways: with the library intact (nothing may go wrong); with
 * the mechanism left out that guards this moment (something must go wrong: the
 * control); and where several mechanisms back each other up, with each of them
 * left out alone (nothing may go wrong, and the control leaves out all of
 * them).
 *
 * "Another process" is a second handle with a token of its own; where death
 * matters, it is a child.  There is one set of 64 slots, so that everything
 * collides.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "scene.h"

/* ---- modes --------------------------------------------------------------- */

static void
go_offline_and_write(void)
{
	FcChange change;

	MUST(fc_mode_set(&scene.b, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	fc_change_begin(&scene.b, &scene.same, 3, 1, &change);
	real_write(7, 3);
	fc_change_end(&scene.b, &scene.same, &change);
}

static bool
offline_before_the_slot_is_read(void)
{
	return hit_while("entry-found", go_offline_and_write);
}

static bool
offline_after_the_slot_is_read(void)
{
	return hit_while("slot-read", go_offline_and_write);
}

/* No process serves from an offline map, but it must not hold wrong blocks. */
static bool
map_holds_block_3(void)
{
	FcSeen seen;

	return fc_index_find(scene.a->shared, fc_key(scene.file.number, 3), &seen);
}

static bool
offline_before_a_fill(void)
{
	take_ticket(scene.a, &scene.file, 3);
	go_offline_and_write();
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	return map_holds_block_3();
}

static bool
offline_during_a_fill(void)
{
	take_ticket(scene.a, &scene.file, 3);
	stop_at("block-copied", go_offline_and_write);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	return map_holds_block_3();
}

static bool
offline_during_a_write(void)
{
	cache_block(scene.a, &scene.file, 3);
	fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
	real_write(7, 3);
	real_read(7, 3, &scene.page);
	fc_change_end(scene.a, &scene.file, &scene.change);
	go_offline_and_write();
	(void) fc_change_fill(scene.a, &scene.change, &scene.page);
	return map_holds_block_3();
}

/* ---- changes against fills ----------------------------------------------- */

static void
replace_all(void)
{
	replace_from(&scene.b, &scene.same, 0);
}

/* Fill block 3 of a, with something happening at a point; wrong afterwards? */
static bool
fill_with(const char *point, void (*act)(void))
{
	fill_while(point, act);
	return read_block(scene.a, &scene.file, 3);
}

static bool
write_before_the_fill(void)
{
	take_ticket(scene.a, &scene.file, 3);
	write_block_3();
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	return read_block(scene.a, &scene.file, 3);
}

static bool
write_between_claim_and_key(void)
{
	return fill_with("claimed-old-key", write_block_3);
}

static bool
write_between_key_and_slot(void)
{
	return fill_with("claimed", write_block_3);
}

static bool
write_between_slot_and_compare(void)
{
	return fill_with("block-copied", write_block_3);
}

static bool
write_between_compare_and_publish(void)
{
	return fill_with("generations-compared", write_block_3);
}

static void
go_on_filling(void)
{
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
}

/* The changer has advanced the generation and not looked yet; then it looks. */
static bool
fill_inside_an_invalidation(void)
{
	take_ticket(scene.a, &scene.file, 3);
	stop_at("set-generation-moved", go_on_filling);
	write_block(&scene.b, &scene.same, 3);
	return read_block(scene.a, &scene.file, 3);
}

/* Looked up and read after the first invalidation, and before the write. */
static bool
fill_between_two_invalidations(void)
{
	fc_change_begin(&scene.b, &scene.same, 3, 1, &scene.change);
	take_ticket(scene.a, &scene.file, 3);
	real_write(7, 3);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	fc_change_end(&scene.b, &scene.same, &scene.change);
	return read_block(scene.a, &scene.file, 3);
}

static bool
truncation_before_the_fill(void)
{
	take_ticket(scene.a, &scene.file, 3);
	replace_all();
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	return read_block(scene.a, &scene.file, 3);
}

static bool
truncation_between_claim_and_key(void)
{
	return fill_with("claimed-old-key", replace_all);
}

static bool
truncation_between_compare_and_publish(void)
{
	return fill_with("generations-compared", replace_all);
}

static bool
truncation_after_the_fill(void)
{
	cache_block(scene.a, &scene.file, 3);
	replace_all();
	return read_block(scene.a, &scene.file, 3);
}

static void
fill_block_3_too(void)
{
	cache_block(&scene.b, &scene.same, 3);
}

/* Both copies are right, until the block changes: then both must go. */
static bool
two_fillers_of_one_block(void)
{
	take_ticket(scene.a, &scene.file, 3);
	stop_at("claimed-old-key", fill_block_3_too);
	MUST(fc_fill(scene.a, &scene.ticket, &scene.page) == FC_OK);
	write_block_3();
	return read_block(scene.a, &scene.file, 3);
}

/* ---- changes against hits ------------------------------------------------ */

static bool
write_then_read(void)
{
	cache_block(scene.a, &scene.file, 3);
	write_block_3();
	return read_block(scene.a, &scene.file, 3);
}

static bool
write_between_slot_read_and_compare(void)
{
	return hit_while("slot-read", write_block_3);
}

static bool
truncation_under_a_reader(void)
{
	return hit_while("slot-read", truncate_half_way);
}

static void
evict_block_3(void)
{
	fill_the_set(&scene.b, &scene.same);
}

/* The slot that was found holds another block when it is read. */
static bool
refill_under_a_reader(void)
{
	return hit_while("entry-found", evict_block_3);
}

/*
 * Change the last words of a page so that its CRC32C, preceded by its key,
 * becomes the wanted one.  The CRC is linear: find the effect of each of 32
 * bits, and solve.
 */
static void
forge(Page *page, uint64_t key, uint32_t wanted)
{
	uint32_t *tail = (uint32_t *) (void *) &page->word[FC_BLOCK_SIZE / 8 - 1];
	uint32_t seed = fc_crc32c(0, &key, sizeof(key));
	uint32_t now = fc_crc32c(seed, page, sizeof(*page));
	uint32_t missing = now ^ wanted;
	uint32_t effect[32];
	uint32_t bits[32];
	uint32_t chosen = 0;

	for (int i = 0; i < 32; i++)
	{
		*tail ^= 1U << i;
		effect[i] = fc_crc32c(seed, page, sizeof(*page)) ^ now;
		bits[i] = 1U << i;
		*tail ^= 1U << i;
	}
	for (int row = 31, used = 0; row >= 0; row--)
	{
		int pivot = used;

		while (pivot < 32 && (effect[pivot] & (1U << row)) == 0)
			pivot++;
		MUST(pivot < 32);

		uint32_t effect_of = effect[pivot];
		uint32_t bits_of = bits[pivot];

		effect[pivot] = effect[used];
		bits[pivot] = bits[used];
		effect[used] = effect_of;
		bits[used] = bits_of;
		for (int i = used + 1; i < 32; i++)
		{
			if (effect[i] & (1U << row))
			{
				effect[i] ^= effect_of;
				bits[i] ^= bits_of;
			}
		}
		if (missing & (1U << row))
		{
			missing ^= effect_of;
			chosen ^= bits_of;
		}
		used++;
	}
	*tail ^= chosen;
	MUST(fc_crc32c(seed, page, sizeof(*page)) == wanted);
}

static uint32_t
checksum_for(uint32_t block, const Page *page)
{
	uint64_t key = fc_key(scene.file.number, block);

	return fc_crc32c(fc_crc32c(0, &key, sizeof(key)), page, sizeof(*page));
}

/* Put into block 3's slot a block 4 that would pass for block 3. */
static void
refill_with_same_checksum(void)
{
	FcTicket ticket;
	FcSeen seen;

	MUST(fc_index_find(scene.b.shared, fc_key(scene.file.number, 3), &seen));
	real_read(7, 3, &scene.other);

	uint32_t wanted = checksum_for(3, &scene.other);

	for (uint32_t block = 100; fc_file_used_slots(&scene.b) < SLOTS; block++)
		cache_block(&scene.b, &scene.same, block);
	told_way = seen.slot % FC_WAYS;
	MUST(fc_read(&scene.b, &scene.same, 4, &scene.other, &ticket) == FC_MISS);
	real_read(7, 4, &scene.other);
	forge(&scene.other, fc_key(scene.file.number, 3), wanted);
	MUST(fc_fill(&scene.b, &ticket, &scene.other) == FC_OK);
	MUST(flush(&scene.b));
	MUST(!map_holds_block_3());
}

static bool
refill_with_the_same_checksum_under_a_reader(void)
{
	return hit_while("entry-found", refill_with_same_checksum);
}

/* Two files' blocks of the same number meet in the one set there is. */
static bool
same_block_of_another_file(void)
{
	FcFile other = fc_file(file_id(8));

	cache_block(scene.a, &scene.file, 3);
	MUST(fc_file_enter(scene.a, &other) == FC_OK);
	return read_block(scene.a, &other, 3);
}

/* ---- loading beside a change --------------------------------------------- */

/* What verification would find before the change has ended. */
static bool
load_during(uint32_t first, uint32_t count)
{
	bool wrong;

	fc_change_begin(scene.a, &scene.file, first, count, &scene.change);
	MUST(fc_file_enter(&scene.b, &scene.same) == FC_OK);
	take_ticket(&scene.b, &scene.same, 3);
	(void) fc_fill_load(&scene.b, &scene.ticket, &scene.page, FC_HEAT_SPARE);
	real_write(7, 3);
	wrong = holds_wrong(&scene.b, &scene.same, 3);
	fc_change_end(scene.a, &scene.file, &scene.change);
	return wrong || holds_wrong(&scene.b, &scene.same, 3);
}

static bool
load_during_a_write(void)
{
	return load_during(3, 1);
}

static bool
load_during_a_truncation(void)
{
	return load_during(0, FC_BLOCKS_ALL);
}

/* ---- refreshing after a write -------------------------------------------- */

static bool
foreign_change_during_a_write(void)
{
	cache_block(scene.a, &scene.file, 3);
	fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
	real_write(7, 3);
	real_read(7, 3, &scene.page);
	write_block_3();
	fc_change_end(scene.a, &scene.file, &scene.change);
	(void) fc_change_fill(scene.a, &scene.change, &scene.page);
	return read_block(scene.a, &scene.file, 3);
}

static bool
foreign_change_before_a_refresh(void)
{
	cache_block(scene.a, &scene.file, 3);
	fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
	real_write(7, 3);
	real_read(7, 3, &scene.page);
	fc_change_end(scene.a, &scene.file, &scene.change);
	write_block_3();
	(void) fc_change_fill(scene.a, &scene.change, &scene.page);
	return read_block(scene.a, &scene.file, 3);
}

/* ---- the list ------------------------------------------------------------ */

#define B(name) FC_BREAK(name)

static const Scenario scenarios[] = {
	{ "the mode goes offline before a hit's slot is read",
	  offline_before_the_slot_is_read,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline after a hit's slot was read",
	  offline_after_the_slot_is_read,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline before a fill",
	  offline_before_a_fill,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline during a fill",
	  offline_during_a_fill,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline between a write and its refresh",
	  offline_during_a_write,
	  B(MODE_CHECK),
	  { 0 } },
	{ "a write before the fill",
	  write_before_the_fill,
	  B(SET_GENERATION),
	  { 0 } },
	{ "a write between claim and key",
	  write_between_claim_and_key,
	  B(SET_GENERATION),
	  { B(DOOM) } },
	{ "a write between key and slot",
	  write_between_key_and_slot,
	  B(SET_GENERATION) | B(DOOM),
	  { B(SET_GENERATION), B(DOOM) } },
	{ "a write between slot and compare",
	  write_between_slot_and_compare,
	  B(SET_GENERATION) | B(DOOM),
	  { B(SET_GENERATION), B(DOOM) } },
	{ "a write between compare and publish",
	  write_between_compare_and_publish,
	  B(DOOM),
	  { B(SET_GENERATION) } },
	{ "a fill inside an invalidation",
	  fill_inside_an_invalidation,
	  B(SET_GENERATION) | B(INVALIDATE),
	  { B(SET_GENERATION), B(INVALIDATE) } },
	{ "a fill between the two invalidations of a write",
	  fill_between_two_invalidations,
	  B(SECOND_INVALIDATE),
	  { 0 } },
	{ "a truncation before the fill",
	  truncation_before_the_fill,
	  B(FILE_GENERATION),
	  { B(SET_GENERATION) } },
	{ "a truncation between claim and key",
	  truncation_between_claim_and_key,
	  B(FILE_GENERATION) | B(SET_GENERATION),
	  { B(FILE_GENERATION), B(SET_GENERATION), B(CHUNKS) } },
	{ "a truncation between compare and publish",
	  truncation_between_compare_and_publish,
	  B(DOOM),
	  { B(FILE_GENERATION) } },
	{ "a truncation between compare and publish, looked for by chunk",
	  truncation_between_compare_and_publish,
	  B(CHUNKS),
	  { 0 } },
	{ "a truncation after the fill",
	  truncation_after_the_fill,
	  B(CHUNKS),
	  { 0 } },
	{ "two processes fill one block, then it changes",
	  two_fillers_of_one_block,
	  B(EVERY_WAY) | B(SECOND_INVALIDATE),
	  { B(EVERY_WAY), B(SECOND_INVALIDATE) } },
	{ "a write before a read", write_then_read, B(INVALIDATE), { 0 } },
	{ "a write between slot read and compare",
	  write_between_slot_read_and_compare,
	  B(ENTRY_COMPARE),
	  { 0 } },
	{ "a truncation between slot read and compare",
	  truncation_under_a_reader,
	  B(REPLAY_FILE),
	  { 0 } },
	{ "the slot is filled with another block under a reader",
	  refill_under_a_reader,
	  B(ENTRY_COMPARE) | B(CRC),
	  { B(ENTRY_COMPARE), B(CRC) } },
	{ "... with another block of the same checksum",
	  refill_with_the_same_checksum_under_a_reader,
	  B(ENTRY_COMPARE),
	  { B(CRC) } },
	{ "the same block of another file",
	  same_block_of_another_file,
	  B(FULL_KEY) | B(CRC),
	  { B(FULL_KEY), B(CRC) } },
	{ "a load of a block that is being written",
	  load_during_a_write,
	  B(IN_FLIGHT),
	  { 0 } },
	{ "a load of a block that is being cut off",
	  load_during_a_truncation,
	  B(IN_FLIGHT),
	  { 0 } },
	{ "a foreign change during a write, which then refreshes",
	  foreign_change_during_a_write,
	  B(REFRESH),
	  { 0 } },
	{ "a foreign change between a write and its refresh",
	  foreign_change_before_a_refresh,
	  B(SET_GENERATION),
	  { B(REFRESH) } },
};

#undef B

/* ---- races that cost a miss at most -------------------------------------- */

static void
fill_another_block(void)
{
	Page page;
	FcTicket ticket;
	static uint32_t block = 200;

	if (fc_read(&scene.b, &scene.same, ++block, &page, &ticket) == FC_MISS)
	{
		real_read(7, block, &page);
		MUST(fc_fill(&scene.b, &ticket, &page) == FC_OK);
	}
	stop_at("way-chosen", fill_another_block);
}

/* Others are always faster: the filler gives up after a few tries. */
static void
test_claim_always_lost(void)
{
	scene_open(64);
	take_ticket(scene.a, &scene.file, 3);
	stop_at("way-chosen", fill_another_block);
	OK(fc_fill(scene.a, &scene.ticket, &scene.page) == FC_SKIP &&
	       fc_count_sum(scene.a, FC_COUNT_insert_skip_writer_overloaded) == 1,
	   "a claim that is always lost is given up, and counted");
	stop_act = NULL;
	scene_close();
}

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	PLAY_ALL(scenarios, 64);
	test_claim_always_lost();
	return tap_done();
}
