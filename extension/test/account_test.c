/*
 * account_test.c
 *		The accounting, without a server: every file call counted once, under what it
 *		was, and no call disturbed.
 *
 * This program plays PostgreSQL, as hooks_test does: it stands in a data directory
 * and calls the hooks by the names of the functions they stand in for.  What the
 * kernel says of its page cache, how long a read takes, what processor runs this, and
 * what is allocated, is the test's: it defines syscall(), pread(), sched_getcpu() and
 * malloc().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks.h"

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

#include "account.h"
#include "account_shared.h"
#include "files.h"
#include "page_cache.h"
#include "runtime.h"
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

Runtime runtime;
int setting_verify = VERIFY_OFF;
int setting_read_deadline_ms = 5000;
bool setting_account = true;

static void *server_memory;
static uint32_t wait_shown;
static uint32_t *wait_event = &wait_shown;
static bool is_walsender;

static int backend_type = CLIENT;
static int parallel_number = -1;
static int process_number = 3;
static int asked_by = -1;
static int wal_segment_bytes = 16 * 1024 * 1024;

static long read_takes_ns;
static int runs_on; /* negative: it cannot be told */
static unsigned allocations;

/* ---- what is the test's own -------------------------------------------------- */

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

static int
who_asked(int fd)
{
	(void) fd;
	return asked_by;
}

/* ---- the stage ------------------------------------------------------------------ */

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

static int
server_open(const char *path, int flags)
{
	return HOOK("open", int (*)(const char *, int, ...))(path, flags, 0600);
}

static void
server_close(int fd)
{
	HOOK("close", int (*)(int))(fd);
}

static ssize_t
server_read(int fd, void *buffer, size_t size, off_t offset)
{
	return HOOK("pread", ssize_t(*)(int, void *, size_t, off_t))(fd, buffer,
	                                                             size, offset);
}

static ssize_t
server_write(int fd, const void *buffer, size_t size, off_t offset)
{
	return HOOK("pwrite", ssize_t(*)(int, const void *, size_t, off_t))(
		fd, buffer, size, offset);
}

static int
server_sync(int fd)
{
	return HOOK("fsync", int (*)(int))(fd);
}

static int
server_unlink(const char *path)
{
	return HOOK("unlink", int (*)(const char *))(path);
}

static char page[16 * BLOCK];

/* A file of so many blocks that no hook has seen. */
static void
plant(const char *path, unsigned blocks)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t) blocks * BLOCK) != 0)
		abort();
	close(fd);
}

static int
opened(const char *path, unsigned blocks)
{
	plant(path, blocks);
	return server_open(path, O_RDWR);
}

/* Begin with nothing counted. */
static void
begin_anew(void)
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

static AccountSum
sum_of(unsigned type, AccountClass class, AccountKind kind)
{
	AccountSum sum;

	account_sum(type, class, kind, &sum);
	return sum;
}

static uint64_t
calls_of(AccountClass class, AccountKind kind)
{
	return sum_of(CLIENT, class, kind).calls;
}

/* Reads, whoever served them: a busy machine may make any of them slow. */
static AccountSum
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
static uint64_t
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

static uint64_t
calls_in(const AccountRelation *relation)
{
	uint64_t calls = 0;

	for (int kind = 0; kind < ACCOUNT_KINDS; kind++)
		calls += relation->kind[kind].calls;
	return calls;
}

/* The row of a relation's fork; false if it has none. */
static bool
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

static uint64_t
calls_of_others(void)
{
	AccountRelation other;

	return account_relation(account_relation_places(), &other)
	           ? calls_in(&other)
	           : 0;
}

static void
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
	runtime.checkpointer_type = -1;
	runtime.shared_memory = &server_memory;
	account_want(&server);
	begin_anew();
}

static void
tear_down(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf %s", runtime.root.directory);
	if (chdir("/") != 0 || system(command) != 0)
		abort();
}

/* ---- what is counted, and where --------------------------------------------------- */

static void
test_classes(void)
{
	static const struct
	{
		const char *path;
		AccountClass class;
	} cases[] = {
		{ PATH, ACCOUNT_DATA },
		{ "base/5/t3_16384", ACCOUNT_TEMP_RELATION },
		{ "base/pgsql_tmp/pgsql_tmp1.0", ACCOUNT_TEMP },
		{ "pg_wal/000000010000000000000001", ACCOUNT_WAL },
		{ "pg_wal/xlogtemp.1", ACCOUNT_WAL_INIT },
		{ "pg_xact/0000", ACCOUNT_SLRU },
		{ "global/pg_control", ACCOUNT_CONTROL },
		{ "base/5/pg_filenode.map", ACCOUNT_OTHER },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		AccountClass class = cases[i].class;
		int fd;
		AccountSum sum;

		begin_anew();
		page_cache_is_full = false;
		read_takes_ns = 1000000; /* a disk's, if nobody is asked */
		fd = opened(cases[i].path, 4);
		(void) server_read(fd, page, BLOCK, 0);
		(void) server_read(fd, page, 2 * BLOCK, 3 * BLOCK);
		(void) server_write(fd, page, 100, 0);
		(void) server_sync(fd);
		read_takes_ns = 0;
		server_close(fd);

		sum = sum_of(CLIENT, class, ACCOUNT_DISK_READ);
		OK(sum.calls == 2 && sum.bytes == 2 * BLOCK,
		   "%s: two reads, of the bytes that there were", cases[i].path);
		sum = sum_of(CLIENT, class, ACCOUNT_WRITE);
		OK(sum.calls == 1 && sum.bytes == 100, "%s: a write", cases[i].path);
		OK(calls_of(class, ACCOUNT_SYNC) == 1, "%s: a sync", cases[i].path);
		OK(calls_of_all() == 4, "%s: and nothing else", cases[i].path);
	}
}

/* Each function that reads, writes or syncs is counted, and no other. */
static void
test_every_call(void)
{
	struct iovec iov[2] = { { page, BLOCK }, { page + BLOCK, BLOCK } };
	int fd;
	int from;

	begin_anew();
	fd = opened(PATH, 8);
	from = opened("base/5/16385", 8);
	page_cache_is_full = true;
	(void) HOOK("preadv", ssize_t(*)(int, const struct iovec *, int, off_t))(
		fd, iov, 2, 0);
	(void) HOOK("read", ssize_t(*)(int, void *, size_t))(fd, page, 10);
	OK(reads_of(CLIENT, ACCOUNT_DATA).calls == 2 &&
	       reads_of(CLIENT, ACCOUNT_DATA).bytes == 2 * BLOCK + 10,
	   "preadv and read");
	(void) HOOK("pwritev", ssize_t(*)(int, const struct iovec *, int, off_t))(
		fd, iov, 2, 0);
	(void) HOOK("write", ssize_t(*)(int, const void *, size_t))(fd, page, 10);
	(void) HOOK("writev", ssize_t(*)(int, const struct iovec *, int))(fd, iov,
	                                                                  2);
	(void) HOOK("copy_file_range",
	            ssize_t(*)(int, off_t *, int, off_t *, size_t, unsigned))(
		from, NULL, fd, NULL, 20, 0);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_WRITE) == 4 &&
	       sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_WRITE).bytes ==
	           4 * BLOCK + 10 + 20,
	   "pwritev, write, writev, copy_file_range");
	(void) HOOK("fdatasync", int (*)(int))(fd);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 1, "fdatasync");
	(void) HOOK("posix_fallocate", int (*)(int, off_t, off_t))(fd, 8 * BLOCK,
	                                                           BLOCK);
	(void) HOOK("fallocate", int (*)(int, int, off_t, off_t))(fd, 0, 9 * BLOCK,
	                                                          BLOCK);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_EXTEND) == 2 &&
	       sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_EXTEND).bytes == 2 * BLOCK,
	   "posix_fallocate, fallocate");
	OK(calls_of_all() == 9, "each once");
	(void) HOOK("posix_fadvise", int (*)(int, off_t, off_t, int))(
		fd, 0, BLOCK, POSIX_FADV_WILLNEED);
	(void) HOOK("sync_file_range",
	            int (*)(int, off_t, off_t, unsigned))(fd, 0, BLOCK, 0);
	(void) HOOK("ftruncate", int (*)(int, off_t))(fd, BLOCK);
	OK(calls_of_all() == 9, "hints and truncations are not counted");
	server_close(from);
	server_close(fd);
}

static void
test_what_is_no_file(void)
{
	int ends[2];
	int null = server_open("/dev/null", O_RDWR);

	begin_anew();
	if (pipe(ends) != 0)
		abort();
	(void) HOOK("write", ssize_t(*)(int, const void *, size_t))(ends[1], "x",
	                                                            1);
	(void) HOOK("read", ssize_t(*)(int, void *, size_t))(ends[0], page, 1);
	(void) HOOK("write", ssize_t(*)(int, const void *, size_t))(null, "x", 1);
	(void) server_read(-1, page, BLOCK, 0);
	OK(calls_of_all() == 0,
	   "pipes, devices and descriptors of nothing are not counted");
	close(ends[0]);
	close(ends[1]);
	server_close(null);
}

/* ---- times ------------------------------------------------------------------------- */

static void
test_times(void)
{
	int fd;
	AccountSum sum;
	uint64_t in_buckets = 0;

	begin_anew();
	fd = opened(PATH, 8);
	page_cache_is_full = false;
	read_takes_ns = 3000000;
	(void) server_read(fd, page, BLOCK, 0);
	read_takes_ns = 0;
	sum = sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_DISK_READ);
	OK(sum.ns >= 3000000, "a read of 3 ms takes at least 3 ms");
	for (int i = 0; i < ACCOUNT_BUCKETS; i++)
	{
		uint64_t lower_ns = UINT64_C(1) << (ACCOUNT_BUCKET_FIRST + i);

		if (sum.bucket[i] > 0)
			OK(lower_ns <= sum.ns && sum.ns < 2 * lower_ns,
			   "its bucket holds its time");
		in_buckets += sum.bucket[i];
	}
	OK(in_buckets == 1, "it is in one bucket");
	server_close(fd);
}

/* ---- no call is disturbed ------------------------------------------------------------ */

static void
test_errno(void)
{
	int fd;
	int reader;
	unsigned before;

	begin_anew();
	fd = opened(PATH, 8);
	reader = server_open(PATH, O_RDONLY);

	/* Long enough for a read's source to be asked for. */
	for (int i = 0; i < 40; i++)
	{
		errno = 4711;
		if (server_read(fd, page, BLOCK, 0) != BLOCK || errno != 4711)
			break;
	}
	OK(errno == 4711, "ACCOUNT_ERRNO: reads leave errno alone");
	errno = 4711;
	OK(server_write(fd, page, BLOCK, 8 * BLOCK) == BLOCK && errno == 4711,
	   "ACCOUNT_ERRNO: so does a write that makes the file longer");
	OK(server_sync(fd) == 0 && errno == 4711, "ACCOUNT_ERRNO: and a sync");
	OK(server_read(-1, page, BLOCK, 0) == -1 && errno == EBADF,
	   "a read of nothing fails as it should");
	OK(server_write(reader, page, BLOCK, 0) == -1 && errno == EBADF,
	   "ACCOUNT_ERRNO: a write that fails hands its error on");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_WRITE) == 1 &&
	       sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_WRITE).bytes == 0,
	   "and counts as a call of no bytes");

	before = allocations;
	for (int i = 0; i < 100; i++)
	{
		(void) server_read(fd, page, BLOCK, 0);
		(void) server_write(fd, page, BLOCK, (off_t) i * BLOCK);
	}
	OK(allocations == before, "nothing is allocated");
	server_close(reader);
	server_close(fd);
}

static void
test_off(void)
{
	int fd;
	void *memory = server_memory;

	begin_anew();
	memory = server_memory;
	fd = opened(PATH, 8);
	setting_account = false;
	(void) server_read(fd, page, BLOCK, 0);
	(void) server_write(fd, page, BLOCK, 0);
	(void) server_sync(fd);
	OK(calls_of_all() == 0, "off, nothing is counted");
	setting_account = true;
	(void) server_read(fd, page, BLOCK, 0);
	OK(calls_of_all() == 1, "on again, what follows is");

	server_memory = NULL;
	(void) server_read(fd, page, BLOCK, 0);
	(void) server_write(fd, page, BLOCK, 20 * BLOCK);
	(void) server_unlink("base/5/1");
	server_memory = memory;
	OK(calls_of_all() == 1,
	   "a process without shared memory does its calls uncounted");
	server_close(fd);
}

/* ---- disk or page cache ---------------------------------------------------------------- */

static void
read_often(int fd, int times, bool cached, long takes_ns)
{
	page_cache_is_full = cached;
	read_takes_ns = takes_ns;
	for (int i = 0; i < times; i++)
		(void) server_read(fd, page, BLOCK, 0);
	read_takes_ns = 0;
}

static void
test_sources(void)
{
	int fd;
	unsigned asked = cachestats;
	uint64_t disk;

	begin_anew();
	fd = opened(PATH, 8);
	read_often(fd, 320, true, 0);
	OK(cachestats - asked == 20, "one read in 16 is asked where it came from");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_PAGE_CACHE_READ) >= 240,
	   "fast ones are the page cache's");
	OK(sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_PAGE_CACHE_READ).told_calls == 20,
	   "and it shows how many were asked");
	begin_anew();
	read_often(fd, 64, false, 1000000);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_DISK_READ) == 64,
	   "slow ones are the disk's");

	/* A device as fast as memory: only asking tells, and then the limit moves. */
	begin_anew();
	read_often(fd, 320, false, 0);
	disk = calls_of(ACCOUNT_DATA, ACCOUNT_DISK_READ);
	OK(disk > 200, "a disk as fast as memory is found out by the first few "
	               "reads that are asked");
	read_often(fd, 320, true, 0);
	OK(sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_PAGE_CACHE_READ).told_calls == 20,
	   "what is asked is always counted for who served it");
	OK(calls_of_all() == 640, "and the sum is right all the time");
	server_close(fd);
}

/* What was asked, by the number of its bucket: no clock has a say in it. */
static void
learn(int times, unsigned bucket, bool disk)
{
	for (int i = 0; i < times; i++)
		account_source_learn(bucket, BLOCK, disk);
}

static void
test_limit(void)
{
	begin_anew();
	OK(!account_source_is_disk(9, BLOCK) && account_source_is_disk(10, BLOCK) &&
	       !account_source_is_disk(10, 8 * BLOCK),
	   "at first 32 us are the limit for a block, more for more");
	learn(200, 5, false);
	learn(3, 17, false);
	OK(account_source_is_disk(12, BLOCK),
	   "a copy from memory that is held up now and then does not move it");
	learn(200, 8, true);
	OK(account_source_is_disk(8, BLOCK) && !account_source_is_disk(5, BLOCK),
	   "a fast disk does");
	learn(20000, 13, true);
	learn(20000, 12, false);
	OK(account_source_is_disk(13, BLOCK) && !account_source_is_disk(12, BLOCK),
	   "and what was long ago is forgotten");
}

/* ---- extends ----------------------------------------------------------------------------- */

static void
test_extends(void)
{
	int fd;
	int other;

	begin_anew();
	fd = opened(PATH, 4);
	(void) server_write(fd, page, BLOCK, 3 * BLOCK);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_WRITE) == 1,
	   "a write of the last block is a write");
	(void) server_write(fd, page, BLOCK, 4 * BLOCK);
	(void) server_write(fd, page, BLOCK, 5 * BLOCK);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_EXTEND) == 2,
	   "one at the end makes the file longer");
	(void) server_write(fd, page, BLOCK, 4 * BLOCK);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_WRITE) == 2, "again, it does not");

	plant(PATH, 10);
	(void) server_write(fd, page, BLOCK, 7 * BLOCK);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_WRITE) == 3,
	   "nor if another process was there first");

	other = server_open(PATH, O_RDWR);
	(void) HOOK("ftruncate", int (*)(int, off_t))(other, BLOCK);
	(void) server_write(fd, page, BLOCK, BLOCK);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_EXTEND) == 3,
	   "after another descriptor cut the file off it does");
	server_close(other);
	server_close(fd);

	fd = opened("base/pgsql_tmp/pgsql_tmp1.1", 0);
	(void) server_write(fd, page, BLOCK, 0);
	OK(calls_of(ACCOUNT_TEMP, ACCOUNT_WRITE) == 1,
	   "a temporary file is just written");
	server_close(fd);
}

static void
test_wal(void)
{
	AccountWal wal;
	int fd;
	int next;

	begin_anew();
	fd = opened("pg_wal/000000010000000200000005", 0);
	next = opened("pg_wal/000000010000000200000006", 0);
	(void) server_write(fd, page, 2 * BLOCK, 0);
	(void) server_write(fd, page, BLOCK, BLOCK); /* its second half again */
	(void) server_write(fd, page, 2 * BLOCK, BLOCK);
	(void) server_write(fd, page, BLOCK, wal_segment_bytes - BLOCK);
	(void) server_write(next, page, BLOCK, 0);
	(void) server_sync(next);
	account_wal(&wal);
	OK(wal.write.calls == 5 && wal.write.bytes == 7 * BLOCK &&
	       wal.sync.calls == 1,
	   "WAL: five writes of seven blocks and a sync");
	OK(wal.rewritten_bytes == 2 * BLOCK, "two of the blocks for a second time");
	server_close(next);
	server_close(fd);
}

/* ---- relations and tablespaces --------------------------------------------------------------- */

static void
test_relations(void)
{
	AccountRelation row;
	int fd;
	int more;

	begin_anew();
	fd = opened(PATH, 4);
	more = opened(PATH ".1", 4);
	page_cache_is_full = true;
	(void) server_read(fd, page, BLOCK, 0);
	(void) server_read(more, page, 2 * BLOCK, 0);
	(void) server_write(more, page, BLOCK, 0);
	(void) server_write(more, page, BLOCK, 4 * BLOCK);
	(void) server_sync(fd);
	OK(relation_row(16384, 0, &row) &&
	       row.kind[ACCOUNT_PAGE_CACHE_READ].calls +
	               row.kind[ACCOUNT_DISK_READ].calls ==
	           2 &&
	       row.read_bytes == 3 * BLOCK && row.kind[ACCOUNT_WRITE].calls == 1 &&
	       row.kind[ACCOUNT_WRITE].bytes == BLOCK &&
	       row.kind[ACCOUNT_EXTEND].calls == 1 &&
	       row.kind[ACCOUNT_EXTEND].bytes == BLOCK &&
	       row.kind[ACCOUNT_SYNC].calls == 1,
	   "a relation's segments count together");
	OK(row.tablespace == TABLESPACE_DEFAULT && row.database == 5 && !row.gone,
	   "and say what they are of");
	OK(row.kind[ACCOUNT_WRITE].ns > 0 &&
	       row.kind[ACCOUNT_WRITE].ns ==
	           sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_WRITE).ns,
	   "its times are those of the calls");
	server_close(more);

	more = opened(PATH "_fsm", 1);
	(void) server_read(more, page, BLOCK, 0);
	OK(relation_row(16384, 1, &row) && calls_in(&row) == 1,
	   "its forks count apart");
	server_close(more);

	(void) server_unlink(PATH ".1");
	OK(relation_row(16384, 0, &row) && !row.gone,
	   "that a segment was removed does not matter");
	(void) server_unlink(PATH);
	OK(relation_row(16384, 0, &row) && row.gone && calls_in(&row) == 5,
	   "what was removed keeps its counts");
	(void) server_read(fd, page, BLOCK, 0);
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 6,
	   "also while somebody has it open");
	server_close(fd);

	fd = server_open(PATH, O_RDWR | O_CREAT | O_EXCL);
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 6 && !row.gone,
	   "a new file of its name goes on with them");
	server_close(fd);
}

/* Calls of so many relations, one each. */
static void
sync_relations(unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
	{
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "base/5/%u", i);
		fd = server_open(path, O_RDWR | O_CREAT);
		(void) server_sync(fd);
		(void) server_sync(fd);
		server_close(fd);
	}
}

static uint64_t
calls_of_relations(void)
{
	AccountRelation row;
	uint64_t calls = 0;

	for (uint32_t place = 0; place <= account_relation_places(); place++)
		calls += account_relation(place, &row) ? calls_in(&row) : 0;
	return calls;
}

static void
test_more_relations_than_places(void)
{
	AccountRelation row;
	int fd;

	begin_anew();
	sync_relations(20000, PLACES);
	OK(calls_of_others() == 0, "as many relations as places find one each");
	sync_relations(30000, 10);
	OK(calls_of_others() == 20, "what finds no place counts as other");
	OK(calls_of_relations() == 2 * (PLACES + 10), "nothing gets lost");

	fd = server_open("base/5/30000", O_RDWR);
	(void) server_sync(fd);
	(void) server_unlink("base/5/20007");
	(void) server_sync(fd);
	OK(relation_row(30000, 0, &row) && calls_in(&row) == 1,
	   "when a relation goes its place is another's, also for an open file");
	OK(!relation_row(20007, 0, &row), "and its counts have gone");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 2 * (PLACES + 10) + 2,
	   "but not from the totals");
	server_close(fd);
}

#define CLAIMED          1
#define LIVE             2
#define TAG(life, state) ((uint64_t) (life) << 2 | (state))

static uint32_t
place_of(uint32_t number)
{
	AccountRelation row;

	for (uint32_t place = 0; place < PLACES; place++)
	{
		if (account_relation(place, &row) && row.relation == number)
			return place;
	}
	abort();
}

/* What a race, or a process that dies at the worst moment, may leave behind. */
static void
test_odd_places(void)
{
	AccountRelation row;
	uint32_t place;
	uint32_t twin;
	unsigned rows = 0;

	begin_anew();
	sync_relations(20000, 1);
	place = place_of(20000);
	twin = (place + 1) % PLACES;
	account_memory.keys[twin] = account_memory.keys[place];
	account_memory.keys[twin].tag = TAG(1, LIVE);
	account_memory.relations[twin].copy[0].counter[RELATION_SYNC] = 5;
	for (uint32_t i = 0; i < PLACES; i++)
		rows += account_relation(i, &row) && row.relation == 20000;
	OK(rows == 1 && relation_row(20000, 0, &row) && calls_in(&row) == 7,
	   "a relation that got two places has one row");

	begin_anew();
	for (uint32_t i = 0; i < PLACES; i++)
		account_memory.keys[i].tag = TAG(1, CLAIMED);
	sync_relations(20000, 1);
	OK(calls_of_others() == 2,
	   "nobody waits long for a place that is being claimed");
	account_detach(true);
	account_create(server_memory, SINCE);
	sync_relations(20000, 1);
	OK(relation_row(20000, 0, &row) && calls_in(&row) == 2 &&
	       calls_of_others() == 2,
	   "and after a crash it is free");
}

/* This process goes on on another processor. */
static void
move_to(int processor)
{
	runs_on = processor;
	account_in_child();
}

static unsigned
copies_in_use(uint32_t place)
{
	unsigned used = 0;

	for (int copy = 0; copy < RELATION_COPIES; copy++)
		used += account_get(&account_memory.relations[place]
		                         .copy[copy]
		                         .counter[RELATION_SYNC]) > 0;
	return used;
}

static void
test_processors(void)
{
	AccountRelation row;
	int fd;

	begin_anew();
	fd = opened(PATH, 4);
	for (int processor = 0; processor < 40; processor++)
	{
		move_to(processor);
		(void) server_sync(fd);
	}
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 40,
	   "what is counted on many processors adds up");
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 40,
	   "ACCOUNT_COPIES: for a relation, too");
	OK(copies_in_use(place_of(16384)) == RELATION_COPIES,
	   "though it is counted in several copies");
	server_close(fd);

	/* A process that is moved in the middle of its work. */
	begin_anew();
	move_to(0);
	fd = opened(PATH, 4);
	for (int i = 0; i < 100; i++)
	{
		runs_on = i / 50;
		(void) server_sync(fd);
	}
	OK(relation_row(16384, 0, &row) && calls_in(&row) == 100 &&
	       copies_in_use(place_of(16384)) == 2,
	   "a process finds out by itself where it runs");
	server_close(fd);

	/* All places are taken, and what had the next one was counted everywhere. */
	begin_anew();
	sync_relations(20000, PLACES);
	fd = server_open("base/5/20007", O_RDWR);
	for (int processor = 0; processor < RELATION_COPIES; processor++)
	{
		move_to(processor);
		(void) server_sync(fd);
	}
	server_close(fd);
	(void) server_unlink("base/5/20007");
	sync_relations(30000, 1);
	OK(relation_row(30000, 0, &row) && calls_in(&row) == 2,
	   "ACCOUNT_ANEW: who gets another's place begins at nothing");

	move_to(-1);
	fd = opened(PATH, 4);
	errno = 4711;
	(void) server_sync(fd);
	OK(errno == 4711 && calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) ==
	                        2 * PLACES + RELATION_COPIES + 3,
	   "where processors cannot be told all is counted, and errno left alone");
	server_close(fd);
	move_to(0);
}

/* What somebody knows who is told only what changes. */
typedef struct Follower
{
	AccountSeen seen[PLACES + 1];
	AccountRelation known[PLACES + 1];
	unsigned told;
} Follower;

static void
follow(Follower *follower)
{
	follower->told = 0;
	for (uint32_t place = 0; place <= PLACES; place++)
		follower->told += account_relation_changed(
			place, &follower->seen[place], &follower->known[place]);
}

/* Does he know what there is to know? */
static bool
knows_all(const Follower *follower)
{
	bool good = true;

	for (uint32_t place = 0; place <= PLACES; place++)
	{
		AccountRelation row;

		if (account_relation(place, &row))
			good &= memcmp(&row, &follower->known[place], sizeof(row)) == 0;
	}
	return good;
}

static unsigned
below(unsigned limit)
{
	static uint64_t state = 7;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned) ((state >> 33) % limit);
}

static void
test_changes(void)
{
	static Follower often;
	static Follower seldom;
	unsigned wrong = 0;
	unsigned most = 0;

	begin_anew();
	follow(&often);
	OK(often.told == 0, "where nothing was counted nothing is told");
	sync_relations(20000, 10);
	follow(&often);
	OK(often.told == 10, "at first all is told");
	follow(&often);
	OK(often.told == 0, "and then what changes, nothing else");
	move_to(2);
	sync_relations(20003, 1);
	(void) server_unlink("base/5/20007");
	follow(&often);
	OK(often.told == 2 && knows_all(&often),
	   "ACCOUNT_CHANGES: wherever it is counted, and if a file has gone");

	/* More relations than places, so that places change hands. */
	for (unsigned round = 0; round < 2000; round++)
	{
		unsigned calls = below(4);

		move_to((int) below(8));
		for (unsigned i = 0; i < calls; i++)
			sync_relations(20000 + below(PLACES + 20), 1);
		if (below(3) == 0)
		{
			char path[64];

			snprintf(path, sizeof(path), "base/5/%u",
			         20000 + below(PLACES + 20));
			(void) server_unlink(path);
			calls++;
		}
		follow(&often);
		wrong += !knows_all(&often) || often.told > calls;
		if (below(50) == 0)
		{
			follow(&seldom);
			wrong += !knows_all(&seldom);
			most = seldom.told > most ? seldom.told : most;
		}
	}
	OK(wrong == 0 && calls_of_others() > 0,
	   "who is told what changes knows what who asks for all does");
	OK(most > 30, "however seldom he asks: %u at once", most);
	move_to(0);
}

static void
test_tablespaces(void)
{
	uint64_t calls = 0;
	AccountRelation row;
	char path[128];

	begin_anew();
	for (unsigned space = 50000; space < 50040; space++)
	{
		int fd;

		snprintf(path, sizeof(path), "pg_tblspc/%u", space);
		(void) mkdir(path, 0700);
		strcat(path, "/PG_18_202506291");
		(void) mkdir(path, 0700);
		strcat(path, "/5");
		(void) mkdir(path, 0700);
		strcat(path, "/7");
		fd = opened(path, 1);
		(void) server_sync(fd);
		server_close(fd);
		(void) server_unlink(path);
	}
	for (unsigned number = 2; number < ACCOUNT_TABLESPACES - 1; number++)
	{
		calls += account_tablespace(number, &row) &&
		         row.tablespace == 50000 + number - 2 && calls_in(&row) == 1 &&
		         row.kind[ACCOUNT_SYNC].calls == 1;
	}
	OK(calls == ACCOUNT_TABLESPACES - 3,
	   "the first tablespaces have counts of their own");
	OK(account_tablespace(ACCOUNT_TABLESPACES - 1, &row) &&
	       row.tablespace == 0 &&
	       row.kind[ACCOUNT_SYNC].calls == 40 - (ACCOUNT_TABLESPACES - 3),
	   "the others count together");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 40, "in the totals are all");
}

/* ---- who ------------------------------------------------------------------------------------ */

static void
test_backend_types(void)
{
	int fd;
	AccountSum sum;

	begin_anew();
	fd = opened(PATH, 4);
	(void) server_sync(fd);
	parallel_number = 0;
	(void) server_sync(fd);
	parallel_number = -1;
	backend_type = IO_WORKER;
	(void) server_sync(fd);
	OK(sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_SYNC).calls == 1 &&
	       sum_of(PARALLEL, ACCOUNT_DATA, ACCOUNT_SYNC).calls == 1 &&
	       sum_of(IO_WORKER, ACCOUNT_DATA, ACCOUNT_SYNC).calls == 1,
	   "a call counts for what its process is at that moment");

	/* Process 3 is a client backend again; process 5 reads for it. */
	backend_type = CLIENT;
	(void) server_sync(fd);
	backend_type = IO_WORKER;
	process_number = 5;
	page_cache_is_full = true;
	asked_by = 3;
	(void) server_read(fd, page, BLOCK, 0);
	asked_by = -1;
	sum = reads_of(CLIENT, ACCOUNT_DATA);
	OK(sum.calls == 1 && sum.worker_calls == 1 && sum.ns > 0 &&
	       sum.worker_ns == sum.ns,
	   "a read for another process counts for that, and says so");
	asked_by = 6;
	(void) server_read(fd, page, BLOCK, 0);
	asked_by = PROCESSES + 100;
	(void) server_read(fd, page, BLOCK, 0);
	asked_by = -1;
	OK(reads_of(IO_WORKER, ACCOUNT_DATA).calls == 2,
	   "one for nobody known stays with who made it");
	backend_type = CLIENT;
	process_number = 3;
	server_close(fd);
}

/* ---- many at once, and ends ------------------------------------------------------------------- */

#define CHILDREN 6
#define TURNS    20

static void
wait_for(pid_t child)
{
	if (waitpid(child, NULL, 0) != child)
		abort();
}

/* Each child counts on all relations, all of them new to all. */
static void
test_many_at_once(void)
{
	pid_t child[CHILDREN];
	AccountRelation row;
	unsigned right = 0;
	uint64_t others;

	begin_anew();
	for (int i = 0; i < CHILDREN; i++)
	{
		child[i] = fork();
		if (child[i] == 0)
		{
			move_to(i);
			for (int turn = 0; turn < TURNS; turn++)
				sync_relations(20000, PLACES / 2);
			_exit(0);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		wait_for(child[i]);

	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == CHILDREN * TURNS * PLACES,
	   "many processes at once: no call gets lost");
	OK(calls_of_relations() == CHILDREN * TURNS * PLACES,
	   "nor one of a relation");
	others = calls_of_others();
	for (unsigned i = 20000; i < 20000 + PLACES / 2; i++)
		right += relation_row(i, 0, &row) &&
		         calls_in(&row) + others >= CHILDREN * TURNS * 2;
	OK(right == PLACES / 2, "and each relation has its row");

	/* Who is stopped while it claims a row may have others count elsewhere meanwhile. */
	sync_relations(20000, PLACES / 2);
	OK(calls_of_others() == others &&
	       calls_of_relations() == (CHILDREN * TURNS + 1) * PLACES,
	   "in which all that comes later is counted");
}

static void
test_killed(void)
{
	int ready[2];
	pid_t child;
	char byte;

	begin_anew();
	if (pipe(ready) != 0)
		abort();
	child = fork();
	if (child == 0)
	{
		account_in_child();
		sync_relations(20000, 10);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	if (read(ready[0], &byte, 1) != 1)
		abort();
	kill(child, SIGKILL);
	wait_for(child);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 20 && calls_of_relations() == 20,
	   "a process that is killed takes no count with it");
	close(ready[0]);
	close(ready[1]);
}

/* The postmaster lets go of its memory and makes it anew. */
static void
test_crash(void)
{
	size_t size = account_memory_size();
	AccountRelation row;

	begin_anew();
	sync_relations(20000, 10);
	account_detach(true);
	munmap(server_memory, size);
	server_memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	OK(!account_attached(), "after a crash there is nothing to ask");
	account_create(server_memory, SINCE + 1);
	OK(account_since() == SINCE && calls_of(ACCOUNT_DATA, ACCOUNT_SYNC) == 20 &&
	       relation_row(20003, 0, &row) && calls_in(&row) == 2,
	   "and then the counts are what they were");
	sync_relations(20003, 1);
	OK(relation_row(20003, 0, &row) && calls_in(&row) == 4, "and go on");
}

int
main(void)
{
	set_up();
	test_classes();
	test_every_call();
	test_what_is_no_file();
	test_times();
	test_errno();
	test_off();
	test_sources();
	test_limit();
	test_extends();
	test_wal();
	test_relations();
	test_more_relations_than_places();
	test_odd_places();
	test_processors();
	test_changes();
	test_tablespaces();
	test_backend_types();
	test_many_at_once();
	test_killed();
	test_crash();
	tear_down();
	return tap_done();
}
