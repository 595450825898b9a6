/*
 * fill_test.c
 *		Fills that no read asked for: they take room that nobody needs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "blocks.h"
#include "tap.h"

/* One set. */
#define SLOTS FC_WAYS

/* Rounds of reads after which the policy knows its blocks. */
#define ROUNDS 400

static Rig rig;
static FcFile wanted;
static FcFile other;

static void
begin(const FcReplacement *policy)
{
	FcConfig config = { .slot_count = SLOTS,
		                .file_count = 64,
		                .process_count = 16,
		                .replacement = policy };

	rig_open_with(&rig, &config);
	wanted = entered(&rig, 100);
	other = entered(&rig, 200);
}

static bool
load(const FcFile *file, uint32_t block, unsigned heat)
{
	if (look(&rig, file, block) != FC_MISS)
		return false;
	page_make(&page, file->id.relation, block, 1);
	if (fc_fill_load(&rig.cache, &ticket, &page, heat) != FC_OK)
		return false;
	rig_flush(&rig);
	return true;
}

static unsigned
served(const FcFile *file, uint32_t count)
{
	unsigned blocks = 0;

	for (uint32_t block = 0; block < count; block++)
		blocks += serves(&rig, file, block, 1);
	return blocks;
}

static void
test_room(void)
{
	unsigned loaded = 0;

	begin(&fc_replacement_gittins);
	for (uint32_t block = 0; block < 2 * SLOTS; block++)
		loaded += load(&other, block, 0);
	OK(loaded == SLOTS, "what is loaded takes all ways that are free");
	OK(served(&other, SLOTS) == SLOTS, "and stays, whatever is loaded later");
	rig_close(&rig);
}

/* How many of its blocks does the server still have after a large load? */
static unsigned
kept_after_load(void)
{
	unsigned kept;

	begin(&fc_replacement_gittins);
	for (int round = 0; round < ROUNDS; round++)
	{
		for (uint32_t block = 0; block < SLOTS; block++)
			(void) put(&rig, &wanted, block);
	}
	MUST(served(&wanted, SLOTS) == SLOTS);
	for (uint32_t block = 0; block < 100 * SLOTS; block++)
		(void) load(&other, block, 0);
	kept = served(&wanted, SLOTS);
	rig_close(&rig);
	return kept;
}

static void
test_nothing_wanted_goes(void)
{
	OK(kept_after_load() == SLOTS, "a load displaces nothing that is read");
	fc_test_broken = FC_BREAK(LOAD_AS_READ);
	OK(kept_after_load() < SLOTS, "control: as reads its fills would");
	fc_test_broken = 0;
}

static void
test_spare(void)
{
	unsigned spare = 0;
	unsigned hot = 0;
	FcFile third;

	begin(&fc_replacement_gittins);
	for (uint32_t block = 0; block < 2 * SLOTS; block++)
		spare += load(&other, block, FC_HEAT_SPARE);
	OK(spare == SLOTS && served(&other, SLOTS) == SLOTS,
	   "a spare block takes a way that is free");
	rig_close(&rig);

	begin(&fc_replacement_gittins);
	third = entered(&rig, 300);
	for (uint32_t block = 0; block < SLOTS; block++)
		MUST(load(&other, block, 0));
	for (int round = 0; round < ROUNDS; round++)
	{
		for (uint32_t block = 0; block < SLOTS / 2; block++)
			(void) put(&rig, &wanted, block);
	}
	spare = 0;
	for (uint32_t block = 0; block < SLOTS; block++)
		spare += load(&third, block, FC_HEAT_SPARE);
	for (uint32_t block = 0; block < SLOTS; block++)
		hot += load(&third, block, FC_HEATS - 1);
	OK(spare == 0 && hot > 0,
	   "and no other, where a hot one finds %u of %d that nobody reads", hot,
	   SLOTS);
	rig_close(&rig);
}

static void
test_queries_come_first(void)
{
	begin(&fc_replacement_gittins);
	for (uint32_t block = 0; block < SLOTS; block++)
		MUST(load(&other, block, 0));
	for (int round = 0; round < ROUNDS; round++)
	{
		for (uint32_t block = 0; block < SLOTS / 2; block++)
			(void) put(&rig, &wanted, block);
	}
	OK(served(&wanted, SLOTS / 2) == SLOTS / 2,
	   "what is read takes the place of what was loaded");
	rig_close(&rig);
}

static void
test_changes(void)
{
	begin(&fc_replacement_lfu);
	MUST(look(&rig, &other, 3) == FC_MISS);
	change_blocks(&rig.cache, &other, 3, 1);
	page_make(&page, 200, 3, 1);
	OK(fc_fill_load(&rig.cache, &ticket, &page, 3) == FC_SKIP,
	   "a block that changed since its ticket is not loaded");
	rig_close(&rig);
}

/* Another block of the file is being written: a load can wait for that. */
static void
test_beside_a_change(void)
{
	FcFile writer;
	FcTicket of_another;

	/* Blocks in different sets, so that the change leaves the ticket valid. */
	rig_open(&rig, 16 * SLOTS, 64);
	other = entered(&rig, 200);
	writer = other;
	MUST(look(&rig, &other, 9) == FC_MISS);
	of_another = ticket;
	MUST(look(&rig, &other, 3) == FC_MISS && ticket.set != of_another.set);
	page_make(&page, 200, 3, 1);
	fc_change_begin(&rig.cache, &writer, 9, 1, &change);
	OK(!fc_fill_may_load(&rig.cache, &ticket) &&
	       fc_fill_load(&rig.cache, &ticket, &page, 3) == FC_SKIP,
	   "nothing is loaded while a block of the file is being written");
	fc_change_end(&rig.cache, &writer, &change);
	OK(fc_fill_may_load(&rig.cache, &ticket) &&
	       fc_fill_load(&rig.cache, &ticket, &page, 3) == FC_OK,
	   "and then it is, with the same ticket");
	rig_close(&rig);
}

int
main(void)
{
	test_room();
	test_nothing_wanted_goes();
	test_spare();
	test_queries_come_first();
	test_changes();
	test_beside_a_change();
	return tap_done();
}
