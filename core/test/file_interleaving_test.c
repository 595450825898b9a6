/*
 * file_interleaving_test.c
 *		The moments at which a file's number could mean another file: old
 *		handles, reused numbers, and files that were not entered yet.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "scene.h"

/* Another file has this number now. */
static void
take_number(uint32_t number)
{
	FcFile other = fc_file(file_id(0));

	for (uint32_t relation = 100; other.number != number; relation++)
	{
		other = fc_file(file_id(relation));
		MUST(fc_file_enter(&scene.b, &other) == FC_OK);
		MUST(relation < 160);
	}
}

/* ---- handles ------------------------------------------------------------- */

/* The checkpointer's fd outlives a truncation and a retirement. */
static bool
stale_number_in_a_writer(void)
{
	FcFile old = scene.file;
	FcFile new;

	cache_block(scene.a, &scene.file, 3);
	replace_from(&scene.b, &scene.same, 0);
	recreate(&scene.b, scene.same.id);
	take_number(old.number);
	new = fc_file(scene.same.id);
	cache_block(&scene.b, &new, 3);
	write_block(scene.a, &old, 3);
	return read_block(&scene.b, &new, 3);
}

static bool
stale_number_in_a_reader(void)
{
	FcFile old = scene.file;

	cache_block(scene.a, &scene.file, 3);
	retire_half_way(scene.file.id);
	real_write(7, 3);
	return read_block(scene.a, &old, 3);
}

/* ---- reused numbers ------------------------------------------------------ */

static void
displace(void)
{
	(void) enter_next();
}

static void
displace_and_fill(void)
{
	FcFile next = fc_file(file_id(8));

	displace();
	cache_block(&scene.b, &next, 4);
}

static void
retire_and_displace(void)
{
	retire_half_way(scene.file.id);
	displace();
}

/* What relation 8 finds under the only number there is. */
static bool
next_finds(uint32_t block)
{
	FcFile next = fc_file(file_id(8));

	MUST(fc_file_enter(&scene.b, &next) == FC_OK);
	return read_block(&scene.b, &next, block);
}

static bool
number_reused_during_a_fill(const char *point, void (*reuse)(void))
{
	fill_while(point, reuse);
	return next_finds(3);
}

static bool
number_reused_with_a_fill_pending(void)
{
	return number_reused_during_a_fill("block-copied", retire_and_displace);
}

static bool
displaced_between_claim_and_key(void)
{
	return number_reused_during_a_fill("claimed-old-key", displace);
}

static bool
displaced_between_slot_and_compare(void)
{
	return number_reused_during_a_fill("block-copied", displace);
}

static bool
displaced_between_compare_and_publish(void)
{
	return number_reused_during_a_fill("generations-compared", displace);
}

static bool
displaced_with_a_block(void)
{
	cache_block(scene.a, &scene.file, 3);
	displace();
	return next_finds(3);
}

/* The displaced file must be looked up again, and may in turn be displaced. */
static bool
displaced_and_back(void)
{
	cache_block(scene.a, &scene.file, 3);
	displace_and_fill();
	write_block(scene.a, &scene.file, 3);
	return read_block(scene.a, &scene.file, 3) || next_finds(4) ||
	       read_block(scene.a, &scene.file, 3);
}

/*
 * The writer has resolved the file; then it loses its number and gets another.
 */
static bool
displaced_under_a_writer(void)
{
	FcFile again = fc_file(scene.file.id);

	cache_block(scene.a, &scene.file, 3);
	fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
	displace_and_fill();
	MUST(fc_file_enter(&scene.b, &again) == FC_OK);
	cache_block(&scene.b, &again, 3);
	real_write(7, 3);
	fc_change_end(scene.a, &scene.file, &scene.change);
	return read_block(&scene.b, &again, 3);
}

static void
displace_and_write(void)
{
	displace();
	write_block(&scene.b, &scene.same, 3);
}

static bool
displaced_under_a_reader(void)
{
	return hit_while("slot-read", displace_and_write);
}

static void
fill_block_4(void)
{
	cache_block(&scene.b, &scene.same, 4);
}

/*
 * A block is filled just when its file is about to be displaced for having
 * none.
 */
static bool
filled_while_displaced(void)
{
	stop_at("number-retiring", fill_block_4);
	MUST(next_finds(3) == false);
	return next_finds(4);
}

/*
 * Relation 7's fill is abandoned when relation 8 has its number already: that
 * counts one block less of relation 7, not of relation 8.
 */
static bool
counted_for_the_next_file(void)
{
	FcFile third = fc_file(file_id(9));

	take_ticket(scene.a, &scene.file, 3);
	stop_at("claimed", displace_and_fill);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	MUST(fc_file_enter(&scene.b, &third) == FC_OK);
	MUST(third.number == scene.file.number);
	return read_block(&scene.b, &third, 4);
}

static bool
number_reused_before_the_fill(void)
{
	FcFile next;

	take_ticket(scene.a, &scene.file, 3);
	fc_file_retire(&scene.b, scene.file.id);
	next = enter_next();
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	return read_block(&scene.b, &next, 3);
}

static bool
retired_half_way_then_reused(void)
{
	FcFile next;

	cache_block(scene.a, &scene.file, 3);
	retire_half_way(scene.file.id);
	next = enter_next();
	return read_block(&scene.b, &next, 3);
}

/* A reader opens the file by its name between the two halves of a drop. */
static bool
entered_between_two_retirements(void)
{
	FcFile between = fc_file(scene.file.id);

	fc_file_retire(&scene.b, between.id);
	MUST(fc_file_enter(scene.a, &between) == FC_OK);
	cache_block(scene.a, &between, 3);
	for (uint32_t block = 0; block < BLOCKS; block++)
		real_write(7, block);
	if ((fc_test_broken & FC_BREAK(SECOND_INVALIDATE)) == 0)
		fc_file_retire(&scene.b, between.id);

	FcFile new = fc_file(scene.file.id);

	return read_block(&scene.b, &new, 3);
}

/* ---- two processes that do the same -------------------------------------- */

/* Relation 8, as b knows it, with block 4 cached. */
static FcFile known;

/*
 * A process that knows relation 8 only by its name writes block 4; is that
 * seen?
 */
static bool
write_by_name_is_missed(void)
{
	FcFile named = fc_file(file_id(8));

	write_block(&scene.b, &named, 4);
	return holds_wrong(&scene.b, &known, 4);
}

static void
give_the_number_to_8(void)
{
	known = fc_file(file_id(8));
	displace();
	cache_block(&scene.b, &known, 4);
}

static void
cache_block_4_of_8(void)
{
	known = fc_file(file_id(8));
	MUST(fc_file_enter(&scene.b, &known) == FC_OK);
	cache_block(&scene.b, &known, 4);
}

/*
 * Before a process frees a retired number, another has freed and reassigned it.
 */
static bool
freed_when_it_was_given_away(void)
{
	stop_at("number-forgotten", give_the_number_to_8);
	fc_file_retire(scene.a, scene.file.id);
	return write_by_name_is_missed();
}

/* The file that has the first of relation 8's possible places. */
static FcFileId in_its_place;

static void
take_first_place_of_8(void)
{
	FcFile first = fc_file(file_id(8));
	FcFile other = fc_file(file_id(0));

	MUST(fc_file_enter(&scene.b, &first) == FC_OK);
	fc_file_retire(&scene.b, first.id);
	for (uint32_t relation = 100; other.number != first.number; relation++)
	{
		other = fc_file(file_id(relation));
		MUST(fc_file_enter(&scene.b, &other) == FC_OK);
		MUST(relation < 160);
	}
	in_its_place = other.id;
}

static void
enter_8_and_free_its_place(void)
{
	cache_block_4_of_8();
	fc_file_retire(&scene.b, in_its_place);
}

/* Both find no number for the file; one of them enters it first. */
static bool
entered_by_two(void)
{
	FcFile same = fc_file(file_id(8));

	take_first_place_of_8();
	stop_at("file-unknown", enter_8_and_free_its_place);
	MUST(fc_file_enter(scene.a, &same) == FC_OK);
	(void) read_block(scene.a, &same, 4);
	return write_by_name_is_missed() || holds_wrong(scene.a, &same, 4);
}

/* ---- unknown files ------------------------------------------------------- */

/* The writer finds nothing to invalidate; then a reader enters the file. */
static bool
unknown_to_the_writer(void)
{
	FcFile writer = fc_file(file_id(8));
	FcFile reader = writer;
	FcChange change;

	fc_change_begin(scene.a, &writer, 3, 1, &change);
	MUST(fc_file_enter(&scene.b, &reader) == FC_OK);
	cache_block(&scene.b, &reader, 3);
	real_write(8, 3);
	fc_change_end(scene.a, &writer, &change);
	return read_block(&scene.b, &reader, 3);
}

static FcFile late_writer;

static void
begin_late_write(void)
{
	fc_change_begin(&scene.b, &late_writer, 3, 1, &scene.change);
}

/* The same, and the writer looks while the reader is just entering the file. */
static bool
unknown_while_entering(void)
{
	FcFile reader = fc_file(file_id(8));

	late_writer = fc_file(file_id(8));
	stop_at("tag-written", begin_late_write);
	MUST(fc_file_enter(scene.a, &reader) == FC_OK);
	cache_block(scene.a, &reader, 3);
	real_write(8, 3);
	fc_change_end(&scene.b, &late_writer, &scene.change);
	return read_block(scene.a, &reader, 3);
}

/* ---- the list ------------------------------------------------------------ */

#define B(name) FC_BREAK(name)

static const Scenario scenarios[] = {
	{ "a writer's number outlives truncation and retirement",
	  stale_number_in_a_writer,
	  B(RESOLVE),
	  { 0 } },
	{ "a reader's number outlives a retirement that was killed half-way",
	  stale_number_in_a_reader,
	  B(RESOLVE) | B(REPLAY_FILE),
	  { B(RESOLVE), B(REPLAY_FILE) } },
	{ "a file is entered between its two retirements",
	  entered_between_two_retirements,
	  B(SECOND_INVALIDATE),
	  { 0 } },
	{ "a reader enters a file that its writer took for unknown",
	  unknown_to_the_writer,
	  B(ABSENT),
	  { 0 } },
	{ "the writer looks while the reader is entering the file",
	  unknown_while_entering,
	  B(ABSENT),
	  { 0 } },
	{ "two enter one file at once", entered_by_two, B(INVALIDATE), { 0 } },
};

/* With so few numbers that files displace each other. */
static const Scenario displacing[] = {
	{ "a number is to be used again while a fill of it is pending",
	  number_reused_with_a_fill_pending,
	  B(FORGET) | B(FILE_GENERATION),
	  { B(FORGET), B(FILE_GENERATION) } },
	{ "a number is taken for another file between claim and key",
	  displaced_between_claim_and_key,
	  B(FILE_GENERATION) | B(SET_GENERATION),
	  { B(FILE_GENERATION), B(SET_GENERATION), B(FORGET) } },
	{ "a number is taken for another file between slot and compare",
	  displaced_between_slot_and_compare,
	  B(FORGET) | B(FILE_GENERATION),
	  { B(FORGET), B(FILE_GENERATION) } },
	{ "a number is taken for another file between compare and publish",
	  displaced_between_compare_and_publish,
	  B(FORGET),
	  { B(FILE_GENERATION), B(COUNT_FIRST) } },
	{ "a number is taken for another file while a block is cached",
	  displaced_with_a_block,
	  B(FORGET),
	  { 0 } },
	{ "a file loses its number, and gets it again",
	  displaced_and_back,
	  B(FORGET),
	  { B(RESOLVE) } },
	{ "a file loses its number while it is written, and gets another",
	  displaced_under_a_writer,
	  B(SECOND_INVALIDATE),
	  { 0 } },
	{ "a file loses its number while it is read",
	  displaced_under_a_reader,
	  B(ENTRY_COMPARE) | B(REPLAY_FILE),
	  { B(ENTRY_COMPARE), B(REPLAY_FILE) } },
	{ "a block comes in while its file is displaced for having none",
	  filled_while_displaced,
	  B(COUNT_FIRST),
	  { 0 } },
	{ "a fill is given up when another file has its number",
	  counted_for_the_next_file,
	  B(RECOUNT),
	  { 0 } },
	{ "a number is used again before the fill of an old ticket",
	  number_reused_before_the_fill,
	  B(FILE_GENERATION),
	  { 0 } },
	{ "a number is used again after a retirement that was killed half-way",
	  retired_half_way_then_reused,
	  B(FORGET),
	  { 0 } },
	{ "a number is freed when it was freed and given away by another",
	  freed_when_it_was_given_away,
	  B(INVALIDATE),
	  { 0 } },
};

#undef B

/* ---- races that cost at most a second look ------------------------------- */

static void
truncate_nothing(void)
{
	change_blocks(&scene.b, &scene.same, BLOCKS, FC_BLOCKS_ALL);
}

static void
retire_file(void)
{
	fc_file_retire(&scene.b, file_id(8));
}

static void
test_files_that_move(void)
{
	FcFile found;
	FcFile next = fc_file(file_id(8));

	scene_open(64);
	found = fc_file(scene.file.id);
	stop_at("id-compared", truncate_nothing);
	OK(fc_file_enter(scene.a, &found) == FC_OK &&
	       fc_file_current(scene.a, &found) &&
	       found.generation > scene.file.generation,
	   "a file that is truncated while it is looked for is found as it is now");

	cache_block(scene.a, &found, 3);
	scene.same = found;
	stop_at("file-found", truncate_nothing);
	fc_file_retire(scene.a, found.id);
	MUST(stop_act == NULL);
	found = fc_file(found.id);
	OK(!fc_file_resolve(scene.a, &found) && fc_file_used_slots(scene.a) == 0,
	   "a file that is truncated while it is retired is retired");

	stop_at("number-given", retire_file);
	OK(fc_file_enter(scene.a, &next) == FC_OK &&
	       fc_file_current(scene.a, &next),
	   "a file that is dropped while it is entered is entered again");
	scene_close();
}

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	PLAY_ALL(scenarios, 64);
	PLAY_ALL(displacing, 2);
	test_files_that_move();
	return tap_done();
}
