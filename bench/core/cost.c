/*
 * cost.c
 *		What the cache costs: nanoseconds of CPU per call, side by side.
 *
 *	cost DIRECTORY [--format json]
 *
 * DIRECTORY holds the cache file, best on tmpfs: then a plain pread of the same
 * bytes from the same file is the least that a hit can cost.  Each figure is a
 * median (measure.h).  The null control is the same loop with nothing in it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fcache/crc32c.h"
#include "fcache/writer.h"
#include "fcache/life.h"
#include "../measure.h"
#include "die.h"
#include "index.h"
#include "read.h"

#define CALLS        MEASURE_CALLS
#define BLOCKS_SMALL 32000
#define BLOCKS_LARGE 10000000

typedef struct Bench
{
	FcCache cache;
	FcDevice device;
	FcFile file;
	FcWriter *writer;
	uint32_t blocks; /* cached */
	uint32_t *order; /* CALLS random blocks that are cached */
	uint32_t *slots; /* their offsets */
	char *page;
	char *unaligned;
} Bench;

static volatile uint64_t sink;

/* ---- the candidates ------------------------------------------------------ */

static void
nothing(void *context)
{
	Bench *bench = context;

	for (int i = 0; i < CALLS; i++)
		sink += bench->order[i];
}

static void
look_up_hit(void *context)
{
	Bench *bench = context;
	FcTicket ticket;
	FcSeen seen;

	for (int i = 0; i < CALLS; i++)
		sink += (uint64_t) fc_read_look_up(&bench->cache, &bench->file,
		                                   bench->order[i], &ticket, &seen);
}

static void
look_up_miss(void *context)
{
	Bench *bench = context;
	FcTicket ticket;
	FcSeen seen;

	for (int i = 0; i < CALLS; i++)
		sink += (uint64_t) fc_read_look_up(&bench->cache, &bench->file,
		                                   bench->order[i] + 0x40000000,
		                                   &ticket, &seen);
}

static void
invalidate_absent(void *context)
{
	Bench *bench = context;
	FcChange change;

	for (int i = 0; i < CALLS; i++)
		fc_change_begin(&bench->cache, &bench->file,
		                bench->order[i] + 0x40000000, 1, &change);
}

static void
plain_pread(void *context)
{
	Bench *bench = context;

	for (int i = 0; i < CALLS; i++)
		if (pread(bench->device.fd, bench->page, FC_BLOCK_SIZE,
		          FC_SLOTS_OFFSET + (off_t) bench->slots[i] * FC_BLOCK_SIZE) !=
		    FC_BLOCK_SIZE)
			die("read");
}

static void
read_all(Bench *bench, void *page)
{
	FcTicket ticket;

	for (int i = 0; i < CALLS; i++)
		must(fc_read(&bench->cache, &bench->file, bench->order[i], page,
		             &ticket),
		     "hit");
}

static void
whole_hit(void *context)
{
	Bench *bench = context;

	read_all(bench, bench->page);
}

static void
whole_hit_unaligned(void *context)
{
	Bench *bench = context;

	read_all(bench, bench->unaligned);
}

static void
checksum(void *context)
{
	Bench *bench = context;

	for (int i = 0; i < CALLS; i++)
		sink += fc_crc32c(0, bench->page, FC_BLOCK_SIZE);
}

static void
plain_pwrite(void *context)
{
	Bench *bench = context;

	for (int i = 0; i < CALLS; i++)
		if (pwrite(bench->device.fd, bench->page, FC_BLOCK_SIZE,
		           FC_SLOTS_OFFSET + (off_t) bench->slots[i] * FC_BLOCK_SIZE) !=
		    FC_BLOCK_SIZE)
			die("write");
}

/*
 * Fills are made in batches as large as the ring of BLOCKS_SMALL; the writer's
 * part is timed separately.
 */
#define BATCH 8

static uint64_t filling_ns;
static uint64_t writing_ns;
static uint64_t filled;

static void
write_out(Bench *bench)
{
	uint64_t begin = measure_cpu_ns();

	must(fc_writer_drain(bench->writer, 10000000000ULL), "write");
	writing_ns += measure_cpu_ns() - begin;
}

/* A change and the refresh of the copy: a fill of a block known to be there. */
static void
change_and_fill(void *context)
{
	Bench *bench = context;
	FcChange change;
	uint64_t begin = measure_cpu_ns();

	for (int i = 0; i < CALLS; i++)
	{
		fc_change_begin(&bench->cache, &bench->file, bench->order[i], 1,
		                &change);
		fc_change_end(&bench->cache, &bench->file, &change);
		filled += fc_change_fill(&bench->cache, &change, bench->page) == FC_OK;
		if (i % BATCH == BATCH - 1)
		{
			filling_ns += measure_cpu_ns() - begin;
			write_out(bench);
			begin = measure_cpu_ns();
		}
	}
}

/* A miss and its fill into a full set, if the policy lets it in. */
static void
miss_and_fill(void *context)
{
	Bench *bench = context;
	static uint32_t next = 0x20000000;
	FcTicket ticket;

	for (int i = 0; i < CALLS; i++)
	{
		if (fc_read(&bench->cache, &bench->file, next, bench->page, &ticket) !=
		    FC_MISS)
			die("miss");
		(void) fc_fill(&bench->cache, &ticket, bench->page);
		next++;
		if (i % BATCH == BATCH - 1)
			write_out(bench);
	}
}

/* A hit in the ring: no device is asked. */
static void
staged_hit(void *context)
{
	Bench *bench = context;
	FcTicket ticket;

	for (int i = 0; i < CALLS; i++)
		must(fc_read(&bench->cache, &bench->file, bench->order[i % BATCH],
		             bench->page, &ticket),
		     "hit in the ring");
}

/* The first blocks in order are in the ring from now on. */
static void
stage(Bench *bench)
{
	FcChange change;

	write_out(bench);
	for (int i = 0; i < BATCH; i++)
	{
		fc_change_begin(&bench->cache, &bench->file, bench->order[i], 1,
		                &change);
		fc_change_end(&bench->cache, &bench->file, &change);
		(void) fc_change_fill(&bench->cache, &change, bench->page);
	}
}

/*
 * The policy would not write blocks that are read once.  Here it has to, since
 * fills are measured.
 */
static unsigned
choose_always(const FcReplacementPlace *place, const FcCandidate *candidate,
              uint64_t usable)
{
	unsigned way = fc_replacement_gittins.choose(place, candidate, usable);

	return way != FC_WAY_NONE ? way : (unsigned) __builtin_ctzll(usable);
}

static FcReplacement willing;

/* ---- running ------------------------------------------------------------- */

/* A cache of this many blocks, the index full, on a file if there is one. */
static void
make(Bench *bench, uint32_t blocks, const char *path, uint64_t *memory_size)
{
	uint32_t slots = (blocks + FC_WAYS - 1) / FC_WAYS * FC_WAYS;
	FcConfig config = { .slot_count = slots,
		                .process_count = 64,
		                .replacement = &willing };
	size_t size;
	void *memory;
	FcTicket ticket;
	FcSeen seen;

	willing = fc_replacement_gittins;
	willing.choose = choose_always;
	size = fc_cache_memory_needed(&config);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die("reserve memory");
	if (path != NULL &&
	    fc_device_file_open(&bench->device, path, slots, 0) != FC_DEVICE_FINE)
		die("open the cache file");
	must(fc_cache_create(&bench->cache, memory, &config, &bench->device),
	     "make a cache");
	must(fc_mode_set(&bench->cache, FC_SERVE, FC_REASON_NONE), "serve");
	bench->file = fc_file((FcFileId){ 1663, 5, 16384, 0, 0 });
	must(fc_file_enter(&bench->cache, &bench->file), "enter a file");
	if (path != NULL)
		must(fc_writer_begin(&bench->cache, &bench->writer), "write");
	bench->page = aligned_alloc(4096, FC_BLOCK_SIZE);
	/* Shared buffers of 15 begin at a multiple of 128. */
	bench->unaligned = (char *) aligned_alloc(4096, 2 * FC_BLOCK_SIZE) + 128;
	memset(bench->page, 7, FC_BLOCK_SIZE);

	/* Past the size, so that every set is full. */
	for (uint32_t block = 0; block < slots + slots / 2; block++)
	{
		if (fc_read_look_up(&bench->cache, &bench->file, block, &ticket,
		                    &seen) != FC_MISS)
			continue;
		if (path != NULL)
		{
			(void) fc_fill(&bench->cache, &ticket, bench->page);
			if (block % BATCH == BATCH - 1)
				write_out(bench);
		}
		else if (fc_claim(&bench->cache, &ticket, &seen) == FC_OK)
			must(fc_claim_publish(&bench->cache, &ticket, &seen, FC_VALID, 0),
			     "publish");
	}

	bench->order = calloc(CALLS, sizeof(uint32_t));
	bench->slots = calloc(CALLS, sizeof(uint32_t));
	srandom(1);
	for (int i = 0; i < CALLS;)
	{
		uint32_t block = (uint32_t) random() % (slots + slots / 2);

		if (fc_read_look_up(&bench->cache, &bench->file, block, &ticket,
		                    &seen) != FC_OK)
			continue;
		bench->order[i] = block;
		bench->slots[i] = seen.slot;
		i++;
	}
	*memory_size = size;
}

enum
{
	NULL_CONTROL,
	HIT_LOOK_UP,
	MISS_LOOK_UP,
	INVALIDATE_ABSENT,
	CHECKSUM,
	PREAD,
	HIT,
	HIT_UNALIGNED,
	PWRITE,
	REFILL,
	IN_SMALL
};

enum
{
	PWRITE_AGAIN,
	FILL,
	EVICTING
};

enum
{
	IN_LARGE = MISS_LOOK_UP + 1
};

static Figure in_small[IN_SMALL] = {
	[NULL_CONTROL] = { .name = "null control", .work = nothing },
	[HIT_LOOK_UP] = { .name = "look-up, hit", .work = look_up_hit },
	[MISS_LOOK_UP] = { .name = "look-up, miss", .work = look_up_miss },
	[INVALIDATE_ABSENT] = { .name = "invalidate an absent block",
	                        .work = invalidate_absent },
	[CHECKSUM] = { .name = "CRC32C of a block", .work = checksum },
	[PREAD] = { .name = "plain pread", .work = plain_pread },
	[HIT] = { .name = "whole hit", .work = whole_hit },
	[HIT_UNALIGNED] = { .name = "whole hit, unaligned (15)",
	                    .work = whole_hit_unaligned },
	[PWRITE] = { .name = "plain pwrite", .work = plain_pwrite },
	[REFILL] = { .name = "invalidate twice and refill",
	             .work = change_and_fill },
};
static Figure staged[] = { { .name = "whole hit in the ring",
	                         .work = staged_hit } };
static Figure evicting[EVICTING] = {
	[PWRITE_AGAIN] = { .name = "plain pwrite again", .work = plain_pwrite },
	[FILL] = { .name = "miss, evict and fill", .work = miss_and_fill },
};
static Figure in_large[IN_LARGE] = {
	[NULL_CONTROL] = { .name = "null control", .work = nothing },
	[HIT_LOOK_UP] = { .name = "look-up, hit", .work = look_up_hit },
	[MISS_LOOK_UP] = { .name = "look-up, miss", .work = look_up_miss },
};

/* The resulting ratios. */
typedef struct Results
{
	double hit;    /* whole hit / plain pread */
	double refill; /* refill / plain pwrite */
	double refill_query_ns;
	double refill_writer_ns;
	double fill; /* miss, evict and fill / plain pwrite */
	double small_bytes_per_block;
	double large_bytes_per_block;
	bool direct;
} Results;

static Results
measure_all(const char *path)
{
	Bench small = { 0 };
	Bench large = { 0 };
	uint64_t small_size;
	uint64_t large_size;
	Results results;

	make(&small, BLOCKS_SMALL, path, &small_size);
	unlink(path);
	filling_ns = writing_ns = filled = 0;
	measure(in_small, IN_SMALL, &small);
	results.refill_query_ns = (double) filling_ns / (double) filled;
	results.refill_writer_ns = (double) writing_ns / (double) filled;
	stage(&small);
	measure(staged, 1, &small);
	write_out(&small);
	measure(evicting, EVICTING, &small);
	make(&large, BLOCKS_LARGE, NULL, &large_size);
	measure(in_large, IN_LARGE, &large);
	results.hit = in_small[HIT].median / in_small[PREAD].median;
	results.refill = in_small[REFILL].median / in_small[PWRITE].median;
	results.fill = evicting[FILL].median / evicting[PWRITE_AGAIN].median;
	results.small_bytes_per_block = (double) small_size / BLOCKS_SMALL;
	results.large_bytes_per_block = (double) large_size / BLOCKS_LARGE;
	results.direct = small.device.direct;
	return results;
}

static void
print_figures(bool json)
{
	measure_print(in_small, IN_SMALL, "32,000 blocks", json);
	measure_print(staged, 1, "32,000 blocks", json);
	measure_print(evicting, EVICTING, "32,000 blocks", json);
	measure_print(in_large, IN_LARGE, "10,000,000 blocks", json);
}

static void
print_json(const Results *results)
{
	puts("{\"figures\": [");
	print_figures(true);
	printf("  {}], \"hit_over_pread\": %.3f, \"refill_over_pwrite\": %.3f, "
	       "\"refill_query_ns\": %.0f, \"refill_writer_ns\": %.0f, "
	       "\"fill_over_pwrite\": %.3f, "
	       "\"bytes_per_block\": {\"32000\": %.1f, \"10000000\": %.1f}, "
	       "\"direct_io\": %s}\n",
	       results->hit, results->refill, results->refill_query_ns,
	       results->refill_writer_ns, results->fill,
	       results->small_bytes_per_block, results->large_bytes_per_block,
	       results->direct ? "true" : "false");
}

static void
print_table(const Results *results)
{
	printf("%-18s %-34s %9s   %s\n", "cache of", "what", "median ns",
	       "quartiles");
	print_figures(false);
	printf("\nwhole hit / plain pread        %.2f\n"
	       "refill / plain pwrite          %.2f\n"
	       "  of it the query's, ns        %.0f\n"
	       "  of it the writer's, ns       %.0f\n"
	       "miss, evict, fill / pwrite     %.2f\n"
	       "memory per block, bytes        %.1f at 32,000, %.1f at "
	       "10,000,000\n"
	       "O_DIRECT                       %s\n",
	       results->hit, results->refill, results->refill_query_ns,
	       results->refill_writer_ns, results->fill,
	       results->small_bytes_per_block, results->large_bytes_per_block,
	       results->direct ? "yes" : "no");
}

int
main(int argc, char **argv)
{
	bool json = argc == 4 && strcmp(argv[2], "--format") == 0 &&
	            strcmp(argv[3], "json") == 0;
	char path[4096];
	Results results;

	if (argc != 2 && !json)
	{
		fputs("Usage: cost DIRECTORY [--format json]\n", stderr);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/pgflash-cost.%d", argv[1], (int) getpid());
	results = measure_all(path);
	if (json)
		print_json(&results);
	else
		print_table(&results);
	return 0;
}
