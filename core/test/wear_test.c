/*
 * wear_test.c
 *		A day's writes are known over restarts, whatever becomes of the cache.
 *
 * Lives of a cache on its own files, with a clock and a machine that the test
 * controls.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "count.h"
#include "ondisk.h"
#include "support.h"
#include "tap.h"

#define SECOND 1000000000ULL
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define MB     (1024 * 1024ULL)
#define FILES  2
#define SLOTS  (4 * FC_WAYS)

/* A block and a half a second; 5 minutes' are 3.5 MB. */
#define BUDGET (1024 * MB)
#define BURST  (BUDGET * 300 / 86400)

typedef struct Life
{
	FcDevice device[FILES];
	FcCache cache;
	FcConfig config;
	void *memory;
} Life;

static Life life;
static char path[FILES][200];
static const char *named[FILES]; /* in the order of the setting */
static uint64_t boot;
static uint64_t budget;
static uint32_t next_block;

static void
begin_with(uint32_t files, uint32_t slots)
{
	static uint64_t nonce = 100;
	FcIdentity home = { .system = 1, .boot = { boot, 5 } };

	memset(&life, 0, sizeof(life));
	life.config = (FcConfig){ .slot_count = files * slots,
		                      .device_count = files,
		                      .file_count = 64,
		                      .process_count = 8,
		                      .replacement = &fc_replacement_lfu };
	for (uint32_t i = 0; i < files; i++)
		MUST(fc_device_file_open(&life.device[i], named[i], slots, 0) ==
		     FC_DEVICE_FINE);
	life.memory = shared_memory(fc_cache_memory_needed(&life.config));
	MUST(fc_cache_create(&life.cache, life.memory, &life.config, life.device) ==
	     FC_OK);
	MUST(fc_life_begin(&life.cache, &home, ++nonce) == FC_OK);
	fc_wear_begin(&life.cache, budget);
	MUST(fc_process_begin(&life.cache) == FC_OK);
	MUST(fc_mode_set(&life.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
}

static void
begin(void)
{
	begin_with(1, SLOTS);
}

static void
kill_life(void)
{
	fc_cache_close(&life.cache);
	for (uint32_t i = 0; i < life.config.device_count; i++)
		life.device[i].ops->close(&life.device[i]);
	munmap(life.memory, fc_cache_memory_needed(&life.config));
}

static void
end(void)
{
	fc_wear_end(&life.cache);
	kill_life();
}

/* Read blocks for the first time; how many of them were written to flash? */
static uint32_t
put(uint32_t count)
{
	FcFile file = fc_file(file_id(7));
	uint32_t done = 0;

	MUST(fc_file_enter(&life.cache, &file) == FC_OK);
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t block = next_block++;
		FcTicket ticket;
		Page page;

		MUST(fc_read(&life.cache, &file, block, &page, &ticket) == FC_MISS);
		page_make(&page, 7, block, 1);
		if (fc_fill(&life.cache, &ticket, &page) != FC_OK)
			continue;
		MUST(fc_writer_flush(&life.cache, FLUSH_NS) == FC_OK);
		done++;
	}
	return done;
}

/* Act as housekeeping does until everything due has been written. */
static void
save(void)
{
	uint64_t before = life.cache.shared->budget.sequence[0];

	fc_test_now_ns += 10 * SECOND;
	while (life.cache.shared->budget.sequence[0] == before)
		fc_wear_save(&life.cache);
}

static FcBudgetInfo
info(void)
{
	FcBudgetInfo out;

	fc_budget_info(&life.cache, &out);
	return out;
}

static uint64_t
day_blocks(void)
{
	return info().day_bytes / FC_BLOCK_SIZE;
}

/* Two new files on a machine that runs for days. */
static void
make_files(void)
{
	fc_test_broken = 0;
	budget = 0;
	fc_test_now_ns = 1000 * HOUR + 17 * MINUTE;
	boot = 4711;
	for (int i = 0; i < FILES; i++)
	{
		(void) unlink(path[i]);
		named[i] = path[i];
	}
}

/* ---- the day ------------------------------------------------------------- */

static void
test_restart(void)
{
	make_files();
	begin();
	OK(day_blocks() == 0 && info().day_ns == 0, "a new file knows of nothing");
	MUST(put(100) == 100);
	fc_test_now_ns += 10 * HOUR;
	MUST(put(50) == 50);
	end();
	begin();
	OK(day_blocks() == 150 && info().day_ns == 10 * HOUR,
	   "what was written is known after a restart, and since when");
	MUST(put(7) == 7);
	end();
	fc_test_now_ns += 14 * HOUR;
	begin();
	OK(day_blocks() == 57,
	   "24 hours later the first of it counts no more: %llu",
	   (unsigned long long) day_blocks());
	end();
	fc_test_now_ns += 100 * HOUR;
	begin();
	OK(day_blocks() == 0, "nor does anything, days later");
	end();

	/* As a real clock does, it advances between two looks. */
	make_files();
	fc_test_tick_ns = 1;
	begin();
	MUST(put(100) == 100);
	end();
	for (int i = 0; i < 25; i++)
	{
		fc_test_now_ns += HOUR;
		begin();
		end();
	}
	begin();
	OK(day_blocks() == 0, "restarts do not make it younger: %llu",
	   (unsigned long long) day_blocks());
	end();
	fc_test_tick_ns = 0;

	make_files();
	begin();
	MUST(put(100) == 100);
	end();
	fc_test_broken = FC_BREAK(WEAR);
	begin();
	OK(day_blocks() == 0, "(control) without it the day starts over");
	end();
}

static void
test_cold(void)
{
	FcDevice device;
	int fd;
	uint32_t version = 99;

	make_files();
	begin();
	MUST(put(100) == 100);
	end();
	begin_with(1, 2 * SLOTS);
	OK(day_blocks() == 100, "a file of another size has worn as much");
	end();
	fd = open(path[0], O_RDWR);
	MUST(fd >= 0 && pwrite(fd, &version, sizeof(version), 8) == 4);
	close(fd);
	MUST(fc_device_file_open(&device, path[0], SLOTS, 0) == FC_DEVICE_FINE);
	MUST(device.label.other_version);
	device.ops->close(&device);
	begin();
	OK(day_blocks() == 100, "so has one of another version");
	end();
	(void) unlink(path[0]);
	begin();
	OK(day_blocks() == 0 && info().day_ns == 0,
	   "one that was removed starts over");
	end();
}

/*
 * The same bytes in another file: they were not written here a hundred times.
 */
static void
test_copy(void)
{
	char command[512];

	make_files();
	begin();
	MUST(put(100) == 100);
	end();
	snprintf(command, sizeof(command), "cp '%s' '%s'", path[0], path[1]);
	MUST(system(command) == 0);
	named[0] = path[1];
	begin();
	OK(day_blocks() == 0, "a copy of a file has not worn as the file has");
	end();
}

/* ---- crashes ------------------------------------------------------------- */

static void
test_killed(void)
{
	make_files();
	begin();
	MUST(put(100) == 100);
	save();
	MUST(put(20) == 20);
	fc_wear_save(&life.cache);
	kill_life();
	begin();
	OK(day_blocks() == 100, "who was killed loses what came after the record");
	MUST(put(30) == 30);
	save();
	MUST(put(30) == 30);
	save();
	kill_life();
	begin();
	OK(day_blocks() == 160, "a record is made every 10 seconds");
	end();
}

/* The last record, or one byte of it, was not written. */
static void
tear(off_t place)
{
	FcDiskWear wear;
	int fd = open(path[0], O_RDWR);

	MUST(fd >= 0 && pread(fd, &wear, sizeof(wear), place) == sizeof(wear));
	wear.blocks[0] += 1000000;
	MUST(pwrite(fd, &wear, sizeof(wear), place) == sizeof(wear));
	close(fd);
}

static off_t
last_place(void)
{
	FcDiskWear wear[2];
	int fd = open(path[0], O_RDONLY);

	MUST(fd >= 0);
	for (int i = 0; i < 2; i++)
		MUST(pread(fd, &wear[i], sizeof(wear[i]),
		           FC_WEAR_OFFSET + i * FC_BLOCK_SIZE) == sizeof(wear[i]));
	close(fd);
	return FC_WEAR_OFFSET +
	       (wear[1].sequence > wear[0].sequence ? FC_BLOCK_SIZE : 0);
}

static uint64_t
day_after_torn_write(FcBreaks broken)
{
	uint64_t blocks;

	make_files();
	fc_test_broken = broken;
	begin();
	MUST(put(100) == 100);
	save();
	MUST(put(20) == 20);
	save();
	kill_life();
	tear(last_place());
	begin();
	blocks = day_blocks();
	kill_life();
	return blocks;
}

static void
test_torn(void)
{
	OK(day_after_torn_write(0) == 100,
	   "a record that is torn is none, and the one before counts");
	OK(day_after_torn_write(FC_BREAK(WEAR_CRC)) > 1000000,
	   "(control) without the checksum it would be believed");
	OK(day_after_torn_write(FC_BREAK(WEAR_PLACES)) == 0,
	   "(control) at one place only there would be none before");
}

/* A device of the test that accepts a record and does nothing with it. */
static void
never_start(FcDevice *device, FcTransfer *transfer)
{
	(void) device;
	(void) transfer;
}

static FcTransfer *
never_finished(FcDevice *device)
{
	(void) device;
	return NULL;
}

static void
test_hangs(void)
{
	FcDeviceOps hangs;

	make_files();
	begin_with(2, SLOTS);
	MUST(put(200) == 200);
	hangs = *life.device[1].ops;
	hangs.start = never_start;
	hangs.finished = never_finished;
	life.device[1].ops = &hangs;
	save();
	OK(life.cache.shared->budget.sequence[0] == 2 &&
	       life.cache.shared->budget.sequence[1] == 1,
	   "nobody waits for a device that does not take its record");
}

/* ---- time ---------------------------------------------------------------- */

static void
test_boot(void)
{
	make_files();
	begin();
	MUST(put(100) == 100);
	fc_test_now_ns += 3 * HOUR;
	MUST(put(10) == 10);
	end();
	boot++;
	fc_test_now_ns = 2 * HOUR;
	begin();
	OK(day_blocks() == 110 && info().day_ns == 5 * HOUR,
	   "after another boot all is as old as that at least");
	end();
	fc_test_now_ns = 20 * HOUR + 30 * MINUTE;
	begin();
	OK(day_blocks() == 110, "and gets older from there on");
	fc_test_now_ns += 2 * HOUR;
	OK(day_blocks() == 10, "until it counts no more");
	end();

	/* Booted every 20 minutes, for ever: writes still sum up, and expire. */
	make_files();
	for (int i = 0; i < 30; i++)
	{
		boot++;
		fc_test_now_ns = MINUTE;
		begin();
		MUST(put(1) == 1);
		fc_test_now_ns += 19 * MINUTE;
		end();
	}
	begin();
	OK(day_blocks() == 30, "boots do not make it forget");
	end();
	for (int i = 0; i < 24; i++)
	{
		boot++;
		fc_test_now_ns = HOUR;
		begin();
		end();
	}
	begin();
	OK(day_blocks() == 0, "nor do they keep it for ever");
	end();

	make_files();
	begin();
	MUST(put(100) == 100);
	end();
	boot++;
	fc_test_now_ns = 25 * HOUR;
	fc_test_broken = FC_BREAK(WEAR_BOOT);
	begin();
	OK(day_blocks() == 100,
	   "(control) if all boots had one clock it would stay");
	end();

	make_files();
	begin();
	MUST(put(100) == 100);
	end();
	boot = 0;
	fc_test_now_ns += 100 * HOUR;
	begin();
	OK(day_blocks() == 100, "who does not know its boot takes it for new");
	end();
}

/* ---- the budget ---------------------------------------------------------- */

static void
test_bucket(void)
{
	uint32_t all = BURST / FC_BLOCK_SIZE + 1;

	make_files();
	budget = BUDGET;
	begin();
	OK(put(2 * all) == all, "a new file begins with 5 minutes' worth");
	end();
	budget = BUDGET;
	begin();
	OK(put(10) == 0, "who was stopped with nothing left has nothing left");
	end();
	fc_test_now_ns += 150 * SECOND;
	budget = BUDGET;
	begin();
	OK(put(all) <= all / 2 + 1, "but for what flowed in meanwhile");
	end();
	fc_test_now_ns += 100 * HOUR;
	budget = BUDGET;
	begin();
	OK(put(2 * all) == all, "which is 5 minutes' worth at most");
	end();
	budget = 2 * BUDGET;
	begin();
	OK(put(10) == 10, "another budget starts over, as it does while it runs");
	end();
}

/*
 * Killed at once, with the saved-up budget on record: the next life's blocks.
 */
static uint32_t
written_after_savings(FcBreaks broken)
{
	uint32_t blocks;

	make_files();
	fc_test_broken = broken;
	budget = BUDGET;
	begin();
	MUST(put(1) == 1);
	save();
	MUST(put(400) == 400);
	kill_life();
	budget = BUDGET;
	begin();
	blocks = put(400);
	end();
	return blocks;
}

/* Blocks written while it is started and killed for so long. */
static uint64_t
written_by_the_killed(FcBreaks broken, int seconds)
{
	uint64_t blocks = 0;

	make_files();
	fc_test_broken = broken;
	for (int second = 0; second < seconds; second += 20)
	{
		uint32_t now;

		budget = BUDGET;
		begin();
		fc_test_now_ns += 10 * SECOND;
		now = put(300);
		if (now > 0)
			save();
		else
			fc_test_now_ns += 10 * SECOND;
		blocks += now;
		kill_life();
	}
	return blocks;
}

static void
test_killed_again_and_again(void)
{
	uint64_t share = BUDGET * 200 / 86400 / FC_BLOCK_SIZE;
	uint64_t burst = BURST / FC_BLOCK_SIZE;
	uint64_t blocks = written_by_the_killed(0, 200);

	/* One more block each time, which empties a bucket that is almost empty. */
	OK(blocks > share / 2 && blocks <= share + burst + 10,
	   "who is killed again and again stays within the budget: %llu blocks",
	   (unsigned long long) blocks);
	OK(written_by_the_killed(FC_BREAK(WEAR), 200) > 2 * (share + burst),
	   "(control) without records it writes any amount");

	OK(written_after_savings(0) == 0,
	   "what was saved up is not had a second time");

	make_files();
	budget = BUDGET;
	begin();
	MUST(put(400) == 400);
	kill_life();
	begin();
	OK(put(400) == 0, "nor by who is killed before there is a record of it");
	end();

	OK(written_after_savings(FC_BREAK(WEAR_ENDED)) == 400,
	   "(control) if being killed were an end it would be");
}

/* ---- several files ------------------------------------------------------- */

static void
test_files(void)
{
	uint64_t of_first;

	make_files();
	begin_with(2, SLOTS);
	MUST(put(200) == 200);
	of_first =
		fc_count_sum_of_device(life.cache.shared, 0, FC_DEVICE_WRITES_DONE);
	MUST(of_first > 0 && of_first < 200);
	end();
	named[0] = path[1];
	named[1] = path[0];
	begin_with(2, SLOTS);
	OK(day_blocks() == 200, "the cache's wear is that of all its files");
	end();
	fc_test_now_ns += HOUR;
	named[0] = path[0];
	begin();
	OK(day_blocks() == of_first, "each has its own");
	MUST(put(10) == 10);
	end();
	named[1] = path[1];
	fc_test_now_ns += 4 * HOUR;
	begin_with(2, SLOTS);
	OK(day_blocks() == 210, "one that was left out for a life, too");
	end();
	fc_test_now_ns += 19 * HOUR;
	begin_with(2, SLOTS);
	OK(day_blocks() == 10, "and it has aged meanwhile: %llu",
	   (unsigned long long) day_blocks());
	end();

	/* From another machine, whose clock differs. */
	make_files();
	begin();
	MUST(put(100) == 100);
	end();
	named[0] = path[1];
	boot++;
	fc_test_now_ns = 5 * HOUR + 40 * MINUTE;
	begin();
	MUST(put(50) == 50);
	end();
	named[0] = path[0];
	begin_with(2, SLOTS);
	OK(day_blocks() == 150, "files of two clocks sum up");
	fc_test_now_ns += 18 * HOUR + 10 * MINUTE;
	end();
	begin_with(2, SLOTS);
	OK(day_blocks() >= 50 && day_blocks() <= 150 && info().day_ns > 18 * HOUR,
	   "and age by one");
	fc_test_now_ns += 7 * HOUR;
	end();
	begin_with(2, SLOTS);
	OK(day_blocks() == 0, "until nothing is left of them");
	end();
}

/* ---- memory that outlived a crash ---------------------------------------- */

static void
test_wild(void)
{
	FcIdentity home = { .system = 1, .boot = { boot, 5 } };
	FcBudget *wild;
	FcCache revived;

	make_files();
	begin();
	home.boot[0] = boot;
	budget = BUDGET;
	fc_budget_set(&life.cache, budget);
	MUST(put(100) == 100);
	save();
	wild = &life.cache.shared->budget;
	memset(wild, 0xff, sizeof(*wild));
	atomic_store(&wild->left, INT64_MIN);
	MUST(fc_revive(&revived, life.memory, &life.config, life.device, &home,
	               life.cache.shared->nonce) == FC_START_MEMORY);
	fc_cache_close(&life.cache);
	life.cache = revived;
	fc_wear_begin(&life.cache, budget);
	OK(day_blocks() == 100, "memory that somebody wrote over is not believed");
	fc_test_now_ns += 10 * SECOND;
	fc_revive_audit(&life.cache);
	MUST(fc_process_begin(&life.cache) == FC_OK);
	MUST(fc_mode_set(&life.cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	OK(put(100) >= 10, "nor does it close the budget for ever");
	end();
}

int
main(void)
{
	for (int i = 0; i < FILES; i++)
	{
		int fd;

		tap_scratch(path[i], sizeof(path[i]), "pgflash-wear", true);
		fd = mkstemp(path[i]);
		MUST(fd >= 0);
		close(fd);
	}
	test_restart();
	test_cold();
	test_copy();
	test_killed();
	test_torn();
	test_boot();
	test_bucket();
	test_killed_again_and_again();
	test_files();
	test_wild();
	test_hangs(); /* the last, since that device never finishes */
	for (int i = 0; i < FILES; i++)
		(void) unlink(path[i]);
	return tap_done();
}
