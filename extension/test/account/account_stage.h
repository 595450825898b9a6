/*
 * account_stage.h
 *		A stage for the accounting, without a server.
 *
 * This program plays PostgreSQL, as hooks_test does: it runs in a data
 * directory and calls the hooks by the names of the functions they stand in
 * for.  The test decides what the kernel says about its page cache, how long a
 * read takes, which processor runs, and what is allocated: it defines
 * syscall(), pread(), sched_getcpu() and malloc().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef ACCOUNT_STAGE_H
#define ACCOUNT_STAGE_H

#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "account/account.h"
#include "account/account_shared.h"
#include "hooks/descriptors.h"
#include "page_cache.h"
#include "hooks/runtime.h"
#include "settings.h"
#include "tap.h"

#define PATH  "base/5/16384"
#define BLOCK FC_BLOCK_SIZE
#define SINCE 4711

/* Backend types of this server: nothing, client backend, io worker. */
#define CLIENT    1
#define IO_WORKER 2
#define TYPES     3
#define PARALLEL  TYPES
#define PROCESSES 8
#define PLACES    64

#define UNUSED __attribute__((unused))

Runtime runtime;
int setting_verify = VERIFY_OFF;
int setting_read_deadline_ms = 5000;
bool setting_fill_neighbours = true;
bool setting_account = true;

static void *server_memory;
static uint32_t wait_shown;
static uint32_t *wait_event = &wait_shown;
static bool is_walsender;

static const bool is_true = true;
static int backend_type = CLIENT;
static int parallel_number = -1;
static int process_number = 3;
static int leader_number = -1;
static int asked_by = -1;
static int wal_segment_bytes = 16 * 1024 * 1024;

static long read_takes_ns;
static int runs_on; /* negative: it cannot be told */
static unsigned allocations;

/* ---- what is the test's own ---------------------------------------------- */

extern void *__libc_malloc(size_t size);

void *
malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

ssize_t
pread(int fd, void *buffer, size_t size, off_t offset)
{
	struct iovec iov = { buffer, size };
	struct timespec rest = { 0, read_takes_ns };

	if (read_takes_ns > 0)
		nanosleep(&rest, NULL);
	return preadv(fd, &iov, 1, offset);
}

int
sched_getcpu(void)
{
	if (runs_on < 0)
		errno = ENOSYS;
	return runs_on;
}

UNUSED static int
who_asked(int fd)
{
	(void) fd;
	return asked_by;
}

/* ---- the stage ----------------------------------------------------------- */

static void (*hook_named(const char *name))(void)
{
	for (size_t i = 0; i < hook_import_count; i++)
	{
		if (strcmp(hook_imports[i].name, name) == 0)
			return hook_imports[i].replacement;
	}
	abort();
}

#define HOOK(name, type) ((type) hook_named(name))

UNUSED static int
server_open(const char *path, int flags)
{
	return HOOK("open", int (*)(const char *, int, ...))(path, flags, 0600);
}

UNUSED static void
server_close(int fd)
{
	HOOK("close", int (*)(int))(fd);
}

UNUSED static ssize_t
server_read(int fd, void *buffer, size_t size, off_t offset)
{
	return HOOK("pread", ssize_t(*)(int, void *, size_t, off_t))(fd, buffer,
	                                                             size, offset);
}

UNUSED static ssize_t
server_write(int fd, const void *buffer, size_t size, off_t offset)
{
	return HOOK("pwrite", ssize_t(*)(int, const void *, size_t, off_t))(
		fd, buffer, size, offset);
}

UNUSED static int
server_sync(int fd)
{
	return HOOK("fsync", int (*)(int))(fd);
}

UNUSED static int
server_unlink(const char *path)
{
	return HOOK("unlink", int (*)(const char *))(path);
}

static char page[16 * BLOCK];

/* A file of so many blocks that no hook has seen. */
UNUSED static void
plant(const char *path, unsigned blocks)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t) blocks * BLOCK) != 0)
		abort();
	close(fd);
}

UNUSED static int
opened(const char *path, unsigned blocks)
{
	plant(path, blocks);
	return server_open(path, O_RDWR);
}

/* Begin with empty counters. */
UNUSED static void
start_over(void)
{
	size_t size = account_memory_size();

	account_detach(false);
	if (server_memory != NULL)
		munmap(server_memory, size);
	server_memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (server_memory == MAP_FAILED)
		abort();
	account_create(server_memory, SINCE);
}

UNUSED static AccountSum
sum_of(unsigned type, AccountClass class, AccountKind kind)
{
	AccountSum sum;

	account_sum(type, class, kind, &sum);
	return sum;
}

UNUSED static uint64_t
calls_of(AccountClass class, AccountKind kind)
{
	return sum_of(CLIENT, class, kind).calls;
}

/* Reads from any source: a busy machine may make any of them slow. */
UNUSED static AccountSum
reads_of(unsigned type, AccountClass class)
{
	AccountSum reads = sum_of(type, class, ACCOUNT_DISK_READ);
	AccountSum more = sum_of(type, class, ACCOUNT_PAGE_CACHE_READ);

	reads.calls += more.calls;
	reads.bytes += more.bytes;
	reads.ns += more.ns;
	reads.worker_calls += more.worker_calls;
	reads.worker_ns += more.worker_ns;
	return reads;
}

/* Of all types, classes and kinds together. */
UNUSED static uint64_t
calls_of_all(void)
{
	uint64_t calls = 0;

	for (unsigned type = 0; type <= PARALLEL; type++)
	{
		for (int i = 0; i < ACCOUNT_CLASSES * ACCOUNT_KINDS; i++)
			calls += sum_of(type, (AccountClass) (i / ACCOUNT_KINDS),
			                (AccountKind) (i % ACCOUNT_KINDS))
			             .calls;
	}
	return calls;
}

UNUSED static uint64_t
calls_in(const AccountRelation *relation)
{
	uint64_t calls = 0;

	for (int kind = 0; kind < ACCOUNT_KINDS; kind++)
		calls += relation->kind[kind].calls;
	return calls;
}

/* The row of a relation's fork; false if it has none. */
UNUSED static bool
relation_row(uint32_t number, uint32_t fork, AccountRelation *out)
{
	for (uint32_t place = 0; place < account_relation_places(); place++)
	{
		if (account_relation(place, out) && out->relation == number &&
		    out->fork == fork)
			return true;
	}
	return false;
}

UNUSED static uint64_t
calls_of_others(void)
{
	AccountRelation other;

	return account_relation(account_relation_places(), &other)
	           ? calls_in(&other)
	           : 0;
}

UNUSED static void
set_up(void)
{
	static char top[200];
	static char data[256];
	static const AccountServer server = {
		.backend_type = &backend_type,
		.parallel_number = &parallel_number,
		.wal_segment_bytes = &wal_segment_bytes,
		.backend_types = TYPES,
		.many = 1 << CLIENT,
		.relations = PLACES,
		.process_number = &process_number,
		.leader_number = &leader_number,
		.process_count = PROCESSES,
		.read_asked_by = who_asked,
	};
	static const char *const folders[] = {
		"base",   "base/5",  "base/pgsql_tmp", "global",
		"pg_wal", "pg_xact", "pg_tblspc",
	};

	tap_scratch(top, sizeof(top), "pgflash-account", false);
	if (mkdtemp(top) == NULL || chdir(top) != 0)
		abort();
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
	{
		if (mkdir(folders[i], 0700) != 0)
			abort();
	}
	snprintf(data, sizeof(data), "%s", top);
	runtime.root.directory = data;
	runtime.root.real_directory = data;
	runtime.root.version_directory = "PG_18_202506291";
	runtime.segment_blocks = 131072;
	runtime.wait_event = &wait_event;
	runtime.is_walsender = &is_walsender;
	runtime.backend_type = &backend_type;
	runtime.syncs = &is_true;
	runtime.checkpointer_type = -1;
	runtime.shared_memory = &server_memory;
	account_want(&server);
	start_over();
}

UNUSED static void
tear_down(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf %s", runtime.root.directory);
	if (chdir("/") != 0 || system(command) != 0)
		abort();
}

#endif
