/*
 * lookups.c
 *		What a look-up costs by the size of the cache: nanoseconds of CPU, in
 *		memory in pages of 4 kB and in huge ones.
 *
 *	lookups [MOST_BLOCKS]
 *
 * Only the index exists, without slots.  Each size is filled once and copied,
 * byte by byte, into memory of the other kind.  All candidates of a size run in
 * turn, in both kinds of memory (measure.h), each on blocks that no candidate
 * has touched for a long time, so that the index is as far away as it is for a
 * server that does other things between two reads.
 *
 * The limit is one load of a random word of the same memory.  It and the
 * look-ups are alone: the processor finishes each before it begins the next.
 * "one after another" are look-ups as in cost.c, which the processor may
 * overlap.  "behind a call" is what a system call and a look-up cost together,
 * less the call, with and without a prefetch before the call: a read of the
 * server asks the page cache before the index.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fcache/life.h"
#include "../measure.h"
#include "die.h"
#include "index.h"
#include "read.h"

#define CALLS     MEASURE_CALLS
#define HUGE_PAGE ((size_t) 2 << 20)

/* Blocks in random order; far more than a candidate uses in a round. */
#define ORDER (1U << 21)

/* No cache has a block from here on. */
#define ABSENT 0x40000000U

/* A run of blocks, and how far ahead core fetches in it. */
#define RUN   16
#define AHEAD 4

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

typedef struct Bench
{
	FcCache cache;
	FcFile file;
	char *memory;
	size_t size;
} Bench;

static uint32_t order[ORDER];
static uint32_t next_of_order;
static char *asked; /* a page that the system call asks about */
static volatile uint64_t sink;

/* ---- the candidates ------------------------------------------------------ */

/* The processor has finished everything before this. */
static inline void
alone(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#elif defined(__aarch64__)
	__asm__ volatile("dsb ish\n\tisb" ::: "memory");
#endif
}

static uint32_t
next(void)
{
	return order[next_of_order++ % ORDER];
}

static void
nothing(void *context)
{
	(void) context;
	for (int i = 0; i < CALLS; i++)
	{
		sink += next();
		alone();
	}
}

static void
load(void *context)
{
	const Bench *bench = context;

	for (int i = 0; i < CALLS; i++)
	{
		uint64_t at = fc_mix(next()) % (bench->size / sizeof(uint64_t));

		sink += ((const volatile uint64_t *) bench->memory)[at];
		alone();
	}
}

static inline void
look_up(Bench *bench, uint32_t block, FcStatus wanted)
{
	FcTicket ticket;
	FcSeen seen;

	if (fc_read_look_up(&bench->cache, &bench->file, block, &ticket, &seen) !=
	    wanted)
		die("find what is there");
}

static void
hit(void *context)
{
	for (int i = 0; i < CALLS; i++)
	{
		look_up(context, next(), FC_OK);
		alone();
	}
}

static void
miss(void *context)
{
	for (int i = 0; i < CALLS; i++)
	{
		look_up(context, next() + ABSENT, FC_MISS);
		alone();
	}
}

static void
hits_in_a_row(void *context)
{
	for (int i = 0; i < CALLS; i++)
		look_up(context, next(), FC_OK);
}

static void
misses_in_a_row(void *context)
{
	for (int i = 0; i < CALLS; i++)
		look_up(context, next() + ABSENT, FC_MISS);
}

static void
invalidate(void *context)
{
	Bench *bench = context;
	FcChange change;

	for (int i = 0; i < CALLS; i++)
	{
		fc_change_begin(&bench->cache, &bench->file, next() + ABSENT, 1,
		                &change);
		fc_change_end(&bench->cache, &bench->file, &change);
		alone();
	}
}

static inline void
call(void)
{
	unsigned char in_memory;

	if (mincore(asked, 1, &in_memory) != 0)
		die("ask");
	alone();
}

static void
calls(void *context)
{
	(void) context;
	for (int i = 0; i < CALLS; i++)
	{
		sink += next();
		call();
	}
}

static void
calls_and_hits(void *context)
{
	for (int i = 0; i < CALLS; i++)
	{
		call();
		look_up(context, next(), FC_OK);
		alone();
	}
}

static void
calls_and_misses(void *context)
{
	for (int i = 0; i < CALLS; i++)
	{
		call();
		look_up(context, next() + ABSENT, FC_MISS);
		alone();
	}
}

static inline uint32_t
prefetched(Bench *bench, uint32_t block)
{
	fc_read_prefetch(&bench->cache, &bench->file, block, 1);
	call();
	return block;
}

static void
prefetched_only(void *context)
{
	for (int i = 0; i < CALLS; i++)
		sink += prefetched(context, next());
}

static void
prefetched_hits(void *context)
{
	for (int i = 0; i < CALLS; i++)
	{
		look_up(context, prefetched(context, next()), FC_OK);
		alone();
	}
}

static void
prefetched_misses(void *context)
{
	for (int i = 0; i < CALLS; i++)
	{
		look_up(context, prefetched(context, next() + ABSENT), FC_MISS);
		alone();
	}
}

/* As in fc_read_run(). */
static void
run_of(Bench *bench, uint32_t first, bool prefetch)
{
	if (prefetch)
		fc_read_prefetch(&bench->cache, &bench->file, first, RUN);
	call();
	for (uint32_t block = first; block < first + RUN; block++)
	{
		if (prefetch && block + AHEAD < first + RUN)
			fc_read_prefetch(&bench->cache, &bench->file, block + AHEAD, 1);
		look_up(bench, block, FC_MISS);
	}
	alone();
}

static void
runs(void *context)
{
	for (int i = 0; i < CALLS / RUN; i++)
		run_of(context, ABSENT + next(), false);
}

static void
prefetched_runs(void *context)
{
	for (int i = 0; i < CALLS / RUN; i++)
		run_of(context, ABSENT + next(), true);
}

enum
{
	NOTHING,
	LOAD,
	HIT,
	MISS,
	HITS,
	MISSES,
	CHANGE,
	CALL,
	CALL_HIT,
	CALL_MISS,
	PREFETCH,
	PREFETCH_HIT,
	PREFETCH_MISS,
	RUNS,
	PREFETCH_RUNS,
	CANDIDATES
};

static const Figure candidates[CANDIDATES] = {
	[NOTHING] = { .name = "null control", .work = nothing },
	[LOAD] = { .name = "load", .work = load },
	[HIT] = { .name = "hit", .work = hit },
	[MISS] = { .name = "miss", .work = miss },
	[HITS] = { .name = "hits, one after another", .work = hits_in_a_row },
	[MISSES] = { .name = "misses, one after another", .work = misses_in_a_row },
	[CHANGE] = { .name = "change of an absent block", .work = invalidate },
	[CALL] = { .name = "call", .work = calls },
	[CALL_HIT] = { .name = "call, hit", .work = calls_and_hits },
	[CALL_MISS] = { .name = "call, miss", .work = calls_and_misses },
	[PREFETCH] = { .name = "prefetch, call", .work = prefetched_only },
	[PREFETCH_HIT] = { .name = "prefetch, call, hit", .work = prefetched_hits },
	[PREFETCH_MISS] = { .name = "prefetch, call, miss",
	                    .work = prefetched_misses },
	[RUNS] = { .name = "block of a run of 16", .work = runs },
	[PREFETCH_RUNS] = { .name = "... prefetched", .work = prefetched_runs },
};

/* ---- memory -------------------------------------------------------------- */

/* Like the server's: POSIX shared memory, at the start of a huge page. */
static char *
map_memory(size_t size)
{
	char name[64];
	char *reserved = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
	                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at = (char *) (((uintptr_t) reserved + HUGE_PAGE - 1) / HUGE_PAGE *
	                     HUGE_PAGE);
	int fd;

	snprintf(name, sizeof(name), "/pgflash-lookups.%d", (int) getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (reserved == MAP_FAILED || fd < 0)
		die("reserve memory");
	shm_unlink(name);
	errno = posix_fallocate(fd, 0, (off_t) size);
	if (errno != 0 || mmap(at, size, PROT_READ | PROT_WRITE,
	                       MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("reserve memory");
	close(fd);
	return at;
}

/* Put memory into huge pages; false if the kernel has too few of them. */
static bool
collapse(char *memory, size_t size)
{
	size_t whole = size / HUGE_PAGE;
	size_t huge = 0;

	for (size_t i = 0; i < whole; i++)
		huge += madvise(memory + i * HUGE_PAGE, HUGE_PAGE, MADV_COLLAPSE) == 0;
	return whole > 0 && huge >= whole - whole / 20;
}

static size_t
available_bytes(void)
{
	char line[128];
	size_t kb = 0;
	FILE *file = fopen("/proc/meminfo", "r");

	while (file != NULL && fgets(line, sizeof(line), file) != NULL &&
	       sscanf(line, "MemAvailable: %zu", &kb) != 1)
		;
	if (file != NULL)
		fclose(file);
	return kb * 1024;
}

/* ---- a cache ------------------------------------------------------------- */

/* Any order will do, but the sets of the next blocks are prefetched. */
static void
fill(Bench *bench, uint32_t slots)
{
	/* Past the size, so that nearly every set is full. */
	for (uint32_t block = 0; block < slots + slots / 4; block++)
	{
		FcTicket ticket;
		FcSeen seen;

		fc_index_prefetch(bench->cache.shared,
		                  fc_key(bench->file.number, block + 16));
		if (fc_read_look_up(&bench->cache, &bench->file, block, &ticket,
		                    &seen) == FC_MISS &&
		    fc_claim(&bench->cache, &ticket, &seen) == FC_OK)
			must(fc_claim_publish(&bench->cache, &ticket, &seen, FC_VALID, 0),
			     "publish");
	}
}

static void
put_in_order(Bench *bench, uint32_t slots)
{
	uint64_t chance = 1;

	for (uint32_t i = 0; i < ORDER;)
	{
		FcTicket ticket;
		FcSeen seen;
		uint32_t block;

		chance = fc_mix(chance + 0x9e3779b97f4a7c15ULL);
		block = (uint32_t) (((chance >> 32) * (slots + slots / 4)) >> 32);
		if (fc_read_look_up(&bench->cache, &bench->file, block, &ticket,
		                    &seen) == FC_OK)
			order[i++] = block;
	}
}

static void
create(Bench *bench, uint32_t blocks)
{
	uint32_t slots = (blocks + FC_WAYS - 1) / FC_WAYS * FC_WAYS;
	FcConfig config = { .slot_count = slots,
		                .process_count = 64,
		                .replacement = &fc_replacement_gittins };

	bench->size = fc_cache_memory_needed(&config);
	bench->memory = map_memory(bench->size);
	must(fc_cache_create(&bench->cache, bench->memory, &config, NULL),
	     "create a cache");
	must(fc_mode_set(&bench->cache, FC_SERVE, FC_REASON_NONE), "serve");
	bench->file = fc_file((FcFileId){ 1663, 5, 16384, 0, 0 });
	must(fc_file_enter(&bench->cache, &bench->file), "enter a file");
	fill(bench, slots);
	put_in_order(bench, slots);
}

/* The same cache in other memory. */
static void
copy(Bench *to, const Bench *from)
{
	*to = *from;
	to->memory = map_memory(from->size);
	memcpy(to->memory, from->memory, from->size);
	must(fc_cache_attach(&to->cache, to->memory, &fc_replacement_gittins, NULL),
	     "attach");
}

/* ---- running ------------------------------------------------------------- */

/* Both kinds of memory take turns, too. */
static Bench *benches[2];
static unsigned at_candidate;

static void
work_at(void *context)
{
	unsigned i = at_candidate++ % (2 * CANDIDATES);

	(void) context;
	candidates[i / 2].work(benches[i % 2]);
}

static void
print_rows(const char *size, const Figure *figures, bool huge)
{
	for (int i = 0; i < CANDIDATES; i++)
	{
		const Figure *small_pages = &figures[2 * i];
		const Figure *huge_pages = &figures[2 * i + 1];

		printf("%-12s %-28s %8.1f %8.1f - %-8.1f", size, candidates[i].name,
		       small_pages->median, small_pages->low, small_pages->high);
		if (huge)
			printf(" %8.1f %8.1f - %-8.1f", huge_pages->median, huge_pages->low,
			       huge_pages->high);
		putchar('\n');
	}
}

static void
print_ratios(const char *size, const Figure *figures, bool huge)
{
	static const struct
	{
		const char *name;
		int what;
		int less;
	} rows[] = {
		{ "a hit alone", HIT, NOTHING },
		{ "a miss alone", MISS, NOTHING },
		{ "a change alone", CHANGE, NOTHING },
		{ "a hit behind a call", CALL_HIT, CALL },
		{ "... prefetched", PREFETCH_HIT, CALL },
		{ "a miss behind a call", CALL_MISS, CALL },
		{ "... prefetched", PREFETCH_MISS, CALL },
		{ "a prefetch in vain", PREFETCH, CALL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		printf("%-12s %-28s", size, rows[i].name);
		for (int kind = 0; kind <= (int) huge; kind++)
		{
			double ns = figures[2 * rows[i].what + kind].median -
			            figures[2 * rows[i].less + kind].median;
			double limit = figures[2 * LOAD + kind].median -
			               figures[2 * NOTHING + kind].median;

			printf(" %8.1f %7.2f of a load    ", ns, ns / limit);
		}
		putchar('\n');
	}
}

static void
run(uint32_t blocks)
{
	Bench small_pages = { 0 };
	Bench huge_pages = { 0 };
	Figure figures[2 * CANDIDATES];
	char size[32];
	bool huge;

	snprintf(size, sizeof(size), "%u", blocks);
	create(&small_pages, blocks);
	copy(&huge_pages, &small_pages);
	huge = collapse(huge_pages.memory, huge_pages.size);
	benches[0] = &small_pages;
	benches[1] = huge ? &huge_pages : &small_pages;
	for (int i = 0; i < 2 * CANDIDATES; i++)
		figures[i] =
			(Figure){ .name = candidates[i / 2].name, .work = work_at };
	at_candidate = 0;
	measure(figures, 2 * CANDIDATES, NULL);
	if (!huge)
		printf("%-12s the kernel gave no huge pages, or it is too small\n",
		       size);
	print_rows(size, figures, huge);
	print_ratios(size, figures, huge);
	fflush(stdout);
	munmap(small_pages.memory, small_pages.size);
	munmap(huge_pages.memory, huge_pages.size);
}

int
main(int argc, char **argv)
{
	static const uint32_t sizes[] = { 32000, 1000000, 10000000, 130000000 };
	unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 10) : UINT32_MAX;

	printf("%-12s %-28s %8s %19s %8s %19s\n", "blocks", "what, ns of CPU",
	       "4 kB", "quartiles", "huge", "quartiles");
	asked = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		if (sizes[i] > most)
			continue;
		if ((size_t) sizes[i] * 24 * 3 > available_bytes())
		{
			printf("%u blocks: not enough memory\n", sizes[i]);
			continue;
		}
		run(sizes[i]);
	}
	return 0;
}
