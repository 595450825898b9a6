/*
 * stage.h
 *		A stage for the hooks, without a server.
 *
 * The program plays PostgreSQL: it runs in a data directory, defines the few
 * variables that hooks read, and calls the hooks as the import table would.
 * The cache is core's own, on a real cache file.  The kernel's answer about the
 * page cache is the test's (page_cache.h).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef STAGE_H
#define STAGE_H

#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hooks/advice.h"
#include "broken.h"
#include "hooks/descriptors.h"
#include "page_cache.h"
#include "hooks/runtime.h"
#include "settings.h"
#include "tap.h"
#include "fcache/housekeeping.h"
#include "fcache/life.h"

#define SLOTS          1024
#define SEGMENT_BLOCKS 131072
#define PATH           "base/5/16384"

/* How long a machine that stalls may take for what is to come. */
#define PATIENCE_NS 60000000000

#define UNUSED __attribute__((unused))

Runtime runtime;
int setting_verify = VERIFY_OFF;
int setting_read_deadline_ms = PATIENCE_NS / 1000000;
bool setting_account = false;
bool setting_fill_neighbours = true;

static void *server_memory;
static uint32_t wait_shown;
static uint32_t *wait_event = &wait_shown;
static bool is_walsender;
static int backend_type;
static bool server_syncs = true;

/* ---- the stage ----------------------------------------------------------- */

typedef struct Page
{
	_Alignas(FC_IO_ALIGN) unsigned char bytes[FC_BLOCK_SIZE];
} Page;

UNUSED static const Import *
hook_named(const char *name)
{
	for (size_t i = 0; i < hook_import_count; i++)
	{
		if (strcmp(hook_imports[i].name, name) == 0)
			return &hook_imports[i];
	}
	abort();
}

/* Call the hook that stands in for a function of libc. */
#define HOOK(name, type) ((type) hook_named(name)->replacement)

typedef int (*OpenHook)(const char *, int, ...);
typedef int (*FdHook)(int);
typedef int (*Fd2Hook)(int, int);

UNUSED static int
server_open(const char *path, int flags)
{
	return HOOK("open", OpenHook)(path, flags, 0600);
}

UNUSED static void
server_close(int fd)
{
	HOOK("close", FdHook)(fd);
}

UNUSED static uint64_t
counter(FcCounter which)
{
	return fc_count_sum(&runtime.cache, which);
}

UNUSED static bool
page_is(const Page *page, int letter)
{
	for (size_t i = 0; i < FC_BLOCK_SIZE; i++)
	{
		if (page->bytes[i] != (unsigned char) letter)
			return false;
	}
	return true;
}

UNUSED static Page
page_of(int letter)
{
	Page page;

	memset(page.bytes, letter, sizeof(page.bytes));
	return page;
}

/* Change a file behind the cache's back. */
UNUSED static void
plant(const char *path, uint32_t blocks, int letter)
{
	Page page = page_of(letter);
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	for (uint32_t i = 0; i < blocks; i++)
	{
		if (pwrite(fd, &page, sizeof(page), (off_t) i * FC_BLOCK_SIZE) !=
		    FC_BLOCK_SIZE)
			abort();
	}
	close(fd);
}

UNUSED static ssize_t
server_read(int fd, Page *page, uint32_t block)
{
	return reads_pread(fd, page, FC_BLOCK_SIZE, (off_t) block * FC_BLOCK_SIZE);
}

/*
 * PostgreSQL would not accept a page that begins like this as a block.
 */
#define INVALID '!'

static unsigned judged; /* so many pages */
static uint32_t judged_block;

static bool
page_valid(void *page, uint32_t block)
{
	judged++;
	judged_block = block;
	return *(unsigned char *) page != INVALID;
}

static FcDevice cache_device;
/* Nobody empties the ring: it holds everything that a test fills. */
static const FcConfig cache_config = { .slot_count = SLOTS,
	                                   .ring_pages = 64,
	                                   .process_count = 8,
	                                   .replacement = &fc_replacement_lfu };

UNUSED static void
set_up_cache(void)
{
	size_t size = fc_cache_memory_needed(&cache_config);

	/* Zeros, from the beginning of a page on; a child gets a copy. */
	server_memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (server_memory == MAP_FAILED ||
	    fc_device_file_open(&cache_device, "../cache", SLOTS, 0) !=
	        FC_DEVICE_FINE ||
	    fc_cache_create(&runtime.cache, server_memory, &cache_config,
	                    &cache_device) != FC_OK ||
	    fc_mode_set(&runtime.cache, FC_SERVE, FC_REASON_NONE) != FC_OK)
		abort();
}

UNUSED static void
set_up(void)
{
	static char top[200];
	static char data[256];
	static Board board;

	tap_scratch(top, sizeof(top), "pgflash-hooks", false);
	if (mkdtemp(top) == NULL || chdir(top) != 0 || mkdir("data", 0700) != 0 ||
	    chdir("data") != 0 || mkdir("base", 0700) != 0 ||
	    mkdir("base/5", 0700) != 0 || mkdir("global", 0700) != 0 ||
	    mkdir("pg_wal", 0700) != 0 || mkdir("../other", 0700) != 0)
		abort();
	snprintf(data, sizeof(data), "%s/data", top);

	runtime.root.directory = data;
	runtime.root.real_directory = data;
	runtime.root.version_directory = "PG_18_202506291";
	runtime.segment_blocks = SEGMENT_BLOCKS;
	runtime.page_valid = page_valid;
	runtime.board = &board;
	runtime.wait_event = &wait_event;
	runtime.is_walsender = &is_walsender;
	runtime.backend_type = &backend_type;
	runtime.syncs = &server_syncs;
	runtime.checkpointer_type = -1;
	runtime.shared_memory = &server_memory;
	runtime.flash_read_event = 77;
	set_up_cache();
}

UNUSED static void
tear_down(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf %.*s",
	         (int) (strlen(runtime.root.directory) - strlen("/data")),
	         runtime.root.directory);
	if (chdir("/") != 0 || system(command) != 0)
		abort();
}

/* A relation file of 8 blocks of 'a', block 0 of it cached. */
UNUSED static int
cached_relation(const char *path)
{
	Page page;
	int fd;

	unlink(path);
	fc_cache_clear(&runtime.cache);
	plant(path, 8, 'a');
	fd = server_open(path, O_RDWR);
	if (server_read(fd, &page, 0) != FC_BLOCK_SIZE ||
	    server_read(fd, &page, 0) != FC_BLOCK_SIZE)
		abort();
	return fd;
}

/* Does a read of block 0 now return the file's content? */
UNUSED static bool
reads_true(int fd)
{
	Page served = page_of('?');
	Page stored = page_of('?');
	ssize_t got = server_read(fd, &served, 0);

	return got == pread(fd, &stored, sizeof(stored), 0) &&
	       (got != FC_BLOCK_SIZE ||
	        memcmp(&served, &stored, sizeof(stored)) == 0);
}

/* In a child, whose cache is a copy: what takes a cache offline. */
UNUSED static bool
goes_offline(bool (*action)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(action() && fc_mode(&runtime.cache, NULL) == FC_OFFLINE ? 0 : 1);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

#endif
