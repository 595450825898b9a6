/*
 * count_lines_test.c
 *		Which cache lines of shared memory are written, and by whom.
 *
 * A line that every process writes at each hit goes from processor to processor
 * and limits all of them together, which no machine with few processors shows.
 * So the lines are counted instead: shared memory is read-only, each store into
 * it is a fault that is noted, and the processor executes just that instruction
 * with the memory writable.  Two processes do the same to different blocks;
 * what both write regularly is shared.
 *
 * Only on x86-64, whose processor can stop after one instruction.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "blocks.h"
#include "fcache/replacement.h"
#include "tap.h"

#ifdef __x86_64__
#include <signal.h>
#include <ucontext.h>

#define LINE      64
#define LINES_MAX 4096
#define SLOTS     (1U << 20)
#define TIMES     64

/* A line is written regularly if at least one action in so many writes it. */
#define REGULARLY 4

#define TRAP_FLAG 0x100

/* Written lines, by number, and how often. */
typedef struct Lines
{
	unsigned count;
	uint32_t line[LINES_MAX];
	unsigned stores[LINES_MAX];
} Lines;

static unsigned char *watched;
static size_t watched_size;
static Lines *noted;

static void
protect(int protection)
{
	if (mprotect(watched, watched_size, protection) != 0)
		abort();
}

static void
note(uint32_t line)
{
	for (unsigned i = 0; i < noted->count; i++)
	{
		if (noted->line[i] == line)
		{
			noted->stores[i]++;
			return;
		}
	}
	if (noted->count == LINES_MAX)
		abort();
	noted->line[noted->count] = line;
	noted->stores[noted->count++] = 1;
}

static void
on_store(int signal_number, siginfo_t *info, void *context)
{
	ucontext_t *state = context;
	unsigned char *at = info->si_addr;

	if (at < watched || at >= watched + watched_size)
	{
		signal(signal_number, SIG_DFL);
		return;
	}
	note((uint32_t) ((size_t) (at - watched) / LINE));
	protect(PROT_READ | PROT_WRITE);
	state->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void
on_step(int signal_number, siginfo_t *info, void *context)
{
	ucontext_t *state = context;

	(void) signal_number;
	(void) info;
	state->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	protect(PROT_READ);
}

static void
watch(const Rig *rig)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	watched = rig->memory;
	watched_size = rig->memory_size;
	action.sa_sigaction = on_store;
	MUST(sigaction(SIGSEGV, &action, NULL) == 0);
	action.sa_sigaction = on_step;
	MUST(sigaction(SIGTRAP, &action, NULL) == 0);
}

/* ---- what processes do --------------------------------------------------- */

typedef void Action(FcCache *cache, FcFile *file, uint32_t block);

static void
hit(FcCache *cache, FcFile *file, uint32_t block)
{
	MUST(fc_read(cache, file, block, &back, &ticket) == FC_OK);
}

static void
miss(FcCache *cache, FcFile *file, uint32_t block)
{
	MUST(fc_read(cache, file, block + SLOTS * 4, &back, &ticket) == FC_MISS);
}

static void
changes(FcCache *cache, FcFile *file, uint32_t block)
{
	change_blocks(cache, file, block, 1);
}

static void
lines_of(Action *action, FcCache *cache, FcFile *file, uint32_t first,
         Lines *out)
{
	memset(out, 0, sizeof(*out));
	noted = out;
	for (uint32_t i = 0; i < TIMES; i++)
	{
		protect(PROT_READ);
		action(cache, file, first + i);
		protect(PROT_READ | PROT_WRITE);
	}
}

static unsigned
stores_to(const Lines *lines, uint32_t line)
{
	for (unsigned i = 0; i < lines->count; i++)
	{
		if (lines->line[i] == line)
			return lines->stores[i];
	}
	return 0;
}

/* Is the line one of those that a file has for itself? */
static bool
is_of_file(const Rig *rig, uint32_t line)
{
	const FcShared *shared = rig->cache.shared;
	size_t at = (size_t) line * LINE;

	return at >= shared->change_counters_offset &&
	       at < shared->cache_policies_offset;
}

/* Lines that both processes write regularly, and those of them of files. */
static unsigned
count_shared(const Rig *rig, const Lines *one, const Lines *other,
             unsigned *of_files)
{
	unsigned count = 0;

	*of_files = 0;
	for (unsigned i = 0; i < one->count; i++)
	{
		if (one->stores[i] < TIMES / REGULARLY ||
		    stores_to(other, one->line[i]) < TIMES / REGULARLY)
			continue;
		printf("# the line at byte %zu is shared\n",
		       (size_t) one->line[i] * LINE);
		count++;
		*of_files += is_of_file(rig, one->line[i]);
	}
	return count;
}

static unsigned
all_stores(const Lines *lines)
{
	unsigned stores = 0;

	for (unsigned i = 0; i < lines->count; i++)
		stores += lines->stores[i];
	return stores;
}

static const struct
{
	const char *name;
	Action *action;
	unsigned of_file; /* lines that a file's users share */
} actions[] = {
	{ "hit", hit, 1 },
	{ "miss", miss, 1 },
	{ "change", changes, 4 },
};

static void
test_lines(Rig *rig, FcCache *second, FcFile files[2])
{
	static Lines one, other;

	fc_test_broken = FC_BREAK(SHARDS);
	lines_of(hit, &rig->cache, &files[0], 0, &one);
	lines_of(hit, second, &files[1], 0, &other);
	OK(count_shared(rig, &one, &other, &(unsigned){ 0 }) > 0,
	   "control: shared counters are noticed");
	fc_test_broken = 0;

	for (unsigned i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
	{
		const char *name = actions[i].name;
		unsigned of_files;

		lines_of(actions[i].action, &rig->cache, &files[0], 0, &one);
		lines_of(actions[i].action, second, &files[1], 0, &other);
		OK(count_shared(rig, &one, &other, &of_files) == 0,
		   "%s, of two files: no line is shared", name);

		lines_of(actions[i].action, second, &files[0], TIMES, &other);
		OK(count_shared(rig, &one, &other, &of_files) == of_files &&
		       of_files <= actions[i].of_file,
		   "%s, of one file: no line but %u of the file's is shared", name,
		   actions[i].of_file);
		printf("# %s: %.2f stores\n", name, (double) all_stores(&one) / TIMES);
	}
}
#endif

int
main(void)
{
#ifdef __x86_64__
	FcConfig config = { .slot_count = SLOTS,
		                .process_count = 16,
		                .replacement = &fc_replacement_gittins };
	FcCache second;
	FcFile files[2];
	Rig rig;

	rig_open_with(&rig, &config);
	MUST(fc_cache_attach(&second, rig.memory, &fc_replacement_gittins,
	                     &rig.flash.device) == FC_OK);
	MUST(fc_process_begin(&rig.cache) == FC_OK);
	MUST(fc_process_begin(&second) == FC_OK);
	for (unsigned i = 0; i < 2; i++)
	{
		files[i] = entered(&rig, 7 + i);
		for (uint32_t block = 0; block < 2 * TIMES; block++)
			MUST(rig_put(&rig, &files[i], block));
	}
	watch(&rig);
	test_lines(&rig, &second, files);
	rig_detach(&second);
	rig_close(&rig);
#else
	SKIP("stores into shared memory", "only the processor of x86-64 steps");
#endif
	return tap_done();
}
