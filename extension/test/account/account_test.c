/*
 * account_test.c
 *		The accounting, without a server: every file call is counted once, in
 *		the right place, and no call is disturbed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "account_stage.h"

/* ---- what is counted, and where ------------------------------------------ */

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

		start_over();
		page_cache_is_full = false;
		read_takes_ns = 1000000; /* a disk's, unless the kernel is asked */
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

	start_over();
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

	start_over();
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

/* ---- times --------------------------------------------------------------- */

static void
test_times(void)
{
	int fd;
	AccountSum sum;
	uint64_t in_buckets = 0;

	start_over();
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

/* ---- no call is disturbed ------------------------------------------------ */

static void
test_errno(void)
{
	int fd;
	int reader;
	unsigned before;

	start_over();
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

	start_over();
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

/* ---- disk or page cache -------------------------------------------------- */

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

	start_over();
	fd = opened(PATH, 8);
	read_often(fd, 320, true, 0);
	OK(cachestats - asked == 20, "one read in 16 is asked where it came from");
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_PAGE_CACHE_READ) >= 240,
	   "fast ones are the page cache's");
	OK(sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_PAGE_CACHE_READ).told_calls == 20,
	   "and it shows how many were asked");
	start_over();
	read_often(fd, 64, false, 1000000);
	OK(calls_of(ACCOUNT_DATA, ACCOUNT_DISK_READ) == 64,
	   "slow ones are the disk's");

	/*
	 * A device as fast as memory: only the kernel's answer shows it, and then
	 * the limit moves.
	 */
	start_over();
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
	start_over();
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

/* ---- extends ------------------------------------------------------------- */

static void
test_extends(void)
{
	int fd;
	int other;

	start_over();
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

	start_over();
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

/* ---- who ----------------------------------------------------------------- */

static void
test_backend_types(void)
{
	int fd;
	AccountSum sum;

	start_over();
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
	test_backend_types();
	tear_down();
	return tap_done();
}
