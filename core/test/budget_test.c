/*
 * budget_test.c
 *		The write budget holds over minutes, under any load, on a clock of our
 *		own.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "support.h"
#include "tap.h"

#define SECOND 1000000000ULL
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define MB     (1024 * 1024ULL)
#define BLOCKS 100000

static Rig rig;
static FcFile file;

static void
begin(uint64_t bytes_per_day)
{
	fc_test_now_ns = 1000 * HOUR + 17 * MINUTE;
	rig_open(&rig, 4096, 64);
	file = fc_file(file_id(7));
	MUST(fc_file_enter(&rig.cache, &file) == FC_OK);
	fc_budget_set(&rig.cache, bytes_per_day);
}

static void
end(void)
{
	fc_test_now_ns = 0;
	rig_close(&rig);
}

static bool
put(uint32_t block)
{
	FcTicket ticket;
	Page page;

	if (fc_read(&rig.cache, &file, block, &page, &ticket) != FC_MISS)
		return false;
	page_make(&page, 7, block, 1);
	if (fc_fill(&rig.cache, &ticket, &page) != FC_OK)
		return false;
	rig_flush(&rig);
	return true;
}

static uint64_t
written(void)
{
	return fc_count_sum(&rig.cache, FC_COUNT_flash_write_bytes);
}

/*
 * A load that would write far more, for so long, with pauses.  Returns the most
 * that was written beyond what flowed in, over any span that begins at a
 * second's start.
 */
static int64_t
overdraft(uint64_t bytes_per_day, uint64_t seconds, Random *random)
{
	uint32_t block = 0;
	double least = 0; /* of what was written, less what had flowed in */
	double most = 0;

	for (uint64_t second = 0; second < seconds; second++)
	{
		double over;

		over = (double) written() -
		       (double) bytes_per_day * (double) second / 86400;
		if (over < least)
			least = over;
		if (random_below(random, 600) < 400)
			for (int i = 0; i < 20; i++)
			{
				(void) put(block++ % BLOCKS);
				fc_test_now_ns += SECOND / 40;
			}
		else
			fc_test_now_ns += SECOND / 2;
		fc_test_now_ns += SECOND / 2;
		over = (double) written() -
		       (double) bytes_per_day * (double) (second + 1) / 86400;
		if (over - least > most)
			most = over - least;
	}
	return (int64_t) most;
}

static void
test_holds(Random *random)
{
	/*
	 * 1 GB a day is 12 kB a second, a block and a half; 5 minutes' are 3.5 MB.
	 */
	uint64_t budget = 1024 * MB;
	uint64_t burst = budget * 300 / 86400;
	uint64_t hour = budget / 24;

	begin(budget);
	OK(overdraft(budget, 3600, random) <= (int64_t) (burst + 2 * FC_BLOCK_SIZE),
	   "in an hour no span of time has more than its share and 5 minutes'");
	OK(written() > hour * 95 / 100, "the share is used: %llu kB of %llu",
	   (unsigned long long) written() / 1024,
	   (unsigned long long) (hour + burst) / 1024);
	OK(fc_count_sum(&rig.cache, FC_COUNT_insert_skip_budget) > 1000,
	   "what is beyond it is skipped, and counted");
	end();

	begin(budget);
	fc_test_broken = FC_BREAK(BUDGET);
	OK(overdraft(budget, 600, random) > (int64_t) (2 * burst),
	   "(control) without it more would be written");
	fc_test_broken = 0;
	end();
}

static void
test_small_budget(Random *random)
{
	/* 12 bytes a second: a block in 11 minutes. */
	begin(MB);
	OK(overdraft(MB, 4 * 3600, random) <= 9 * FC_BLOCK_SIZE,
	   "a budget of 1 MB a day holds");
	OK(written() >= (8 + 4 * MB / 24 / FC_BLOCK_SIZE - 1) * FC_BLOCK_SIZE,
	   "and is used: %llu blocks",
	   (unsigned long long) written() / FC_BLOCK_SIZE);
	end();
}

static void
test_unlimited(void)
{
	FcBudgetInfo info;

	begin(0);
	for (uint32_t block = 0; block < 1000; block++)
		(void) put(block);
	OK(fc_count_sum(&rig.cache, FC_COUNT_insert_skip_budget) == 0,
	   "without a budget nothing is skipped");
	fc_budget_info(&rig.cache, &info);
	OK(info.bytes_per_day == 0 && info.day_bytes == written() &&
	       info.day_bytes > 0,
	   "but what is written is summed up");
	end();
}

static void
test_changed(void)
{
	uint64_t before;

	begin(MB);
	for (uint32_t block = 0; block < 100; block++)
		(void) put(block);
	before = written();
	OK(before <= 9 * FC_BLOCK_SIZE, "a small budget is soon used up");
	fc_budget_set(&rig.cache, MB);
	(void) put(200);
	OK(written() == before, "setting it again fills no bucket");
	fc_budget_set(&rig.cache, 1000000 * MB);
	for (uint32_t block = 300; block < 400; block++)
		(void) put(block);
	OK(written() == before + 100 * FC_BLOCK_SIZE,
	   "another budget counts at once");
	fc_budget_set(&rig.cache, MB);
	for (uint32_t block = 500; block < 600; block++)
		(void) put(block);
	OK(written() <= before + 109 * FC_BLOCK_SIZE, "a smaller one, too");
	end();
}

static void
test_updates(void)
{
	FcChange change;
	FcTicket ticket;
	Page page;

	begin(MB);
	MUST(put(1));
	for (uint32_t block = 2; block < 50; block++)
		(void) put(block);
	fc_change_begin(&rig.cache, &file, 1, 1, &change);
	fc_change_end(&rig.cache, &file, &change);
	page_make(&page, 7, 1, 2);
	OK(fc_change_fill(&rig.cache, &change, &page) == FC_SKIP,
	   "an update beyond the budget is skipped");
	OK(fc_read(&rig.cache, &file, 1, &page, &ticket) == FC_MISS,
	   "and the block is gone, not stale");
	end();
}

static void
test_day(void)
{
	FcBudgetInfo info;
	uint64_t day_budget = 1000 * MB;

	begin(day_budget);
	for (uint32_t block = 0; block < 100; block++)
		(void) put(block);
	fc_budget_info(&rig.cache, &info);
	OK(info.day_bytes == 100 * FC_BLOCK_SIZE &&
	       info.left_today_bytes == day_budget - 100 * FC_BLOCK_SIZE,
	   "what is left of the day's budget is what was not written");
	OK(info.burst_bytes == day_budget * 300 / 86400 &&
	       info.left_now_bytes == info.burst_bytes - 100 * FC_BLOCK_SIZE,
	   "what may be written at once is less");
	fc_test_now_ns += 10 * HOUR;
	for (uint32_t block = 200; block < 250; block++)
		(void) put(block);
	fc_budget_info(&rig.cache, &info);
	OK(info.day_bytes == 150 * FC_BLOCK_SIZE && info.day_ns == 10 * HOUR,
	   "10 hours later it is still of this day");
	fc_test_now_ns += 14 * HOUR;
	fc_budget_info(&rig.cache, &info);
	OK(info.day_bytes == 50 * FC_BLOCK_SIZE &&
	       info.day_ns == 23 * HOUR + 17 * MINUTE,
	   "after 24 hours it is not");
	OK(info.left_now_bytes == info.burst_bytes,
	   "and what may be written at once is there, though nobody asked");
	fc_test_now_ns += 48 * HOUR;
	fc_budget_info(&rig.cache, &info);
	OK(info.day_bytes == 0, "nor is the rest, days later");
	end();
}

int
main(void)
{
	Random random = { (uint64_t) from_environment("SEED", 1) };

	test_holds(&random);
	test_small_budget(&random);
	test_unlimited();
	test_changed();
	test_updates();
	test_day();
	return tap_done();
}
