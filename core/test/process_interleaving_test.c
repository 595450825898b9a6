/*
 * process_interleaving_test.c
 *		Owners that are gone, and owners that are not: of a claim, of the lock,
 *		and of the writer's role.
 *
 * At each point where a process owns something, it is interrupted by its own
 * signal handler, killed, or stopped and continued later.  Wrong is a wrong
 * block, and anything that is stuck for ever.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "scene.h"

/* ---- fills, and the lock over the files ---------------------------------- */

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

/*
 * A signal handler interrupts a fill, and the process continues or exits there.
 */
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

static bool
filler_killed(void)
{
	bool stuck = false;

	for (int i = 0; i < FILL_POINTS; i++)
	{
		fc_cache_clear(scene.a);
		kill_child(start_child(fill_points[i], fill_block_3));
		stuck |= something_is_stuck(scene.a, &scene.file);
	}
	return stuck;
}

static pid_t late_filler;

static void
let_filler_finish(void)
{
	MUST(let_finish(late_filler));
}

/*
 * The filler has compared generations before the second invalidation advances
 * them, and publishes between that invalidation's look at the entry and its
 * step.
 */
static bool
publish_under_an_invalidation(void)
{
	fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
	late_filler = start_child("generations-compared", fill_block_3);
	real_write(7, 3);
	stop_at("entry-looked-at", let_filler_finish);
	fc_change_end(scene.a, &scene.file, &scene.change);
	MUST(stop_act == NULL);
	return holds_wrong(scene.a, &scene.file, 3);
}

/* A stopped filler keeps its slot; when it continues, all is right. */
static bool
filler_stopped(void)
{
	bool wrong = false;

	for (int i = 0; i < PUBLISHED; i++)
	{
		fc_cache_clear(scene.a);

		pid_t child = start_child(fill_points[i], fill_block_3);

		real_write(7, 3);
		fc_change_begin(scene.a, &scene.file, 3, 1, &scene.change);
		fc_change_end(scene.a, &scene.file, &scene.change);
		(void) read_block(scene.a, &scene.file, 3);
		fill_the_set(scene.a, &scene.file);
		wrong |= let_finish(child);
		for (uint32_t block = 100; block < 100 + SLOTS + 8; block++)
			wrong |= holds_wrong(scene.a, &scene.file, block);
		wrong |= holds_wrong(scene.a, &scene.file, 3);
	}
	return wrong;
}

/* ---- writers that are gone, and writers that are not --------------------- */

static const char *const writer_points[] = { "page-picked",  "entry-writing",
	                                         "page-writing", "submitted",
	                                         "written",      "entry-settled",
	                                         "page-freed" };

#define WRITER_POINTS 7

static bool
stuck_after(FcCache *cache)
{
	/*
	 * Twice: what the dead writer was writing, and what was doomed meanwhile.
	 */
	return holds_wrong(cache, &scene.file, 3) ||
	       something_is_stuck(cache, &scene.file);
}

static void
cut_a_writer_off(const char *point)
{
	(void) read_block(scene.a, &scene.file, 3);
	if (setjmp(cut_off) == 0)
	{
		stop_at(point, cut_here);
		IGNORE(fc_writer_flush(scene.a, FLUSH_NS));
		MUST(!"the writer was not cut off");
	}
}

/* The same process continues, and becomes the writer again. */
static bool
writer_cut_off_in_oneself(void)
{
	for (int i = 0; i < WRITER_POINTS; i++)
	{
		for (int doomed = 0; doomed < 2; doomed++)
		{
			fc_cache_clear(scene.a);
			cut_a_writer_off(writer_points[i]);
			if (doomed)
				write_block_3();
			if (stuck_after(scene.a))
				return true;
		}
	}
	return false;
}

static bool
write_out(FcCache *cache)
{
	MUST(fc_process_begin(cache) == FC_OK);
	return fc_writer_flush(cache, FLUSH_NS) == FC_OK;
}

static bool
writer_killed(void)
{
	for (int i = 0; i < WRITER_POINTS; i++)
	{
		for (int doomed = 0; doomed < 2; doomed++)
		{
			fc_cache_clear(scene.a);
			(void) read_block(scene.a, &scene.file, 3);

			pid_t child = start_child(writer_points[i], write_out);

			if (doomed)
				write_block_3();
			kill_child(child);
			if (stuck_after(scene.a))
				return true;
		}
	}
	return false;
}

/* A live writer stays the writer, however long it takes. */
static bool
writer_stopped(void)
{
	bool wrong = false;

	for (int i = 0; i < WRITER_POINTS; i++)
	{
		fc_cache_clear(scene.a);
		(void) read_block(scene.a, &scene.file, 3);

		pid_t child = start_child(writer_points[i], write_out);

		write_block_3();
		wrong |= fc_writer_flush(scene.a, 0) != FC_FULL;
		(void) read_block(scene.a, &scene.file, 3);
		(void) let_finish(child);
		wrong |= holds_wrong(scene.a, &scene.file, 3);
		wrong |= !wrong && stuck_after(scene.a);
	}
	return wrong;
}

/* ---- standing in for the writer ------------------------------------------ */

#define STAND_IN_NS 1000000000ULL

static const char *const stand_in_points[] = { "stand-in-begun", "page-picked",
	                                           "entry-writing",  "page-writing",
	                                           "submitted",      "written",
	                                           "entry-settled",  "page-freed" };

#define STAND_IN_POINTS 8

static void
fill_the_ring(FcCache *cache)
{
	fc_cache_clear(cache);
	(void) read_block(cache, &scene.file, 3);
	for (uint32_t block = 100; block < 131; block++)
		(void) read_block(cache, &scene.file, block);
	MUST(fc_writer_ring_info(cache).used == fc_writer_ring_info(cache).pages);
}

/* It signs on by itself. */
static bool
stand_in(FcCache *cache)
{
	fc_stand_in(cache, STAND_IN_NS);
	return fc_writer_ring_info(cache).used < fc_writer_ring_info(cache).pages;
}

static bool
stand_in_killed(void)
{
	bool wrong = false;

	/* Time flies for a writer that waits for unwritten pages, not for reads. */
	scene.a->read_deadline_ns = UINT64_MAX / 4;
	fc_test_now_ns = 1000000000ULL;
	fc_test_tick_ns = 50000000;
	for (int i = 0; i < STAND_IN_POINTS && !wrong; i++)
	{
		for (int doomed = 0; doomed < 2 && !wrong; doomed++)
		{
			fill_the_ring(scene.a);

			pid_t child = start_child(stand_in_points[i], stand_in);

			if (doomed)
				write_block_3();
			kill_child(child);
			wrong = !flush(scene.a) || stuck_after(scene.a);
		}
	}
	fc_test_now_ns = fc_test_tick_ns = 0;
	return wrong;
}

static bool
stand_in_stopped(void)
{
	bool wrong = false;

	for (int i = 0; i < STAND_IN_POINTS; i++)
	{
		fill_the_ring(scene.a);

		pid_t child = start_child(stand_in_points[i], stand_in);

		write_block_3();
		wrong |= fc_writer_flush(scene.a, 0) != FC_FULL;
		(void) read_block(scene.a, &scene.file, 3);
		wrong |= !let_finish(child);
		wrong |= holds_wrong(scene.a, &scene.file, 3);
		wrong |= !wrong && stuck_after(scene.a);
	}
	return wrong;
}

/* In the middle of it, a signal handler also changes blocks. */
static void
stand_in_again(void)
{
	fc_stand_in(scene.a, STAND_IN_NS);
}

static bool
stand_in_within_stand_in(void)
{
	bool holds = true;

	for (int i = 0; i < STAND_IN_POINTS; i++)
	{
		fill_the_ring(scene.a);
		stop_at(stand_in_points[i], stand_in_again);
		fc_stand_in(scene.a, STAND_IN_NS);
		holds &= !fc_writer_serves(scene.a) && !stuck_after(scene.a);
	}
	return holds;
}

/* ---- the list ------------------------------------------------------------ */

#define B(name) FC_BREAK(name)

static const Scenario scenarios[] = {
	{ "a fill is cut off by a signal handler of its own process",
	  fill_cut_off_in_oneself,
	  B(SELF),
	  { B(TAKEOVER) } },
	{ "the file lock is cut off by a signal handler of its own process",
	  lock_cut_off_in_oneself,
	  B(SELF),
	  { B(TAKEOVER) } },
	{ "a filler is killed", filler_killed, B(TAKEOVER), { B(SELF) } },
	{ "a fill is published while an invalidation looks at its entry",
	  publish_under_an_invalidation,
	  B(LOOK_AGAIN),
	  { B(SET_GENERATION) } },
	{ "a filler is stopped, the block changes, and it goes on",
	  filler_stopped,
	  B(SET_GENERATION),
	  { B(CRC) } },
	{ "a filler is stopped, its claim is doomed, and it goes on",
	  filler_stopped,
	  B(DOOM),
	  { B(CRC) } },
	{ "a writer is cut off by a signal handler of its own process",
	  writer_cut_off_in_oneself,
	  B(SELF),
	  { B(TAKEOVER) } },
	{ "a writer is killed", writer_killed, B(TAKE_UP), { B(SELF) } },
	{ "a dead writer stays the writer",
	  writer_killed,
	  B(TAKEOVER),
	  { B(CRC) } },
	{ "a writer is stopped, the block changes, and it goes on",
	  writer_stopped,
	  B(WRITER_GONE),
	  { B(CRC) } },
	{ "who stands in for the writer is killed",
	  stand_in_killed,
	  B(TAKE_UP),
	  { B(SELF) } },
	{ "who stands in is stopped, the block changes, and it goes on",
	  stand_in_stopped,
	  B(STAND_IN_SIGN),
	  { B(CRC) } },
};

#undef B

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	PLAY_ALL(scenarios, 64);

	play_alone("a process that stands in is cut off by its own signal handler",
	           stand_in_within_stand_in);
	return tap_done();
}
