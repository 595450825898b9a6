/*
 * curve_processes_test.c
 *		The miss-ratio curve in shared memory: owners of its lock that die, are
 *		stopped, or are interrupted by their own signal handlers, and many at
 *		once.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <math.h>
#include <sys/wait.h>

#include "curve_requests.h"
#include "tap.h"

static bool locked_once;
static FcCurve *nested;

static void
die_when_locked(const char *point)
{
	if (strcmp(point, "curve-locked") == 0)
		_exit(0);
}

/* A signal handler that interrupts its own process while that has the lock. */
static void
note_within(const char *point)
{
	if (strcmp(point, "curve-locked") == 0 && !locked_once)
	{
		locked_once = true;
		request(nested, 7, START_MS);
	}
}

static void
rob_when_locked(const char *point)
{
	if (strcmp(point, "curve-locked") == 0 && !locked_once)
	{
		locked_once = true;
		for (uint32_t i = 0; i < 50; i++)
			request(nested, i, START_MS + 50000);
	}
}

static FcCurve
shared_curve(void)
{
	void *shared = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	FcCurve curve;

	MUST(shared != MAP_FAILED);
	MUST(fc_curve_attach(&curve, shared, 8192) == FC_OK);
	return curve;
}

/* A process dies with the lock, at this time. */
static void
die_with_the_lock(FcCurve *curve, uint64_t at_ms)
{
	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		fc_test_point = die_when_locked;
		request(curve, 0, at_ms);
		_exit(1);
	}
	MUST(waitpid(child, NULL, 0) == child);
}

/* Something happens to a process that has the lock, within its request. */
static void
request_with(FcCurve *curve, void (*act)(const char *point))
{
	nested = curve;
	locked_once = false;
	fc_test_point = act;
	request(curve, 1, START_MS);
	fc_test_point = NULL;
}

static void
test_dead_owner(void)
{
	FcCurve curve = shared_curve();
	FcCurveReading reading;

	for (uint32_t i = 0; i < 100; i++)
		request(&curve, i, START_MS);

	die_with_the_lock(&curve, START_MS);

	request(&curve, 0, START_MS + 10);
	fc_curve_read_at(&curve, &reading, START_MS + 10);
	OK(reading.sample_rate == 0, "nobody waits for who died with the lock");

	request(&curve, 0, START_MS + 20000);
	fc_curve_read_at(&curve, &reading, START_MS + 20000);
	OK(reading.tracked == 1, "seconds later it is taken, and starts over");

	/* The control: trust what was left. */
	die_with_the_lock(&curve, START_MS + 20000);
	fc_test_broken = FC_BREAK(CURVE_TAKEOVER);
	request(&curve, 5, START_MS + 50000);
	fc_curve_read_at(&curve, &reading, START_MS + 50000);
	fc_test_broken = 0;
	OK(reading.tracked == 2, "(control) without that the old is still there");
}

static void
test_own_signal(void)
{
	FcCurve curve = shared_curve();
	FcCurveReading reading;

	request_with(&curve, note_within);
	fc_curve_read_at(&curve, &reading, START_MS);
	OK(locked_once && reading.tracked == 1,
	   "a request out of a signal handler that interrupted one is skipped");
}

static void
test_robbed(void)
{
	FcCurve curve = shared_curve();
	FcCurveReading reading;

	request_with(&curve, rob_when_locked);
	request(&curve, 2, START_MS + 60000);
	fc_curve_read_at(&curve, &reading, START_MS + 60000);
	OK(locked_once && reading.tracked == 1,
	   "who was stopped for long and goes on makes the next one start over");
}

/* By how much the curve of four processes at once is off. */
static double
error_of_many(void)
{
	FcCurve curve = shared_curve();
	FcCurveReading reading;

	for (int i = 0; i < 4; i++)
	{
		pid_t child = fork();

		MUST(child >= 0);
		if (child == 0)
		{
			Random random = { (uint64_t) i };
			FcFileId id = { .tablespace = 1663, .relation = 16384 };
			uint64_t file = fc_curve_file_hash(id);

			curve.shard = (uint32_t) i;
			for (uint32_t j = 0; j < 100000; j++)
			{
				uint64_t hash =
					fc_curve_hash(file, random_below(&random, 20000));

				fc_curve_count(&curve, 1, 1);
				if (fc_curve_wants(&curve, hash))
					fc_curve_note(&curve, hash);
			}
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++)
		MUST(wait(NULL) > 0);
	fc_curve_read(&curve, &reading);

	/* 20,000 of 400,000 requests are the first of their block. */
	return fabs(fc_curve_hit_ratio(&reading, 10000) - 0.5 * 0.95);
}

/*
 * What comes while the lock's owner does not run is skipped.  So this is no
 * test of precision; on a busy machine nearly all may be skipped, but not each
 * time.
 */
static void
test_many_processes(void)
{
	double error = 1;

	for (int tries = 0; tries < 20 && error >= 0.1; tries++)
		error = error_of_many();
	OK(error < 0.1, "four processes at once: %.3f off", error);
}

int
main(void)
{
	test_dead_owner();
	test_own_signal();
	test_robbed();
	test_many_processes();
	return tap_done();
}
