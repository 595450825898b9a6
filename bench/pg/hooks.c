/*
 * hooks.c
 *		The cost of a hooked call while the cache is off.
 *
 *	hooks [--format json]
 *
 * Links the extension's hooks without a server and calls them next to libc's
 * own functions: a read of a block that an empty file does not have, so that
 * the kernel's part is small; an open with its close.  "off": no cache is
 * configured; "watched": likewise, but reads are watched for the advice, by a
 * curve that has seen 4 million blocks; "offline": there is a cache, but its
 * mode is offline.  The null control is libc against libc.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../measure.h"
#include "hooks/advice.h"
#include "hooks/descriptors.h"
#include "hooks/hooks.h"
#include "hooks/runtime.h"
#include "settings.h"
#include "fcache/life.h"

Runtime runtime;
int setting_verify = VERIFY_OFF;
int setting_read_deadline_ms = 5000;
bool setting_fill_neighbours = true;
bool setting_account = false;

static uint32_t wait_event;
static uint32_t *wait_event_place = &wait_event;
static void *shared_memory;
static bool is_walsender;
static int backend_type;

static int fd;
static char page[FC_BLOCK_SIZE];
static volatile ssize_t sink;

static void
libc_pread(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += pread(fd, page, FC_BLOCK_SIZE, (off_t) i * FC_BLOCK_SIZE);
}

static void
hooked_pread(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += reads_pread(fd, page, FC_BLOCK_SIZE, (off_t) i * FC_BLOCK_SIZE);
}

static void
libc_pwrite(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += pwrite(fd, page, 0, 0);
}

static void
hooked_pwrite(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += changes_pwrite(fd, page, 0, 0);
}

static void
libc_open(void *context)
{
	const char *path = context;

	for (int i = 0; i < MEASURE_CALLS; i++)
		close(open(path, O_RDWR));
}

static void
hooked_open(void *context)
{
	const char *path = context;

	for (int i = 0; i < MEASURE_CALLS; i++)
	{
		int opened = names_open(AT_FDCWD, path, O_RDWR, 0);

		descriptors_closed(opened);
		close(opened);
	}
}

static Figure figures[] = {
	{ .name = "pread", .work = libc_pread },
	{ .name = "pread again (null control)", .work = libc_pread },
	{ .name = "pread hooked", .work = hooked_pread },
	{ .name = "pwrite", .work = libc_pwrite },
	{ .name = "pwrite hooked", .work = hooked_pwrite },
	{ .name = "open and close", .work = libc_open },
	{ .name = "open and close hooked", .work = hooked_open },
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

static void
report(const char *of, bool json)
{
	measure(figures, FIGURES, (void *) "base/5/16384");
	measure_print(figures, FIGURES, of, json);
	if (json)
		printf("  {\"of\": \"%s\", \"added_ns\": {\"null\": %.1f, "
		       "\"pread\": %.1f, \"pwrite\": %.1f, \"open\": %.1f}},\n",
		       of, figures[1].median - figures[0].median,
		       figures[2].median - figures[0].median,
		       figures[4].median - figures[3].median,
		       figures[6].median - figures[5].median);
}

static void
make_advice(void)
{
	FcFileId other = { .relation = 1 };
	void *memory;

	advice_want(0);
	memory = aligned_alloc(64, (advice_memory_size() + 63) / 64 * 64);
	if (memory == NULL)
		exit(1);
	shared_memory = memory;
	advice_create(memory);
	for (uint32_t i = 0; i < 4000000; i++)
		advice_requested(other, i, 1);
}

static void
make_cache(void)
{
	FcConfig config = { .slot_count = 32768,
		                .process_count = 16,
		                .replacement = &fc_replacement_lfu };
	size_t size = fc_cache_memory_needed(&config);

	shared_memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared_memory == MAP_FAILED ||
	    fc_cache_create(&runtime.cache, shared_memory, &config,
	                    runtime.device) != FC_OK ||
	    fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_USER) != FC_OK)
		exit(1);
}

int
main(int argc, char **argv)
{
	bool json = argc == 3 && strcmp(argv[2], "json") == 0;
	char folder[] = "/tmp/pgflash-hooks-XXXXXX";

	runtime.shared_memory = &shared_memory;
	runtime.wait_event = &wait_event_place;
	runtime.is_walsender = &is_walsender;
	runtime.backend_type = &backend_type;
	runtime.checkpointer_type = -1;
	runtime.segment_blocks = 131072;

	if (mkdtemp(folder) == NULL || chdir(folder) != 0 ||
	    mkdir("base", 0700) != 0 || mkdir("base/5", 0700) != 0)
		return 1;
	fd = names_open(AT_FDCWD, "base/5/16384", O_RDWR | O_CREAT, 0600);
	if (fd < 0 || descriptors_entry(fd)->class != FILE_RELATION)
		return 1;

	if (json)
		puts("{\"figures\": [");
	else
		printf("%-18s %-34s %9s   %s\n", "cache", "call", "median ns",
		       "quartiles");
	report("off", json);
	make_advice();
	report("watched", json);
	make_cache();
	report("offline", json);
	if (json)
		puts("  {}]}");

	return unlink("base/5/16384") != 0 || rmdir("base/5") != 0 ||
	       rmdir("base") != 0 || rmdir(folder) != 0;
}
