/*
 * account_asked_test.c
 *		What was read for a process, by itself and by others.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "account_stage.h"

static AccountReads before;

static void
mark(void)
{
	account_asked(&before);
}

static AccountReads
now(void)
{
	AccountReads reads;

	account_asked(&reads);
	return reads;
}

/* Calls and blocks of a source since the mark are as expected. */
static bool
read_since(AccountKind source, uint64_t calls, uint64_t blocks)
{
	AccountReads after = now();

	return after.calls[source] - before.calls[source] == calls &&
	       after.bytes[source] - before.bytes[source] == blocks * BLOCK;
}

static bool
nothing_since(void)
{
	return read_since(ACCOUNT_DISK_READ, 0, 0) &&
	       read_since(ACCOUNT_PAGE_CACHE_READ, 0, 0) &&
	       read_since(ACCOUNT_FLASH_READ, 0, 0);
}

static void
test_own(void)
{
	int fd;
	int temp;

	start_over();
	mark();
	fd = opened(PATH, 8);
	temp = opened("base/5/t3_16390", 8);
	page_cache_is_full = false;
	read_takes_ns = 1000000; /* a disk's, unless the kernel is asked */
	(void) server_read(fd, page, BLOCK, 0);
	(void) server_read(fd, page, 3 * BLOCK, BLOCK);
	read_takes_ns = 0;
	OK(read_since(ACCOUNT_DISK_READ, 2, 4), "two reads of four blocks");
	OK(now().ns[ACCOUNT_DISK_READ] - before.ns[ACCOUNT_DISK_READ] ==
	       sum_of(CLIENT, ACCOUNT_DATA, ACCOUNT_DISK_READ).ns,
	   "and the time of both");
	OK(now().worker_ns == before.worker_ns, "none by others");

	mark();
	(void) server_read(temp, page, BLOCK, 0);
	(void) server_write(fd, page, BLOCK, 0);
	(void) server_sync(fd);
	OK(nothing_since(), "only reads of data files count");
	server_close(temp);
	server_close(fd);
}

/* Another process than number 3 reads a block, twice as a parallel worker. */
static void
read_elsewhere(int number, int parallel, int leader, int for_whom)
{
	pid_t child = fork();

	if (child == 0)
	{
		int fd;

		account_in_child();
		process_number = number;
		parallel_number = parallel;
		leader_number = leader;
		asked_by = for_whom;
		backend_type = for_whom >= 0 ? IO_WORKER : CLIENT;
		fd = server_open(PATH, O_RDWR);
		read_takes_ns = 1000000;
		(void) server_read(fd, page, BLOCK, 0);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		abort();
}

static void
test_others(void)
{
	uint64_t worker_ns;

	start_over();
	plant(PATH, 8);
	page_cache_is_full = false;
	mark();
	read_elsewhere(5, -1, -1, -1);
	OK(nothing_since(), "what another process reads for itself is its own");
	read_elsewhere(5, 0, 3, -1);
	OK(read_since(ACCOUNT_DISK_READ, 1, 1),
	   "ACCOUNT_LEADER: a parallel worker reads for its leader");
	OK(now().worker_ns == before.worker_ns, "which waits for its workers");

	/* Process 5 was a worker of 3, and left that where others can see it. */
	read_elsewhere(6, -1, -1, 5);
	OK(read_since(ACCOUNT_DISK_READ, 2, 2),
	   "an I/O worker reads for the leader of the process that asked");
	worker_ns = now().worker_ns - before.worker_ns;
	OK(worker_ns > 0 && worker_ns <= now().ns[ACCOUNT_DISK_READ],
	   "and says so");
	mark();
	read_elsewhere(5, 0, PROCESSES + 100, -1);
	read_elsewhere(5, 0, -1, -1);
	OK(nothing_since(), "a leader that is none gets nothing");
}

/* Lanes are chosen by processor; all of them count. */
static void
test_lanes(void)
{
	start_over();
	plant(PATH, 8);
	page_cache_is_full = false;
	mark();
	for (runs_on = 0; runs_on < 2 * ASKED_LANES; runs_on++)
		read_elsewhere(5, 0, 3, -1);
	runs_on = 0;
	OK(read_since(ACCOUNT_DISK_READ, (uint64_t) 2 * ASKED_LANES,
	              (uint64_t) 2 * ASKED_LANES),
	   "workers on all processors read for one leader");
}

/* As io_uring.c does it: who notices the end counts. */
static void
test_later(void)
{
	uint64_t calls = 0;
	AccountLater later;
	OpenFile *file;
	int fd;

	start_over();
	fd = opened(PATH, 8);
	file = descriptors_entry(fd);
	mark();
	(void) account_asked_since(&calls);
	OK(!account_asked_since(&calls), "nothing was read since");
	later = account_read_begins(file);
	account_read_ended(&later, file, SOURCE_DISK, BLOCK, BLOCK, 500);
	OK(read_since(ACCOUNT_DISK_READ, 1, 1) &&
	       now().worker_ns - before.worker_ns == 500,
	   "a read that this process began and noticed");
	process_number = 5;
	account_read_ended(&later, file, SOURCE_DISK, BLOCK, BLOCK, 500);
	process_number = 3;
	OK(account_asked_since(&calls), "something was");
	OK(read_since(ACCOUNT_DISK_READ, 2, 2) &&
	       now().worker_ns - before.worker_ns == 1000,
	   "one that another process noticed");
	server_close(fd);
}

static void
test_detached(void)
{
	start_over();
	mark();
	account_detach(false);
	OK(nothing_since(), "without memory there is nothing more to tell");
}

int
main(void)
{
	set_up();
	test_own();
	test_others();
	test_lanes();
	test_later();
	test_detached();
	tear_down();
	return tap_done();
}
