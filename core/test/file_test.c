/*
 * file_test.c
 *		The dictionary: numbers assigned, retired and displaced, and its lock.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

#include "support.h"
#include "tap.h"

#define FILES 64

/* Number 0 is never assigned. */
#define NUMBERS (FILES - 1)

static uint64_t
generation_of(const Rig *rig, uint32_t number)
{
	return atomic_load(&fc_generations(rig->cache.shared)[number]);
}

static void
test_names(void)
{
	Rig rig;

	rig_open(&rig, 256, FILES);

	FcFile file = fc_file(file_id(7));
	FcFile again = file;
	FcFile fork = file;

	OK(!fc_file_current(&rig.cache, &file), "a new handle is not current");
	OK(!fc_file_resolve(&rig.cache, &file), "an unknown file is unknown");
	OK(fc_file_enter(&rig.cache, &file) == FC_OK &&
	       fc_file_current(&rig.cache, &file),
	   "a file that is entered is current");
	OK(fc_generation_state(file.generation) == FC_NUMBER_LIVE,
	   "a number that was given is live");
	OK(fc_file_enter(&rig.cache, &again) == FC_OK &&
	       again.number == file.number && again.generation == file.generation,
	   "a file has one number");

	fork.id.fork = 1;
	MUST(fc_file_enter(&rig.cache, &fork) == FC_OK);
	OK(fork.number != file.number, "another fork is another file");

	FcFile other[5] = { file, file, file, file, file };

	other[0].id.tablespace++;
	other[1].id.database++;
	other[2].id.relation++;
	other[3].id.fork = 3;
	other[4].id.segment = 1;

	bool known = false;

	for (int i = 0; i < 5; i++)
	{
		other[i].number = FC_FILE_NONE;
		other[i].absent_epoch = 0;
		known |= fc_file_resolve(&rig.cache, &other[i]);
	}
	OK(!known, "each part of the name counts");

	FcFileInfo info;

	OK(fc_file_info(&rig.cache, file.number, &info) && info.id.relation == 7 &&
	       info.cached_blocks == 0,
	   "a live number tells its file");
	OK(!fc_file_info(&rig.cache, fc_file_count(&rig.cache), &info),
	   "there is no file past the last one");
	rig_close(&rig);
}

static void
test_retire(void)
{
	Rig rig;

	rig_open(&rig, 256, FILES);

	FcFile file = entered(&rig, 7);
	FcFile held = file;
	FcFileInfo info;

	MUST(rig_put(&rig, &file, 3));
	fc_file_retire(&rig.cache, file.id);
	OK(!fc_file_current(&rig.cache, &held), "retiring makes handles stale");
	OK(fc_generation_state(generation_of(&rig, file.number)) ==
	       FC_NUMBER_RETIRED,
	   "the generation of a retired number is even");
	OK(!fc_file_resolve(&rig.cache, &held), "a retired file is unknown");
	OK(!fc_file_info(&rig.cache, file.number, &info),
	   "a retired number tells nothing");
	OK(fc_file_used_slots(&rig.cache) == 0, "its blocks are gone");

	uint64_t generation = generation_of(&rig, file.number);

	fc_file_retire(&rig.cache, file.id);
	OK(generation_of(&rig, file.number) == generation,
	   "retiring an unknown file does nothing");

	FcFile again = entered(&rig, 7);

	OK(again.generation > file.generation || again.number != file.number,
	   "a file created again has another number, or a later generation");
	OK(!fc_file_current(&rig.cache, &file),
	   "the handle on the file before it stays stale");
	rig_close(&rig);
}

static void
test_truncate(void)
{
	Rig rig;
	FcChange change;

	rig_open(&rig, 4096, FILES);

	FcFile file = entered(&rig, 7);
	FcFile held = file;
	FcFile writer = file;

	for (uint32_t block = 0; block < 300; block++)
		MUST(rig_put(&rig, &file, block));
	fc_change_begin(&rig.cache, &writer, 100, FC_BLOCKS_ALL, &change);
	OK(!fc_file_current(&rig.cache, &held), "a truncation makes handles stale");
	fc_change_end(&rig.cache, &writer, &change);
	OK(fc_file_resolve(&rig.cache, &held) && held.number == file.number,
	   "but the number stays");
	OK(fc_generation_state(held.generation) == FC_NUMBER_LIVE &&
	       held.generation > file.generation,
	   "and the generation grows and stays odd");

	unsigned wrong = 0;

	for (uint32_t block = 0; block < 300; block++)
		wrong += fc_read_would_hit(&rig.cache, &held, block) != (block < 100);
	OK(wrong == 0, "what is cut off is forgotten, and nothing else");

	change_blocks(&rig.cache, &writer, 0, FC_BLOCKS_ALL);
	OK(writer.number == file.number, "truncation to zero never renumbers");
	OK(fc_file_used_slots(&rig.cache) == 0, "and forgets everything");
	rig_close(&rig);
}

static void
test_absent_files(void)
{
	Rig rig;

	rig_open(&rig, 256, FILES);

	FcFile writer = fc_file(file_id(7));

	OK(!fc_file_resolve(&rig.cache, &writer) && writer.absent_epoch != 0,
	   "a writer remembers when its file was unknown");

	FcFile reader = entered(&rig, 8);

	OK(!fc_file_resolve(&rig.cache, &writer), "another file is not its own");
	reader = entered(&rig, 7);
	OK(fc_file_resolve(&rig.cache, &writer) && writer.number == reader.number,
	   "it finds the file as soon as a reader has entered it");

	/* Killed in the middle of entering: the epoch stays odd. */
	FcFile other = fc_file(file_id(9));

	atomic_fetch_or(&rig.cache.shared->absent_epoch, 1);
	OK(!fc_file_resolve(&rig.cache, &other) && other.absent_epoch == 0,
	   "while a file becomes known nothing is remembered");
	(void) entered(&rig, 10);
	OK(atomic_load(&rig.cache.shared->absent_epoch) % 2 == 0,
	   "the next one to enter a file sets it right");
	rig_close(&rig);
}

/*
 * With all numbers in use, the next file takes that of the one with fewest
 * blocks.
 */
static void
test_displacement(void)
{
	Rig rig;
	FcFile file[NUMBERS];
	FcFile late = fc_file(file_id(1000));
	uint32_t displaced = 0;
	uint32_t others = 0;

	rig_open(&rig, 4096, FILES);
	for (uint32_t i = 0; i < NUMBERS; i++)
		file[i] = entered(&rig, i);
	for (uint32_t i = 0; i < NUMBERS; i++)
	{
		for (uint32_t block = 0; block < (i == 17 ? 1 : 2 + i % 5); block++)
			MUST(rig_put(&rig, &file[i], block));
	}

	OK(fc_file_enter(&rig.cache, &late) == FC_OK &&
	       fc_count_sum(&rig.cache, FC_COUNT_file_displacements) == 1,
	   "a full table makes room for one file, and counts it");
	OK(late.number == file[17].number &&
	       !fc_file_current(&rig.cache, &file[17]),
	   "the file with the fewest cached blocks loses its number");
	for (uint32_t i = 0; i < NUMBERS; i++)
	{
		displaced += !fc_file_current(&rig.cache, &file[i]);
		others += i != 17 && fc_read_would_hit(&rig.cache, &file[i], 1);
	}
	OK(displaced == 1 && others == NUMBERS - 1, "no other file loses anything");
	OK(!fc_read_would_hit(&rig.cache, &late, 0),
	   "its block is not the new file's");

	/* The new file has had no reads, either: it is the next to be displaced. */
	late = entered(&rig, 1001);
	OK(late.number == file[17].number, "who has no block at all goes first");
	OK(fc_count_sum(&rig.cache, FC_COUNT_clears) == 0 &&
	       fc_count_sum(&rig.cache, FC_COUNT_file_shortages) == 0,
	   "and the cache is never cleared for it");
	rig_close(&rig);
}

/* Read as a host does; counts hits, and checks that they were right. */
static bool
read_as_host(Rig *rig, FcFile *file, uint32_t block, uint32_t *wrong)
{
	static Page page;
	FcTicket ticket;
	FcStatus status = FC_STALE;

	for (int try = 0; try < 2 && status == FC_STALE; try++)
	{
		if (!fc_file_current(&rig->cache, file))
			MUST(fc_file_enter(&rig->cache, file) == FC_OK);
		status = fc_read(&rig->cache, file, block, &page, &ticket);
	}
	if (status == FC_OK)
		*wrong += !page_is(&page, file->id.relation, block, 1);
	if (status == FC_MISS)
	{
		page_make(&page, file->id.relation, block, 1);
		(void) fc_fill(&rig->cache, &ticket, &page);
		rig_flush(rig);
	}
	return status == FC_OK;
}

#define MANY_FILES 20000
#define HOT_FILES  200
#define HOT_BLOCKS 8

/* Far more files than numbers; a few of them are read all the time. */
static double
hit_ratio_of_hot_files(uint64_t *displacements)
{
	static FcFile file[MANY_FILES];
	uint32_t hits = 0;
	uint32_t reads = 0;
	uint32_t wrong = 0;
	Rig rig;

	rig_open(&rig, 8192, 1024);
	for (uint32_t i = 0; i < MANY_FILES; i++)
		file[i] = fc_file(file_id(i));
	for (uint32_t i = 0; i < MANY_FILES; i++)
	{
		uint32_t hot = i % HOT_FILES;
		uint32_t block = i / HOT_FILES % HOT_BLOCKS;

		(void) read_as_host(&rig, &file[i], 0, &wrong);
		if (i < MANY_FILES / 2)
			(void) read_as_host(&rig, &file[hot], block, &wrong);
		else
		{
			hits += read_as_host(&rig, &file[hot], block, &wrong);
			reads++;
		}
	}
	MUST(wrong == 0);
	*displacements = fc_count_sum(&rig.cache, FC_COUNT_file_displacements);
	MUST(fc_count_sum(&rig.cache, FC_COUNT_clears) == 0);
	rig_close(&rig);
	return (double) hits / reads;
}

static void
test_more_files_than_numbers(void)
{
	uint64_t displacements;
	double ratio = hit_ratio_of_hot_files(&displacements);

	OK(displacements > MANY_FILES - 1024 && ratio > 0.97,
	   "%d files through 1,024 numbers: the hot ones keep %.1f %% hits",
	   MANY_FILES, ratio * 100);
	fc_test_broken = FC_BREAK(FEWEST);
	ratio = hit_ratio_of_hot_files(&displacements);
	fc_test_broken = 0;
	OK(ratio < 0.8, "control: if anybody may be displaced they keep %.1f %%",
	   ratio * 100);
}

static void
test_retired_numbers_are_free(void)
{
	Rig rig;
	FcFile file[NUMBERS];

	rig_open(&rig, 256, FILES);
	for (uint32_t i = 0; i < NUMBERS; i++)
		file[i] = entered(&rig, i);
	for (uint32_t i = 0; i < NUMBERS / 2; i++)
		fc_file_retire(&rig.cache, file[i].id);
	for (uint32_t i = 0; i < NUMBERS / 2; i++)
		(void) entered(&rig, 1000 + i);
	OK(fc_count_sum(&rig.cache, FC_COUNT_file_displacements) == 0,
	   "numbers that were retired are taken before anybody is displaced");

	bool current = true;

	for (uint32_t i = NUMBERS / 2; i < NUMBERS; i++)
		current &= fc_file_current(&rig.cache, &file[i]);
	OK(current, "the living keep theirs");

	/*
	 * Every number is reused again and again: an old handle must never look
	 * current.
	 */
	FcFile old = file[0];
	bool revived = false;

	for (uint32_t round = 0; round < 2000; round++)
	{
		FcFile next = entered(&rig, 5000 + round);

		revived |= fc_file_current(&rig.cache, &old);
		if (round % 3 == 0)
			fc_file_retire(&rig.cache, next.id);
	}
	OK(!revived, "a stale handle is stale over all later uses of its number");
	OK(generation_of(&rig, old.number) > old.generation + 2,
	   "though the number was used again");
	rig_close(&rig);
}

/* A filler's claim does not keep its file's number from the next file. */
static void
test_numbers_of_pending_fills(void)
{
	Rig rig;
	FcCache filler;
	FcSeen claim;
	FcTicket ticket;
	static Page page;

	rig_open(&rig, 256, 2);
	rig_attach(&rig, &filler);
	MUST(fc_process_begin(&rig.cache) == FC_OK);

	FcFile file = entered(&rig, 7);

	MUST(fc_read(&filler, &file, 3, &page, &ticket) == FC_MISS);
	MUST(fc_claim(&filler, &ticket, &claim) == FC_OK);

	FcFile next = entered(&rig, 8);

	OK(next.number == file.number,
	   "a number is given again while a fill of it is pending");
	OK(fc_claim_publish(&filler, &ticket, &claim, FC_VALID, 0) == FC_SKIP &&
	       fc_file_used_slots(&rig.cache) == 0,
	   "the fill comes to nothing, and is counted off");

	/* A filler that dies leaves the count too high, which costs a look. */
	MUST(fc_read(&filler, &next, 3, &page, &ticket) == FC_MISS);
	MUST(fc_claim(&filler, &ticket, &claim) == FC_OK);
	fc_process_end(&filler);
	file = entered(&rig, 7);
	OK(file.number == next.number && rig_put(&rig, &file, 3) &&
	       fc_file_used_slots(&rig.cache) >= 1,
	   "nor does one that is gone keep it");
	fc_cache_close(&filler);
	rig_close(&rig);
}

/*
 * Its retirer was killed half-way: the next process to need the place finishes.
 */
static void
test_number_of_a_dead_retirer(void)
{
	Rig rig;

	rig_open(&rig, 256, 2);

	FcFile file = entered(&rig, 7);

	MUST(rig_put(&rig, &file, 3));
	MUST(atomic_fetch_add(&fc_generations(rig.cache.shared)[file.number],
	                      FC_GENERATION_ONE - FC_NUMBER_LIVE) ==
	     file.generation);

	FcFile next = entered(&rig, 8);

	OK(next.number == file.number && !fc_read_would_hit(&rig.cache, &next, 3) &&
	       fc_file_used_slots(&rig.cache) == 0,
	   "a number whose retirer was killed is emptied by who needs it");
	OK(fc_count_sum(&rig.cache, FC_COUNT_file_displacements) == 0,
	   "which displaces nobody");
	rig_close(&rig);
}

/* ---- the lock ------------------------------------------------------------ */

static const char *stop_at;
static jmp_buf cut_off;

static void
die_here(const char *name)
{
	if (strcmp(name, stop_at) == 0)
		raise(SIGKILL);
}

static void
cut_off_here(const char *name)
{
	if (strcmp(name, stop_at) == 0)
	{
		fc_test_point = NULL;
		longjmp(cut_off, 1);
	}
}

static void
test_lock_of_the_dead(void)
{
	static const char *const points[] = { "number-written", "tag-written" };

	for (int i = 0; i < 2; i++)
	{
		Rig rig;
		FcFile file = fc_file(file_id(7));

		rig_open(&rig, 256, FILES);

		pid_t child = fork();

		MUST(child >= 0);
		if (child == 0)
		{
			stop_at = points[i];
			fc_test_point = die_here;
			IGNORE(fc_file_enter(&rig.cache, &file));
			_exit(0);
		}

		int status;

		MUST(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		MUST(atomic_load(&rig.cache.shared->file_lock) != 0);

		fc_test_broken = FC_BREAK(TAKEOVER);
		OK(fc_file_enter(&rig.cache, &file) == FC_FULL,
		   "control: the lock of a process dead at %s is held", points[i]);
		fc_test_broken = 0;
		OK(fc_file_enter(&rig.cache, &file) == FC_OK &&
		       fc_file_current(&rig.cache, &file),
		   "the lock of a process dead at %s is taken over", points[i]);
		OK(atomic_load(&rig.cache.shared->file_lock) == 0, "and given back");
		OK(atomic_load(&rig.cache.shared->absent_epoch) % 2 == 0,
		   "and the table is whole");
		OK(rig_put(&rig, &file, 1), "and the file can be cached");
		rig_close(&rig);
	}
}

/* A function of its own: variables of the one that calls setjmp may be lost. */
static void
enter_until_cut_off(Rig *rig, FcFile *file)
{
	if (setjmp(cut_off) == 0)
		IGNORE(fc_file_enter(&rig->cache, file));
}

static void
test_lock_of_oneself(void)
{
	static const char *const points[] = { "number-written", "tag-written" };

	for (int i = 0; i < 2; i++)
	{
		Rig rig;
		FcFile file = fc_file(file_id(7));

		rig_open(&rig, 256, FILES);
		stop_at = points[i];
		fc_test_point = cut_off_here;
		enter_until_cut_off(&rig, &file);
		MUST(atomic_load(&rig.cache.shared->file_lock) == rig.cache.token);

		fc_test_broken = FC_BREAK(SELF);
		OK(fc_file_enter(&rig.cache, &file) == FC_FULL,
		   "control: cut off at %s, a process waits for itself", points[i]);
		fc_test_broken = 0;
		OK(fc_file_enter(&rig.cache, &file) == FC_OK,
		   "cut off at %s, a process takes its own lock over", points[i]);
		OK(atomic_load(&rig.cache.shared->file_lock) == 0, "and gives it back");
		rig_close(&rig);
	}
}

static void
test_lock_of_the_living(void)
{
	Rig rig;
	FcCache holder;
	FcFile file = fc_file(file_id(7));

	rig_open(&rig, 256, FILES);
	rig_attach(&rig, &holder);
	atomic_store(&rig.cache.shared->file_lock, holder.token);
	OK(fc_file_enter(&rig.cache, &file) == FC_FULL,
	   "who cannot have the lock goes on without");
	OK(atomic_load(&rig.cache.shared->file_lock) == holder.token &&
	       fc_count_sum(&rig.cache, FC_COUNT_file_shortages) == 1,
	   "the lock of the living is respected, and the file counted");
	atomic_store(&rig.cache.shared->file_lock, 0);
	rig_detach(&holder);
	rig_close(&rig);
}

int
main(void)
{
	test_names();
	test_retire();
	test_truncate();
	test_absent_files();
	test_displacement();
	test_more_files_than_numbers();
	test_retired_numbers_are_free();
	test_numbers_of_pending_fills();
	test_number_of_a_dead_retirer();
	test_lock_of_the_dead();
	test_lock_of_oneself();
	test_lock_of_the_living();
	return tap_done();
}
