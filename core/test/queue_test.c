/*
 * queue_test.c
 *		The queue: with a real file, with AIO and without, and with devices that
 *		are late, out of order, failing or hung.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "kernel.h"
#include "support.h"
#include "tap.h"

#define SLOTS 128
#define MS    1000000ULL

/* How long a machine that stalls may take for anything. */
#define PATIENCE_NS (60000 * MS)

static char path[200];
static FcDevice file;

/* ---- transfers ----------------------------------------------------------- */

static Page pages[FC_QUEUE_DEPTH_MAX + 1];
static FcTransfer transfers[FC_QUEUE_DEPTH_MAX + 1];
static FcTransfer *all[FC_QUEUE_DEPTH_MAX + 1];

static off_t
offset_of(unsigned slot)
{
	return FC_SLOTS_OFFSET + (off_t) slot * FC_BLOCK_SIZE;
}

/* One transfer of each of the slots first .. first + count - 1. */
static void
prepare(FcDevice *device, bool write, unsigned first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
	{
		transfers[i] = (FcTransfer){ .device = device,
			                         .write = write,
			                         .page = &pages[i],
			                         .offset = offset_of(first + i),
			                         .tag = &transfers[i],
			                         .result = -4711 };
		all[i] = &transfers[i];
		if (write)
			page_make(&pages[i], 1, first + i, 1);
		else
			memset(&pages[i], 0, sizeof(pages[i]));
	}
}

/* Each came back once and complete, with the slot's page. */
static bool
all_done(FcTransfer *const done[], unsigned count, unsigned first)
{
	bool seen[FC_QUEUE_DEPTH_MAX] = { false };

	for (unsigned i = 0; i < count; i++)
	{
		unsigned which = (unsigned) (done[i] - transfers);

		if (which >= count || seen[which] || done[i]->tag != done[i] ||
		    done[i]->result != FC_BLOCK_SIZE ||
		    !page_is(&pages[which], 1, first + which, 1))
			return false;
		seen[which] = true;
	}
	return true;
}

static bool
round_trip(FcQueue *queue, FcDevice *device, bool write, unsigned first,
           unsigned count)
{
	FcTransfer *done[FC_QUEUE_DEPTH_MAX];

	prepare(device, write, first, count);
	return fc_queue_submit(queue, all, count) == count &&
	       fc_queue_reap(queue, count, PATIENCE_NS, done, count) == count &&
	       all_done(done, count, first) && queue->in_flight == 0;
}

static void
test_file(const char *engine, FcQueueEngine expected)
{
	FcQueue queue;
	FcTransfer *done[FC_QUEUE_DEPTH_MAX];

	fc_queue_open(&queue, FC_QUEUE_DEPTH_WRITER);
	OK(queue.engine == expected && queue.depth == FC_QUEUE_DEPTH_WRITER,
	   "%s: that is the engine", engine);
	OK(round_trip(&queue, &file, true, 3, 64), "%s: 64 slots written at once",
	   engine);
	submits = 0;
	OK(round_trip(&queue, &file, false, 3, 64), "%s: 64 slots read at once",
	   engine);
	OK(submits == (expected == FC_QUEUE_AIO ? 1 : 0),
	   "%s: with as few calls as can be", engine);
	OK(round_trip(&queue, &file, false, 11, 1), "%s: one alone", engine);
	OK(fc_queue_reap(&queue, 1, PATIENCE_NS, done, 1) == 0,
	   "%s: nobody waits for nothing", engine);

	prepare(&file, false, 3, 65);
	OK(fc_queue_submit(&queue, all, 65) == 64 && queue.in_flight == 64,
	   "%s: no more than the depth are taken", engine);
	OK(fc_queue_submit(&queue, all + 64, 1) == 0, "%s: a full queue takes none",
	   engine);
	OK(fc_queue_reap(&queue, 5, PATIENCE_NS, done, 5) == 5 &&
	       fc_queue_reap(&queue, 64, PATIENCE_NS, done + 5, 64) == 59 &&
	       all_done(done, 64, 3),
	   "%s: they can be fetched a few at a time", engine);

	prepare(&file, false, SLOTS, 1);
	OK(fc_queue_submit(&queue, all, 1) == 1 &&
	       fc_queue_reap(&queue, 1, PATIENCE_NS, done, 1) == 1 &&
	       done[0]->result == 0,
	   "%s: there is nothing after the last slot", engine);
	fc_queue_close(&queue);
}

/* The first of three fails at once; the others are done. */
static void
test_refused(const char *engine)
{
	FcQueue queue;
	FcTransfer *done[3];
	FcDevice bad = file;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	MUST(fd >= 0);
	close(fd);
	bad.fd = fd;
	fc_queue_open(&queue, 8);
	prepare(&file, false, 3, 3);
	transfers[0].device = &bad;
	OK(fc_queue_submit(&queue, all, 3) == 3 &&
	       fc_queue_reap(&queue, 3, PATIENCE_NS, done, 3) == 3 &&
	       transfers[0].result == -EBADF,
	   "%s: what fails at once comes back with its error", engine);
	OK(transfers[1].result == FC_BLOCK_SIZE && page_is(&pages[1], 1, 4, 1) &&
	       transfers[2].result == FC_BLOCK_SIZE && page_is(&pages[2], 1, 5, 1),
	   "%s: and keeps the others from nothing", engine);
	fc_queue_close(&queue);
}

static void
test_kernel_full(void)
{
	FcQueue queue;
	FcTransfer *done[8];

	fc_queue_open(&queue, 8);
	prepare(&file, false, 3, 8);
	submit_max = 3;
	OK(fc_queue_submit(&queue, all, 8) == 3 && queue.in_flight == 3,
	   "what the kernel has no room for is not taken");
	submit_max = -1;
	OK(fc_queue_reap(&queue, 8, PATIENCE_NS, done, 8) == 3,
	   "what it took comes back");
	OK(round_trip(&queue, &file, false, 3, 8), "and later there is room");
	fc_queue_close(&queue);
}

static void
test_less_aio(void)
{
	FcQueue queue;

	setup_depth_max = 16;
	fc_queue_open(&queue, FC_QUEUE_DEPTH_READER);
	OK(queue.engine == FC_QUEUE_AIO && queue.depth == 16,
	   "where the machine is short of AIO, less of it will do");
	OK(round_trip(&queue, &file, false, 3, 16), "and works");
	fc_queue_close(&queue);
	setup_depth_max = 1;
	fc_queue_open(&queue, FC_QUEUE_DEPTH_READER);
	OK(queue.engine == FC_QUEUE_PLAIN && queue.depth == FC_QUEUE_DEPTH_READER,
	   "where it has none left, plain reads will do");
	fc_queue_close(&queue);
	setup_depth_max = 0;
}

static void
test_no_aio(void)
{
	FcQueue queue;
	const int refusals[] = { ENOSYS, EPERM };

	for (int i = 0; i < 2; i++)
	{
		setup_errno = refusals[i];
		fc_queue_open(&queue, FC_QUEUE_DEPTH_READER);
		OK(queue.engine == FC_QUEUE_PLAIN, "so too where it is forbidden: %s",
		   strerror(refusals[i]));
		fc_queue_close(&queue);
	}
	test_file("plain", FC_QUEUE_PLAIN);
	test_refused("plain");
	setup_errno = 0;
}

/* ---- a child ------------------------------------------------------------- */

static void
test_child(void)
{
	FcQueue queue;
	int status;

	fc_queue_open(&queue, 8);

	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		/* The parent's queue is useless here, and using it does no harm. */
		prepare(&file, false, 3, 1);
		if (fc_queue_submit(&queue, all, 1) != 1 ||
		    transfers[0].result != -EINVAL)
			_exit(1);
		memset(&queue, 0, sizeof(queue));
		fc_queue_open(&queue, 8);
		_exit(round_trip(&queue, &file, false, 3, 8) ? 0 : 2);
	}
	MUST(waitpid(child, &status, 0) == child);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	   "a child has a queue of its own");
	OK(round_trip(&queue, &file, false, 3, 8), "which the parent's outlives");
	fc_queue_close(&queue);
}

/* ---- devices that take their time ---------------------------------------- */

static void
test_late(void)
{
	MemoryDevice flash;
	MemoryDevice other;
	FcQueue queue;
	FcTransfer *done[9];
	uint64_t start;

	memory_device_open(&flash, SLOTS);
	memory_device_open(&other, SLOTS);
	fc_queue_open(&queue, 16);
	MUST(round_trip(&queue, &flash.device, true, 0, 8));
	MUST(round_trip(&queue, &other.device, true, 0, 16));

	memory_device_defer(&flash);
	flash.last_first = true;
	prepare(&flash.device, false, 0, 8);
	OK(fc_queue_submit(&queue, all, 8) == 8 &&
	       fc_queue_reap(&queue, 8, PATIENCE_NS, done, 9) == 8 &&
	       all_done(done, 8, 0) && done[0] == all[7] && done[7] == all[0],
	   "transfers come back in the order they are done");

	flash.holds = true;
	prepare(&flash.device, false, 0, 8);
	MUST(fc_queue_submit(&queue, all, 8) == 8);
	start = fc_clock_ns();
	OK(fc_queue_reap(&queue, 8, 20 * MS, done, 9) == 0,
	   "a device that hangs gives nothing");
	OK(fc_clock_ns() - start >= 20 * MS && fc_clock_ns() - start < PATIENCE_NS,
	   "and is waited for as long as requested");
	start = fc_clock_ns();
	OK(fc_queue_reap(&queue, 0, 10 * PATIENCE_NS, done, 9) == 0 &&
	       fc_clock_ns() - start < PATIENCE_NS,
	   "who asks for none does not wait");
	OK(queue.in_flight == 8, "what was not fetched is under way");

	/* Another device is not delayed. */
	transfers[8] = (FcTransfer){ .device = &other.device,
		                         .page = &pages[8],
		                         .offset = offset_of(8),
		                         .tag = &transfers[8] };
	all[8] = &transfers[8];
	OK(fc_queue_submit(&queue, all + 8, 1) == 1 &&
	       fc_queue_reap(&queue, 1, PATIENCE_NS, done, 9) == 1 &&
	       done[0] == all[8] && page_is(&pages[8], 1, 8, 1),
	   "a device that hangs holds up no other");

	flash.holds = false;
	flash.read_fault = FAULT_EIO;
	OK(fc_queue_reap(&queue, 8, PATIENCE_NS, done, 9) == 8 &&
	       done[0]->result == -EIO && done[1]->result == FC_BLOCK_SIZE,
	   "late transfers come back, each with its own end");

	fc_queue_close(&queue);
	munmap(flash.bytes, flash.size);
	munmap(other.bytes, other.size);
}

/* ---- signals while waiting for the kernel -------------------------------- */

static volatile sig_atomic_t alarms;

static void
on_alarm(int signal_number)
{
	(void) signal_number;
	alarms++;
}

/*
 * Waiting for an event that nobody sends is the one request that ends when the
 * test wants it to: the kernel really waits, and signals really interrupt it.
 */
static void
test_signals(void)
{
	FcQueue queue;
	FcTransfer *done[1];
	int fd = eventfd(0, EFD_CLOEXEC);
	struct iocb request = { .aio_data = (uint64_t) (uintptr_t) &transfers[0],
		                    .aio_lio_opcode = IOCB_CMD_POLL,
		                    .aio_fildes = (uint32_t) fd,
		                    .aio_buf = POLLIN };
	struct iocb *requests[] = { &request };
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval tick = { .it_interval.tv_usec = 2000,
		                      .it_value.tv_usec = 2000 };

	MUST(fd >= 0 && sigaction(SIGALRM, &action, NULL) == 0);
	fc_queue_open(&queue, 8);
	MUST(queue.engine == FC_QUEUE_AIO);
	MUST(syscall(SYS_io_submit, queue.context, 1L, requests) == 1);
	queue.in_flight = queue.in_kernel = 1;

	MUST(setitimer(ITIMER_REAL, &tick, NULL) == 0);

	bool waited;

	/* For a process that is not running, several signals become one. */
	do
	{
		uint64_t start = fc_clock_ns();

		alarms = 0;
		waited = fc_queue_reap(&queue, 1, 50 * MS, done, 1) == 0 &&
		         fc_clock_ns() - start >= 50 * MS;
	} while (waited && alarms < 2);
	OK(waited, "signals do not shorten the wait (%d of them)", (int) alarms);
	OK(alarms < 1000, "nor do they make it endless");
	MUST(write(fd, &(uint64_t){ 1 }, 8) == 8);
	OK(fc_queue_reap(&queue, 1, PATIENCE_NS, done, 1) == 1 &&
	       done[0] == &transfers[0],
	   "what comes late can still be fetched");
	MUST(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
	fc_queue_close(&queue);
	close(fd);
}

int
main(void)
{
	int fd;

	tap_scratch(path, sizeof(path), "pgflash-queue", false);
	fd = mkstemp(path);

	MUST(fd >= 0);
	close(fd);
	MUST(fc_device_file_open(&file, path, SLOTS, 0) == FC_DEVICE_FINE);
	printf("# %s I/O\n", file.direct ? "direct" : "buffered");
	file.direct = true; /* for AIO, wherever this runs */

	if (has_aio())
	{
		test_file("AIO", FC_QUEUE_AIO);
		test_refused("AIO");
		test_kernel_full();
		test_less_aio();
		test_child();
		test_signals();
	}
	else
		SKIP("queues of AIO", NO_AIO);
	test_no_aio();
	test_late();

	file.ops->close(&file);
	unlink(path);
	return tap_done();
}
