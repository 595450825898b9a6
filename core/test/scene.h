/*
 * scene.h
 *		A scene for interleavings: two or three processes, one set of slots, and
 *		points at which one process is stopped while another one acts.
 *
 * "Another process" is a second handle with a token of its own; where death
 * matters, it is a child.  There is one set of 64 slots, so that everything
 * collides.
 *
 * A scenario reports whether something went wrong.  It is played with the
 * library intact (nothing may go wrong), and with the mechanism left out that
 * guards the moment (something must go wrong: the control).  Where several
 * mechanisms back each other up, it is also played with each of them left out
 * alone (nothing may go wrong), and the control leaves out all of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef SCENE_H
#define SCENE_H

#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

#include "stop.h"
#include "support.h"
#include "tap.h"

#define SLOTS     FC_WAYS
#define RELATIONS 16
#define BLOCKS    8192

typedef struct Scene
{
	Rig rig;
	FcCache *a;                       /* the process that is stopped */
	FcCache b;                        /* the one that acts meanwhile */
	FcFile file;                      /* relation 7, as a knows it */
	FcFile same;                      /* the same, as b knows it */
	uint64_t disk[RELATIONS][BLOCKS]; /* version of each block */
	Page page;
	Page other;
	FcTicket ticket;
	FcChange change;
	bool wrong;
} Scene;

static Scene scene;

/* ---- stopping ------------------------------------------------------------ */

static jmp_buf cut_off;

static void
cut_here(void)
{
	longjmp(cut_off, 1);
}

/* ---- a policy that takes the way it is told ------------------------------ */

static unsigned told_way;

static void
told_touched(const FcReplacementPlace *place, unsigned way)
{
	(void) place;
	(void) way;
}

static void
told_missed(const FcReplacementPlace *place, FcCandidate *candidate)
{
	(void) place;
	(void) candidate;
}

static unsigned
told_choose(const FcReplacementPlace *place, const FcCandidate *candidate,
            uint64_t usable)
{
	(void) place;
	(void) candidate;
	return usable & (1ULL << told_way) ? told_way
	                                   : (unsigned) __builtin_ctzll(usable);
}

static void
told_moved(const FcReplacementPlace *place, unsigned way,
           const FcCandidate *candidate)
{
	(void) place;
	(void) way;
	(void) candidate;
}

static void
told_moves(const FcReplacementPlace *place, unsigned way,
           FcCandidate *candidate)
{
	(void) place;
	(void) way;
	(void) candidate;
}

static const FcReplacement told_policy = {
	.name = "told",
	.touched = told_touched,
	.missed = told_missed,
	.moves = told_moves,
	.choose = told_choose,
	.filled = told_moved,
	.evicted = told_moved,
};

/* ---- the world ----------------------------------------------------------- */

static void
scene_open(uint32_t files)
{
	FcConfig config = { .slot_count = SLOTS,
		                .file_count = files,
		                .process_count = 8,
		                .replacement = &told_policy };

	memset(&scene, 0, sizeof(scene));
	told_way = 0;
	rig_open_with(&scene.rig, &config);
	scene.a = &scene.rig.cache;
	MUST(fc_process_begin(scene.a) == FC_OK);
	MUST(fc_cache_attach(&scene.b, scene.rig.memory, &told_policy,
	                     &scene.rig.flash.device) == FC_OK);
	MUST(fc_process_begin(&scene.b) == FC_OK);
	scene.file = fc_file(file_id(7));
	MUST(fc_file_enter(scene.a, &scene.file) == FC_OK);
	scene.same = scene.file;
	stop_act = NULL;
}

static void
scene_close(void)
{
	rig_detach(&scene.b);
	rig_close(&scene.rig);
}

static void
real_read(uint32_t relation, uint32_t block, Page *page)
{
	page_make(page, relation, block, scene.disk[relation][block]);
}

static void
real_write(uint32_t relation, uint32_t block)
{
	scene.disk[relation][block]++;
}

/* Read as a host does; fill after a miss.  True if a wrong page was served. */
static bool
read_block(FcCache *cache, FcFile *file, uint32_t block)
{
	uint32_t relation = file->id.relation;
	Page page;
	FcTicket ticket;
	FcStatus status = fc_read(cache, file, block, &page, &ticket);

	if (status == FC_STALE && fc_file_enter(cache, file) == FC_OK)
		status = fc_read(cache, file, block, &page, &ticket);
	if (status == FC_OK)
		return !page_is(&page, relation, block, scene.disk[relation][block]);
	if (status == FC_MISS)
	{
		real_read(relation, block, &page);
		(void) fc_fill(cache, &ticket, &page);
	}
	return false;
}

/* Is a wrong page in the cache?  Reads only, so that nothing moves. */
UNUSED static bool
holds_wrong(FcCache *cache, FcFile *file, uint32_t block)
{
	Page page;
	FcTicket ticket;

	return fc_read(cache, file, block, &page, &ticket) == FC_OK &&
	       !page_is(&page, file->id.relation, block,
	                scene.disk[file->id.relation][block]);
}

static bool
is_hit(FcCache *cache, FcFile *file, uint32_t block)
{
	Page page;
	FcTicket ticket;

	return fc_read(cache, file, block, &page, &ticket) == FC_OK;
}

/*
 * Write staged blocks to flash: the writer's part.  False if there can be no
 * writer.
 */
static bool
flush(FcCache *cache)
{
	return fc_writer_flush(cache, FLUSH_NS) == FC_OK;
}

static void
stage_block(FcCache *cache, FcFile *file, uint32_t block)
{
	(void) read_block(cache, file, block);
	MUST(is_hit(cache, file, block));
}

UNUSED static void
cache_block(FcCache *cache, FcFile *file, uint32_t block)
{
	stage_block(cache, file, block);
	MUST(flush(cache));
}

/* Read blocks other than 3, more than there are slots. */
UNUSED static void
fill_the_set(FcCache *cache, FcFile *file)
{
	told_way = 0;
	for (uint32_t block = 100; block < 100 + SLOTS + 8; block++)
	{
		(void) read_block(cache, file, block);
		(void) flush(cache);
	}
}

/* Can every slot be used and every block be cached? */
UNUSED static bool
something_is_stuck(FcCache *cache, FcFile *file)
{
	(void) read_block(cache, file, 3);
	if (!is_hit(cache, file, 3))
		return true;
	fc_cache_clear(cache);
	for (uint32_t block = 1000; block < 1000 + SLOTS; block++)
	{
		(void) read_block(cache, file, block);
		if (!flush(cache))
			return true;
	}
	for (uint32_t block = 1000; block < 1000 + SLOTS; block++)
	{
		if (!is_hit(cache, file, block))
			return true;
	}
	return false;
}

static void
write_block(FcCache *cache, FcFile *file, uint32_t block)
{
	FcChange change;

	fc_change_begin(cache, file, block, 1, &change);
	real_write(file->id.relation, block);
	fc_change_end(cache, file, &change);
}

/* Truncate to this length and extend again with other contents. */
UNUSED static void
replace_from(FcCache *cache, FcFile *file, uint32_t first)
{
	FcChange change;

	fc_change_begin(cache, file, first, FC_BLOCKS_ALL, &change);
	for (uint32_t block = first; block < BLOCKS; block++)
		real_write(file->id.relation, block);
	fc_change_end(cache, file, &change);
}

/* Drop the file, and create another one under its name. */
UNUSED static void
recreate(FcCache *cache, FcFileId id)
{
	fc_file_retire(cache, id);
	for (uint32_t block = 0; block < BLOCKS; block++)
		real_write(id.relation, block);
	fc_file_retire(cache, id);
}

/* A retirement whose process is killed before it has dropped the blocks. */
UNUSED static void
retire_half_way(FcFileId id)
{
	FcCache dead = scene.b;

	if (setjmp(cut_off) == 0)
	{
		stop_at("number-retired", cut_here);
		fc_file_retire(&dead, id);
		MUST(!"the file was retired whole");
	}
}

/* Look a block up, read the file, and keep the ticket for later. */
UNUSED static void
take_ticket(FcCache *cache, FcFile *file, uint32_t block)
{
	MUST(fc_read(cache, file, block, &scene.page, &scene.ticket) == FC_MISS);
	real_read(file->id.relation, block, &scene.page);
}

/* Fill block 3 of a, with something happening at a point. */
UNUSED static void
fill_while(const char *point, void (*act)(void))
{
	take_ticket(scene.a, &scene.file, 3);
	stop_at(point, act);
	(void) fc_fill(scene.a, &scene.ticket, &scene.page);
	MUST(stop_act == NULL);
}

/* Read block 3 of a, a hit, with something happening at a point; wrong? */
UNUSED static bool
hit_while(const char *point, void (*act)(void))
{
	cache_block(scene.a, &scene.file, 3);
	stop_at(point, act);
	return read_block(scene.a, &scene.file, 3);
}

/* Relation 8, entered; it can only have the number that relation 7 had. */
UNUSED static FcFile
enter_next(void)
{
	FcFile next = fc_file(file_id(8));

	MUST(fc_file_enter(&scene.b, &next) == FC_OK);
	MUST(next.number == scene.file.number);
	return next;
}

UNUSED static void
write_block_3(void)
{
	write_block(&scene.b, &scene.same, 3);
}

/* The generation has advanced; the entries are still there. */
UNUSED static void
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

/* ---- processes that can be killed ---------------------------------------- */

static void
stop_myself(void)
{
	raise(SIGSTOP);
}

/*
 * A child that has stopped itself at a point, and reports whether it succeeded.
 */
UNUSED static pid_t
start_child(const char *point, bool (*act)(FcCache *))
{
	pid_t child = fork();
	int status;

	MUST(child >= 0);
	if (child == 0)
	{
		FcCache mine = scene.rig.cache;

		mine.token = 0;
		stop_at(point, stop_myself);
		_exit(act(&mine) ? 0 : 1);
	}
	MUST(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
	return child;
}

UNUSED static void
kill_child(pid_t child)
{
	MUST(kill(child, SIGKILL) == 0);
	MUST(waitpid(child, NULL, 0) == child);
}

/* Let it run to its end; true if it reports success. */
UNUSED static bool
let_finish(pid_t child)
{
	int status;

	MUST(kill(child, SIGCONT) == 0);
	MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status) == 0;
}

/* What such a child may do. */
UNUSED static bool
fill_block_3(FcCache *cache)
{
	MUST(fc_process_begin(cache) == FC_OK);
	take_ticket(cache, &scene.file, 3);
	return fc_fill(cache, &scene.ticket, &scene.page) == FC_OK;
}

/* ---- scenarios ----------------------------------------------------------- */

typedef struct Scenario
{
	const char *title;
	bool (*play)(void);
	FcBreaks control;   /* with these left out together, it goes wrong */
	FcBreaks backup[4]; /* with one of these left out, it does not */
} Scenario;

static bool
play(const Scenario *scenario, uint32_t files, FcBreaks broken)
{
	scene_open(files);
	fc_test_broken = broken;

	bool wrong = scenario->play();

	fc_test_broken = 0;
	MUST(stop_act == NULL);
	scene_close();
	return wrong;
}

/* Play each in a cache with numbers for so many files. */
static void
play_all(const Scenario *scenarios, size_t count, uint32_t files)
{
	for (size_t i = 0; i < count; i++)
	{
		const Scenario *scenario = &scenarios[i];

		OK(!play(scenario, files, 0), "%s", scenario->title);
		for (int j = 0; j < 4 && scenario->backup[j] != 0; j++)
			OK(!play(scenario, files, scenario->backup[j]),
			   "%s: held by another mechanism without %s", scenario->title,
			   fc_broken_names(scenario->backup[j]));
		OK(play(scenario, files, scenario->control),
		   "control: %s goes wrong without %s", scenario->title,
		   fc_broken_names(scenario->control));
	}
}

#define PLAY_ALL(scenarios, files)                                             \
	play_all(scenarios, sizeof(scenarios) / sizeof((scenarios)[0]), files)

/* Play what must hold and has no control. */
UNUSED static void
play_alone(const char *title, bool (*holds)(void))
{
	scene_open(64);
	OK(holds(), "%s", title);
	scene_close();
}

#endif
