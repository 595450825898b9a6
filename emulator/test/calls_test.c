/*
 * calls_test.c
 *		For each libc name: does the call still do its work, and does the right
 *		device count it?
 *
 * The program prepares a folder and starts itself with the library preloaded;
 * the tests run there, and read the devices' counts from the state file.  The
 * devices have no delays worth mentioning: calibration_test.c tests the delays.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "counts.h"
#include "lab.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#define BLOCK 8192

#define FAST_DISK                                                              \
	"kind = disk\nlayout = stripe\nservers = 1\nstripe_bytes = 65536\n"        \
	"bandwidth_bytes_s = 2000000000\n"                                         \
	"cache_bytes = 100000000\n"

/* The fortified names and the 64-bit aliases, as a compiler would call them. */
extern ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
extern ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset,
                           size_t room);
extern ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off_t offset,
                             size_t room);
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int folder, const char *path, int flags);
extern int __openat64_2(int folder, const char *path, int flags);

static char folder[LAB_PATH_MAX];
static char buffer[BLOCK];

static int
open_in(const char *name, int flags)
{
	char path[LAB_PATH_MAX];
	int fd;

	lab_path(path, "%s/%s", folder, name);
	fd = open(path, flags | O_RDWR, 0644);
	if (fd < 0)
		lab_give_up("open a file");
	return fd;
}

static void
fill(char with)
{
	memset(buffer, with, BLOCK);
}

static bool
is_filled(char with)
{
	for (int i = 0; i < BLOCK; i++)
		if (buffer[i] != with)
			return false;
	return true;
}

/*
 * CHECK_READ runs a reading call of block 1, which is full of 'b' (and where
 * read() stands), into an empty buffer.
 */
#define CHECK_READ(call, name)                                                 \
	do                                                                         \
	{                                                                          \
		lseek(fd, BLOCK, SEEK_SET);                                            \
		fill('-');                                                             \
		mark();                                                                \
		OK((call) == BLOCK && is_filled('b'), name " reads the block");        \
		OK(counted_once(EM_READ, BLOCK), name " is counted as a read");        \
	} while (0)

static void
test_reading(void)
{
	int fd = open_in("mapped/file", 0);
	struct iovec vector[2] = { { buffer, 4096 }, { buffer + 4096, 4096 } };

	fill('b');
	if (pwrite(fd, buffer, BLOCK, BLOCK) != BLOCK)
		lab_give_up("write a block");

	CHECK_READ(read(fd, buffer, BLOCK), "read");
	CHECK_READ(readv(fd, vector, 2), "readv");
	CHECK_READ(pread(fd, buffer, BLOCK, BLOCK), "pread");
	CHECK_READ(pread64(fd, buffer, BLOCK, BLOCK), "pread64");
	CHECK_READ(preadv(fd, vector, 2, BLOCK), "preadv");
	CHECK_READ(preadv64(fd, vector, 2, BLOCK), "preadv64");
	CHECK_READ(__read_chk(fd, buffer, BLOCK, BLOCK), "__read_chk");
	CHECK_READ(__pread_chk(fd, buffer, BLOCK, BLOCK, BLOCK), "__pread_chk");
	CHECK_READ(__pread64_chk(fd, buffer, BLOCK, BLOCK, BLOCK), "__pread64_chk");
	close(fd);
}

/* The same for a writing call, checked by a call that is not replaced. */
#define CHECK_WRITE(call, name)                                                \
	do                                                                         \
	{                                                                          \
		lseek(fd, BLOCK, SEEK_SET);                                            \
		fill(++letter);                                                        \
		mark();                                                                \
		OK((call) == BLOCK, name " writes the block");                         \
		OK(counted_once(EM_WRITE, BLOCK), name " is counted as a write");      \
		fill('-');                                                             \
		OK(syscall(SYS_pread64, fd, buffer, BLOCK, BLOCK) == BLOCK &&          \
		       is_filled(letter),                                              \
		   "what " name " wrote is in the file");                              \
	} while (0)

static void
test_writing(void)
{
	int fd = open_in("mapped/file", 0);
	struct iovec vector[2] = { { buffer, 4096 }, { buffer + 4096, 4096 } };
	char letter = 'A';

	CHECK_WRITE(write(fd, buffer, BLOCK), "write");
	CHECK_WRITE(writev(fd, vector, 2), "writev");
	CHECK_WRITE(pwrite(fd, buffer, BLOCK, BLOCK), "pwrite");
	CHECK_WRITE(pwrite64(fd, buffer, BLOCK, BLOCK), "pwrite64");
	CHECK_WRITE(pwritev(fd, vector, 2, BLOCK), "pwritev");
	CHECK_WRITE(pwritev64(fd, vector, 2, BLOCK), "pwritev64");
	close(fd);
}

static void
check_opened(int fd, const char *name)
{
	mark();
	OK(fd >= 0 && pread(fd, buffer, 1, 0) == 1 && counted_once(EM_READ, 1),
	   "a file opened by %s is counted", name);
	mark();
	OK(close(fd) == 0 && counted_at_all() == 0, "closing it costs nothing");
}

static void
test_opening(void)
{
	char path[LAB_PATH_MAX], made[LAB_PATH_MAX];
	struct stat status;
	int fd, at;

	lab_path(path, "%s/mapped/file", folder);
	lab_path(made, "%s/mapped/made", folder);
	at = open(folder, O_RDONLY | O_DIRECTORY);
	check_opened(open(path, O_RDONLY), "open");
	check_opened(open64(path, O_RDONLY), "open64");
	check_opened(openat(at, "mapped/file", O_RDONLY), "openat");
	check_opened(openat64(at, "mapped/file", O_RDONLY), "openat64");
	check_opened(__open_2(path, O_RDONLY), "__open_2");
	check_opened(__open64_2(path, O_RDONLY), "__open64_2");
	check_opened(__openat_2(at, "mapped/file", O_RDONLY), "__openat_2");
	check_opened(__openat64_2(at, "mapped/file", O_RDONLY), "__openat64_2");
	close(at);

	fd = open(made, O_CREAT | O_RDWR, 0640);
	OK(fstat(fd, &status) == 0 && (status.st_mode & 0777) == 0640,
	   "open passes the mode of a new file on");
	close(fd);
	unlink(made);
	fd = creat(made, 0600);
	mark();
	OK(write(fd, "x", 1) == 1 && counted_once(EM_WRITE, 1),
	   "a file made by creat is counted");
	close(fd);

	errno = 0;
	lab_path(path, "%s/mapped/absent", folder);
	OK(open(path, O_RDONLY) == -1 && errno == ENOENT,
	   "a failed open keeps its errno");
}

static void
test_paths(void)
{
	int fd;

	fd = open_in("plain/file", 0);
	mark();
	OK(pread(fd, buffer, 1, 0) == 1 && counted_at_all() == 0,
	   "a file outside is not counted");
	close(fd);

	fd = open_in("mapped.not/file", O_CREAT);
	mark();
	OK(write(fd, "x", 1) == 1 && counted_at_all() == 0,
	   "nor is one whose folder's name only begins alike");
	close(fd);

	fd = open_in("mapped/inner/file", O_CREAT);
	mark();
	OK(write(fd, "x", 1) == 1 && counted(1, EM_WRITE) == 1 &&
	       counted_at_all() == 1,
	   "the longest path decides the device");
	close(fd);

	fd = open_in("link/file", 0);
	mark();
	OK(pread(fd, buffer, 1, 0) == 1 && counted_once(EM_READ, 1),
	   "a file behind a symbolic link to a device is counted");
	close(fd);

	if (chdir(folder) != 0)
		lab_give_up("change the folder");
	fd = open("mapped/file", O_RDONLY);
	mark();
	OK(pread(fd, buffer, 1, 0) == 1 && counted_once(EM_READ, 1),
	   "a relative path is counted");
	close(fd);
}

static void
test_descriptors(void)
{
	int mapped = open_in("mapped/file", 0);
	int plain = open_in("plain/file", 0);
	int copy, number;
	FILE *stream;
	pid_t pid;

	copy = dup(mapped);
	mark();
	OK(pread(copy, buffer, 1, 0) == 1 && counted_once(EM_READ, 1),
	   "dup copies the device");
	close(copy);

	OK(dup2(mapped, 500) == 500, "dup2 works");
	mark();
	OK(pread(500, buffer, 1, 0) == 1 && counted_once(EM_READ, 1),
	   "dup2 copies the device");
	dup2(plain, 500);
	mark();
	OK(pread(500, buffer, 1, 0) == 1 && counted_at_all() == 0,
	   "dup2 of another file takes it away");
	dup3(mapped, 500, O_CLOEXEC);
	mark();
	OK(pread(500, buffer, 1, 0) == 1 && counted_once(EM_READ, 1),
	   "dup3 copies the device");
	close_range(500, 500, 0);
	syscall(SYS_dup2, plain, 500);
	mark();
	OK(pread(500, buffer, 1, 0) == 1 && counted_at_all() == 0,
	   "close_range forgets the device");
	close(500);

	copy = dup(mapped);
	close(copy);
	number = (int) syscall(SYS_dup, plain);
	mark();
	OK(number == copy && pread(number, buffer, 1, 0) == 1 &&
	       counted_at_all() == 0,
	   "a number that close gave back is free of its device");
	close(number);

	copy = dup(mapped);
	stream = fdopen(copy, "r");
	fclose(stream);
	number = (int) syscall(SYS_dup, plain);
	mark();
	OK(number == copy && pread(number, buffer, 1, 0) == 1 &&
	       counted_at_all() == 0,
	   "a number that fclose gave back is, too");
	close(number);

	mark();
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(pread(mapped, buffer, 1, 0) == 1 ? 0 : 1);
	lab_wait(pid);
	OK(counted_once(EM_READ, 1), "a forked child inherits the device");

	mark();
	OK(system("head -c 1 < mapped/file > /dev/null") == 0 &&
	       counted(0, EM_READ) == 1 && counted_at_all() == 1,
	   "so does a program that was started with the file open");

	close(mapped);
	close(plain);
}

static void
test_errors(void)
{
	char path[LAB_PATH_MAX];
	int fd;

	lab_path(path, "%s/mapped/file", folder);
	fd = open(path, O_WRONLY);
	errno = 0;
	mark();
	OK(pread(fd, buffer, 1, 0) == -1 && errno == EBADF,
	   "a failed read keeps its errno");
	OK(counted_at_all() == 0, "and costs nothing");
	close(fd);

	fd = open_in("mapped/file", 0);
	mark();
	OK(pread(fd, buffer, BLOCK, 1L << 40) == 0 && counted_at_all() == 0,
	   "a read past the end costs nothing");
	errno = 77;
	OK(pread(fd, buffer, BLOCK, 0) == BLOCK && errno == 77,
	   "a read that works leaves errno alone");
	errno = 77;
	OK(fsync(fd) == 0 && errno == 77, "so does an fsync");
	OK(posix_fallocate(fd, -1, 10) == EINVAL,
	   "posix_fallocate returns its error, not in errno");
	close(fd);
	errno = 0;
	OK(pread(fd, buffer, 1, 0) == -1 && errno == EBADF,
	   "a read of a closed file fails as it did");
	OK(pread(-1, buffer, 1, 0) == -1 && errno == EBADF,
	   "so does a read of no file");
}

static void
test_syncs(void)
{
	static const char segment[] = "mapped/000000010000000A000000FF";
	int fd = open_in("mapped/file", 0);

	mark();
	OK(fsync(fd) == 0 && counted_once(EM_DATA_SYNC, 0),
	   "fsync of a file is a data sync");
	mark();
	OK(fdatasync(fd) == 0 && counted_once(EM_DATA_SYNC, 0),
	   "fdatasync of a file is a data sync");
	mark();
	OK(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 &&
	       counted_at_all() == 0,
	   "sync_file_range that only starts writing costs nothing");
	mark();
	OK(sync_file_range(
		   fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0 &&
	       counted_once(EM_DATA_SYNC, 0),
	   "one that waits is a data sync");

	mark();
	OK(ftruncate(fd, 8 * BLOCK) == 0 && counted_once(EM_METADATA, 0),
	   "ftruncate is metadata");
	mark();
	OK(ftruncate64(fd, 4 * BLOCK) == 0 && counted_once(EM_METADATA, 0),
	   "ftruncate64 is metadata");
	mark();
	OK(fallocate(fd, 0, 0, 16 * BLOCK) == 0 && counted_once(EM_METADATA, 0),
	   "fallocate is metadata");
	mark();
	OK(posix_fallocate(fd, 0, 16 * BLOCK) == 0 && counted(0, EM_METADATA) == 1,
	   "posix_fallocate is metadata");
	close(fd);

	fd = open_in(segment, O_CREAT);
	mark();
	OK(pwrite(fd, buffer, BLOCK, 0) == BLOCK &&
	       counted_once(EM_LOG_WRITE, BLOCK),
	   "a write of a WAL segment is a log write");
	mark();
	OK(fdatasync(fd) == 0 && counted_once(EM_LOG_SYNC, 0),
	   "its sync is a log sync");
	close(fd);

	fd = open_in(segment, O_DSYNC);
	mark();
	OK(pwrite(fd, buffer, BLOCK, 0) == BLOCK && counted(0, EM_LOG_WRITE) == 1 &&
	       counted(0, EM_LOG_SYNC) == 1,
	   "with O_DSYNC the write is both");
	close(fd);

	fd = open_in("mapped/xlogtemp.42", O_CREAT);
	mark();
	OK(pwrite(fd, buffer, BLOCK, 0) == BLOCK &&
	       counted_once(EM_LOG_WRITE, BLOCK),
	   "so is one of a segment that is being made");
	close(fd);
}

static void
test_advising(void)
{
	int fd = open_in("mapped/file", 0);

	mark();
	OK(posix_fadvise(fd, 0, BLOCK, POSIX_FADV_WILLNEED) == 0 &&
	       posix_fadvise64(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 &&
	       counted_at_all() == 0,
	   "an advice is not a request");
	OK(posix_fadvise(fd, 0, BLOCK, 12345) == EINVAL,
	   "a wrong advice returns its error");
	OK(pread(fd, buffer, BLOCK, 0) == BLOCK && counted_once(EM_READ, BLOCK),
	   "an announced read is counted when it is read");
	close(fd);
}

/* The lab's devices may be kept in memory; the folder of this test may be. */
static void
test_statfs(void)
{
	struct statfs mapped_fs, plain_fs;
	int mapped = open_in("mapped/file", 0);
	int plain = open_in("plain/file", 0);

	OK(fstatfs(mapped, &mapped_fs) == 0 && mapped_fs.f_type != TMPFS_MAGIC,
	   "no device is in memory");
	OK(fstatfs(plain, &plain_fs) == 0 && plain_fs.f_bsize > 0 &&
	       mapped_fs.f_blocks == plain_fs.f_blocks,
	   "and everything else is the file system's");
	errno = 0;
	OK(fstatfs(-1, &plain_fs) == -1 && errno == EBADF,
	   "fstatfs() fails like the real one");
	close(mapped);
	close(plain);
}

static void
test_cachestat(void)
{
	struct
	{
		uint64_t offset, length;
	} range = { 0, BLOCK };
	uint64_t mapped_stat[5], plain_stat[5];
	int mapped = open_in("mapped/file", 0);
	int plain = open_in("plain/file", 0);

	/* Both are certainly in the page cache: they were just written. */
	fill('c');
	if (pwrite(mapped, buffer, BLOCK, 0) != BLOCK ||
	    pwrite(plain, buffer, BLOCK, 0) != BLOCK)
		lab_give_up("write a block");

	memset(mapped_stat, 0xff, sizeof(mapped_stat));
	OK(syscall(451, mapped, &range, mapped_stat, 0) == 0 &&
	       mapped_stat[0] == 0 && mapped_stat[4] == 0,
	   "cachestat finds nothing of a device in the page cache");

	memset(plain_stat, 0, sizeof(plain_stat));
	if (syscall(451, plain, &range, plain_stat, 0) == 0)
	{
		OK(plain_stat[0] > 0, "but a file outside is there");
		errno = 0;
		OK(syscall(451, mapped, &range, mapped_stat, 1) == -1 &&
		       errno == EINVAL,
		   "wrong flags are the kernel's to refuse");
		errno = 0;
		OK(syscall(451, mapped, NULL, mapped_stat, 0) == -1 && errno == EFAULT,
		   "and so is a missing range");
	}
	else
		OK(errno == ENOSYS || errno == EPERM,
		   "# SKIP this kernel has no cachestat");
	close(mapped);
	close(plain);
}

static void
test_syscall(void)
{
	int fd = open_in("plain/file", 0);
	char *page;

	fill('m');
	if (pwrite(fd, buffer, BLOCK, 2 * BLOCK) != BLOCK)
		lab_give_up("write a block");
	page = (char *) syscall(SYS_mmap, NULL, 4096UL, PROT_READ, MAP_SHARED, fd,
	                        2L * BLOCK);
	OK(page != MAP_FAILED && page[0] == 'm' && page[4095] == 'm',
	   "syscall passes all of six arguments on");
	errno = 0;
	OK(syscall(SYS_close, -1) == -1 && errno == EBADF,
	   "and brings result and errno back");
	munmap(page, 4096);
	close(fd);
}

/* Started with the library; the folder is the second argument. */
static int
run_preloaded(char **arguments)
{
	lab_path(folder, "%s", arguments[2]);
	open_counts();

	test_reading();
	test_writing();
	test_opening();
	test_paths();
	test_descriptors();
	test_errors();
	test_syncs();
	test_advising();
	test_cachestat();
	test_statfs();
	test_syscall();
	return done();
}

/* Run a test program in a shell with this environment; returns its stderr. */
static int
says(const Lab *lab, const char *variables, const char *text)
{
	char command[4 * LAB_PATH_MAX];

	snprintf(command, sizeof(command),
	         "%s LD_PRELOAD='%s/libpgflash_emulator.so' /bin/true 2>&1 | "
	         "grep -c '%s' > /dev/null",
	         variables, lab->build, text);
	return system(command) == 0;
}

static int
prepare(void)
{
	char inner[LAB_PATH_MAX], other[LAB_PATH_MAX], link[LAB_PATH_MAX];
	char beside[LAB_PATH_MAX];
	char keys[4 * LAB_PATH_MAX];
	Lab lab;
	pid_t pid;
	int status;

	lab_open(&lab);
	lab_file(lab.mapped, "file", 1);
	lab_file(lab.plain, "file", 1);
	lab_path(inner, "%s/inner", lab.mapped);
	lab_path(other, "%s/mapped.not", lab.folder);
	lab_path(link, "%s/link", lab.folder);
	lab_path(beside, "%s/archive_status", lab.mapped);
	if (mkdir(inner, 0755) != 0 || mkdir(other, 0755) != 0 ||
	    mkdir(beside, 0755) != 0 || symlink(lab.mapped, link) != 0)
		lab_give_up("make a folder");
	snprintf(keys, sizeof(keys), FAST_DISK "[inner]\n" FAST_DISK "path = %s\n",
	         inner);
	lab_device(&lab, keys);

	if (!says(&lab, EM_STATE_VARIABLE "=", "is not set") ||
	    !says(&lab, EM_STATE_VARIABLE "=/nowhere", "cannot be opened") ||
	    !says(&lab, EM_STATE_VARIABLE "=/etc/passwd", "not used"))
	{
		printf("not ok 1 - a library without a state file says so\n1..1\n");
		lab_close(&lab);
		return 1;
	}

	pid = lab_start(&lab, true, "calls", 0, "");
	waitpid(pid, &status, 0);
	lab_close(&lab);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(int count, char **arguments)
{
	return count == 5 ? run_preloaded(arguments) : prepare();
}
