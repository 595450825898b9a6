/*
 * sample_ring_test.c
 *		The sampler's ring:
 *
 * the records come out whole and in order. Each record of a look has the look's
 * number in all its fields, so a look that was put together from two shows.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "sampler/sample_ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "dies.h"
#include "tap.h"

#define RECORDS_MAX 30
#define ROOM        64 /* more, so that a torn count is not self-evident */
#define SLOTS       200
#define SECONDS     0.3

/* How many records a look of this number has: 0 to 29, in no simple order. */
static uint32_t
count_of(uint64_t number)
{
	return (uint32_t) (number * 7 % RECORDS_MAX);
}

static SampleRing *
make_ring(void)
{
	return sample_ring_create(calloc(1, sample_ring_memory_size(SLOTS)), SLOTS);
}

static void
put(SampleRing *ring, uint64_t number)
{
	SampleLook look = { .at = (int64_t) number * 10,
		                .number = number,
		                .count = count_of(number),
		                .idle = (uint32_t) number };
	SampleRecord records[ROOM];

	for (uint32_t i = 0; i < look.count; i++)
		records[i] = (SampleRecord){ .pid = (int32_t) i,
			                         .wait_event = (uint32_t) number,
			                         .query_id = (int64_t) number,
			                         .query_start = (int64_t) number };
	sample_ring_put(ring, &look, records);
}

static bool
is_whole(const SampleLook *look, const SampleRecord *records)
{
	if (look->count != count_of(look->number) ||
	    look->at != (int64_t) look->number * 10 ||
	    look->idle != (uint32_t) look->number)
		return false;
	for (uint32_t i = 0; i < look->count; i++)
	{
		if (records[i].pid != (int32_t) i ||
		    records[i].wait_event != (uint32_t) look->number ||
		    records[i].query_id != (int64_t) look->number ||
		    records[i].query_start != (int64_t) look->number)
			return false;
	}
	return true;
}

/* ---- one process --------------------------------------------------------- */

static void
test_empty(void)
{
	SampleRing *ring = make_ring();
	SampleCursor oldest = sample_cursor(ring);
	SampleCursor newest = sample_cursor_newest(ring);
	SampleRecord records[ROOM];
	SampleLook look;

	OK(!sample_cursor_next(&oldest, &look, records, ROOM),
	   "an empty ring has no oldest look");
	OK(!sample_cursor_next(&newest, &look, records, ROOM), "and no newest one");
	OK(sample_ring_used(ring) == 0, "and uses nothing");
	free(ring);
}

/* The number of the newest looks that fit, by adding up. */
static uint64_t
looks_that_fit(uint64_t newest)
{
	uint64_t slots = 0;
	uint64_t looks = 0;

	while (looks < newest && slots + 1 + count_of(newest - looks) <= SLOTS)
		slots += 1 + count_of(newest - looks++);
	return looks;
}

static void
test_wrap(void)
{
	SampleRing *ring = make_ring();
	SampleRecord records[ROOM];
	SampleLook look;
	bool good = true;

	for (uint64_t number = 1; number <= 500; number++)
	{
		SampleCursor cursor;
		uint64_t expected = number - looks_that_fit(number) + 1;

		put(ring, number);
		cursor = sample_cursor(ring);
		while (sample_cursor_next(&cursor, &look, records, ROOM))
			good =
				good && is_whole(&look, records) && look.number == expected++;
		good = good && expected == number + 1;

		cursor = sample_cursor_newest(ring);
		good = good && sample_cursor_next(&cursor, &look, records, ROOM) &&
		       look.number == number;
	}
	OK(good, "after each of 500 looks the ring has as many as fit, all whole");
	OK(sample_ring_used(ring) <= SLOTS, "and no more than its slots are used");
	free(ring);
}

static void
test_too_large(void)
{
	SampleRing *ring =
		sample_ring_create(calloc(1, sample_ring_memory_size(10)), 10);
	SampleRecord records[ROOM] = { 0 };
	SampleLook look = { .number = 1, .count = 5 };

	sample_ring_put(ring, &look, records);
	OK(sample_ring_used(ring) == 0,
	   "a look of more than half of it is left out");
	look.count = 4;
	sample_ring_put(ring, &look, records);
	OK(sample_ring_used(ring) == 5, "one of half of it is not");
	free(ring);
}

static void
test_overwritten(void)
{
	SampleRing *ring = make_ring();
	SampleRecord records[ROOM];
	SampleCursor cursor;
	SampleLook look;
	bool good = true;
	uint64_t seen = 0;

	for (uint64_t number = 1; number <= 30; number++)
		put(ring, number);
	cursor = sample_cursor(ring);
	for (uint64_t number = 31; number <= 35; number++)
		put(ring, number);
	while (sample_cursor_next(&cursor, &look, records, ROOM))
	{
		good = good && is_whole(&look, records);
		seen++;
	}
	OK(good, "OVERWRITTEN: what was overwritten since the cursor was made is "
	         "left out");
	OK(seen > 0, "what was not is still there");
	free(ring);
}

/* ---- from a time on ------------------------------------------------------ */

#define LARGE 5000

/*
 * The numbers of the looks at or after a time, summed up in a way that
 * distinguishes them.
 */
static uint64_t
sum_since(SampleCursor cursor, int64_t since, uint64_t *visited)
{
	SampleRecord records[ROOM];
	SampleLook look;
	uint64_t sum = 0;

	*visited = 0;
	while (sample_cursor_next(&cursor, &look, records, ROOM))
	{
		++*visited;
		if (look.at >= since)
			sum = sum * 31 + look.number;
	}
	return sum;
}

/*
 * Time advances by 10 with each look; every BACK looks the clock is set back by
 * 300.
 */
static int64_t
time_of(uint64_t number, uint64_t back)
{
	return (int64_t) number * 10 -
	       (back == 0 ? 0 : (int64_t) (number / back) * 300);
}

static void
test_since(uint64_t back)
{
	SampleRing *ring =
		sample_ring_create(calloc(1, sample_ring_memory_size(LARGE)), LARGE);
	SampleRecord records[ROOM] = { 0 };
	uint64_t whole = 0;
	uint64_t skipped = 0;
	bool same = true;

	for (uint64_t number = 1; number <= 2000; number++)
	{
		SampleLook look = { .at = time_of(number, back),
			                .number = number,
			                .count = count_of(number) };

		sample_ring_put(ring, &look, records);
		if (number % 45 != 0)
			continue;
		for (int64_t ago = 0; ago <= 4500; ago += 150)
		{
			int64_t since = look.at - ago;
			uint64_t all;
			uint64_t some;
			uint64_t wanted = sum_since(sample_cursor(ring), since, &all);
			uint64_t found =
				sum_since(sample_cursor_since(ring, since), since, &some);

			same = same && found == wanted;
			whole += all;
			skipped += all - some;
		}
	}
	OK(same, "SEEK: from a time on there is all that is not older%s",
	   back == 0 ? "" : ", though the clock is set back now and then");
	if (back == 0)
	{
		uint64_t visited;

		OK(skipped * 4 > whole, "and what is older is mostly skipped");
		sum_since(sample_cursor_since(ring, time_of(2000, 0)), 0, &visited);
		OK(visited < 10, "the last one is found at once (%llu looks)",
		   (unsigned long long) visited);
	}
	free(ring);
}

/* ---- a writer and a reader ----------------------------------------------- */

static atomic_bool stop;

static void *
keep_putting(void *ring)
{
	for (uint64_t number = 1; !atomic_load(&stop); number++)
		put(ring, number);
	return NULL;
}

static double
now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void
test_together(void)
{
	SampleRing *ring = make_ring();
	SampleRecord records[ROOM];
	SampleLook look;
	pthread_t writer;
	double end = now_s() + SECONDS;
	bool whole = true;
	bool in_order = true;
	uint64_t seen = 0;

	pthread_create(&writer, NULL, keep_putting, ring);
	/* The writer may not have begun by then. */
	while (now_s() < end || seen == 0)
	{
		SampleCursor cursor = sample_cursor(ring);
		uint64_t last = 0;

		while (sample_cursor_next(&cursor, &look, records, ROOM))
		{
			whole = whole && is_whole(&look, records);
			in_order = in_order && look.number > last;
			last = look.number;
			seen++;
		}
	}
	atomic_store(&stop, true);
	pthread_join(writer, NULL);
	OK(whole, "OVERWRITTEN: a reader beside a writer sees whole looks only");
	OK(in_order, "and in their order");
	OK(seen > 0, "and some (%llu)", (unsigned long long) seen);
	free(ring);
}

/* ---- broken invariants --------------------------------------------------- */

static void
lay_out_twice(void)
{
	size_t size = sample_ring_memory_size(SLOTS);
	void *memory = calloc(1, size);

	put(sample_ring_create(memory, SLOTS), 1);
	sample_ring_create(memory, SLOTS);
}

static void
publish_half_a_look(void)
{
	SampleRing *ring = make_ring();
	SampleRecord records[ROOM];
	SampleCursor cursor;
	SampleLook look;

	put(ring, 1);
	cursor = sample_cursor(ring);
	cursor.end = cursor.at + 1;
	sample_cursor_next(&cursor, &look, records, ROOM);
}

static void
test_broken(void)
{
	OK(dies_at(lay_out_twice, "ring->head == 0"),
	   "asserted: a ring is laid out once, in zeroed memory");
	OK(dies_at(publish_half_a_look, "cursor->at <= cursor->end"),
	   "asserted: a look is published as a whole");
}

int
main(void)
{
	test_broken();
	test_empty();
	test_wrap();
	test_too_large();
	test_overwritten();
	test_since(0);
	test_since(150);
	test_together();
	return tap_done();
}
