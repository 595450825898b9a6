/*
 * writer_interleaving_test.c
 *		The moments of a block on its way to flash: staged, being written,
 *		written.
 *
 * As fill_interleaving_test.c, but with a writer in addition to the two
 * processes, and a device that does nothing until it is allowed to, and then,
 * if told so, starts with the last transfer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "scene.h"

static FcCache writing_process;
static FcWriter *writer;

static bool
map_says(FcState state)
{
	FcSeen seen;

	return fc_index_find(scene.a->shared, fc_key(scene.file.number, 3),
	                     &seen) &&
	       fc_meta_state(seen.meta) == state;
}

/* ---- the writer ---------------------------------------------------------- */

/* A process of its own, and a device that waits. */
static void
start_writer(void)
{
	scene.rig.slow.holds = true;
	MUST(fc_cache_attach(&writing_process, scene.rig.memory, &told_policy,
	                     &scene.rig.slow.device) == FC_OK);
	MUST(fc_process_begin(&writing_process) == FC_OK);
	MUST(fc_writer_begin(&writing_process, &writer) == FC_OK);
}

static void
begin_to_write(void)
{
	fc_writer_run(writer, 0);
	MUST(scene.rig.slow.deferred_count > 0);
}

static void
let_device_write(void)
{
	scene.rig.slow.holds = false;
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
}

static void
stop_writer(void)
{
	scene.rig.slow.holds = false;
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	rig_detach(&writing_process);
}

/* ---- readers of staged blocks -------------------------------------------- */

/*
 * Read block 3 of a, which is staged, with something happening at a point;
 * wrong?
 */
static bool
staged_hit_while(const char *point, void (*act)(void))
{
	stage_block(scene.a, &scene.file, 3);
	stop_at(point, act);
	return read_block(scene.a, &scene.file, 3);
}

static bool
write_before_a_staged_read(void)
{
	stage_block(scene.a, &scene.file, 3);
	write_block_3();
	return read_block(scene.a, &scene.file, 3);
}

static bool
write_after_the_page_is_copied(void)
{
	stage_block(scene.a, &scene.file, 3);
	MUST(map_says(FC_STAGED));
	stop_at("page-copied", write_block_3);
	return read_block(scene.a, &scene.file, 3);
}

static bool
truncation_after_the_page_is_copied(void)
{
	return staged_hit_while("page-copied", truncate_half_way);
}

static void
go_offline_and_write(void)
{
	MUST(fc_mode_set(&scene.b, FC_OFFLINE, FC_REASON_USER) == FC_OK);
	real_write(7, 3);
}

static bool
offline_after_the_page_is_copied(void)
{
	return staged_hit_while("page-copied", go_offline_and_write);
}

/* Fill other blocks until the page of block 3 holds one of them. */
static void
use_page_again(void)
{
	write_block_3();
	for (uint32_t block = 100; block < 132; block++)
		(void) read_block(&scene.b, &scene.same, block);
}

static bool
page_is_used_again_under_a_reader(void)
{
	return staged_hit_while("page-seen", use_page_again);
}

/*
 * The change has emptied the entry and is about to give the page back.  The
 * writer gives it back first, block 4 takes the page, the change continues, and
 * block 5 finds a free page.
 */
static void
give_page_to_block_4(void)
{
	MUST(flush(scene.a));
	(void) read_block(scene.a, &scene.file, 4);
}

static void
give_page_back_twice(void)
{
	stage_block(scene.a, &scene.file, 3);
	stop_at("entry-forgotten", give_page_to_block_4);
	write_block_3();
	(void) read_block(scene.a, &scene.file, 5);
}

static bool
page_given_back_twice(void)
{
	bool wrong;

	give_page_back_twice();
	wrong = holds_wrong(scene.a, &scene.file, 4);
	MUST(flush(scene.a));
	return wrong || holds_wrong(scene.a, &scene.file, 4) ||
	       holds_wrong(scene.a, &scene.file, 5);
}

static void
write_it_to_flash(void)
{
	MUST(flush(&scene.b));
}

/* The same costs block 4 nothing. */
static bool
page_given_back_twice_is_given_back_once(void)
{
	give_page_back_twice();
	MUST(flush(scene.a));
	return is_hit(scene.a, &scene.file, 4) && is_hit(scene.a, &scene.file, 5);
}

/*
 * Block 3 changes before its filler has handed the page over: block 4 takes it.
 */
static void
change_and_give_page_to_block_4(void)
{
	write_block_3();
	(void) read_block(&scene.b, &scene.same, 4);
	MUST(is_hit(&scene.b, &scene.same, 4));
}

static bool
page_of_others_is_not_handed_over(void)
{
	fill_while("published", change_and_give_page_to_block_4);
	return is_hit(scene.a, &scene.file, 4) && flush(scene.a) &&
	       is_hit(scene.a, &scene.file, 4) &&
	       !holds_wrong(scene.a, &scene.file, 3);
}

/*
 * A filler is killed when its block can be found: the writer writes it to
 * flash.
 */
static bool
published_by_the_dead_gets_to_flash(void)
{
	kill_child(start_child("published", fill_block_3));
	return flush(scene.a) && map_says(FC_VALID) &&
	       is_hit(scene.a, &scene.file, 3) &&
	       !holds_wrong(scene.a, &scene.file, 3);
}

/* A block that is written to flash while it is being read is still a hit. */
static bool
page_that_goes_to_flash_is_a_hit(void)
{
	static const char *const points[] = { "entry-staged", "page-seen",
		                                  "page-copied" };

	for (int i = 0; i < 3; i++)
	{
		fc_cache_clear(scene.a);
		stage_block(scene.a, &scene.file, 3);
		stop_at(points[i], write_it_to_flash);
		if (!is_hit(scene.a, &scene.file, 3) || !map_says(FC_VALID))
			return false;
	}
	return true;
}

/* ---- changes of blocks being written ------------------------------------- */

static bool
write_while_the_device_writes(void)
{
	bool wrong;

	start_writer();
	stage_block(scene.a, &scene.file, 3);
	begin_to_write();
	MUST(map_says(FC_WRITING) && is_hit(scene.a, &scene.file, 3));
	write_block_3();
	wrong = holds_wrong(scene.a, &scene.file, 3);
	let_device_write();
	wrong |= holds_wrong(scene.a, &scene.file, 3);
	stop_writer();
	return wrong;
}

/* At each step that the writer takes with the page. */
static bool
write_at_each_step_of_the_writer(void)
{
	static const char *const points[] = { "page-picked",  "entry-writing",
		                                  "page-writing", "submitted",
		                                  "written",      "entry-settled" };

	for (int i = 0; i < 6; i++)
	{
		fc_cache_clear(scene.a);
		(void) read_block(scene.a, &scene.file, 3);
		stop_at(points[i], write_block_3);
		MUST(flush(scene.a));
		MUST(stop_act == NULL);
		if (read_block(scene.a, &scene.file, 3))
			return true;
		MUST(flush(scene.a));
		if (!is_hit(scene.a, &scene.file, 3) ||
		    holds_wrong(scene.a, &scene.file, 3))
			return true;
	}
	return false;
}

/*
 * The old copy arrives last, in a slot where another block was put meanwhile.
 */
static bool
slot_given_away_under_the_device(void)
{
	bool wrong = false;

	start_writer();
	stage_block(scene.a, &scene.file, 3);
	begin_to_write();
	write_block_3();
	told_way = 0;
	for (uint32_t block = 100; block < 100 + SLOTS; block++)
	{
		(void) read_block(&scene.b, &scene.same, block);
		if (block % 8 == 0)
			fc_writer_run(writer, 0);
		if (block == 104)
			break;
	}
	scene.rig.slow.last_first = true;
	let_device_write();
	for (uint32_t block = 100; block < 105; block++)
		wrong |= holds_wrong(&scene.b, &scene.same, block);
	stop_writer();
	return wrong;
}

/* The page is filled with another block while the device has yet to read it. */
static bool
page_given_away_under_the_device(void)
{
	bool wrong;

	start_writer();
	stage_block(scene.a, &scene.file, 3);
	begin_to_write();
	for (uint32_t block = 100; block < 132; block++)
		(void) read_block(&scene.b, &scene.same, block);
	let_device_write();
	wrong = holds_wrong(&scene.b, &scene.same, 3);
	stop_writer();
	return wrong;
}

static bool
number_used_again_under_the_device(void)
{
	FcFile next;
	bool wrong;

	start_writer();
	stage_block(scene.a, &scene.file, 3);
	begin_to_write();
	retire_half_way(scene.file.id);
	next = enter_next();
	let_device_write();
	wrong = read_block(&scene.b, &next, 3);
	stop_writer();
	return wrong;
}

/*
 * A second writer begins while the first one's write of block 3 is under way,
 * and block 3 has changed.  The first one's write arrives last.
 */
static bool
second_writer_under_the_first(void)
{
	bool wrong = false;

	start_writer();
	stage_block(scene.a, &scene.file, 3);
	begin_to_write();
	write_block_3();
	if (flush(&scene.b))
	{
		/* 100 in the slot of block 3, 101 in its page. */
		(void) read_block(&scene.b, &scene.same, 100);
		MUST(flush(&scene.b));
		(void) read_block(&scene.b, &scene.same, 101);
	}
	let_device_write();
	wrong = holds_wrong(&scene.b, &scene.same, 100);
	atomic_store(&scene.a->shared->ring_writer, writing_process.token);
	stop_writer();
	return wrong;
}

/* ---- the list ------------------------------------------------------------ */

#define B(name) FC_BREAK(name)

static const Scenario scenarios[] = {
	{ "a write before a staged block is read",
	  write_before_a_staged_read,
	  B(INVALIDATE),
	  { 0 } },
	{ "a write after a staged page was copied",
	  write_after_the_page_is_copied,
	  B(ENTRY_COMPARE),
	  { B(CRC), B(RING_SEQUENCE) } },
	{ "a truncation after a staged page was copied",
	  truncation_after_the_page_is_copied,
	  B(REPLAY_FILE),
	  { 0 } },
	{ "the mode goes offline after a staged page was copied",
	  offline_after_the_page_is_copied,
	  B(MODE_CHECK),
	  { 0 } },
	{ "a page is used again while it is copied",
	  page_is_used_again_under_a_reader,
	  B(RING_SEQUENCE) | B(CRC) | B(ENTRY_COMPARE),
	  { B(RING_SEQUENCE), B(CRC), B(ENTRY_COMPARE) } },
	{ "a page is given back twice",
	  page_given_back_twice,
	  B(RING_SEQUENCE) | B(CRC),
	  { B(RING_SEQUENCE), B(CRC) } },
	{ "a write while the device writes the block",
	  write_while_the_device_writes,
	  B(WRITING_DOOM),
	  { B(CRC) } },
	{ "a write at each step of the writer",
	  write_at_each_step_of_the_writer,
	  B(WRITING_DOOM),
	  { B(CRC) } },
	{ "a slot is wanted while the device writes it",
	  slot_given_away_under_the_device,
	  B(PIN) | B(CRC),
	  { B(PIN), B(CRC) } },
	{ "pages are wanted while the device reads one",
	  page_given_away_under_the_device,
	  B(PAGE_PIN) | B(CRC),
	  { B(PAGE_PIN), B(CRC) } },
	{ "a second writer comes while the first one's write is under way",
	  second_writer_under_the_first,
	  B(WRITER_GONE) | B(CRC),
	  { B(WRITER_GONE), B(CRC) } },
};

/* With so few numbers that files displace each other. */
static const Scenario displacing[] = {
	{ "a number is used again while the device writes a block of it",
	  number_used_again_under_the_device,
	  B(FORGET),
	  { B(FILE_GENERATION) } },
};

#undef B

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	PLAY_ALL(scenarios, 64);
	PLAY_ALL(displacing, 2);

	play_alone(
		"a page that is given back twice is not taken from its new owner",
		page_given_back_twice_is_given_back_once);
	play_alone("a page that was given back is handed over by its new owner",
	           page_of_others_is_not_handed_over);
	play_alone("what a filler published before it was killed gets to flash",
	           published_by_the_dead_gets_to_flash);
	play_alone("a block that goes on to flash under its reader is a hit",
	           page_that_goes_to_flash_is_a_hit);
	return tap_done();
}
