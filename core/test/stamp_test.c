/*
 * stamp_test.c
 *		Files that outlive the server: whose blocks are valid in the next life?
 *
 * Each scenario reports whether a wrong block was served after the restart
 * (lives.h).  It is run with the library intact, and with the mechanism left
 * out that guards the moment.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>

#include "lives.h"
#include "tap.h"

/* The next life reads block 3 through a new handle. */
static bool
wrong_after_restart(void)
{
	FcFile file = fc_file(file_id(7));

	restart();
	return read_block(scene.a, &file, 3) || read_block(scene.a, &scene.file, 3);
}

/* ---- what happens while no server runs ----------------------------------- */

static bool
changed_while_down(void)
{
	tick();
	real_write(3);
	return wrong_after_restart();
}

static bool
changed_and_clock_set_back(void)
{
	tick();
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 4);
	scene.clock -= 500000000;
	real_write(3);
	return wrong_after_restart();
}

static bool
replaced_while_down(void)
{
	scene.inode.inode++;
	scene.disk[3]++;
	return wrong_after_restart();
}

static bool
size_changed_while_down(void)
{
	scene.inode.size++;
	scene.disk[3]++;
	return wrong_after_restart();
}

static bool
other_device_while_down(void)
{
	scene.inode.volume++;
	scene.disk[3]++;
	return wrong_after_restart();
}

/* ---- killed writers ------------------------------------------------------ */

/* All in one tick: one write has ended; the next one is interrupted. */
static bool
writer_killed(void)
{
	FcChange change;

	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 3);
	begin_write(scene.a, &scene.file, 3, &change);
	/* A reader that was faster than the write brings its block back. */
	(void) read_block(&scene.b, &scene.same, 3);
	real_write(3);
	return wrong_after_restart();
}

static FcChange late_change;

static void
begin_late_write(void)
{
	begin_write(&scene.b, &scene.same, 3, &late_change);
	(void) read_block(scene.a, &scene.file, 3);
}

/* One process stamps while another writes and is then killed: in one tick. */
static bool
stamp_beside_a_writer(void)
{
	FcChange change;

	begin_write(scene.a, &scene.file, 4, &change);
	begin_late_write();
	real_write(4);
	end_write(scene.a, &scene.file, &change);
	real_write(3);
	return wrong_after_restart();
}

/* The other change begins between the look at the counts and the stamp. */
static bool
write_before_the_stamp(void)
{
	FcChange change;

	begin_write(scene.a, &scene.file, 4, &change);
	real_write(4);
	fc_change_end(scene.a, &scene.file, &change);
	begin_late_write();
	(void) fc_stamp_set(scene.a, &change.permit, &scene.inode);
	real_write(3);
	return wrong_after_restart();
}

/* ... or between the last look and the swap. */
static bool
write_under_the_stamp(void)
{
	FcChange change;

	begin_write(scene.a, &scene.file, 4, &change);
	real_write(4);
	fc_change_end(scene.a, &scene.file, &change);
	stop_at("stamp-checked", begin_late_write);
	(void) fc_stamp_set(scene.a, &change.permit, &scene.inode);
	MUST(stop_act == NULL);
	real_write(3);
	return wrong_after_restart();
}

/*
 * The writer does not know the file; a reader enters it, stamps it and fills.
 */
static bool
stranger_killed(void)
{
	FcChange change;

	fc_file_retire(scene.a, file_id(7));
	scene.file = scene.same = fc_file(file_id(7));
	begin_write(&scene.b, &scene.same, 3, &change);
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	return wrong_after_restart();
}

/* The same, but the file loses its number while the writer writes. */
static bool
displaced_under_its_writer(void)
{
	FcChange change;

	begin_write(&scene.b, &scene.same, 3, &change);
	fc_file_retire(scene.a, file_id(7));
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	return wrong_after_restart();
}

static void
enter_now(void)
{
	(void) read_block(scene.a, &scene.file, 3);
}

/* A reader enters the file between the writer's two steps. */
static bool
entered_under_the_count(void)
{
	FcChange change;

	fc_file_retire(scene.a, file_id(7));
	scene.file = scene.same = fc_file(file_id(7));
	stop_at("change-counted-in", enter_now);
	begin_write(&scene.b, &scene.same, 3, &change);
	MUST(stop_act == NULL);
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	return wrong_after_restart();
}

/* The kernel could not write the file back: its pages may be lost any time. */
static bool
sync_failed(void)
{
	fc_change_distrust(scene.a, &scene.file);
	(void) read_block(scene.a, &scene.file, 3);
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 4);
	scene.disk[3]++;
	return wrong_after_restart();
}

/* ---- sleepers ------------------------------------------------------------ */

/* A sleeping file is changed first, and then read. */
static bool
sleeper_changed(void)
{
	FcFile file = fc_file(file_id(7));
	FcChange change;

	restart();
	fc_change_begin(scene.a, &file, 3, 1, &change);
	real_write(3);
	fc_change_end(scene.a, &file, &change);
	file = fc_file(file_id(7));
	return read_block(scene.a, &file, 3);
}

static FcStamp reader_saw;

static void
write_meanwhile(void)
{
	FcFile file = fc_file(file_id(7));

	tick();
	write_block(&scene.b, &file, 3);
}

/* The reader compares after a writer has woken and changed the file. */
static bool
woken_by_two(void)
{
	FcFile file = fc_file(file_id(7));

	restart();
	reader_saw = scene.inode;
	stop_at("sleeper-found", write_meanwhile);
	fc_stamp_wake(scene.a, &file, &reader_saw);
	MUST(stop_act == NULL);
	return read_block(scene.a, &file, 3);
}

/* Truncated completely while asleep: blocks that were not looked up go, too. */
static bool
sleeper_cut_off(void)
{
	FcFile file = fc_file(file_id(7));
	FcChange change;

	restart();
	fc_stamp_wake(scene.a, &file, &scene.inode);
	fc_change_begin(scene.a, &file, 0, FC_BLOCKS_ALL, &change);
	real_write(3);
	fc_change_end(scene.a, &file, &change);
	return read_block(scene.a, &file, 3);
}

/* ---- changes behind the cache's back ------------------------------------- */

/*
 * The change is not announced; then a process uses the file for the first time.
 */
static bool
changed_behind_a_reader(void)
{
	FcFile file = fc_file(file_id(7));

	tick();
	real_write(3);
	return read_block(scene.a, &file, 3);
}

/*
 * ... or a process that knows the file changes another block, and all are
 * killed.
 */
static bool
changed_behind_a_writer(void)
{
	tick();
	real_write(3);
	tick();
	write_block(scene.a, &scene.file, 4);
	return wrong_after_restart();
}

/* Within the tick of an announced change only the size can reveal it. */
static bool
longer_in_the_same_tick(void)
{
	write_block(scene.a, &scene.file, 4);
	(void) read_block(scene.a, &scene.file, 3);
	real_write(3);
	scene.inode.size++;
	write_block(&scene.b, &scene.same, 4);
	return wrong_after_restart();
}

/* ---- overwritten memory -------------------------------------------------- */

/* Counters say that nothing of the file is cached; then it is truncated. */
static bool
counters_written_over(void)
{
	FcShared *shared = scene.a->shared;
	FcFile file = fc_file(file_id(7));
	FcChange change;

	for (uint32_t i = 0; i < shared->chunk_count; i++)
		atomic_store(&fc_chunks(shared)[i], 0);
	restart();
	fc_stamp_wake(scene.a, &file, &scene.inode);
	fc_change_begin(scene.a, &file, 0, FC_BLOCKS_ALL, &change);
	real_write(3);
	fc_change_end(scene.a, &file, &change);
	return read_block(scene.a, &file, 3);
}

/* ---- all of them --------------------------------------------------------- */

typedef struct Scenario
{
	const char *title;
	bool (*play)(void);
	FcBreaks control; /* with these left out together, it goes wrong */
} Scenario;

#define B(name) FC_BREAK(name)

static const Scenario scenarios[] = {
	{ "a file is changed while the server is down", changed_while_down,
	  B(STAMP) },
	{ "... and the clock is set back", changed_and_clock_set_back, B(STAMP) },
	{ "a file is replaced while the server is down", replaced_while_down,
	  B(STAMP) },
	{ "a file's size changes while the server is down", size_changed_while_down,
	  B(STAMP) },
	{ "a file comes from another device", other_device_while_down, B(STAMP) },
	{ "a writer is killed", writer_killed, B(STAMP_LATE) | B(IN_FLIGHT) },
	{ "a file is stamped beside a writer, who is killed", stamp_beside_a_writer,
	  B(STAMP_LATE) | B(IN_FLIGHT) },
	{ "a writer, who is killed, begins before the stamp is set",
	  write_before_the_stamp, B(STAMP_LATE) | B(IN_FLIGHT) },
	{ "... under the very swap", write_under_the_stamp,
	  B(STAMP_LATE) | B(IN_FLIGHT) },
	{ "a writer is killed that did not know the file", stranger_killed,
	  B(IN_FLIGHT) },
	{ "a writer is killed whose file lost its number",
	  displaced_under_its_writer, B(IN_FLIGHT) },
	{ "a file becomes known while a writer counts itself in",
	  entered_under_the_count, B(STAMP_LATE) | B(IN_FLIGHT) },
	{ "a sync failed", sync_failed, B(DISTRUST) },
	{ "a sleeper is changed by one who does not compare", sleeper_changed,
	  B(ASLEEP) },
	{ "a sleeper is woken by a reader and a writer", woken_by_two,
	  B(INVALIDATE) | B(SECOND_INVALIDATE) },
	{ "a sleeper is cut off", sleeper_cut_off, B(INVALIDATE) },
	{ "a file is changed behind a reader", changed_behind_a_reader, B(ACCUSE) },
	{ "a file is changed behind a writer", changed_behind_a_writer, B(ACCUSE) },
	{ "a file grows behind a writer, within a tick", longer_in_the_same_tick,
	  B(ACCUSE) },
	{ "the counters are written over", counters_written_over, B(AUDIT) },
};

#undef B

static bool
play(const Scenario *scenario, FcBreaks broken)
{
	scene_open();

	/* A look at a stamp in between is a second safeguard of all the others. */
	fc_test_broken = broken != 0 ? broken | FC_BREAK(ACCUSE) : 0;

	bool wrong = scenario->play();

	fc_test_broken = 0;
	MUST(stop_act == NULL);
	scene_close();
	return wrong;
}

/* ---- no false accusation ------------------------------------------------- */

static void
write_of_b(void)
{
	tick();
	write_block(&scene.b, &scene.same, 5);
}

/*
 * A look between two steps of another's change, or a late one, accuses nobody.
 */
static void
test_only_strangers_are_accused(void)
{
	FcStampPermit permit;
	FcChange change;

	scene_open();
	for (uint32_t i = 0; i < 20; i++)
	{
		tick();
		write_block(i % 2 == 0 ? scene.a : &scene.b,
		            i % 2 == 0 ? &scene.file : &scene.same, i);
		(void) read_block(scene.a, &scene.file, i);
	}

	/* While a change is under way. */
	tick();
	begin_write(&scene.b, &scene.same, 3, &change);
	real_write(3);
	look_before(scene.a, &scene.file);
	end_write(&scene.b, &scene.same, &change);

	/* Between the look at the counts and that at the inode. */
	permit = fc_stamp_permit(scene.a, &scene.file);
	write_of_b();
	scene.accused += !fc_stamp_set(scene.a, &permit, &scene.inode);

	/* ... and after the last look. */
	permit = fc_stamp_permit(scene.a, &scene.file);
	stop_at("stamp-checked", write_of_b);
	scene.accused += !fc_stamp_set(scene.a, &permit, &scene.inode);
	MUST(stop_act == NULL);

	/* A killed writer leaves no stamp, and a new file has none. */
	begin_write(&scene.b, &scene.same, 3, &change);
	real_write(3);
	look_before(scene.a, &scene.file);
	fc_file_retire(scene.a, file_id(7));
	scene.inode.inode++;
	enter(scene.a, &scene.file);
	OK(scene.accused == 0 &&
	       fc_count_sum(scene.a, FC_COUNT_foreign_changes) == 0,
	   "who announces his changes is not accused");
	scene_close();

	scene_open();
	tick();
	real_write(3);
	look_before(scene.a, &scene.file);
	OK(scene.accused == 1 &&
	       fc_count_sum(scene.a, FC_COUNT_foreign_changes) == 1 &&
	       !fc_file_current(scene.a, &scene.file),
	   "who does not is, and the file has lost its number");
	(void) read_block(scene.a, &scene.file, 3);
	look_before(scene.a, &scene.file);
	OK(scene.accused == 1 && is_hit(scene.a, &scene.file, 3),
	   "... once, and then it is cached again");
	scene_close();
}

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	test_only_strangers_are_accused();
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
	{
		OK(!play(&scenarios[i], 0), "%s", scenarios[i].title);
		OK(play(&scenarios[i], scenarios[i].control),
		   "control: %s goes wrong without %s", scenarios[i].title,
		   fc_broken_names(scenarios[i].control));
	}
	return tap_done();
}
