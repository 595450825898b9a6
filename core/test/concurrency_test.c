/*
 * concurrency_test.c
 *		Many processes on one mapping and one cache file, killed and stopped at
 *		random, with every page verified.
 *
 * The disk is a shared array of versions: a block's page is made from its file,
 * number and version.  As in PostgreSQL, one process at a time reads or writes
 * a block (it holds a flag with its pid; the flag of a dead owner is taken
 * over), and truncating or dropping a file takes the flags of all its blocks.
 * Under the flag a page that fc_read() returns must have the current version.
 * Fills and refreshes may come late, after the flag was released.
 *
 * Pages are also read without any flag: then the version must be one that was
 * current during the call, that is, not older than the last change that had
 * ended when the call began.
 *
 * One more process writes to flash and does the housekeeping of the device: a
 * device that a stopped process took for stalled returns to service.
 *
 * The parent kills and stops workers.  In addition, a worker dies, stops or
 * yields by itself at the stop points of the protocol, where it hurts most.
 * Dead workers are replaced.
 *
 * Then the same runs with a mechanism left out, and must find a wrong page.
 *
 *	SOAK_SECONDS	how long (4)
 *	SOAK_SEED		where to begin (from the clock)
 *	SOAK_DIR		where the cache file goes (/dev/shm, else /tmp)
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "count.h"
#include "support.h"
#include "tap.h"

#define WORKERS         7 /* the first one is the writer */
#define FILES           6
#define BLOCKS          96
#define SLOTS           (4 * FC_WAYS)
#define LATE            4 /* fills a worker keeps for later */
#define RUN             3 /* blocks at once */
#define AHEAD           6 /* blocks a worker reads ahead */
#define HITS_WANTED     1000
#define CONTROL_SECONDS 120 /* or less, if it is detected sooner */

typedef struct Disk
{
	FcAtomic64 version[FILES][BLOCKS];
	FcAtomic64 over[FILES][BLOCKS]; /* last version whose change has ended */
	FcAtomic32 owner[FILES][BLOCKS];
	FcAtomic64 reads;
	FcAtomic64 compared;
	FcAtomic64 unflagged;
	FcAtomic64 runs;
	FcAtomic64 late_fills;
	FcAtomic64 suicides;
	FcAtomic32 wrong;
	FcAtomic32 stop;
	uint64_t wrong_version;
	uint64_t right_version;
} Disk;

typedef struct Late
{
	bool used;
	bool refresh;
	uint32_t file;
	uint64_t version;
	FcTicket ticket;
	FcChange change;
} Late;

typedef struct Worker
{
	FcCache cache;
	Random random;
	FcFile file[FILES];
	Late late[LATE];
	uint32_t ahead_file;
	uint32_t ahead_block;
	Page page;
} Worker;

static Disk *disk;
static void *memory;
static FcDevice flash;
static Worker worker;
static bool deadly; /* may workers die and stop by themselves? */

/* ---- the flag of a block ------------------------------------------------- */

static bool
take_block(uint32_t file, uint32_t block)
{
	FcAtomic32 *owner = &disk->owner[file][block];
	uint32_t me = (uint32_t) getpid();
	uint32_t now = 0;

	if (atomic_compare_exchange_strong(owner, &now, me))
		return true;
	return kill((pid_t) now, 0) != 0 && errno == ESRCH &&
	       atomic_compare_exchange_strong(owner, &now, me);
}

static void
give_block(uint32_t file, uint32_t block)
{
	uint32_t me = (uint32_t) getpid();

	atomic_compare_exchange_strong(&disk->owner[file][block], &me, 0);
}

/* Take the flags of all blocks from first on, or none. */
static bool
take_blocks(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
	{
		int tries = 200;

		while (!take_block(file, block) && --tries > 0)
			sched_yield();
		if (tries == 0)
		{
			while (block-- > first)
				give_block(file, block);
			return false;
		}
	}
	return true;
}

static void
give_blocks(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
		give_block(file, block);
}

/* ---- what a worker does -------------------------------------------------- */

static void
report_wrong(uint64_t version)
{
	if (atomic_fetch_add(&disk->wrong, 1) == 0)
	{
		disk->wrong_version = worker.page.word[0];
		disk->right_version = version;
	}
}

static void
late_fill(Late *late)
{
	uint32_t block =
		late->refresh ? late->change.ticket.block : late->ticket.block;

	late->used = false;
	page_make(&worker.page, late->file, block, late->version);
	if (late->refresh)
		(void) fc_change_fill(&worker.cache, &late->change, &worker.page);
	else
		(void) fc_fill(&worker.cache, &late->ticket, &worker.page);
	atomic_fetch_add(&disk->late_fills, 1);
}

static void
now_or_later(Late *late)
{
	late->used = true;
	if (one_in(&worker.random, 3))
		worker.late[random_below(&worker.random, LATE)] = *late;
	else
		late_fill(late);
}

static FcStatus
look(uint32_t file, uint32_t block, FcTicket *ticket)
{
	FcFile *handle = &worker.file[file];
	FcStatus status =
		fc_read(&worker.cache, handle, block, &worker.page, ticket);

	if (status != FC_STALE)
		return status;
	if (fc_file_enter(&worker.cache, handle) != FC_OK)
		return FC_OFF;
	return fc_read(&worker.cache, handle, block, &worker.page, ticket);
}

static void
read_with_flag(uint32_t file, uint32_t block)
{
	Late late = { .file = file };

	if (!take_block(file, block))
		return;

	FcStatus status = look(file, block, &late.ticket);

	late.version = atomic_load(&disk->version[file][block]);
	atomic_fetch_add_explicit(&disk->reads, 1, memory_order_relaxed);
	if (status == FC_OK)
	{
		atomic_fetch_add_explicit(&disk->compared, 1, memory_order_relaxed);
		if (!page_is(&worker.page, file, block, late.version))
			report_wrong(late.version);
	}

	bool fill_first = one_in(&worker.random, 2);

	if (status == FC_MISS && fill_first)
		now_or_later(&late);
	give_block(file, block);
	if (status == FC_MISS && !fill_first)
		now_or_later(&late);
}

static void
read_without_flag(uint32_t file, uint32_t block)
{
	FcTicket ticket;
	uint64_t oldest = atomic_load(&disk->over[file][block]);

	if (look(file, block, &ticket) != FC_OK)
		return;

	uint64_t newest = atomic_load(&disk->version[file][block]);
	uint64_t version = worker.page.word[0];

	atomic_fetch_add_explicit(&disk->unflagged, 1, memory_order_relaxed);
	if (version < oldest || version > newest ||
	    !page_is(&worker.page, file, block, version))
		report_wrong(oldest);
}

/* Read a few blocks at once, without any flag. */
static void
read_a_run(uint32_t file, uint32_t first)
{
	Page pages[RUN];
	void *page[RUN];
	FcTicket ticket[RUN];
	uint64_t oldest[RUN];

	if (first + RUN > BLOCKS)
		return;
	for (uint32_t i = 0; i < RUN; i++)
	{
		page[i] = &pages[i];
		oldest[i] = atomic_load(&disk->over[file][first + i]);
	}
	if (!fc_read_run(&worker.cache, &worker.file[file], first, RUN, page,
	                 ticket))
		return;
	atomic_fetch_add_explicit(&disk->runs, 1, memory_order_relaxed);
	for (uint32_t i = 0; i < RUN; i++)
	{
		uint64_t newest = atomic_load(&disk->version[file][first + i]);
		uint64_t version = pages[i].word[0];

		if (version < oldest[i] || version > newest ||
		    !page_is(&pages[i], file, first + i, version))
			report_wrong(oldest[i]);
	}
}

static void
write_one(uint32_t file, uint32_t block)
{
	Late late = { .refresh = true, .file = file };

	if (!take_block(file, block))
		return;
	fc_change_begin(&worker.cache, &worker.file[file], block, 1, &late.change);
	late.version = atomic_fetch_add(&disk->version[file][block], 1) + 1;
	fc_change_end(&worker.cache, &worker.file[file], &late.change);
	atomic_store(&disk->over[file][block], late.version);
	give_block(file, block);
	now_or_later(&late);
}

static void
really_replace(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
		atomic_fetch_add(&disk->version[file][block], 1);
}

static void
replacing_is_over(uint32_t file, uint32_t first)
{
	for (uint32_t block = first; block < BLOCKS; block++)
		atomic_store(&disk->over[file][block],
		             atomic_load(&disk->version[file][block]));
}

static void
truncate_file(uint32_t file, uint32_t first)
{
	FcChange change;

	if (!take_blocks(file, first))
		return;
	fc_change_begin(&worker.cache, &worker.file[file], first, FC_BLOCKS_ALL,
	                &change);
	really_replace(file, first);
	fc_change_end(&worker.cache, &worker.file[file], &change);
	replacing_is_over(file, first);
	give_blocks(file, first);
}

static void
recreate_file(uint32_t file)
{
	if (!take_blocks(file, 0))
		return;
	fc_file_retire(&worker.cache, file_id(file));
	really_replace(file, 0);
	fc_file_retire(&worker.cache, file_id(file));
	replacing_is_over(file, 0);
	give_blocks(file, 0);
}

static void
change_mode(void)
{
	if (fc_mode(&worker.cache, NULL) == FC_PASSTHROUGH)
		(void) fc_mode_set(&worker.cache, FC_SERVE, FC_REASON_NONE);
	else if (one_in(&worker.random, 10))
		(void) fc_mode_set(&worker.cache, FC_PASSTHROUGH, FC_REASON_USER);
	else if (one_in(&worker.random, 10))
		fc_cache_clear(&worker.cache);
}

/* From now on, read blocks from this one on more often than others. */
static void
read_ahead(uint32_t file, uint32_t block)
{
	worker.ahead_file = file;
	worker.ahead_block = block;
	(void) fc_read_ahead(&worker.cache, &worker.file[file], block, AHEAD);
}

static void
work(void)
{
	Random *random = &worker.random;
	uint32_t file = random_below(random, FILES);
	uint32_t block = random_below(random, BLOCKS);
	uint32_t dice = random_below(random, 1000);
	Late *late = &worker.late[random_below(random, LATE)];

	if (one_in(random, 3))
	{
		file = worker.ahead_file;
		block = (worker.ahead_block + random_below(random, AHEAD)) % BLOCKS;
	}
	if (dice < 100)
		read_ahead(file, block);
	else if (dice < 200)
		read_a_run(file, block);
	else if (dice < 550)
		read_with_flag(file, block);
	else if (dice < 750)
		read_without_flag(file, block);
	else if (dice < 850)
		write_one(file, block);
	else if (dice < 950)
	{
		if (late->used)
			late_fill(late);
	}
	else if (dice < 958)
		truncate_file(file, block);
	else if (dice < 962)
		recreate_file(file);
	else if (dice < 970)
		fc_cache_sweep(&worker.cache);
	else if (dice < 973)
		change_mode();
	else
		worker.file[file] = fc_file(file_id(file));
}

/* Act where it hurts: between two steps of the protocol. */
static void
on_point(const char *name)
{
	struct timespec nap = { .tv_nsec = 1000000 };
	uint32_t dice = random_below(&worker.random, 20000);

	(void) name;
	if (dice < 800)
		sched_yield();
	else if (dice < 840)
		nanosleep(&nap, NULL);
	else if (dice < 842 && deadly)
	{
		atomic_fetch_add(&disk->suicides, 1);
		raise(dice == 840 ? SIGKILL : SIGSTOP);
	}
}

/* Write to flash what the others put into the ring. */
static void
be_writer(void)
{
	FcWriter *writer = NULL;
	struct timespec nap = { .tv_nsec = 1000000 };

	while (atomic_load(&disk->stop) == 0)
	{
		if (writer != NULL)
			fc_writer_run(writer, 5000000);
		else if (fc_writer_begin(&worker.cache, &writer) != FC_OK)
			nanosleep(&nap, NULL);
		(void) fc_bypass_check(&worker.cache);
	}
	if (writer != NULL)
		(void) fc_writer_end(writer, FLUSH_NS);
	fc_process_end(&worker.cache);
	_exit(0);
}

static void
be_worker(int number, uint64_t seed)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(&worker, 0, sizeof(worker));
	worker.random.state = seed;
	for (uint32_t i = 0; i < FILES; i++)
		worker.file[i] = fc_file(file_id(i));
	MUST(fc_cache_attach(&worker.cache, memory, &fc_replacement_gittins,
	                     &flash) == FC_OK);
	fc_test_point = on_point;
	if (number == 0)
		be_writer();
	while (atomic_load(&disk->stop) == 0)
		work();
	fc_process_end(&worker.cache);
	_exit(0);
}

/* ---- the parent ---------------------------------------------------------- */

static pid_t pid_of[WORKERS];
static uint64_t next_seed;

static void
start_worker(int i)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0)
		be_worker(i, next_seed);
	next_seed++;
	pid_of[i] = pid;
}

static int
worker_of(pid_t pid)
{
	for (int i = 0; i < WORKERS; i++)
	{
		if (pid_of[i] == pid)
			return i;
	}
	MUST(!"a child nobody knows");
	return -1;
}

/* Replace dead workers, and wake those that stopped by themselves. */
static unsigned
look_after_workers(void)
{
	unsigned died = 0;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
	{
		if (WIFSTOPPED(status))
		{
			kill(pid, SIGCONT);
			continue;
		}
		if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
			atomic_store(&disk->wrong, 1000000u + (unsigned) WTERMSIG(status));
		died++;
		start_worker(worker_of(pid));
	}
	return died;
}

static void
stop_workers(void)
{
	uint64_t deadline = fc_clock_ns() + 20000000000ULL;
	struct timespec nap = { .tv_nsec = 2000000 };

	atomic_store(&disk->stop, 1);
	for (int i = 0; i < WORKERS;)
	{
		int status;

		kill(pid_of[i], SIGCONT);
		if (waitpid(pid_of[i], &status, WNOHANG) == pid_of[i])
		{
			i++;
			continue;
		}
		if (fc_clock_ns() > deadline)
			kill(pid_of[i], SIGKILL);
		nanosleep(&nap, NULL);
	}
}

static bool aio; /* without it nothing is read ahead */

static bool
some_read_ahead(void)
{
	return !flash.direct || !aio ||
	       fc_count_sum_of_device(memory, 0, FC_DEVICE_READS_AHEAD) > 0;
}

/* A busy machine gets more time to show a wrong page. */
static bool
enough(uint64_t end, unsigned died)
{
	FcCache cache = { .shared = memory };

	return fc_clock_ns() > end + 120000000000ULL ||
	       (atomic_load(&disk->compared) > HITS_WANTED &&
	        atomic_load(&disk->runs) > 0 && some_read_ahead() && died > 0 &&
	        fc_count_sum(&cache, FC_COUNT_takeovers) > 0);
}

/* Let them work for a while, or until a wrong page was seen. */
static unsigned
hammer(Random *random, long seconds)
{
	uint64_t end = fc_clock_ns() + (uint64_t) seconds * 1000000000ULL;
	unsigned died = 0;

	for (int i = 0; i < WORKERS; i++)
		start_worker(i);
	while ((fc_clock_ns() < end || (deadly && !enough(end, died))) &&
	       atomic_load(&disk->wrong) == 0)
	{
		struct timespec nap = { .tv_nsec = 1 + random_below(random, 8000000) };

		nanosleep(&nap, NULL);
		died += look_after_workers();
		if (deadly && one_in(random, 4))
			kill(pid_of[random_below(random, WORKERS)],
			     one_in(random, 2) ? SIGKILL : SIGSTOP);
	}
	stop_workers();
	return died;
}

static void
open_world(const char *path, uint32_t numbers)
{
	FcConfig config = { .slot_count = SLOTS,
		                .file_count = numbers,
		                .process_count = 64,
		                .replacement = &fc_replacement_gittins };
	FcCache cache;

	disk = shared_memory(sizeof(*disk));
	memory = shared_memory(fc_cache_memory_needed(&config));
	unlink(path);
	MUST(fc_device_file_open(&flash, path, SLOTS, 0) == FC_DEVICE_FINE);
	MUST(fc_cache_create(&cache, memory, &config, &flash) == FC_OK);
	MUST(fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) == FC_OK);
	for (uint32_t file = 0; file < FILES; file++)
		really_replace(file, 0);
	for (uint32_t file = 0; file < FILES; file++)
		replacing_is_over(file, 0);
	fc_cache_close(&cache);
}

static void
close_world(const char *path)
{
	flash.ops->close(&flash);
	unlink(path);
	munmap(disk, sizeof(*disk));
}

/* A process that was stopped in a read makes the device look stalled. */
static void
wait_for_device(void)
{
	struct timespec nap = { .tv_nsec = 20000000 };
	FcDeviceInfo info;

	for (int tries = 0; tries < 6000; tries++)
	{
		fc_devices_info(&worker.cache, 0, &info);
		if (info.state == FC_DEVICE_IN_SERVICE)
			return;
		(void) fc_bypass_check(&worker.cache);
		nanosleep(&nap, NULL);
	}
}

/* Read everything again, by one process: all is right, and nothing is stuck. */
static void
check_what_is_left(void)
{
	unsigned wrong = 0;
	unsigned hits = 0;
	FcWriter *writer;

	memset(&worker, 0, sizeof(worker));
	MUST(fc_cache_attach(&worker.cache, memory, &fc_replacement_gittins,
	                     &flash) == FC_OK);
	(void) fc_mode_set(&worker.cache, FC_SERVE, FC_REASON_NONE);
	wait_for_device();
	MUST(fc_writer_begin(&worker.cache, &writer) == FC_OK);

	/*
	 * The others may have run after the writer ended: a full ring takes no
	 * fill.
	 */
	MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
	for (int pass = 0; pass < 2; pass++)
	{
		for (uint32_t block = 0; block < BLOCKS; block++)
		{
			FcTicket ticket;
			uint64_t version = atomic_load(&disk->version[0][block]);

			worker.file[0].id = file_id(0);
			if (pass == 0 && block == 0)
				worker.file[0] = fc_file(file_id(0));

			FcStatus status = look(0, block, &ticket);

			hits += pass == 1 && status == FC_OK;
			wrong +=
				status == FC_OK && !page_is(&worker.page, 0, block, version);
			if (status != FC_MISS)
				continue;
			page_make(&worker.page, 0, block, version);
			(void) fc_fill(&worker.cache, &ticket, &worker.page);
			MUST(fc_writer_drain(writer, FLUSH_NS) == FC_OK);
		}
	}
	OK(wrong == 0, "what is left is right");
	OK(hits == BLOCKS, "and no slot, number or lock is stuck: %u of %d cached",
	   hits, BLOCKS);
	MUST(fc_writer_end(writer, FLUSH_NS) == FC_OK);
	fc_cache_close(&worker.cache);
}

static void
test_soak(const char *path, uint64_t seed, long seconds)
{
	Random random = { .state = seed };

	deadly = true;
	next_seed = seed * 1000;
	open_world(path, 4); /* fewer numbers than files: some are displaced */

	unsigned died = hammer(&random, seconds);

	FcCache cache = { .shared = memory };

	printf("# %lu reads under the flag, %lu hits compared; %lu hits compared "
	       "without; %lu late fills\n",
	       (unsigned long) atomic_load(&disk->reads),
	       (unsigned long) atomic_load(&disk->compared),
	       (unsigned long) atomic_load(&disk->unflagged),
	       (unsigned long) atomic_load(&disk->late_fills));
	printf(
		"# %u processes killed; %lu times one died or stopped at a point; %lu "
		"takeovers, %lu clears, %lu corrupt slots\n",
		died, (unsigned long) atomic_load(&disk->suicides),
		(unsigned long) fc_count_sum(&cache, FC_COUNT_takeovers),
		(unsigned long) fc_count_sum(&cache, FC_COUNT_clears),
		(unsigned long) fc_count_sum(&cache, FC_COUNT_corrupt_slots));
	if (!OK(atomic_load(&disk->wrong) == 0, "no wrong page (SOAK_SEED=%lu)",
	        (unsigned long) seed))
		printf("# wrong: %u; version %lu, not %lu\n", atomic_load(&disk->wrong),
		       (unsigned long) disk->wrong_version,
		       (unsigned long) disk->right_version);
	OK(atomic_load(&disk->compared) > HITS_WANTED,
	   "there were hits to compare");
	OK(atomic_load(&disk->runs) > 0, "and runs: %lu of %d blocks",
	   (unsigned long) atomic_load(&disk->runs), RUN);
	if (aio)
		OK(some_read_ahead(), "some blocks had been read ahead");
	else
		SKIP("reading ahead", NO_AIO);
	OK(died > 0 && fc_count_sum(&cache, FC_COUNT_takeovers) > 0,
	   "some died in the middle of something");
	OK(fc_mode(&cache, NULL) != FC_OFFLINE, "the cache is still on line");
	check_what_is_left();
	close_world(path);
}

static const struct
{
	const char *name;
	FcBreaks broken;
} controls[] = {
	{ "invalidation", FC_BREAK(INVALIDATE) },
	{ "the set's generation", FC_BREAK(SET_GENERATION) },
	{ "the file's generation", FC_BREAK(FILE_GENERATION) },
	{ "dooming what is being written", FC_BREAK(WRITING_DOOM) },
	{ "the entry's and the page's comparison and the checksum",
	  FC_BREAK(ENTRY_COMPARE) | FC_BREAK(RING_SEQUENCE) | FC_BREAK(CRC) },
	{ "the entry that was read ahead and the checksum",
	  FC_BREAK(AHEAD) | FC_BREAK(CRC) },
};

static void
test_controls(const char *path, uint64_t seed)
{
	deadly = false;
	for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
	{
		Random random = { .state = seed };
		uint64_t start = fc_clock_ns();

		if ((controls[i].broken & FC_BREAK(AHEAD)) != 0 && !aio)
		{
			SKIP("control: reading ahead", NO_AIO);
			continue;
		}
		next_seed = seed * 1000 + 500;
		open_world(path, 16);
		fc_test_broken = controls[i].broken;
		(void) hammer(&random, CONTROL_SECONDS);
		fc_test_broken = 0;
		OK(atomic_load(&disk->wrong) > 0,
		   "control: without %s a wrong page is seen", controls[i].name);
		printf("# after %.1f s\n", (double) (fc_clock_ns() - start) / 1e9);
		close_world(path);
	}
}

int
main(void)
{
	uint64_t seed = (uint64_t) from_environment("SOAK_SEED", (long) time(NULL));
	const char *folder = getenv("SOAK_DIR");
	char path[200];
	int fd;

	if (folder != NULL)
		setenv("MEMDIR", folder, 1);
	tap_scratch(path, sizeof(path), "pgflash-concurrency", true);
	fd = mkstemp(path);
	MUST(fd >= 0);
	close(fd);
	printf("# SOAK_SEED=%lu\n", (unsigned long) seed);
	aio = has_aio();
	test_soak(path, seed, from_environment("SOAK_SECONDS", 4));
	test_controls(path, seed);
	return tap_done();
}
