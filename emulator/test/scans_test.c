/*
 * scans_test.c
 *		A scan that several processes share is one stream.
 *
 * Processes are played: each has streams of its own, all have the same scans.
 * They take pieces of a file as PostgreSQL's parallel workers do, in turns that
 * chance decides.  The negative control gives each process scans of its own:
 * then the same load is transferred many times over.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "streams.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK       8192ULL
#define FILE1       (1ULL << 63 | 1)
#define PROCESS_MAX 20
#define FILE_BLOCKS 60000

/* As an array of six spindles does: 1,300 random reads a second. */
#define RANDOM_READ_NS 750000

/* A process, and the piece of the file that it reads. */
typedef struct Process
{
	EmStreams streams;
	EmScans own; /* for the negative control */
	uint64_t block;
	uint64_t end;
} Process;

/* A load on one file, and what it cost the device. */
typedef struct Load
{
	int processes;
	uint64_t blocks;         /* of the file */
	uint64_t piece;          /* blocks that a process takes at a time */
	uint64_t request;        /* blocks of a request */
	uint64_t buffered;       /* per cent of the blocks that nobody asks for */
	bool alone;              /* no process knows of the others */
	uint64_t requests;       /* made */
	uint64_t positioned;     /* of them */
	uint64_t blocks_asked;   /* read by anybody */
	uint64_t blocks_charged; /* transferred, by the device's account */
} Load;

static Process process[PROCESS_MAX];
static EmScans scans;
static uint64_t seed;
static uint64_t now_ns;

static uint64_t
chance(uint64_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % below;
}

static void
begin(void)
{
	memset(process, 0, sizeof(process));
	memset(&scans, 0, sizeof(scans));
	seed = 20261123;
	now_ns = 1;
}

/* Ask for blocks; returns whether they continued a stream. */
static bool
ask(Load *load, Process *who, uint64_t block, uint64_t blocks)
{
	EmRequest request = { .now_ns = now_ns++,
		                  .file = FILE1,
		                  .offset = block * BLOCK,
		                  .bytes = blocks * BLOCK };

	em_streams_note(&who->streams, load->alone ? &who->own : &scans, &request,
	                false);
	load->requests++;
	load->positioned += !request.continues;
	load->blocks_asked += blocks;
	load->blocks_charged +=
		(request.bytes + request.gap_bytes - request.paid_bytes) / BLOCK;
	return request.continues;
}

/* All processes read the file together, each block once. */
static void
scan(Load *load)
{
	uint64_t next = 0;
	int busy = load->processes;

	while (busy > 0)
	{
		Process *who = &process[chance((uint64_t) load->processes)];
		uint64_t count;

		if (who->block == UINT64_MAX)
			continue;
		if (who->block == who->end)
		{
			if (next >= load->blocks)
			{
				who->block = UINT64_MAX;
				busy--;
				continue;
			}
			who->block = next;
			next += load->piece;
			who->end = next < load->blocks ? next : load->blocks;
		}
		count = who->end - who->block;
		if (count > load->request)
			count = load->request;
		if (chance(100) >= load->buffered)
			ask(load, who, who->block, count);
		who->block += count;
	}
}

static Load
scanned(Load load)
{
	begin();
	scan(&load);
	return load;
}

/* What a load costs a disk that transfers 40 blocks while it positions. */
static double
cost(const Load *load)
{
	return (double) (load->blocks_charged + 40 * load->positioned);
}

static void
test_pieces(int processes, uint64_t piece, uint64_t request)
{
	Load load = { .processes = processes,
		          .blocks = FILE_BLOCKS,
		          .piece = piece,
		          .request = request };
	Load alone = load;

	load = scanned(load);
	alone.alone = true;
	alone = scanned(alone);
	NOTE("%d processes, pieces of %d blocks, requests of %d: %.3f times the "
	     "file and %.2f %% positioned, each for itself %.2f and %.2f %%",
	     processes, (int) piece, (int) request,
	     (double) load.blocks_charged / (double) load.blocks,
	     100.0 * (double) load.positioned / (double) load.requests,
	     (double) alone.blocks_charged / (double) alone.blocks,
	     100.0 * (double) alone.positioned / (double) alone.requests);
	OK(load.blocks_asked == load.blocks, "each block is asked for once");
	OK(load.blocks_charged >= load.blocks &&
	       load.blocks_charged <= load.blocks + load.blocks / 100,
	   "what %d processes scan together is transferred once", processes);
	OK(load.positioned <= load.requests / 100 + (uint64_t) processes,
	   "and hardly ever positioned");
	OK(processes == 1 || cost(&alone) > 1.5 * cost(&load),
	   "each for itself, they would cost a disk half as much again");
}

static void
test_buffered_pages(int processes)
{
	Load load = { .processes = processes,
		          .blocks = FILE_BLOCKS,
		          .piece = 16,
		          .request = 1,
		          .buffered = 30 };

	load = scanned(load);
	NOTE(
		"%d processes, 30 %% buffered: %.3f times the file, %.2f %% positioned",
		processes, (double) load.blocks_charged / (double) load.blocks,
		100.0 * (double) load.positioned / (double) load.requests);
	OK(load.blocks_charged > load.blocks * 98 / 100 &&
	       load.blocks_charged < load.blocks * 102 / 100,
	   "%d processes skip buffered pages once, too", processes);
}

/*
 * Twenty processes read a file at random, one of them scans it meanwhile if
 * asked to.  "spare" gets the share of random reads that were free.
 */
static Load
mixed(uint64_t blocks, bool with_scan, double *spare)
{
	Load load = { .processes = PROCESS_MAX, .blocks = blocks };
	Load beside = load;

	begin();
	for (uint64_t i = 0; i < FILE_BLOCKS; i++)
	{
		Process *who = &process[1 + chance(PROCESS_MAX - 1)];

		ask(&beside, who, chance(blocks), 1);
		now_ns += RANDOM_READ_NS;
		if (with_scan)
			ask(&load, &process[0], i % blocks, 1);
	}
	*spare = 1.0 - (double) beside.positioned / (double) beside.requests;
	return load;
}

static void
test_random_reads(uint64_t blocks, double spare_max)
{
	int mb = (int) (blocks * BLOCK / 1024 / 1024);
	double spare, beside;
	Load scan;

	mixed(blocks, false, &spare);
	scan = mixed(blocks, true, &beside);
	NOTE("random reads of %d MB by %d processes: %.2f %% free, beside a scan "
	     "%.2f %%",
	     mb, PROCESS_MAX - 1, 100 * spare, 100 * beside);
	OK(spare <= spare_max, "random reads of %d MB are not free", mb);
	OK(beside <= 2 * spare_max, "nor are they beside a scan");
	OK(scan.positioned <= 1 + scan.requests / blocks,
	   "the scan is not disturbed by them");
}

int
main(void)
{
	static const int degree[] = { 1, 2, 4, 8 };

	for (int i = 0; i < 4; i++)
	{
		test_pieces(degree[i], 16, 16);
		test_pieces(degree[i], 16, 1);
		test_pieces(degree[i], 4, 4);
		test_pieces(degree[i], 64, 16);
		test_buffered_pages(degree[i]);
	}
	test_random_reads(131072, 0.005);
	test_random_reads(12800, 0.01);
	test_random_reads(1280, 0.05);
	return done();
}
