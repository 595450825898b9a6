/*
 * interleaving_test.c
 *		The moments at which a wrong block could be served, one by one.
 *
 * Each scenario stops one process at a point of the protocol, lets another one
 * do its worst there, goes on, and says whether a wrong block came out (or, for
 * those about owners that are gone, whether something is stuck for ever).
 *
 * Each is run three ways: as the library is (nothing may go wrong), with the
 * mechanism left out that guards this moment (it must go wrong: the control),
 * and where several mechanisms back each other up, with each of them left out
 * alone (nothing may go wrong, and the control leaves out all of them).
 *
 * "Another process" is a second handle with a token of its own; where death
 * matters it is a child.  One set of 64 slots, so that everything collides.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "scene.h"

/* Some other file has this number now. */
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

/* ---- handles ---------------------------------------------------------------------- */

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

/* ---- numbers that are used again ------------------------------------------------------ */

/* Relation 8 is entered; it can only have the number relation 7 had. */
static void
displace(void)
{
	FcFile next = fc_file(file_id(8));

	MUST(fc_file_enter(&scene.b, &next) == FC_OK);
	MUST(next.number == scene.file.number);
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

/* What relation 8 finds under the one number there is to give. */
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
	take_ticket(scene.a, &scene.file, 3);
	stop_at(point, reuse);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
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

/* The displaced file has to be looked up again, and may be displaced in turn. */
static bool
displaced_and_back(void)
{
	cache_block(scene.a, &scene.file, 3);
	displace_and_fill();
	write_block(scene.a, &scene.file, 3);
	return read_block(scene.a, &scene.file, 3) || next_finds(4) ||
	       read_block(scene.a, &scene.file, 3);
}

/* The writer has resolved the file; then it loses its number and gets another. */
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
	cache_block(scene.a, &scene.file, 3);
	stop_at("slot-read", displace_and_write);
	return read_block(scene.a, &scene.file, 3);
}

static void
fill_block_4(void)
{
	cache_block(&scene.b, &scene.same, 4);
}

/* A block comes in when its file is about to be displaced for having none. */
static bool
filled_while_displaced(void)
{
	stop_at("number-retiring", fill_block_4);
	MUST(next_finds(3) == false);
	return next_finds(4);
}

/*
 * Relation 7's fill is given up when relation 8 has its number already: that is
 * one block less of relation 7, not of relation 8.
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
	FcFile next = fc_file(file_id(8));

	take_ticket(scene.a, &scene.file, 3);
	fc_file_retire(&scene.b, scene.file.id);
	MUST(fc_file_enter(&scene.b, &next) == FC_OK);
	MUST(next.number == scene.file.number);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	return read_block(&scene.b, &next, 3);
}

static bool
retired_half_way_then_reused(void)
{
	FcFile next = fc_file(file_id(8));

	cache_block(scene.a, &scene.file, 3);
	retire_half_way(scene.file.id);
	MUST(fc_file_enter(&scene.b, &next) == FC_OK);
	MUST(next.number == scene.file.number);
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
	if ((fc_test_broken & FC_BREAK_SECOND_INVALIDATE) == 0)
		fc_file_retire(&scene.b, between.id);

	FcFile new = fc_file(scene.file.id);

	return read_block(&scene.b, &new, 3);
}

/* ---- modes ------------------------------------------------------------------------ */

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
	cache_block(scene.a, &scene.file, 3);
	stop_at("entry-found", go_offline_and_write);
	return read_block(scene.a, &scene.file, 3);
}

static bool
offline_after_the_slot_is_read(void)
{
	cache_block(scene.a, &scene.file, 3);
	stop_at("slot-read", go_offline_and_write);
	return read_block(scene.a, &scene.file, 3);
}

/* Nobody serves from an offline map, but it must not hold what is wrong. */
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

/* ---- unknown files ------------------------------------------------------------------- */

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

/* ---- changes against fills ------------------------------------------------------------ */

static void
write_block_3(void)
{
	write_block(&scene.b, &scene.same, 3);
}

static void
replace_all(void)
{
	replace_from(&scene.b, &scene.same, 0);
}

/* Fill block 3 of a, with something happening at a point; wrong afterwards? */
static bool
fill_with(const char *point, void (*act)(void))
{
	take_ticket(scene.a, &scene.file, 3);
	stop_at(point, act);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	MUST(stop_act == NULL);
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

/* The changer has moved the generation and not yet looked; then it looks. */
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

/* ---- changes against hits --------------------------------------------------------------- */

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
	cache_block(scene.a, &scene.file, 3);
	stop_at("slot-read", write_block_3);
	return read_block(scene.a, &scene.file, 3);
}

static void
truncate_half_way(void)
{
	FcCache dead = scene.b;
	FcChange change;

	if (setjmp(cut_off) == 0)
	{
		stop_at("file-generation-moved", cut_here);
		fc_change_begin(&dead, &scene.same, 0, FC_BLOCKS_ALL, &change);
		MUST(!"the range was invalidated whole");
	}
	real_write(7, 3);
}

/* The generation has moved, the entry still stands. */
static bool
truncation_under_a_reader(void)
{
	cache_block(scene.a, &scene.file, 3);
	stop_at("slot-read", truncate_half_way);
	return read_block(scene.a, &scene.file, 3);
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
	cache_block(scene.a, &scene.file, 3);
	stop_at("entry-found", evict_block_3);
	return read_block(scene.a, &scene.file, 3);
}

/*
 * Change the last words of a page so that its CRC32C, with its key before it,
 * becomes the wanted one.  The CRC is linear: find out what each of 32 bits does
 * to it, and solve.
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

/* Put a block 4 into the slot of block 3 that would pass for block 3. */
static void
refill_with_same_checksum(void)
{
	FcTicket ticket;
	FcSeen seen;

	MUST(fc_index_find(scene.b.shared, fc_key(scene.file.number, 3), &seen));
	real_read(7, 3, &scene.other);

	uint32_t wanted = checksum_for(3, &scene.other);

	for (uint32_t block = 100; fc_used_slots(&scene.b) < SLOTS; block++)
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
	cache_block(scene.a, &scene.file, 3);
	stop_at("entry-found", refill_with_same_checksum);
	return read_block(scene.a, &scene.file, 3);
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

/* ---- refreshing after a write ------------------------------------------------------------- */

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

/* ---- owners that are gone, and owners that are not ------------------------------------------ */

/* At the first PUBLISHED of them the block can still be refused. */
static const char *const fill_points[] = {
	"page-taken",   "claimed-old-key",      "claimed-new-key", "claimed",
	"block-copied", "generations-compared", "published",       "handed-over"
};

#define FILL_POINTS 8
#define PUBLISHED   6

static void
cut_a_fill_off(const char *point)
{
	take_ticket(scene.a, &scene.file, 3);
	if (setjmp(cut_off) == 0)
	{
		stop_at(point, cut_here);
		(void) fc_fill(scene.a, &scene.ticket, &scene.page);
		MUST(!"the fill was not cut off");
	}
}

/* A signal handler cuts a fill off and the process goes on, or exits there. */
static bool
fill_cut_off_in_oneself(void)
{
	for (int i = 0; i < FILL_POINTS; i++)
	{
		scene.file = fc_file(file_id(7));
		MUST(fc_file_enter(scene.a, &scene.file) == FC_OK);
		fc_cache_clear(scene.a);
		cut_a_fill_off(fill_points[i]);
		if (something_is_stuck(scene.a, &scene.file))
			return true;

		/* What exit hooks do: unlink.  It must come to an end. */
		cut_a_fill_off(fill_points[i]);
		fc_file_retire(scene.a, scene.file.id);
		if (atomic_load(&fc_tags(scene.a->shared)[scene.file.number]) != 0)
			return true;
	}
	return false;
}

static bool
lock_cut_off_in_oneself(void)
{
	FcFile file = fc_file(file_id(8));

	if (setjmp(cut_off) == 0)
	{
		stop_at("tag-written", cut_here);
		IGNORE(fc_file_enter(scene.a, &file));
		MUST(!"entering was not cut off");
	}
	file = fc_file(file_id(8));
	return fc_file_enter(scene.a, &file) != FC_OK;
}

/* A child that has stopped itself in the middle of filling block 3. */
static pid_t
start_filler(const char *point)
{
	pid_t child = fork();
	int status;

	MUST(child >= 0);
	if (child == 0)
	{
		FcCache mine = scene.rig.cache;

		mine.token = 0;
		MUST(fc_process_begin(&mine) == FC_OK);
		take_ticket(&mine, &scene.file, 3);
		stop_at(point, stop_myself);
		_exit(fc_fill(&mine, &scene.ticket, &scene.page) == FC_OK ? 0 : 1);
	}
	MUST(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	return child;
}

static bool
filler_killed(void)
{
	bool stuck = false;

	for (int i = 0; i < FILL_POINTS; i++)
	{
		fc_cache_clear(scene.a);

		pid_t child = start_filler(fill_points[i]);

		MUST(kill(child, SIGKILL) == 0);
		MUST(waitpid(child, NULL, 0) == child);
		stuck |= something_is_stuck(scene.a, &scene.file);
	}
	return stuck;
}

static pid_t late_filler;

static void
let_filler_finish(void)
{
	int status;

	MUST(kill(late_filler, SIGCONT) == 0);
	MUST(waitpid(late_filler, &status, 0) == late_filler && WIFEXITED(status));
	MUST(WEXITSTATUS(status) == 0);
}

/*
 * The filler has compared generations before the second invalidation moves them,
 * and publishes between that one's look at the entry and its step.
 */
static bool
publish_under_an_invalidation(void)
{
	fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
	late_filler = start_filler("generations-compared");
	real_write(7, 3);
	stop_at("entry-looked-at", let_filler_finish);
	fc_change_end(scene.a, &scene.file, &scene.change);
	MUST(stop_act == NULL);
	return holds_wrong(scene.a, &scene.file, 3);
}

/* The slot of a stopped filler stays its own; when it goes on, all is right. */
static bool
filler_stopped(void)
{
	bool wrong = false;

	for (int i = 0; i < PUBLISHED; i++)
	{
		int status;

		fc_cache_clear(scene.a);

		pid_t child = start_filler(fill_points[i]);

		real_write(7, 3);
		fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
		fc_change_end(scene.a, &scene.file, &scene.change);
		(void) read_block(scene.a, &scene.file, 3);
		fill_the_set(scene.a, &scene.file);
		MUST(kill(child, SIGCONT) == 0);
		MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
		wrong |= WEXITSTATUS(status) == 0;
		for (uint32_t block = 100; block < 100 + SLOTS + 8; block++)
			wrong |= holds_wrong(scene.a, &scene.file, block);
		wrong |= holds_wrong(scene.a, &scene.file, 3);
	}
	return wrong;
}

/* ---- the list ------------------------------------------------------------------------- */

#define B(name) FC_BREAK_##name

static const Scenario scenarios[] = {
	{ "a writer's number outlives truncation and retirement",
	  stale_number_in_a_writer,
	  64,
	  B(RESOLVE),
	  { 0 } },
	{ "a reader's number outlives a retirement that was killed half-way",
	  stale_number_in_a_reader,
	  64,
	  B(RESOLVE) | B(REPLAY_FILE),
	  { B(RESOLVE), B(REPLAY_FILE) } },
	{ "a number is to be used again while a fill of it is pending",
	  number_reused_with_a_fill_pending,
	  2,
	  B(FORGET) | B(FILE_GENERATION),
	  { B(FORGET), B(FILE_GENERATION) } },
	{ "a number is taken for another file between claim and key",
	  displaced_between_claim_and_key,
	  2,
	  B(FILE_GENERATION) | B(SET_GENERATION),
	  { B(FILE_GENERATION), B(SET_GENERATION), B(FORGET) } },
	{ "a number is taken for another file between slot and compare",
	  displaced_between_slot_and_compare,
	  2,
	  B(FORGET) | B(FILE_GENERATION),
	  { B(FORGET), B(FILE_GENERATION) } },
	{ "a number is taken for another file between compare and publish",
	  displaced_between_compare_and_publish,
	  2,
	  B(FORGET),
	  { B(FILE_GENERATION), B(COUNT_FIRST) } },
	{ "a number is taken for another file while a block is cached",
	  displaced_with_a_block,
	  2,
	  B(FORGET),
	  { 0 } },
	{ "a file loses its number, and takes it back",
	  displaced_and_back,
	  2,
	  B(FORGET),
	  { B(RESOLVE) } },
	{ "a file loses its number while it is written, and gets another",
	  displaced_under_a_writer,
	  2,
	  B(SECOND_INVALIDATE),
	  { 0 } },
	{ "a file loses its number while it is read",
	  displaced_under_a_reader,
	  2,
	  B(ENTRY_COMPARE) | B(REPLAY_FILE),
	  { B(ENTRY_COMPARE), B(REPLAY_FILE) } },
	{ "a block comes in while its file is displaced for having none",
	  filled_while_displaced,
	  2,
	  B(COUNT_FIRST),
	  { 0 } },
	{ "a fill is given up when another file has its number",
	  counted_for_the_next_file,
	  2,
	  B(RECOUNT),
	  { 0 } },
	{ "a number is used again before the fill of an old ticket",
	  number_reused_before_the_fill,
	  2,
	  B(FILE_GENERATION),
	  { 0 } },
	{ "a number is used again after a retirement that was killed half-way",
	  retired_half_way_then_reused,
	  2,
	  B(FORGET),
	  { 0 } },
	{ "a file is entered between its two retirements",
	  entered_between_two_retirements,
	  64,
	  B(SECOND_INVALIDATE),
	  { 0 } },

	{ "the mode goes offline before a hit's slot is read",
	  offline_before_the_slot_is_read,
	  64,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline after a hit's slot was read",
	  offline_after_the_slot_is_read,
	  64,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline before a fill",
	  offline_before_a_fill,
	  64,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline during a fill",
	  offline_during_a_fill,
	  64,
	  B(MODE_CHECK),
	  { 0 } },
	{ "the mode goes offline between a write and its refresh",
	  offline_during_a_write,
	  64,
	  B(MODE_CHECK),
	  { 0 } },

	{ "a reader enters a file that its writer took for unknown",
	  unknown_to_the_writer,
	  64,
	  B(ABSENT),
	  { 0 } },
	{ "the writer looks while the reader is entering the file",
	  unknown_while_entering,
	  64,
	  B(ABSENT),
	  { 0 } },

	{ "a write before the fill",
	  write_before_the_fill,
	  64,
	  B(SET_GENERATION),
	  { 0 } },
	{ "a write between claim and key",
	  write_between_claim_and_key,
	  64,
	  B(SET_GENERATION),
	  { B(DOOM) } },
	{ "a write between key and slot",
	  write_between_key_and_slot,
	  64,
	  B(SET_GENERATION) | B(DOOM),
	  { B(SET_GENERATION), B(DOOM) } },
	{ "a write between slot and compare",
	  write_between_slot_and_compare,
	  64,
	  B(SET_GENERATION) | B(DOOM),
	  { B(SET_GENERATION), B(DOOM) } },
	{ "a write between compare and publish",
	  write_between_compare_and_publish,
	  64,
	  B(DOOM),
	  { B(SET_GENERATION) } },
	{ "a fill inside an invalidation",
	  fill_inside_an_invalidation,
	  64,
	  B(SET_GENERATION) | B(INVALIDATE),
	  { B(SET_GENERATION), B(INVALIDATE) } },
	{ "a fill between the two invalidations of a write",
	  fill_between_two_invalidations,
	  64,
	  B(SECOND_INVALIDATE),
	  { 0 } },
	{ "a truncation before the fill",
	  truncation_before_the_fill,
	  64,
	  B(FILE_GENERATION),
	  { B(SET_GENERATION) } },
	{ "a truncation between claim and key",
	  truncation_between_claim_and_key,
	  64,
	  B(FILE_GENERATION) | B(SET_GENERATION),
	  { B(FILE_GENERATION), B(SET_GENERATION), B(CHUNKS) } },
	{ "a truncation between compare and publish",
	  truncation_between_compare_and_publish,
	  64,
	  B(DOOM),
	  { B(FILE_GENERATION) } },
	{ "a truncation between compare and publish, looked for by chunk",
	  truncation_between_compare_and_publish,
	  64,
	  B(CHUNKS),
	  { 0 } },
	{ "a truncation after the fill",
	  truncation_after_the_fill,
	  64,
	  B(CHUNKS),
	  { 0 } },
	{ "two processes fill one block, then it changes",
	  two_fillers_of_one_block,
	  64,
	  B(EVERY_WAY) | B(SECOND_INVALIDATE),
	  { B(EVERY_WAY), B(SECOND_INVALIDATE) } },

	{ "a write before a read", write_then_read, 64, B(INVALIDATE), { 0 } },
	{ "a write between slot read and compare",
	  write_between_slot_read_and_compare,
	  64,
	  B(ENTRY_COMPARE),
	  { 0 } },
	{ "a truncation between slot read and compare",
	  truncation_under_a_reader,
	  64,
	  B(REPLAY_FILE),
	  { 0 } },
	{ "the slot is filled with another block under a reader",
	  refill_under_a_reader,
	  64,
	  B(ENTRY_COMPARE) | B(CRC),
	  { B(ENTRY_COMPARE), B(CRC) } },
	{ "... with another block of the same checksum",
	  refill_with_the_same_checksum_under_a_reader,
	  64,
	  B(ENTRY_COMPARE),
	  { B(CRC) } },
	{ "the same block of another file",
	  same_block_of_another_file,
	  64,
	  B(FULL_KEY) | B(CRC),
	  { B(FULL_KEY), B(CRC) } },

	{ "a foreign change during a write, which then refreshes",
	  foreign_change_during_a_write,
	  64,
	  B(REFRESH),
	  { 0 } },
	{ "a foreign change between a write and its refresh",
	  foreign_change_before_a_refresh,
	  64,
	  B(SET_GENERATION),
	  { B(REFRESH) } },

	{ "a fill is cut off by a signal handler of its own process",
	  fill_cut_off_in_oneself,
	  64,
	  B(SELF),
	  { B(TAKEOVER) } },
	{ "the file lock is cut off by a signal handler of its own process",
	  lock_cut_off_in_oneself,
	  64,
	  B(SELF),
	  { B(TAKEOVER) } },
	{ "a filler is killed", filler_killed, 64, B(TAKEOVER), { B(SELF) } },
	{ "a fill is published while an invalidation looks at its entry",
	  publish_under_an_invalidation,
	  64,
	  B(LOOK_AGAIN),
	  { B(SET_GENERATION) } },
	{ "a filler is stopped, the block changes, and it goes on",
	  filler_stopped,
	  64,
	  B(SET_GENERATION),
	  { B(CRC) } },
	{ "a filler is stopped, its claim is doomed, and it goes on",
	  filler_stopped,
	  64,
	  B(DOOM),
	  { B(CRC) } },
};

#undef B

/* ---- races that cost a miss at most ---------------------------------------------------- */

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

/* Others are always faster: the claim is given up after a few tries. */
static void
test_claim_always_lost(void)
{
	scene_open(64);
	take_ticket(scene.a, &scene.file, 3);
	stop_at("way-chosen", fill_another_block);
	OK(fc_fill(scene.a, &scene.ticket, &scene.page) == FC_SKIP &&
	       fc_counter(scene.a, FC_COUNT_insert_skip_writer_overloaded) == 1,
	   "a claim that is always lost is given up, and counted");
	stop_act = NULL;
	scene_close();
}

static void
truncate_nothing(void)
{
	FcChange change;

	fc_change_begin(&scene.b, &scene.same, BLOCKS, FC_BLOCKS_ALL, &change);
	fc_change_end(&scene.b, &scene.same, &change);
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
	OK(!fc_file_resolve(scene.a, &found) && fc_used_slots(scene.a) == 0,
	   "a file that is truncated while it is retired is retired");

	stop_at("number-given", retire_file);
	OK(fc_file_enter(scene.a, &next) == FC_OK &&
	       fc_file_current(scene.a, &next),
	   "a file that is dropped while it is entered is entered anew");
	scene_close();
}

int
main(void)
{
	alarm(120);
	fc_test_point = on_point;
	play_all(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
	test_claim_always_lost();
	test_files_that_move();
	return tap_done();
}
