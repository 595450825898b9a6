/*
 * streams_test.c
 *		Which requests are taken for the continuation of a stream.
 *
 * The two failures to avoid: a scan with pages missing that is taken for random
 * reads, and random reads that are taken for a scan.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "streams.h"
#include "tap.h"

#include <string.h>

#define BLOCK 8192ULL
#define FILE1 (1ULL << 63 | 1)
#define FILE2 (1ULL << 63 | 2)

static EmStreams streams;
static EmScans scans;
static uint64_t seed = 20261121;

static uint64_t
chance(uint64_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % below;
}

/* A request, as the stream that it belongs to judges it. */
static EmRequest
judge(uint64_t file, uint64_t block, uint64_t blocks, bool writes)
{
	EmRequest request = { .now_ns = 1,
		                  .file = file,
		                  .offset = block * BLOCK,
		                  .bytes = blocks * BLOCK };

	em_streams_note(&streams, &scans, &request, writes);
	return request;
}

static bool
note(uint64_t file, uint64_t block, uint64_t blocks)
{
	return judge(file, block, blocks, false).continues;
}

static void
forget(void)
{
	memset(&streams, 0, sizeof(streams));
	memset(&scans, 0, sizeof(scans));
}

/* Scan a file with some blocks left out; returns the share that was free. */
static double
scan(uint64_t blocks, uint64_t skipped_percent)
{
	uint64_t count = 0, free_count = 0;

	forget();
	for (uint64_t block = 0; block < blocks; block++)
	{
		if (chance(100) < skipped_percent)
			continue;
		count++;
		if (note(FILE1, block, 1))
			free_count++;
	}
	return (double) free_count / (double) count;
}

/* Read blocks of a file at random; returns the share that was free. */
static double
probe(uint64_t file_blocks, uint64_t blocks)
{
	const uint64_t count = 50000;
	uint64_t free_count = 0;

	forget();
	for (uint64_t i = 0; i < count; i++)
		if (note(FILE1, chance(file_blocks), blocks))
			free_count++;
	return (double) free_count / (double) count;
}

int
main(void)
{
	EmRequest request;
	int cheap = 0;

	OK(!note(FILE1, 0, 1), "the first read of a file is positioned");
	OK(note(FILE1, 1, 1), "the next block continues");
	OK(!note(FILE1, 1, 1), "the same block again does not");
	OK(!note(FILE2, 2, 1), "the next block of another file does not");

	forget();
	note(FILE1, 0, 1);
	OK(!note(FILE1, 10, 1), "a small read past a gap is positioned");
	note(FILE1, 1000, 16);
	request = judge(FILE1, 1020, 16, false);
	OK(request.continues && request.gap_bytes == 4 * BLOCK,
	   "a large read past a gap continues, and knows the gap");
	OK(!note(FILE1, 1036 + 65, 16), "but not past more than 512 KB");

	forget();
	note(FILE1, 0, 1);
	OK(!judge(FILE1, 1, 1, true).continues,
	   "a write does not continue a stream of reads");

	OK(scan(10000, 0) > 0.999, "a whole scan is free but for its first read");
	OK(scan(10000, 10) > 0.99, "a scan with 10 %% of its pages buffered is");
	OK(scan(10000, 50) > 0.99, "a scan with 50 %% of its pages buffered is");
	OK(scan(10000, 90) > 0.98, "a scan with 90 %% of its pages buffered is");

	NOTE("random reads taken for streams: %.2f %% of 1 GB, %.2f %% of 100 MB, "
	     "%.2f %% of 10 MB",
	     100 * probe(131072, 1), 100 * probe(12800, 1), 100 * probe(1280, 1));
	OK(probe(131072, 1) < 0.001, "random reads of 1 GB are not free");
	OK(probe(12800, 1) < 0.005, "random reads of 100 MB are not free");
	OK(probe(1280, 1) < 0.02, "random reads of 10 MB are not free");

	forget();
	for (uint64_t block = 0; block < 1000; block++)
	{
		if (note(FILE1, block, 1))
			cheap++;
		note(FILE2, chance(131072), 1);
		note(FILE2, chance(131072), 1);
	}
	OK(cheap >= 998, "random reads of another file do not disturb a scan");

	cheap = 0;
	forget();
	for (uint64_t block = 0; block < 1000; block++)
	{
		for (uint64_t scanner = 0; scanner < 3; scanner++)
			if (note(FILE1, scanner * 100000 + block, 1))
				cheap++;
	}
	OK(cheap == 3 * 999, "three scans of one file are told apart");

	return done();
}
