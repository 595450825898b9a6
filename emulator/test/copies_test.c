/*
 * copies_test.c
 *		Copies inside the kernel, and those of programs of an archive_command:
 *		does each byte pass both devices?
 *
 * As in calls_test.c the program starts itself with the library preloaded.  The
 * first device plays a folder with a WAL segment, the second an archive, both
 * without delays; the third, another archive, passes ten megabytes a second.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "counts.h"
#include "lab.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

#define BLOCK   8192
#define MB      (1024 * 1024L)
#define SEGMENT "000000010000000A000000FF"

#define DISK                                                                   \
	"kind = disk\nlayout = stripe\nservers = 1\nstripe_bytes = 65536\n"        \
	"bandwidth_bytes_s = 2000000000\n"                                         \
	"cache_bytes = 100000000\n"

static int
open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_RDWR, 0644);

	if (fd < 0)
		lab_give_up("open a file");
	return fd;
}

static bool
counted_copy(void)
{
	return counted(0, EM_READ) == 1 && counted(1, EM_WRITE) == 1 &&
	       counted_at_all() == 2;
}

static void
test_calls(void)
{
	int in = open_file("wal/file", 0);
	int out = open_file("archive/copy", O_CREAT);
	off_t offset_in = 0, offset_out = 0;
	int tube[2];

	mark();
	OK(copy_file_range(in, &offset_in, out, &offset_out, BLOCK, 0) == BLOCK,
	   "copy_file_range copies");
	OK(counted_copy(), "it is a read of one device and a write of the other");

	mark();
	OK(sendfile(out, in, NULL, BLOCK) == BLOCK && counted_copy(),
	   "so is sendfile");
	mark();
	OK(sendfile64(out, in, &offset_in, BLOCK) == BLOCK && counted_copy(),
	   "and sendfile64");
	mark();
	OK(sendfile(out, in, NULL, 0) == 0 && counted_at_all() == 0,
	   "a copy of nothing costs nothing");

	if (pipe(tube) != 0)
		lab_give_up("make a pipe");
	mark();
	OK(splice(in, NULL, tube[1], NULL, BLOCK, 0) == BLOCK &&
	       counted_once(EM_READ, BLOCK),
	   "splice into a pipe is a read");
	mark();
	OK(splice(tube[0], NULL, out, NULL, BLOCK, 0) == BLOCK &&
	       counted(1, EM_WRITE) == 1 && counted_at_all() == 1,
	   "and out of it a write");
	errno = 0;
	mark();
	OK(copy_file_range(in, NULL, -1, NULL, BLOCK, 0) == -1 && errno == EBADF &&
	       counted_at_all() == 0,
	   "a copy that fails keeps its errno and costs nothing");
	close(tube[0]);
	close(tube[1]);
	close(in);
	close(out);
}

static bool
cannot_clone(int out, int in)
{
	struct file_clone_range range = { .src_fd = in, .src_length = 4096 };

	errno = 0;
	if (ioctl(out, FICLONE, in) != -1 || errno != EOPNOTSUPP)
		return false;
	errno = 0;
	return ioctl(out, FICLONERANGE, &range) == -1 && errno == EOPNOTSUPP;
}

static void
test_clones(void)
{
	int wal = open_file("wal/file", 0);
	int copy = open_file("archive/copy", O_CREAT);
	int other = open_file("other", O_CREAT);
	int tube[2], waiting = 0;

	mark();
	OK(cannot_clone(copy, wal), "files of two devices cannot share blocks");
	OK(cannot_clone(other, wal), "nor can a device's and another");
	OK(cannot_clone(copy, other), "whichever way");
	OK(counted_at_all() == 0, "and what is refused costs nothing");
	if (pipe(tube) != 0 || write(tube[1], "abc", 3) != 3)
		lab_give_up("fill a pipe");
	OK(ioctl(tube[0], FIONREAD, &waiting) == 0 && waiting == 3,
	   "another ioctl is passed on with its argument");
	close(tube[0]);
	close(tube[1]);
	close(wal);
	close(copy);
	close(other);
}

/*
 * Run one archive_command; the segment of a megabyte is read once from the
 * first device and written once to the second.
 */
static void
check_archiving(const char *command)
{
	uint64_t read_bytes, written_bytes;

	mark();
	OK(system(command) == 0 &&
	       system("cmp -s wal/" SEGMENT " archive/" SEGMENT) == 0,
	   "\"%s\" copies the segment", command);
	/* cmp has also read both files once. */
	read_bytes =
		state->device[0].tally[EM_READ].bytes - bytes_before[0][EM_READ];
	written_bytes =
		state->device[1].tally[EM_WRITE].bytes - bytes_before[1][EM_WRITE];
	OK(read_bytes == 2 * MB, "its bytes are read from the log's device");
	OK(written_bytes == MB && counted(1, EM_LOG_WRITE) == 0,
	   "and written to the archive's, as those of any file");
	if (unlink("archive/" SEGMENT) != 0)
		lab_give_up("remove a copy");
}

static void
test_programs(void)
{
	check_archiving("cp wal/" SEGMENT " archive/" SEGMENT);
	check_archiving("cp --reflink=always wal/" SEGMENT " archive/" SEGMENT
	                " 2> /dev/null || cp wal/" SEGMENT " archive/" SEGMENT);
	check_archiving("cat wal/" SEGMENT " > archive/" SEGMENT);
	check_archiving("cat < wal/" SEGMENT " > archive/" SEGMENT);
	check_archiving("dd if=wal/" SEGMENT " of=archive/" SEGMENT
	                " bs=64k conv=fsync 2> /dev/null");
	check_archiving("cp wal/" SEGMENT " archive/part && sync archive/part && "
	                "mv archive/part archive/" SEGMENT);

	mark();
	OK(system("cp wal/" SEGMENT " archive/part && sync archive/part") == 0 &&
	       counted(1, EM_DATA_SYNC) == 1 && counted(1, EM_LOG_SYNC) == 0,
	   "sync waits for the archive's device");
}

static double
took_ms(const char *command)
{
	double began_ms = lab_now_ms();

	if (system(command) != 0)
		lab_give_up("run a command");
	return lab_now_ms() - began_ms;
}

/* Lower bounds only: a busy machine takes longer, none takes less. */
static void
test_delays(void)
{
	double to_slow_ms = took_ms("cp wal/" SEGMENT " slow/one");
	double in_slow_ms = took_ms("cp slow/one slow/two");

	NOTE("a megabyte at 10 MB/s: %.0f ms to the device, %.0f ms on it",
	     to_slow_ms, in_slow_ms);
	OK(to_slow_ms >= 100, "a copy to a slow device takes its transfer");
	OK(in_slow_ms >= 200, "and one on it twice that");
}

/*
 * In one call the device waits for its read and then for its write: together
 * they fit into the call, and the write takes what the model says.
 */
static void
test_latencies(void)
{
	const EmTally *read = &state->device[2].tally[EM_READ];
	const EmTally *write = &state->device[2].tally[EM_WRITE];
	int in = open_file("slow/one", 0);
	int out = open_file("slow/three", O_CREAT);
	uint64_t latency_ns = read->latency_ns + write->latency_ns;
	uint64_t written_ns = write->latency_ns;
	uint64_t model_ns = write->service_ns + write->wait_ns;
	uint64_t began_ns = em_clock_ns();
	uint64_t took_ns;

	if (copy_file_range(in, NULL, out, NULL, MB, 0) != MB)
		lab_give_up("copy a file");
	took_ns = em_clock_ns() - began_ns;
	latency_ns = read->latency_ns + write->latency_ns - latency_ns;
	OK(latency_ns <= took_ns,
	   "a copy's write does not count the wait for its read again");
	OK(write->latency_ns - written_ns >=
	       write->service_ns + write->wait_ns - model_ns,
	   "nor less than the write takes by the model");
	close(in);
	close(out);
}

/* Started with the library; the folder is the second argument. */
static int
run_preloaded(char **arguments)
{
	if (chdir(arguments[2]) != 0)
		lab_give_up("change the folder");
	open_counts();
	test_calls();
	test_clones();
	test_programs();
	test_delays();
	test_latencies();
	return done();
}

static int
prepare(void)
{
	char command[8 * LAB_PATH_MAX], keys[4 * LAB_PATH_MAX];
	Lab lab;
	pid_t pid;
	int status;

	lab_open(&lab);
	snprintf(command, sizeof(command),
	         "cd '%s' && mkdir -p wal/archive_status archive slow && "
	         "head -c %ld /dev/urandom > wal/" SEGMENT " && "
	         "cp wal/" SEGMENT " wal/file",
	         lab.folder, MB);
	if (system(command) != 0)
		lab_give_up("make the folders");
	lab_path(lab.mapped, "%s/wal", lab.folder);
	snprintf(keys, sizeof(keys),
	         DISK "[archive]\n" DISK "path = %s/archive\n"
	              "[slow]\n" DISK "limit_bytes_s = %ld\npath = %s/slow\n",
	         lab.folder, 10 * MB, lab.folder);
	lab_device(&lab, keys);

	pid = lab_start(&lab, true, "copies", 0, "");
	waitpid(pid, &status, 0);
	lab_close(&lab);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(int count, char **arguments)
{
	return count == 5 ? run_preloaded(arguments) : prepare();
}
