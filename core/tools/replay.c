/*
 * replay.c
 *		Run a stream of block references through the cache, without PostgreSQL.
 *
 *	replay TRACE.u32 [--classes FILE] [--reads-only] [--policy NAME] --blocks N
 *		[--format json] [--slot-writes FILE]
 *
 * A stream is one little-endian u32 per request: bits 0-30 a block id, bit 31
 * set = a write.  --classes gives one byte per block id, the relation's class;
 * each class is played as a file of its own.  The index, the policy and the
 * protocol are the server's; only the slots' bytes are left out: nothing is
 * read, written or checksummed.  N is rounded up to whole sets.  --policy is
 * gittins, which is what the server uses, or lfu, to compare with.
 * --slot-writes writes what would go to flash to a file, in the stream's
 * format: block ids in order, bit 31 = the block was cached already.
 *
 * ns_per_request is CPU time of the process over all requests, the reading of
 * the stream from memory included.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "index.h"
#include "read.h"

#define WRITE_BIT 0x80000000U

static FILE *slot_writes;

typedef struct Options
{
	const char *trace;
	const char *classes;
	bool reads_only;
	bool json;
	uint32_t blocks;
	const FcReplacement *replacement;
	const char *slot_writes;
} Options;

typedef struct Totals
{
	uint64_t reads;
	uint64_t read_misses;
	uint64_t writes;
} Totals;

static void
usage(FILE *out)
{
	fputs(
		"Usage: replay TRACE.u32 [--classes FILE] [--reads-only] [--policy "
		"gittins|lfu]"
		" --blocks N [--format json|table] [--slot-writes FILE]\n"
		"Runs a block reference stream through the cache's index and policy.\n"
		"Example: replay oltp.u32 --blocks 65536 --format json\n",
		out);
}

static _Noreturn void
fail(const char *what, const char *name)
{
	fprintf(stderr, "replay: %s \"%s\": %s\n", what, name, strerror(errno));
	exit(1);
}

static _Noreturn void
misuse(const char *what, const char *argument)
{
	fprintf(stderr, "replay: %s: %s\n", what, argument);
	usage(stderr);
	exit(2);
}

static const FcReplacement *
policy_named(const char *name)
{
	const FcReplacement *const known[] = { &fc_replacement_gittins,
		                                   &fc_replacement_lfu };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		if (strcmp(known[i]->name, name) == 0)
			return known[i];
	}
	misuse("the policy is gittins or lfu, not", name);
	return NULL;
}

static Options
parse(int argc, char **argv)
{
	Options options = { .replacement = &fc_replacement_gittins };

	for (int i = 1; i < argc; i++)
	{
		const char *arg = argv[i];
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		{
			usage(stdout);
			exit(0);
		}
		if (strcmp(arg, "--reads-only") == 0)
		{
			options.reads_only = true;
			continue;
		}
		if (arg[0] != '-')
		{
			if (options.trace != NULL)
				misuse("more than one stream", arg);
			options.trace = arg;
			continue;
		}
		if (value == NULL)
			misuse("unknown option, or its value is missing", arg);
		i++;
		if (strcmp(arg, "--classes") == 0)
			options.classes = value;
		else if (strcmp(arg, "--format") == 0)
		{
			options.json = strcmp(value, "json") == 0;
			if (!options.json && strcmp(value, "table") != 0)
				misuse("the format is json or table, not", value);
		}
		else if (strcmp(arg, "--slot-writes") == 0)
			options.slot_writes = value;
		else if (strcmp(arg, "--policy") == 0)
			options.replacement = policy_named(value);
		else if (strcmp(arg, "--blocks") == 0)
		{
			char *end;
			unsigned long long n = strtoull(value, &end, 10);

			if (*end != '\0' || n == 0 || n > 1ULL << 31)
				misuse("blocks must be a number from 1 to 2147483648, not",
				       value);
			options.blocks = (uint32_t) ((n + FC_WAYS - 1) / FC_WAYS * FC_WAYS);
		}
		else
			misuse("unknown option", arg);
	}
	if (options.trace == NULL)
		misuse("which stream?", "TRACE.u32 is missing");
	if (options.blocks == 0)
		misuse("how large a cache?", "--blocks is missing");
	return options;
}

static void *
load(const char *path, size_t unit, size_t *count)
{
	FILE *file = fopen(path, "rb");
	long size;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 ||
	    (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0)
		fail("could not read", path);
	if ((size_t) size % unit != 0)
	{
		fprintf(stderr,
		        "replay: \"%s\" has %ld bytes, not whole numbers of"
		        " %zu\n",
		        path, size, unit);
		exit(1);
	}

	void *bytes = malloc((size_t) size + 1);

	if (bytes == NULL || fread(bytes, 1, (size_t) size, file) != (size_t) size)
		fail("could not read", path);
	fclose(file);
	*count = (size_t) size / unit;
	return bytes;
}

static FcCache
make_cache(uint32_t blocks, const FcReplacement *replacement)
{
	/* All classes' files are there at once. */
	FcConfig config = { .slot_count = blocks,
		                .file_count = 1024,
		                .process_count = 1,
		                .replacement = replacement };
	size_t size = fc_cache_memory_needed(&config);
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FcCache cache;

	if (memory == MAP_FAILED ||
	    fc_cache_create(&cache, memory, &config, NULL) != FC_OK ||
	    fc_mode_set(&cache, FC_SERVE, FC_REASON_NONE) != FC_OK)
		fail("could not make a cache for", "the stream");
	return cache;
}

static void
put(FcCache *cache, const FcTicket *ticket, uint32_t request)
{
	FcSeen claim;

	if (fc_claim(cache, ticket, &claim) != FC_OK ||
	    fc_claim_publish(cache, ticket, &claim, FC_VALID, 0) != FC_OK)
		return;
	fc_count(cache, FC_COUNT_inserts, 1);
	if (slot_writes != NULL)
		(void) fwrite(&request, sizeof(request), 1, slot_writes);
}

static void
play_read(FcCache *cache, FcFile *file, uint32_t block, Totals *totals)
{
	FcTicket ticket;
	FcSeen seen;

	totals->reads++;
	switch (fc_read_look_up(cache, file, block, &ticket, &seen))
	{
		case FC_OK:
			fc_claim_touch(cache, &seen);
			return;
		case FC_MISS:
			totals->read_misses++;
			put(cache, &ticket, block);
			return;
		default:
			fprintf(stderr, "replay: the cache does not answer\n");
			exit(1);
	}
}

static void
play_write(FcCache *cache, FcFile *file, uint32_t block, Totals *totals)
{
	FcChange change;

	totals->writes++;
	fc_change_begin(cache, file, block, 1, &change);
	fc_change_end(cache, file, &change);
	if (change.was_cached)
	{
		fc_count(cache, FC_COUNT_updates, 1);
		put(cache, &change.ticket, block | WRITE_BIT);
	}
}

int
main(int argc, char **argv)
{
	Options options = parse(argc, argv);
	size_t count;
	size_t class_count = 0;
	uint32_t *requests = load(options.trace, sizeof(uint32_t), &count);
	uint8_t *classes =
		options.classes == NULL ? NULL : load(options.classes, 1, &class_count);
	FcCache cache = make_cache(options.blocks, options.replacement);
	FcFile files[256];
	Totals totals = { 0 };

	for (uint32_t i = 0; i < 256; i++)
	{
		files[i] = fc_file((FcFileId){ .relation = i + 1 });
		if (fc_file_enter(&cache, &files[i]) != FC_OK)
			fail("could not enter a file for", options.trace);
	}

	if (options.slot_writes != NULL &&
	    (slot_writes = fopen(options.slot_writes, "wb")) == NULL)
		fail("could not open", options.slot_writes);

	clock_t start = clock();

	for (size_t i = 0; i < count; i++)
	{
		uint32_t block = requests[i] & ~WRITE_BIT;
		uint8_t class = block < class_count ? classes[block] : 0;

		if ((requests[i] & WRITE_BIT) == 0)
			play_read(&cache, &files[class], block, &totals);
		else if (!options.reads_only)
			play_write(&cache, &files[class], block, &totals);
	}

	double seconds = (double) (clock() - start) / CLOCKS_PER_SEC;
	if (slot_writes != NULL && fclose(slot_writes) != 0)
		fail("could not write", options.slot_writes);

	uint64_t requested = totals.reads + totals.writes;
	uint64_t updates = fc_count_sum(&cache, FC_COUNT_updates);
	uint64_t fills = fc_count_sum(&cache, FC_COUNT_inserts) - updates;

	printf(options.json
	           ? "{\"blocks\": %" PRIu32 ", \"reads\": %" PRIu64
	             ", \"read_misses\": %" PRIu64 ", \"fills\": %" PRIu64
	             ", \"updates\": %" PRIu64 ", \"evictions\": %" PRIu64
	             ", \"ns_per_request\": %.1f}\n"
	           : "blocks          %" PRIu32 "\nreads           %" PRIu64
	             "\nread_misses     %" PRIu64 "\nfills           %" PRIu64
	             "\nupdates         %" PRIu64 "\nevictions       %" PRIu64
	             "\nns_per_request  %.1f\n",
	       options.blocks, totals.reads, totals.read_misses, fills, updates,
	       fc_count_sum(&cache, FC_COUNT_eviction_aged_out),
	       requested > 0 ? seconds * 1e9 / (double) requested : 0.0);
	return 0;
}
