/*
 * curve.c
 *		The accuracy of the miss-ratio curve on recorded streams, and its cost.
 *
 *	curve STREAM.u32 ...
 *
 * A stream is one little-endian u32 per request: bits 0-30 a block id, bit 31 =
 * a write, which is not a request here.  The exact curve is computed beside it:
 * for each request the number of other blocks since the block's last one
 * (Mattson).
 *
 * Error: of the miss ratio, at 50 sizes, each 2 % of the stream's blocks more;
 * for 16 samples, since chance decides which blocks are in one: the mean of
 * all, that of the worst sample, and the largest at any size.
 *
 * Cost: CPU of a request, all included except for the clock, which is read once
 * for each block of the sample; "unsampled" is a request that is not in it.
 * The null control reads the stream and does nothing.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fcache/curve.h"
#include "../measure.h"

#define WRITE_BIT 0x80000000U
#define SIZES     50
#define SAMPLES   16
#define ROUNDS    5

typedef struct Stream
{
	const char *name;
	uint32_t *block;
	uint32_t requests;
	uint32_t blocks;
} Stream;

static void
die(const char *what, const char *name)
{
	fprintf(stderr, "curve: could not %s %s: %s\n", what, name,
	        strerror(errno));
	exit(1);
}

static void *
zeros(size_t count, size_t size)
{
	void *memory = aligned_alloc(64, (count * size + 63) / 64 * 64);

	if (memory == NULL)
		die("reserve", "memory");
	return memset(memory, 0, count * size);
}

/* The reads of a stream. */
static Stream
load(const char *path)
{
	Stream stream = { .name = path };
	FILE *file = fopen(path, "rb");
	uint32_t word;
	long size;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 ||
	    (size = ftell(file)) < 4)
		die("read", path);
	rewind(file);
	stream.block = zeros((size_t) size / 4, 4);
	while (fread(&word, sizeof(word), 1, file) == 1)
	{
		if (word & WRITE_BIT)
			continue;
		stream.block[stream.requests++] = word;
		if (word >= stream.blocks)
			stream.blocks = word + 1;
	}
	fclose(file);
	if (strrchr(path, '/') != NULL)
		stream.name = strrchr(path, '/') + 1;
	return stream;
}

/* Hits by distance. */
static uint64_t *
exact_curve(const Stream *stream)
{
	uint64_t *hits = zeros(stream->blocks + 1, sizeof(uint64_t));
	uint32_t *tree = zeros(stream->requests + 1, sizeof(uint32_t));
	uint32_t *last = zeros(stream->blocks, sizeof(uint32_t));

	for (uint32_t i = 1; i <= stream->requests; i++)
	{
		uint32_t *before = &last[stream->block[i - 1]];
		uint32_t distance = 0;

		if (*before != 0)
		{
			for (uint32_t j = i - 1; j > 0; j -= j & -j)
				distance += tree[j];
			for (uint32_t j = *before; j > 0; j -= j & -j)
				distance -= tree[j];
			hits[distance]++;
			for (uint32_t j = *before; j <= stream->requests; j += j & -j)
				tree[j]--;
		}
		for (uint32_t j = i; j <= stream->requests; j += j & -j)
			tree[j]++;
		*before = i;
	}
	free(tree);
	free(last);
	return hits;
}

static uint64_t file_hash;

static double
run_once(const Stream *stream, uint32_t tracked, FcCurveReading *reading)
{
	void *memory = zeros(fc_curve_memory_size(tracked), 1);
	FcCurve curve;
	uint64_t begin;
	uint64_t ns;

	if (fc_curve_attach(&curve, memory, tracked) != FC_OK)
		die("attach", "a curve");
	begin = measure_cpu_ns();
	for (uint32_t i = 0; i < stream->requests; i++)
	{
		uint64_t hash = fc_curve_hash(file_hash, stream->block[i]);

		fc_curve_count(&curve, 1, 1);
		if (fc_curve_wants(&curve, hash))
			fc_curve_note_at(&curve, hash, 1000);
	}
	ns = measure_cpu_ns() - begin;
	fc_curve_read_at(&curve, reading, 1000);
	free(memory);
	return (double) ns / stream->requests;
}

static volatile uint64_t sink;

static double
run_nothing(const Stream *stream)
{
	uint64_t begin = measure_cpu_ns();

	for (uint32_t i = 0; i < stream->requests; i++)
		sink += stream->block[i];
	return (double) (measure_cpu_ns() - begin) / stream->requests;
}

typedef struct Error
{
	double mean;
	double max;
} Error;

static Error
error_of(const Stream *stream, const FcCurveReading *reading,
         const uint64_t *exact)
{
	Error error = { 0, 0 };
	uint64_t hits = 0;
	uint32_t distance = 0;

	for (uint32_t i = 1; i <= SIZES; i++)
	{
		uint32_t size = (uint32_t) ((uint64_t) stream->blocks * i / SIZES);
		double off;

		while (distance < size)
			hits += exact[distance++];
		off = fabs(fc_curve_hit_ratio(reading, size) -
		           (double) hits / stream->requests);
		error.mean += off / SIZES;
		error.max = off > error.max ? off : error.max;
	}
	return error;
}

static void
judge(const Stream *stream, uint32_t tracked, const uint64_t *exact)
{
	FcCurveReading reading;
	double ns = 1e9;
	double null_ns = 1e9;
	double mean = 0;
	double worst_mean = 0;
	double max = 0;

	for (uint32_t sample = 0; sample < SAMPLES; sample++)
	{
		double null = run_nothing(stream);
		double now;
		Error error;

		file_hash = fc_curve_file_hash((FcFileId){ .relation = sample });
		now = run_once(stream, tracked, &reading);
		null_ns = null < null_ns ? null : null_ns;
		ns = now < ns ? now : ns;
		error = error_of(stream, &reading, exact);
		mean += error.mean / SAMPLES;
		worst_mean = error.mean > worst_mean ? error.mean : worst_mean;
		max = error.max > max ? error.max : max;
	}
	printf("%-22s %9u %8u %7u %7.4f   %7.4f %7.4f %7.4f   %6.1f %6.1f\n",
	       stream->name, stream->requests, stream->blocks, tracked,
	       reading.sample_rate, mean, worst_mean, max, ns, null_ns);
}

/* A request that is not in the sample. */
static double
unsampled_ns(void)
{
	void *memory = zeros(fc_curve_memory_size(FC_CURVE_TRACKED_MAX), 1);
	FcCurve curve;
	uint64_t begin;
	double best = 1e9;

	if (fc_curve_attach(&curve, memory, FC_CURVE_TRACKED_MAX) != FC_OK)
		die("attach", "a curve");
	for (uint32_t i = 0; i < 20000000; i++)
	{
		uint64_t hash = fc_curve_hash(file_hash, i);

		if (fc_curve_wants(&curve, hash))
			fc_curve_note_at(&curve, hash, 1000);
	}
	for (int round = 0; round < ROUNDS; round++)
	{
		double ns;

		begin = measure_cpu_ns();
		for (uint32_t i = 0; i < 1000000; i++)
		{
			uint64_t hash = fc_curve_hash(file_hash, i);

			fc_curve_count(&curve, 1, 1);
			if (fc_curve_wants(&curve, hash))
				fc_curve_note_at(&curve, hash, 1000);
		}
		ns = (double) (measure_cpu_ns() - begin) / 1000000;
		best = ns < best ? ns : best;
	}
	free(memory);
	return best;
}

int
main(int argc, char **argv)
{
	file_hash = fc_curve_file_hash((FcFileId){ .relation = 16384 });
	if (argc < 2)
	{
		fputs("Usage: curve STREAM.u32 ...\n", stderr);
		return 2;
	}
	printf("%-22s %9s %8s %7s %7s   %7s %7s %7s   %6s %6s\n", "stream", "reads",
	       "blocks", "tracked", "sample", "mean", "worst", "largest", "ns",
	       "null");
	for (int i = 1; i < argc; i++)
	{
		Stream stream = load(argv[i]);
		uint64_t *exact = exact_curve(&stream);

		judge(&stream, FC_CURVE_TRACKED_MAX, exact);
		judge(&stream, FC_CURVE_TRACKED_MIN, exact);
		free(exact);
		free(stream.block);
	}
	printf("\na request in a sample of 1 in 2,400: %.1f ns\n"
	       "memory, bytes: %zu with %d tracked blocks, %zu with %d\n",
	       unsampled_ns(), fc_curve_memory_size(FC_CURVE_TRACKED_MAX),
	       FC_CURVE_TRACKED_MAX, fc_curve_memory_size(FC_CURVE_TRACKED_MIN),
	       FC_CURVE_TRACKED_MIN);
	return 0;
}
