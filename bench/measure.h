/*
 * measure.h
 *		Time candidates side by side: medians of rounds that they take in turn.
 *
 * A round runs each candidate once, which makes MEASURE_CALLS calls.  Thread
 * CPU time unless MEASURE_CLOCK names another clock, so that other processes
 * matter only by their effect on the processor's caches; a noisy moment
 * disturbs all candidates alike.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MEASURE_ROUNDS 15
#ifndef MEASURE_CALLS
#define MEASURE_CALLS 20000
#endif
#ifndef MEASURE_CLOCK
#define MEASURE_CLOCK CLOCK_THREAD_CPUTIME_ID
#endif

typedef struct Figure
{
	const char *name;
	void (*work)(void *context);
	double rounds[MEASURE_ROUNDS]; /* ns per call */
	double median;
	double low; /* quartiles */
	double high;
} Figure;

static inline uint64_t
measure_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t) now.tv_sec * 1000000000ULL + (uint64_t) now.tv_nsec;
}

static inline uint64_t
measure_cpu_ns(void)
{
	return measure_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline int
measure_by_value(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return (x > y) - (x < y);
}

static inline void
measure(Figure *figures, int count, void *context)
{
	for (int round = -1; round < MEASURE_ROUNDS; round++) /* -1 warms up */
	{
		for (int i = 0; i < count; i++)
		{
			uint64_t start = measure_ns(MEASURE_CLOCK);

			figures[i].work(context);
			if (round >= 0)
				figures[i].rounds[round] =
					(double) (measure_ns(MEASURE_CLOCK) - start) /
					MEASURE_CALLS;
		}
	}
	for (int i = 0; i < count; i++)
	{
		qsort(figures[i].rounds, MEASURE_ROUNDS, sizeof(double),
		      measure_by_value);
		figures[i].median = figures[i].rounds[MEASURE_ROUNDS / 2];
		figures[i].low = figures[i].rounds[MEASURE_ROUNDS / 4];
		figures[i].high = figures[i].rounds[MEASURE_ROUNDS * 3 / 4];
	}
}

/* One JSON object per figure, each followed by a comma; or table rows. */
static inline void
measure_print(const Figure *figures, int count, const char *of, bool json)
{
	for (int i = 0; i < count; i++)
	{
		if (json)
			printf("  {\"of\": \"%s\", \"what\": \"%s\", \"ns\": %.1f, "
			       "\"quartiles_ns\": [%.1f, %.1f]},\n",
			       of, figures[i].name, figures[i].median, figures[i].low,
			       figures[i].high);
		else
			printf("%-18s %-34s %9.1f   %9.1f - %.1f\n", of, figures[i].name,
			       figures[i].median, figures[i].low, figures[i].high);
	}
}

#endif
