/*
 * map_load_test.c
 *		While the map is taken in, the cache serves, fills and invalidates:
 *		nothing of the map may replace what has changed since.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "map_lives.h"
#include "stop.h"

static void
change_one(void)
{
	change(3, 1);
}

static void
change_each(void)
{
	for (uint32_t block = 0; block < BLOCKS; block++)
		change(block, 1);
}

static void
change_all(void)
{
	change(0, FC_BLOCKS_ALL);
}

static void
drop_file(void)
{
	fc_file_retire(&life.cache, file.id);
	for (uint32_t i = 0; i < BLOCKS; i++)
		disk[i]++;
	inode.inode++;
	fc_file_retire(&life.cache, file.id);
}

static void
clear(void)
{
	fc_change_all_begin(&life.cache);
	for (uint32_t i = 0; i < BLOCKS; i++)
		disk[i]++;
	fc_change_all_end(&life.cache);
}

/* Wrong blocks if something happens before, during or after the loading. */
static unsigned
wrong_with(const char *point, void (*act)(void), FcBreaks broken)
{
	unsigned wrong;

	save_full();
	begin();
	fc_test_broken = broken;
	stop_at(point, act);
	if (strcmp(point, "before") == 0)
		on_point("before");
	load();
	if (strcmp(point, "after") == 0)
		on_point("after");
	MUST(stop_act == NULL);
	wrong = read_all(FC_FAILED);
	fc_test_broken = 0;
	kill_life();
	return wrong;
}

static void
test_changes_meanwhile(void)
{
	static const char *const points[] = { "before", "record-claimed",
		                                  "record-compared", "after" };
	static const struct
	{
		const char *name;
		void (*act)(void);
	} acts[] = { { "a block changes", change_one },
		         { "every block changes", change_each },
		         { "a file is cut off", change_all },
		         { "a file is dropped", drop_file },
		         { "all is cleared", clear } };

	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		for (size_t j = 0; j < sizeof(points) / sizeof(points[0]); j++)
			OK(wrong_with(points[j], acts[i].act, 0) == 0, "%s: %s",
			   acts[i].name, points[j]);

	OK(wrong_with("before", change_one, FC_BREAK(SET_GENERATION)) > 0,
	   "control: without the set's generation a changed block is stale");
	OK(wrong_with("before", change_all, FC_BREAK(FILE_GENERATION)) > 0,
	   "control: without the file's generation a file cut off is stale");
	OK(wrong_with("record-compared", change_each, FC_BREAK(DOOM)) > 0,
	   "control: claims that are not doomed are published stale");
}

/* Reads before a record is taken in do not use up the room of its blocks. */
static void
test_reads_meanwhile(void)
{
	FcFile other = fc_file((FcFileId){ 1663, 5, 8, 0, 0 });

	save_full();
	begin();
	MUST(fc_file_enter(&life.cache, &other) == FC_OK);
	for (uint32_t block = 0; block < BLOCKS; block++)
	{
		Page page;
		FcTicket ticket;

		MUST(fc_read(&life.cache, &other, block, &page, &ticket) == FC_MISS);
		page_make(&page, 8, block, 1);
		(void) fc_fill(&life.cache, &ticket, &page);
		flush();
	}
	load();
	OK(read_all(FC_OK) == BLOCKS,
	   "what is read before the map is taken in displaces nothing of it");
	kill_life();

	save_full();
	begin();
	MUST(read_all(FC_MISS) == BLOCKS);
	load();
	OK(fc_file_used_slots(&life.cache) == BLOCKS && read_all(FC_OK) == BLOCKS,
	   "and what the map has is not cached twice");
	kill_life();
}

/* A changed set takes nothing from the map, so it may be filled at once. */
static void
test_fills_of_changed_sets(void)
{
	save_full();
	begin();
	for (uint32_t block = 0; block < BLOCKS; block++)
		change(block, 1);
	MUST(read_all(FC_MISS) == BLOCKS);
	OK(read_all(FC_OK) == BLOCKS, "sets that were changed are filled at once");
	load();
	OK(fc_file_used_slots(&life.cache) == BLOCKS && read_all(FC_OK) == BLOCKS,
	   "and the map adds nothing to them");
	kill_life();
}

/*
 * A number that the map does not know is no file of the map, however it is
 * used.
 */
static void
test_numbers_of_this_life(void)
{
	unsigned wrong = 0;

	(void) unlink(path);
	begin();
	(void) read_all(FC_MISS);
	fc_change_distrust(&life.cache, &file);
	(void) read_all(FC_MISS);
	MUST(read_all(FC_OK) == BLOCKS);
	end();

	begin();
	MUST(fc_file_enter(&life.cache, &file) == FC_OK);
	change_blocks(&life.cache, &file, 200, FC_BLOCKS_ALL);
	for (uint32_t i = 0; i < BLOCKS; i++)
		disk[i]++;
	load();
	OK(fc_file_used_slots(&life.cache) == 0,
	   "blocks of a file that failed are not taken in for its next number");
	wrong = read_all(FC_FAILED);
	OK(wrong == 0, "so none is wrong");
	kill_life();
}

/*
 * An empty set is not written, so that its record in the previous life's map
 * stays in place.
 */
static unsigned
wrong_of_a_map_before_the_last(FcBreaks broken)
{
	unsigned wrong;

	save_full();
	begin();
	load();
	change_all();
	enter();
	MUST(fc_file_used_slots(&life.cache) == 0);
	end();
	begin();
	MUST(life.start == FC_START_MAP);
	fc_test_broken = broken;
	load();
	wrong = read_all(FC_FAILED);
	fc_test_broken = 0;
	kill_life();
	return wrong;
}

static void
test_records_of_an_earlier_map(void)
{
	OK(wrong_of_a_map_before_the_last(0) == 0,
	   "records of an earlier map are left out");
	OK(wrong_of_a_map_before_the_last(FC_BREAK(NONCE)) > 0,
	   "control: without their life's nonce they are stale");
}

int
main(void)
{
	alarm(900);
	fc_test_point = on_point;
	make_file("pgflash-map-load");
	test_changes_meanwhile();
	test_reads_meanwhile();
	test_fills_of_changed_sets();
	test_numbers_of_this_life();
	test_records_of_an_earlier_map();
	(void) unlink(path);
	return tap_done();
}
