/*
 * async_test.c
 *		Linux AIO on a device's files: answers are right, and arrive when the
 *		device is finished, not when the kernel is.
 *
 * The disk takes 20 ms for any request.  On a busy machine answers may be
 * late, never early: a check that one is not there yet reads the clock before
 * and after.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "async.h"
#include "lab.h"
#include "patiently.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#define BLOCK   8192
#define DEPTH   64
#define STEP_MS 20.0
#define SERVERS 4
#define STRIPE  65536

/*
 * One server for mapped/, four for mapped/inner; random reads, so no streams.
 */
#define DISK(servers)                                                          \
	"kind = disk\nlayout = stripe\nservers = " #servers "\n"                   \
	"stripe_bytes = 65536\nbandwidth_bytes_s = 2000000000\n"                   \
	"read_position_min_ns = 20000000\nread_position_max_ns = 20000000\n"       \
	"write_position_min_ns = 20000000\nwrite_position_max_ns = 20000000\n"     \
	"log_sync_min_ns = 20000000\nlog_sync_max_ns = 20000000\n"

static EmState *state;
static char folder[LAB_PATH_MAX];
static char page[DEPTH][BLOCK];
static struct iocb request[DEPTH];
static struct io_event answer[DEPTH];
static aio_context_t context;

static int
open_in(const char *name)
{
	char path[LAB_PATH_MAX];
	int fd;

	lab_path(path, "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_RDWR, 0644);
	if (fd < 0)
		lab_give_up("open a file");
	return fd;
}

static struct iocb *
make(int i, int operation, int fd, long block)
{
	request[i] = (struct iocb){ .aio_data = 1000 + (uint64_t) i,
		                        .aio_lio_opcode = (uint16_t) operation,
		                        .aio_fildes = (uint32_t) fd,
		                        .aio_buf = (uint64_t) (uintptr_t) page[i],
		                        .aio_nbytes = BLOCK,
		                        .aio_offset = block * BLOCK };
	return &request[i];
}

/* Far from each other, so that no read continues another. */
static long
far_block(int i)
{
	return 1024L * (i * 7 % 13) + 256 * (i / 13);
}

static long
submit(int count)
{
	struct iocb *list[DEPTH];

	for (int i = 0; i < count; i++)
		list[i] = &request[i];
	return syscall(SYS_io_submit, context, (long) count, list);
}

/* Submit this many reads of one file. */
static void
submit_reads(int fd, int count)
{
	for (int i = 0; i < count; i++)
		make(i, IOCB_CMD_PREAD, fd, far_block(i));
	if (submit(count) != count)
		lab_give_up("submit reads");
}

static long
get(long least, long most, double timeout_ms)
{
	struct timespec timeout = { .tv_sec = (time_t) (timeout_ms / 1e3),
		                        .tv_nsec =
		                            (long) (timeout_ms * 1e6) % 1000000000 };

	return syscall(SYS_io_getevents, context, least, most, answer,
	               timeout_ms < 0 ? NULL : &timeout);
}

static void
drain(int count)
{
	if (get(count, DEPTH, -1) != count)
		lab_give_up("drain");
}

static void
test_answers(void)
{
	int fd = open_in("mapped/file");
	struct iovec vector[2] = { { page[1], 4096 }, { page[1] + 4096, 4096 } };
	struct iocb *one;
	double began_ms;
	uint64_t reads = state->device[0].tally[EM_READ].count;
	uint64_t bytes = state->device[0].tally[EM_READ].bytes;

	memset(page[0], 'a', BLOCK);
	make(0, IOCB_CMD_PWRITE, fd, 5);
	began_ms = lab_now_ms();
	OK(submit(1) == 1, "a write is accepted");
	OK(get(1, 1, -1) == 1, "and answered");
	OK(lab_now_ms() - began_ms >= STEP_MS, "when the disk has written it");
	OK(answer[0].data == 1000 && answer[0].res == BLOCK && answer[0].res2 == 0,
	   "the answer has the request's number and result");
	OK(answer[0].obj == (uint64_t) (uintptr_t) &request[0],
	   "and names the caller's request, not its copy");

	make(0, IOCB_CMD_PREAD, fd, 5);
	one = make(1, IOCB_CMD_PREADV, fd, 5);
	one->aio_buf = (uint64_t) (uintptr_t) vector;
	one->aio_nbytes = 2;
	memset(page, '-', 2 * BLOCK);
	if (submit(2) != 2)
		lab_give_up("submit");
	/* The caller may reuse a request while it is in flight. */
	memset(request, 0xff, sizeof(request));
	drain(2);
	OK(page[0][0] == 'a' && page[0][BLOCK - 1] == 'a' && page[1][0] == 'a' &&
	       page[1][BLOCK - 1] == 'a',
	   "reads return what was written, also into several parts");
	OK(answer[0].data + answer[1].data == 2001 && answer[1].res == BLOCK,
	   "both are answered");
	OK(state->device[0].tally[EM_READ].count - reads == 2 &&
	       state->device[0].tally[EM_READ].bytes - bytes == 2 * BLOCK,
	   "and counted as reads of their device");

	make(0, IOCB_CMD_FDSYNC, fd, 0)->aio_nbytes = 0;
	request[0].aio_buf = 0;
	request[0].aio_offset = 0;
	began_ms = lab_now_ms();
	if (submit(1) == 1)
	{
		drain(1);
		OK(answer[0].res == 0 && lab_now_ms() - began_ms >= STEP_MS,
		   "a sync is played, too");
	}

	began_ms = lab_now_ms();
	make(0, IOCB_CMD_PREAD, fd, 1L << 30);
	if (submit(1) != 1)
		lab_give_up("submit");
	drain(1);
	IN_TIME(lab_now_ms() - began_ms < 10 * STEP_MS,
	        "a read past the end takes little");
	OK(answer[0].res == 0, "and brings nothing");
	close(fd);
}

static void
test_refusals(void)
{
	int fd = open_in("mapped/file"), plain = open_in("plain/file");
	long got;

	errno = 0;
	make(0, IOCB_CMD_PREAD, 999, 0);
	OK(submit(1) == -1 && errno == EBADF, "a wrong descriptor is refused");
	make(0, IOCB_CMD_PREAD, fd, 0)->aio_flags = IOCB_FLAG_RESFD;
	errno = 0;
	OK(submit(1) == -1 && errno == EINVAL,
	   "an eventfd, which would be signalled too early, is refused");
	make(0, IOCB_CMD_PREAD, fd, 0);
	make(1, IOCB_CMD_PREAD, 999, 0);
	OK(submit(2) == 1, "requests before a wrong one are accepted");
	drain(1);
	OK(get(0, DEPTH, 0) == 0, "and nothing else comes back");

	make(0, IOCB_CMD_PREAD, fd, 0);
	make(1, IOCB_CMD_PREAD, plain, 0);
	if (submit(2) != 2)
		lab_give_up("submit");
	/* Both, if the process was stopped for that long. */
	got = get(1, DEPTH, -1);
	OK(got >= 1 && answer[0].data == 1001,
	   "a file that no device plays does not wait for one");
	if (got == 1)
		drain(1);
	OK(answer[got == 1 ? 0 : 1].data == 1000,
	   "nor does it take the other's place");
	close(fd);
	close(plain);
}

/*
 * When answers arrive.  One server: the reads end one STEP after another.
 */
static void
test_waiting(void)
{
	int fd = open_in("mapped/file");
	double began_ms = lab_now_ms();
	long got;

	submit_reads(fd, 4);
	IN_TIME(lab_now_ms() - began_ms < STEP_MS, "submitting does not wait");
	got = get(0, DEPTH, -1);
	OK(got == 0 || lab_now_ms() - began_ms >= STEP_MS,
	   "there is nothing at once, and min_nr = 0 does not wait for it");
	drain(4 - (int) got);
	OK(lab_now_ms() - began_ms >= 4 * STEP_MS,
	   "four reads of one server take four times as long as one");
	NOTE("four reads of one server: %.1f ms", lab_now_ms() - began_ms);

	began_ms = lab_now_ms();
	submit_reads(fd, 4);
	got = get(1, DEPTH, -1);
	OK(got >= 1 && lab_now_ms() - began_ms >= (double) got * STEP_MS,
	   "min_nr = 1 returns with the first, not before it is read");
	OK(answer[0].data == 1000, "which is the one that was asked for first");
	drain(4 - (int) got);

	began_ms = lab_now_ms();
	submit_reads(fd, 4);
	got = get(4, DEPTH, 2.5 * STEP_MS);
	OK(got >= 2 && lab_now_ms() - began_ms >= (double) got * STEP_MS,
	   "a timeout returns what there is by then");
	OK(lab_now_ms() - began_ms >= 2.5 * STEP_MS, "and not before its time");
	if (got < 4)
		drain(4 - (int) got);

	submit_reads(fd, 4);
	OK(get(2, 2, -1) == 2 && get(2, 2, -1) == 2,
	   "nr limits how many are given, the others remain");

	began_ms = lab_now_ms();
	OK(get(1, DEPTH, STEP_MS) == 0 && lab_now_ms() - began_ms >= STEP_MS,
	   "a timeout with nothing in flight is the kernel's");
	close(fd);
}

static void
test_parallel(void)
{
	int fd = open_in("mapped/inner/file");
	double alone_ms, together_ms;

	/* Server = stripe mod 4: one read each. */
	for (int i = 0; i < SERVERS; i++)
		make(i, IOCB_CMD_PREAD, fd, (1000L * SERVERS + i) * (STRIPE / BLOCK));
	together_ms = lab_now_ms();
	if (submit(SERVERS) != SERVERS)
		lab_give_up("submit");
	drain(SERVERS);
	together_ms = lab_now_ms() - together_ms;

	for (int i = 0; i < SERVERS; i++)
		make(i, IOCB_CMD_PREAD, fd, (2000L + 5 * i) * SERVERS * STRIPE / BLOCK);
	alone_ms = lab_now_ms();
	if (submit(SERVERS) != SERVERS)
		lab_give_up("submit");
	drain(SERVERS);
	alone_ms = lab_now_ms() - alone_ms;

	OK(together_ms >= STEP_MS && alone_ms >= SERVERS * STEP_MS,
	   "reads of different servers go on side by side, of one in turn");
	IN_TIME(together_ms < alone_ms, "which is faster");
	NOTE("four reads: %.1f ms on four servers, %.1f ms on one", together_ms,
	     alone_ms);
	close(fd);
}

static void
test_off(void)
{
	int fd = open_in("mapped/file");
	uint64_t before = state->device[0].tally[EM_READ].count;
	double began_ms = lab_now_ms();

	atomic_store(&state->delays_on, 0);
	submit_reads(fd, DEPTH);
	drain(DEPTH);
	atomic_store(&state->delays_on, 1);
	IN_TIME(lab_now_ms() - began_ms < DEPTH * STEP_MS / 2,
	        "with delays off it does not wait");
	OK(state->device[0].tally[EM_READ].count - before == DEPTH, "and counts");
	close(fd);
}

/* With delays off, so that the stall is the only wait. */
static void
test_stall(void)
{
	int fd = open_in("mapped/file"), other = open_in("mapped/inner/file");
	double began_ms = lab_now_ms();
	long early, late;

	atomic_store(&state->delays_on, 0);
	em_device_stall(&state->device[0], em_clock_ns() + 200000000);
	submit_reads(fd, 2);
	make(2, IOCB_CMD_PREAD, other, 0);
	request[0] = request[2];
	if (submit(1) != 1)
		lab_give_up("submit");
	early = get(1, DEPTH, 60);
	IN_TIME(early == 1 && answer[0].data == 1002,
	        "a stalled device does not hold up another one");
	late = get(1, DEPTH, 60);
	IN_TIME(late == 0, "nor a caller whose timeout ends before");
	drain(3 - (int) (early + late));
	OK(lab_now_ms() - began_ms >= 200.0, "it answers when the stall is over");

	began_ms = lab_now_ms();
	em_device_stall(&state->device[0], em_clock_ns() + 60000000000);
	submit_reads(fd, 2);
	OK(get(2, DEPTH, 20) == 0, "a long stall begins");
	em_device_stall(&state->device[0], 0);
	drain(2);
	OK(lab_now_ms() - began_ms < 30000.0, "and is ended");
	atomic_store(&state->delays_on, 1);
	close(fd);
	close(other);
}

static void
test_contexts(void)
{
	int fd = open_in("mapped/file");
	aio_context_t first = context, second = 0;
	double began_ms = lab_now_ms();

	if (syscall(SYS_io_setup, DEPTH, &second) != 0)
		lab_give_up("set up a context");
	submit_reads(fd, 2);
	context = second;
	OK(get(1, DEPTH, 3 * STEP_MS) == 0,
	   "a context does not see another's requests");
	began_ms = lab_now_ms();
	submit_reads(fd, 3);
	OK(syscall(SYS_io_destroy, second) == 0 &&
	       lab_now_ms() - began_ms >= 3 * STEP_MS,
	   "destroying a context waits for its requests");
	errno = 0;
	OK(get(1, DEPTH, 0) == -1 && errno == EINVAL, "then it is gone");
	context = first;
	drain(2);
	OK(get(0, DEPTH, 0) == 0, "and the other has only its own");
	close(fd);
}

static void
on_alarm(int number)
{
	(void) number;
}

static void
test_signal(void)
{
	int fd = open_in("mapped/file");
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval timer = { .it_value = { .tv_usec = 30000 } };
	long got;

	sigaction(SIGALRM, &action, NULL);
	submit_reads(fd, 8);
	setitimer(ITIMER_REAL, &timer, NULL);
	errno = 0;
	got = get(8, DEPTH, -1);
	IN_TIME((got == -1 && errno == EINTR) || (got > 0 && got < 8),
	        "a signal ends the wait, with what there is or EINTR");
	drain(got < 0 ? 8 : 8 - (int) got);
	OK(true, "and nothing is lost by it");
	close(fd);
}

/* In the child: it has none of its parent's requests, its own are played. */
static int
use_in_child(int fd)
{
	double began_ms = lab_now_ms();
	bool good;

	context = 0;
	if (syscall(SYS_io_setup, DEPTH, &context) != 0)
		return 1;
	submit_reads(fd, 1);
	good = get(1, DEPTH, -1) == 1 && answer[0].data == 1000 &&
	       lab_now_ms() - began_ms >= STEP_MS && get(0, DEPTH, 0) == 0;
	return good && syscall(SYS_io_destroy, context) == 0 ? 0 : 2;
}

static void
test_fork(void)
{
	int fd = open_in("mapped/file");
	int status;
	pid_t pid;

	submit_reads(fd, 4);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(use_in_child(fd));
	waitpid(pid, &status, 0);
	OK(status == 0, "a forked child begins with nothing in flight");
	drain(4);
	OK(get(0, DEPTH, 0) == 0, "its parent keeps what it had");
	close(fd);
}

static void
test_limits(void)
{
	enum
	{
		MANY = EM_ASYNC_MAX + 100
	};

	static struct io_event answers[MANY];
	struct iocb *list[MANY];
	int fd = open_in("mapped/file");
	aio_context_t first = context;

	context = 0;
	if (syscall(SYS_io_setup, MANY, &context) != 0)
		lab_give_up("set up a large context");
	make(0, IOCB_CMD_PREAD, fd, 0);
	for (int i = 0; i < MANY; i++)
		list[i] = &request[0];
	atomic_store(&state->delays_on, 0);
	OK(syscall(SYS_io_submit, context, (long) MANY, list) == EM_ASYNC_MAX,
	   "as many are accepted as there is room for");
	errno = 0;
	OK(syscall(SYS_io_submit, context, 1L, list) == -1 && errno == EAGAIN,
	   "then none");
	OK(syscall(SYS_io_getevents, context, (long) EM_ASYNC_MAX, (long) MANY,
	           answers, NULL) == EM_ASYNC_MAX,
	   "all of them are answered");
	OK(syscall(SYS_io_submit, context, 1L, list) == 1,
	   "and there is room again");
	atomic_store(&state->delays_on, 1);
	syscall(SYS_io_destroy, context);
	context = first;

	errno = 0;
	OK(syscall(SYS_io_uring_setup, 8, page) == -1 && errno == ENOSYS,
	   "io_uring cannot be used to bypass a device");
	close(fd);
}

/* Started with the library; the folder is the second argument. */
static int
run_preloaded(char **arguments)
{
	const char *reason;

	lab_path(folder, "%s", arguments[2]);
	state = em_state_open(getenv(EM_STATE_VARIABLE), &reason);
	if (state == NULL)
		lab_give_up("map the state file");
	if (syscall(SYS_io_setup, DEPTH, &context) != 0)
	{
		printf("1..0 # SKIP this machine has no Linux AIO: %s\n",
		       strerror(errno));
		return 0;
	}

	PATIENTLY(test_answers());
	PATIENTLY(test_refusals());
	PATIENTLY(test_waiting());
	PATIENTLY(test_parallel());
	PATIENTLY(test_off());
	PATIENTLY(test_stall());
	PATIENTLY(test_contexts());
	PATIENTLY(test_signal());
	test_fork();
	test_limits();
	return done();
}

static int
prepare(void)
{
	char inner[LAB_PATH_MAX], keys[4 * LAB_PATH_MAX];
	Lab lab;
	int status;

	lab_open(&lab);
	lab_path(inner, "%s/inner", lab.mapped);
	if (mkdir(inner, 0755) != 0)
		lab_give_up("make a folder");
	lab_file(lab.mapped, "file", 256);
	lab_file(inner, "file", 2048);
	lab_file(lab.plain, "file", 1);
	snprintf(keys, sizeof(keys), DISK(1) "[inner]\n" DISK(4) "path = %s\n",
	         inner);
	lab_device(&lab, keys);

	waitpid(lab_start(&lab, true, "async", 0, ""), &status, 0);
	lab_close(&lab);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(int count, char **arguments)
{
	return count == 5 ? run_preloaded(arguments) : prepare();
}
