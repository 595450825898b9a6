/*
 * device_file_test.c
 *		The cache file: every reason to refuse one, with real files.
 *
 * Run as root, the tests about owners and permissions give files away or switch
 * to the user nobody in a child; run as an ordinary user, they use what that
 * user may not do.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#include "support.h"
#include "tap.h"

#define SLOTS  128
#define NOBODY 65534

static char folder[100];
static char path[128];

static off_t
size_for(uint32_t slots)
{
	return FC_SLOTS_OFFSET + (off_t) slots * FC_BLOCK_SIZE;
}

static const char *
in_folder(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static struct stat
stat_of(const char *name)
{
	struct stat st;

	MUST(stat(name, &st) == 0);
	return st;
}

static void
make_file(const char *name, const void *bytes, size_t size)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	MUST(fd >= 0 && write(fd, bytes, size) == (ssize_t) size);
	close(fd);
}

static FcDeviceProblem
try(const char *name, uint32_t slots)
{
	FcDevice device;
	FcDeviceProblem problem = fc_device_file_open(&device, name, slots, 0);

	if (problem == FC_DEVICE_FINE)
	{
		int saved_errno = errno;

		device.ops->close(&device);
		errno = saved_errno;
	}
	else
		MUST(device.fd == -1);
	return problem;
}

static unsigned
open_fds(void)
{
	DIR *fds = opendir("/proc/self/fd");
	unsigned count = 0;

	MUST(fds != NULL);
	while (readdir(fds) != NULL)
		count++;
	closedir(fds);
	return count;
}

/* ---- a good one ---------------------------------------------------------- */

/* On a file system in memory, and on another where there is one. */
static void
test_in_memory(bool in_memory)
{
	FcDevice device;
	struct statfs fs;
	char name[200];
	int fd;

	tap_scratch(name, sizeof(name), "pgflash-device", in_memory);
	fd = mkstemp(name);
	MUST(fd >= 0 && fstatfs(fd, &fs) == 0);
	close(fd);
	MUST(fc_device_file_open(&device, name, SLOTS, 0) == FC_DEVICE_FINE);
	OK(device.in_memory == (fs.f_type == TMPFS_MAGIC), "a cache file is %s",
	   device.in_memory ? "in memory" : "on a device");
	device.ops->close(&device);
	unlink(name);
}

static void
test_fine(void)
{
	FcDevice device;
	static Page page;
	static Page back;
	const char *name = in_folder("cache");
	char begins[8];
	int fd;

	umask(0);
	MUST(fc_device_file_open(&device, name, SLOTS, 0) == FC_DEVICE_FINE);
	fd = open(name, O_RDONLY);
	MUST(fd >= 0 && read(fd, begins, sizeof(begins)) == sizeof(begins));
	close(fd);
	OK(memcmp(begins, "pgflash\n", sizeof(begins)) == 0,
	   "a cache file begins with the name of what it is");

	struct stat st = stat_of(name);

	OK(st.st_size == size_for(SLOTS), "a new cache file has its size");
	OK((off_t) st.st_blocks * 512 >= st.st_size, "and its space");
	OK((st.st_mode & 07777) == 0600, "and is for its owner alone");
	OK(fcntl(device.fd, F_GETFD) & FD_CLOEXEC, "programs do not inherit it");
	OK(device.direct == ((fcntl(device.fd, F_GETFL) & O_DIRECT) != 0),
	   "O_DIRECT is on as it says");

	off_t last = size_for(SLOTS - 1);

	page_make(&page, 1, 2, 3);
	OK(device.ops->write(&device, &page, sizeof(page), last) ==
	           (ssize_t) sizeof(page) &&
	       device.ops->read(&device, &back, sizeof(back), last) ==
	           (ssize_t) sizeof(back) &&
	       memcmp(&page, &back, sizeof(page)) == 0,
	   "the last slot can be written and read");
	OK(device.ops->read(&device, &back, sizeof(back), size_for(SLOTS)) == 0,
	   "there is nothing after it");

	/* Older than the last write: a read would note its own time. */
	struct timespec times[] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };

	MUST(futimens(device.fd, times) == 0);
	MUST(device.ops->read(&device, &back, sizeof(back), last) > 0);
	OK(stat_of(name).st_atim.tv_sec == 1000,
	   "a read leaves nothing to be written");
	device.ops->close(&device);
	OK(device.fd == -1, "closed is closed");
}

static void
test_again(void)
{
	const char *name = in_folder("cache");
	struct stat st;

	MUST(try(name, SLOTS) == FC_DEVICE_FINE);
	MUST(chmod(name, 0666) == 0);
	OK(try(name, SLOTS) == FC_DEVICE_FINE, "it can be opened again");
	OK((stat_of(name).st_mode & 07777) == 0600, "and is made private again");
	OK(try(name, 2 * SLOTS) == FC_DEVICE_FINE &&
	       stat_of(name).st_size == size_for(2 * SLOTS),
	   "it can grow");
	st = stat_of(name);
	OK((off_t) st.st_blocks * 512 >= st.st_size, "with its space");
	MUST(truncate(name, size_for(SLOTS)) == 0 &&
	     truncate(name, size_for(2 * SLOTS)) == 0);
	st = stat_of(name);
	MUST((off_t) st.st_blocks * 512 < st.st_size);
	MUST(try(name, 2 * SLOTS) == FC_DEVICE_FINE);
	st = stat_of(name);
	OK((off_t) st.st_blocks * 512 >= st.st_size,
	   "a file with a hole gets its space, though it has its size");
	OK(try(name, FC_WAYS) == FC_DEVICE_FINE &&
	       stat_of(name).st_size == size_for(FC_WAYS),
	   "it can shrink");
	st = stat_of(name);
	OK((off_t) st.st_blocks * 512 <= st.st_size + 65536,
	   "and gives the space back");
	OK(try(name, FC_WAYS - 1) == FC_DEVICE_TOO_SMALL &&
	       stat_of(name).st_size == size_for(FC_WAYS),
	   "not below one set; then it is left as it is");
	OK(try(in_folder("none"), 0) == FC_DEVICE_TOO_SMALL &&
	       access(path, F_OK) != 0,
	   "and no file is made for nothing");

	MUST(symlink("cache", in_folder("link")) == 0);
	OK(try(path, SLOTS) == FC_DEVICE_FINE, "a link to a cache file is one");
}

/* Scanning what a file in use already has would keep its readers waiting. */
static void
test_grow(void)
{
	const char *name = in_folder("grow");
	FcDevice device;
	struct stat before;
	struct stat after;

	MUST(fc_device_file_open(&device, name, 1024, 0) == FC_DEVICE_FINE);
	MUST(truncate(name, size_for(512)) == 0 &&
	     truncate(name, size_for(1024)) == 0);
	before = stat_of(name);
	MUST(fc_device_file_resize(&device, 2048) == FC_DEVICE_FINE);
	after = stat_of(name);
	OK(after.st_size == size_for(2048) &&
	       (off_t) (after.st_blocks - before.st_blocks) * 512 >=
	           size_for(2048) - size_for(1024),
	   "a file that grows has its size, and space for what is new");
	OK((off_t) after.st_blocks * 512 < after.st_size - 256 * FC_BLOCK_SIZE,
	   "what it had is not looked at");
	OK(fc_device_file_resize(&device, 2048) == FC_DEVICE_FINE &&
	       fc_device_file_resize(&device, 1500) == FC_DEVICE_FINE &&
	       stat_of(name).st_size == size_for(1500),
	   "nor is it for the size that it has, or less");
	device.ops->close(&device);
}

/* A file in use is truncated piece by piece, however long each piece takes. */
static void
test_cut(void)
{
	const char *name = in_folder("cut");
	FcDevice device;
	bool more;
	unsigned calls = 0;
	off_t size;

	MUST(fc_device_file_open(&device, name, 4096, 0) == FC_DEVICE_FINE);
	OK(fc_device_file_cut(&device, 4096, 0, &more) == FC_DEVICE_FINE && !more &&
	       stat_of(name).st_size == size_for(4096),
	   "where nothing is beyond, nothing is cut off");

	/* Each look at the clock 20 ms after the last. */
	fc_test_now_ns = 1;
	fc_test_tick_ns = 20000000;
	size = stat_of(name).st_size;
	for (more = true; more && calls < 1000; calls++)
	{
		MUST(fc_device_file_cut(&device, 1000, 1, &more) == FC_DEVICE_FINE);
		if (size - stat_of(name).st_size > 1 << 20)
			break;
		size = stat_of(name).st_size;
	}
	OK(!more && calls >= 24 && size == size_for(1000),
	   "1 MB at a time, if that takes long, and exactly as far as asked");
	MUST(fc_device_file_cut(&device, 500, 100000000, &more) == FC_DEVICE_FINE);
	OK(more && size - stat_of(name).st_size < 2 << 20,
	   "less and less within a call, and the call ends");
	fc_test_now_ns = fc_test_tick_ns = 0;
	MUST(fc_device_file_cut(&device, FC_WAYS, 600000000000, &more) ==
	     FC_DEVICE_FINE);
	OK(!more && stat_of(name).st_size == size_for(FC_WAYS) &&
	       (off_t) stat_of(name).st_blocks * 512 <= size_for(FC_WAYS) + 65536,
	   "all of it in one call, if there is time; and the space is given back");
	device.ops->close(&device);
}

/* ---- what is not a cache file -------------------------------------------- */

static void
test_not_there(void)
{
	OK(try(in_folder("no/such"), SLOTS) == FC_DEVICE_CANNOT_OPEN &&
	       errno == ENOENT,
	   "a folder that is missing: cannot open, ENOENT");
	make_file(in_folder("plain"), "x", 1);
	OK(try(in_folder("plain/x"), SLOTS) == FC_DEVICE_CANNOT_OPEN &&
	       errno == ENOTDIR,
	   "a folder that is none: cannot open, ENOTDIR");
}

static void
test_not_a_file(void)
{
	MUST(mkdir(in_folder("folder"), 0700) == 0);
	OK(try(path, SLOTS) == FC_DEVICE_NOT_A_FILE, "a folder");
	MUST(symlink("folder", in_folder("link_to_folder")) == 0);
	OK(try(path, SLOTS) == FC_DEVICE_NOT_A_FILE, "a link to a folder");
	MUST(mkfifo(in_folder("pipe"), 0600) == 0);
	OK(try(path, SLOTS) == FC_DEVICE_NOT_A_FILE,
	   "a named pipe, without waiting for its other end");
	OK(try("/dev/null", SLOTS) == FC_DEVICE_NOT_A_FILE, "a device");
}

/* Foreign data: not a byte, nor its size or its mode, may change. */
static bool
is_left_alone(const char *name, const void *bytes, size_t size)
{
	char *back = malloc(size + 1);
	struct stat before;

	MUST(back != NULL);
	make_file(name, bytes, size);
	MUST(chmod(name, 0640) == 0);
	before = stat_of(name);

	bool refused = try(name, SLOTS) == FC_DEVICE_FOREIGN;
	struct stat after = stat_of(name);
	int fd = open(name, O_RDONLY);
	bool same = read(fd, back, size + 1) == (ssize_t) size &&
	            memcmp(back, bytes, size) == 0;

	close(fd);
	free(back);
	return refused && same && after.st_size == before.st_size &&
	       after.st_mode == before.st_mode &&
	       after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
	       after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
}

static void
test_foreign(void)
{
	static char bytes[3000000];

	OK(is_left_alone(in_folder("byte"), "x", 1), "one byte is somebody's");
	memset(bytes, 'x', sizeof(bytes));
	OK(is_left_alone(in_folder("large"), bytes, sizeof(bytes)),
	   "a large file is refused and left alone");
	memset(bytes, 0, sizeof(bytes));
	OK(is_left_alone(in_folder("zeros"), bytes, sizeof(bytes)),
	   "so are zeros: they may be somebody's");
	OK(is_left_alone(in_folder("begun"), "pgflash", 7),
	   "so is one that only begins like ours");

	MUST(symlink("large", in_folder("link_to_large")) == 0);
	OK(try(path, SLOTS) == FC_DEVICE_FOREIGN, "so is one behind a link");

	make_file(in_folder("empty"), "", 0);
	OK(try(path, SLOTS) == FC_DEVICE_FINE, "an empty file is nobody's");
}

/* ---- owners and rights --------------------------------------------------- */

/* The answer as an ordinary user gets it; errno in *error_out. */
static FcDeviceProblem
try_as_nobody(const char *name, int *error_out)
{
	int answer[2] = { FC_DEVICE_FINE, 0 };
	int out[2];

	MUST(pipe(out) == 0);

	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
			_exit(1);
		answer[0] = (int) try(name, SLOTS);
		answer[1] = errno;
		_exit(write(out[1], answer, sizeof(answer)) < 0);
	}
	close(out[1]);
	MUST(read(out[0], answer, sizeof(answer)) == (ssize_t) sizeof(answer));
	close(out[0]);
	MUST(waitpid(child, NULL, 0) == child);
	*error_out = answer[1];
	return (FcDeviceProblem) answer[0];
}

static void
test_rights(void)
{
	int error;

	MUST(mkdir(in_folder("closed"), 0500) == 0);
	MUST(chmod(folder, 0755) == 0);
	OK(try_as_nobody(in_folder("closed/cache"), &error) ==
	           FC_DEVICE_CANNOT_OPEN &&
	       error == EACCES,
	   "a folder one may not write to: cannot open, EACCES");

	make_file(in_folder("readonly"), "", 0);
	MUST(chmod(path, 0444) == 0);
	OK(try_as_nobody(path, &error) == FC_DEVICE_CANNOT_OPEN && error == EACCES,
	   "a file one may not write to: cannot open, EACCES");

	if (geteuid() != 0)
	{
		SKIP("a file of another owner", "only root can give files away");
		return;
	}
	make_file(in_folder("theirs"), "", 0);
	MUST(chown(path, NOBODY, NOBODY) == 0);
	OK(try(path, SLOTS) == FC_DEVICE_WRONG_OWNER, "a file of another owner");
	OK(stat_of(path).st_size == 0 && stat_of(path).st_uid == NOBODY,
	   "is left as it is");
	make_file(in_folder("open"), "", 0);
	MUST(chmod(path, 0666) == 0);
	OK(try_as_nobody(path, &error) == FC_DEVICE_WRONG_OWNER,
	   "even if its owner lets everybody write");
}

/* ---- the lock ------------------------------------------------------------ */

/* A child that keeps the file open until told to end. */
static pid_t
start_holder(const char *name, unsigned hold_ms)
{
	int ready[2];
	char byte;

	MUST(pipe(ready) == 0);

	pid_t child = fork();

	MUST(child >= 0);
	if (child == 0)
	{
		FcDevice device;
		struct timespec nap = { .tv_nsec = hold_ms * 1000000L };

		if (fc_device_file_open(&device, name, SLOTS, 0) != FC_DEVICE_FINE ||
		    write(ready[1], "r", 1) != 1)
			_exit(1);
		if (hold_ms == 0)
			pause();
		nanosleep(&nap, NULL);
		raise(SIGKILL);
	}
	close(ready[1]);
	MUST(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	return child;
}

static void
test_lock(void)
{
	const char *name = in_folder("locked");
	FcDevice device;
	pid_t child = start_holder(name, 0);
	uint64_t start = fc_clock_ns();

	OK(fc_device_file_open(&device, name, SLOTS, 0) == FC_DEVICE_IN_USE,
	   "a file in use is refused");
	OK(fc_device_file_open(&device, name, 4 * SLOTS, 100) == FC_DEVICE_IN_USE &&
	       fc_clock_ns() - start >= 100000000,
	   "after the wait that was asked for");
	OK(stat_of(name).st_size == size_for(SLOTS), "and keeps its size");
	kill(child, SIGKILL);
	MUST(waitpid(child, NULL, 0) == child);
	OK(try(name, SLOTS) == FC_DEVICE_FINE, "the lock ends with its holder");

	child = start_holder(name, 150);
	OK(fc_device_file_open(&device, name, SLOTS, 60000) == FC_DEVICE_FINE,
	   "who waits gets the file of a server that is just dying");
	device.ops->close(&device);
	MUST(waitpid(child, NULL, 0) == child);
}

/* ---- space --------------------------------------------------------------- */

/* What posix_fallocate() does next; the real one, unless told otherwise. */
static int (*instead_of_fallocate)(int fd, off_t size);

int
posix_fallocate(int fd, off_t offset, off_t size)
{
	if (instead_of_fallocate != NULL)
		return instead_of_fallocate(fd, size);
	return fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
}

static void
test_no_space(void)
{
	const char *mounted = in_folder("small");
	char name[160];

	MUST(mkdir(mounted, 0700) == 0);
	if (mount("none", mounted, "tmpfs", 0, "size=4m") != 0)
	{
		struct rlimit limit = { .rlim_cur = 2 << 20,
			                    .rlim_max = RLIM_INFINITY };

		signal(SIGXFSZ, SIG_IGN);
		MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		snprintf(name, sizeof(name), "%s/cache", mounted);
		OK(try(name, SLOTS * 8) == FC_DEVICE_NO_SPACE, "no space (EFBIG)");
		OK(stat_of(name).st_size == 0, "what was taken is given back");
		limit.rlim_cur = RLIM_INFINITY;
		MUST(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		SKIP("a full file system", "only root can mount a small one");
		return;
	}
	snprintf(name, sizeof(name), "%s/cache", mounted);
	OK(try(name, SLOTS * 8) == FC_DEVICE_NO_SPACE && errno == ENOSPC,
	   "a file system too small for the file: no space");
	OK(stat_of(name).st_size == 0 && stat_of(name).st_blocks == 0,
	   "what was taken is given back");
	OK(try(name, SLOTS) == FC_DEVICE_FINE, "a smaller one fits");
	OK(try(name, SLOTS * 8) == FC_DEVICE_NO_SPACE &&
	       stat_of(name).st_size == size_for(SLOTS),
	   "one that cannot grow keeps its size");
	OK(try(name, SLOTS) == FC_DEVICE_FINE, "and is still a cache file");
	MUST(umount(mounted) == 0);
}

static int
die_half_way(int fd, off_t size)
{
	if (ftruncate(fd, size / 2) == 0)
		raise(SIGKILL);
	return EIO;
}

/* Reserving takes long where the file system has to write zeros. */
static void
test_killed_while_reserving(void)
{
	const char *name = in_folder("killed");
	pid_t child = fork();
	int status;

	MUST(child >= 0);
	if (child == 0)
	{
		instead_of_fallocate = die_half_way;
		_exit(try(name, SLOTS) == FC_DEVICE_FINE);
	}
	MUST(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	MUST(stat_of(name).st_size > 0);
	OK(try(name, SLOTS) == FC_DEVICE_FINE,
	   "a server killed while it reserved the space leaves a file of ours");
}

static int
refuse(int fd, off_t size)
{
	(void) fd;
	(void) size;
	return EIO;
}

static void
test_cannot_write(void)
{
	char name[64];
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING | MFD_CLOEXEC);

	MUST(fd >= 0 && fchmod(fd, 0600) == 0);
	MUST(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	OK(try(name, SLOTS) == FC_DEVICE_CANNOT_WRITE && errno == EPERM,
	   "a file that refuses writes: cannot write, EPERM");
	close(fd);

	instead_of_fallocate = refuse;
	OK(try(in_folder("refused"), SLOTS) == FC_DEVICE_CANNOT_WRITE &&
	       errno == EIO,
	   "a file system that fails: cannot write, EIO");
	instead_of_fallocate = NULL;
	OK(stat_of(path).st_size == 0, "and nothing is left in the file");
}

static void
remove_folder(void)
{
	char command[160];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	MUST(system(command) == 0);
}

int
main(void)
{
	tap_scratch(folder, sizeof(folder), "pgflash-device", false);
	MUST(mkdtemp(folder) != NULL);

	unsigned fds = open_fds();

	test_fine();
	test_in_memory(true);
	test_in_memory(false);
	test_again();
	test_grow();
	test_cut();
	test_not_there();
	test_not_a_file();
	test_foreign();
	test_rights();
	test_lock();
	test_no_space();
	test_killed_while_reserving();
	test_cannot_write();
	OK(open_fds() == fds, "no file is left open, whatever happened");
	remove_folder();
	return tap_done();
}
