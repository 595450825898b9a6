/*
 * concurrency_test.c
 *		Many processes on one mapping and one cache file, killed and stopped at
 *		random, with every page verified (hammer.h).
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
#include <sys/prctl.h>
#include <sys/wait.h>

#include "hammer.h"

/*
 * What is wanted takes seconds on an idle machine.  On a busy one, workers may
 * get a hundredth of its processors.
 */
#define PATIENCE_SECONDS 900

/* Killed faster than they work, workers would only be born and die. */
#define READS_PER_KILL 8

/* ---- the parent ---------------------------------------------------------- */

static pid_t pid_of[WORKERS];
static uint64_t next_seed;

static void
start_worker(int i)
{
	pid_t pid = fork();

	MUST(pid >= 0);
	if (pid == 0)
	{
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fc_test_point = on_point;
		be_worker(i, next_seed);
		_exit(0);
	}
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

	return fc_clock_ns() > end + PATIENCE_SECONDS * 1000000000ULL ||
	       (atomic_load(&disk->compared) > HITS_WANTED &&
	        atomic_load(&disk->runs) > 0 && some_read_ahead() && died > 0 &&
	        fc_count_sum(&cache, FC_COUNT_takeovers) > 0);
}

/* Let them work for a while, or until a wrong page was seen. */
static unsigned
hammer(Random *random, long seconds)
{
	uint64_t end = fc_clock_ns() + (uint64_t) seconds * 1000000000ULL;
	uint64_t reads_before = 0;
	unsigned died = 0;

	for (int i = 0; i < WORKERS; i++)
		start_worker(i);
	while ((fc_clock_ns() < end || (deadly && !enough(end, died))) &&
	       atomic_load(&disk->wrong) == 0)
	{
		struct timespec nap = { .tv_nsec = 1 + random_below(random, 8000000) };

		nanosleep(&nap, NULL);
		died += look_after_workers();

		uint64_t reads = atomic_load(&disk->reads);

		if (deadly && reads >= reads_before + READS_PER_KILL &&
		    one_in(random, 4))
		{
			kill(pid_of[random_below(random, WORKERS)],
			     one_in(random, 2) ? SIGKILL : SIGSTOP);
			reads_before = reads;
		}
	}
	stop_workers();
	return died;
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
		(void) hammer(&random, PATIENCE_SECONDS);
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
