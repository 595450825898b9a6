/*
 * threads_test.c
 *		The workers of hammer.h as threads of one process, for ThreadSanitizer.
 *
 * It reports two accesses to the same memory, one of them a write, that no
 * atomic access orders.  It sees only threads, not processes.  It knows no
 * fences, but it never reports atomic words, and only those rest on fences.
 *
 *	SOAK_SECONDS	how long (4)
 *	SOAK_SEED		where to begin (from the clock)
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <pthread.h>
#include <sys/wait.h>

#include "hammer.h"

/* The exit code of a process in which a race was seen. */
#define RACE 66

/* The least that is worth a verdict, and how much longer that may take. */
#define HITS    100
#define MORE_NS 900000000000ULL

/*
 * What races on purpose.  Each word is at most 8 bytes and aligned, so that it
 * is read as one of the values that were written.
 *
 * replacement_gittins.c: what it has learned, in shared memory.  A lost count
 * makes an estimate worse, and no block wrong.
 *
 * same_id, give_number: readers of the table of files compare a file's identity
 * while its number may be given to another file.  fc_file_find() reads the
 * generation before and after, with a fence between.  (Both, since only the
 * later access is always known by name.)
 *
 * candidate_of: the relation of a block that may be evicted, for the estimate
 * above.
 *
 * fc_staging_read, fc_staging_put: a reader may copy a page of the ring while
 * it is used for another block.  It looks at the page's word before and after,
 * with a fence between, and compares the checksum.
 */
static const char judged[] = "race:replacement_gittins.c\n"
							 "race:^same_id$\n"
							 "race:^give_number$\n"
							 "race:^candidate_of$\n"
							 "race:^fc_staging_read$\n"
							 "race:^fc_staging_put$\n";

/* ThreadSanitizer's library looks for them. */
#define EXPORTED __attribute__((visibility("default")))
extern EXPORTED const char *__tsan_default_options(void);
extern EXPORTED const char *__tsan_default_suppressions(void);

const char *
__tsan_default_options(void)
{
	return "halt_on_error=1:exitcode=66:print_suppressions=0:history_size=7";
}

const char *
__tsan_default_suppressions(void)
{
	return judged;
}

typedef struct Start
{
	int number;
	uint64_t seed;
} Start;

static void *
be_thread(void *of)
{
	const Start *start = of;

	be_worker(start->number, start->seed);
	return NULL;
}

static bool
enough(void)
{
	return atomic_load(&disk->compared) >= HITS && atomic_load(&disk->runs) > 0;
}

/* Let them work for a while; longer on a busy machine. */
static void
hammer(uint64_t seed, long seconds)
{
	uint64_t end = fc_clock_ns() + (uint64_t) seconds * 1000000000ULL;
	struct timespec nap = { .tv_nsec = 50000000 };
	pthread_t thread[WORKERS];
	Start start[WORKERS];

	for (int i = 0; i < WORKERS; i++)
	{
		start[i] = (Start){ .number = i, .seed = seed + (unsigned) i };
		MUST(pthread_create(&thread[i], NULL, be_thread, &start[i]) == 0);
	}
	while (fc_clock_ns() < end || (!enough() && fc_clock_ns() < end + MORE_NS))
		nanosleep(&nap, NULL);
	atomic_store(&disk->stop, 1);
	for (int i = 0; i < WORKERS; i++)
		MUST(pthread_join(thread[i], NULL) == 0);
}

/* In a process of its own, since a race ends it. */
static int
exit_code_of(void (*what)(const char *path, uint64_t seed), const char *path,
             uint64_t seed)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0)
	{
		what(path, seed);
		exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void
work_together(const char *path, uint64_t seed)
{
	open_world(path, 4); /* fewer numbers than files: some are displaced */
	fc_test_point = on_point;
	hammer(seed, from_environment("SOAK_SECONDS", 4));
	printf("# %lu reads under the flag, %lu hits compared; %lu without; %lu "
	       "runs; %lu late fills\n",
	       (unsigned long) atomic_load(&disk->reads),
	       (unsigned long) atomic_load(&disk->compared),
	       (unsigned long) atomic_load(&disk->unflagged),
	       (unsigned long) atomic_load(&disk->runs),
	       (unsigned long) atomic_load(&disk->late_fills));
	MUST(atomic_load(&disk->wrong) == 0);
	MUST(enough());
	close_world(path);
}

static unsigned plain;

static void *
count_plainly(void *unused)
{
	plain++;
	return unused;
}

static void
race(const char *path UNUSED, uint64_t seed UNUSED)
{
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		MUST(pthread_create(&thread[i], NULL, count_plainly, NULL) == 0);
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(thread[i], NULL) == 0);
}

int
main(void)
{
	uint64_t seed = (uint64_t) from_environment("SOAK_SEED", (long) time(NULL));
	char path[200];
	int fd;

	tap_scratch(path, sizeof(path), "pgflash-threads", true);
	fd = mkstemp(path);
	MUST(fd >= 0);
	close(fd);
	printf("# SOAK_SEED=%lu\n", (unsigned long) seed);
	OK(exit_code_of(race, path, seed) == RACE, "control: a race is seen");
	OK(exit_code_of(work_together, path, seed) == 0,
	   "threads on one cache race for nothing");
	return tap_done();
}
