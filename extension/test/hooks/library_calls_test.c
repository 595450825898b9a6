/*
 * library_calls_test.c
 *		Changes of a data file by a library itself: each call that makes one,
 *		through any descriptor or name.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/library_calls.h"

#include <aio.h>
#include <limits.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "faults.h"

#define OUTSIDE "../other/plain"

/* Call the function that stands in for one of libc's in libraries. */
#define LIBRARY(name, type) ((type) library_function(name))

static void (*library_function(const char *name))(void)
{
	for (size_t i = 0; i < library_import_count; i++)
	{
		if (strcmp(library_imports[i].name, name) == 0)
			return library_imports[i].replacement;
	}
	abort();
}

typedef ssize_t (*PwriteHook)(int, const void *, size_t, off_t);
typedef ssize_t (*PwritevHook)(int, const struct iovec *, int, off_t);
typedef ssize_t (*Pwritev2Hook)(int, const struct iovec *, int, off_t, int);
typedef ssize_t (*WriteHook)(int, const void *, size_t);
typedef ssize_t (*WritevHook)(int, const struct iovec *, int);
typedef ssize_t (*SendHook)(int, int, off_t *, size_t);
typedef ssize_t (*CopyHook)(int, off_t *, int, off_t *, size_t, unsigned);
typedef int (*CutHook)(int, off_t);
typedef int (*CutNameHook)(const char *, off_t);
typedef int (*AllocateHook)(int, int, off_t, off_t);
typedef int (*FcntlHook)(int, int, ...);
typedef int (*OpenatHook)(int, const char *, int, ...);
typedef int (*CreatHook)(const char *, mode_t);
typedef int (*NameHook)(const char *);
typedef int (*UnlinkatHook)(int, const char *, int);
typedef int (*NamesHook)(const char *, const char *);
typedef int (*NamesAtHook)(int, const char *, int, const char *, unsigned);
typedef void *(*MmapHook)(void *, size_t, int, int, int, off_t);
typedef FILE *(*FopenHook)(const char *, const char *);
typedef FILE *(*FreopenHook)(const char *, const char *, FILE *);
typedef FILE *(*FdopenHook)(int, const char *);
typedef int (*AioHook)(struct aiocb *);
typedef int (*ListHook)(int, struct aiocb *const *, int, struct sigevent *);

static Page wrong;
static struct iovec vector[2] = { { wrong.bytes, 100 },
	                              { wrong.bytes + 100, FC_BLOCK_SIZE - 100 } };

/* ---- what can be followed ------------------------------------------------ */

static bool
by_pwrite(int fd)
{
	return LIBRARY("pwrite", PwriteHook)(fd, &wrong, FC_BLOCK_SIZE,
	                                     3 * FC_BLOCK_SIZE) > 0;
}

static bool
by_pwritev(int fd)
{
	return LIBRARY("pwritev64", PwritevHook)(fd, vector, 2, 0) > 0;
}

static bool
by_pwritev2(int fd)
{
	return LIBRARY("pwritev2", Pwritev2Hook)(fd, vector, 2, 0, 0) > 0;
}

static bool
by_pwritev2_here(int fd)
{
	return lseek(fd, 2 * FC_BLOCK_SIZE, SEEK_SET) > 0 &&
	       LIBRARY("pwritev2", Pwritev2Hook)(fd, vector, 2, -1, 0) > 0;
}

static bool
by_write(int fd)
{
	return lseek(fd, 5 * FC_BLOCK_SIZE, SEEK_SET) > 0 &&
	       LIBRARY("write", WriteHook)(fd, &wrong, FC_BLOCK_SIZE) > 0;
}

static bool
by_writev(int fd)
{
	return LIBRARY("writev", WritevHook)(fd, vector, 2) > 0;
}

static int
plain_file(void)
{
	int fd;

	plant(OUTSIDE, 2, 'P');
	fd = open(OUTSIDE, O_RDWR);
	if (fd < 0)
		abort();
	return fd;
}

static bool
by_sendfile(int fd)
{
	int from = plain_file();
	bool done = LIBRARY("sendfile", SendHook)(fd, from, NULL, 100) > 0;

	close(from);
	return done;
}

static bool
by_copy_range(int fd)
{
	int from = plain_file();
	off_t to = 4 * FC_BLOCK_SIZE;
	bool done = LIBRARY("copy_file_range", CopyHook)(from, NULL, fd, &to,
	                                                 FC_BLOCK_SIZE, 0) > 0;

	close(from);
	return done;
}

static bool
by_splice(int fd)
{
	int ends[2];
	bool done;

	if (pipe(ends) != 0 || write(ends[1], &wrong, 100) != 100)
		abort();
	done = LIBRARY("splice", CopyHook)(ends[0], NULL, fd, NULL, 100, 0) == 100;
	close(ends[0]);
	close(ends[1]);
	return done;
}

static bool
by_ftruncate(int fd)
{
	return LIBRARY("ftruncate", CutHook)(fd, 2 * FC_BLOCK_SIZE) == 0;
}

static bool
by_truncate(int fd)
{
	(void) fd;
	return LIBRARY("truncate64", CutNameHook)(PATH, FC_BLOCK_SIZE) == 0;
}

static bool
by_fallocate(int fd)
{
	return LIBRARY("fallocate", AllocateHook)(fd, FALLOC_FL_ZERO_RANGE, 0,
	                                          FC_BLOCK_SIZE) == 0 ||
	       LIBRARY("fallocate",
	               AllocateHook)(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	                             0, FC_BLOCK_SIZE) == 0;
}

static bool
by_open(int fd)
{
	(void) fd;
	return close(LIBRARY("open64", OpenHook)(PATH, O_RDWR | O_TRUNC)) == 0;
}

static bool
by_openat(int fd)
{
	int folder = open("base/5", O_RDONLY | O_DIRECTORY);
	int opened = LIBRARY("openat", OpenatHook)(
		folder, "16384", O_RDWR | O_CREAT | O_TRUNC, 0600);

	(void) fd;
	close(folder);
	return opened >= 0 && close(opened) == 0;
}

static bool
by_creat(int fd)
{
	(void) fd;
	return close(LIBRARY("creat", CreatHook)(PATH, 0600)) == 0;
}

/* The table of descriptors knows nothing of its calls. */
static bool
by_descriptor_of_a_library(int fd)
{
	int opened = LIBRARY("open", OpenHook)(PATH, O_RDWR);
	int copy = LIBRARY("dup", FdHook)(opened);
	int other = LIBRARY("fcntl", FcntlHook)(copy, F_DUPFD, 100);

	(void) fd;
	return opened >= 0 && copy >= 0 && other >= 100 && by_pwrite(other) &&
	       close(opened) == 0 && close(copy) == 0 && close(other) == 0;
}

static bool
by_append(int fd)
{
	int opened = open(PATH, O_RDWR | O_APPEND);
	bool done;

	(void) fd;
	/* Linux appends, whatever the offset. */
	if (ftruncate(opened, 0) != 0)
		abort();
	done = LIBRARY("pwrite", PwriteHook)(opened, &wrong, FC_BLOCK_SIZE,
	                                     7 * FC_BLOCK_SIZE) > 0;
	close(opened);
	return done;
}

typedef struct Way
{
	const char *name;
	bool (*action)(int fd);
} Way;

static const Way ways[] = {
	{ "pwrite", by_pwrite },
	{ "pwritev", by_pwritev },
	{ "pwritev2", by_pwritev2 },
	{ "pwritev2 at the position", by_pwritev2_here },
	{ "write", by_write },
	{ "writev", by_writev },
	{ "sendfile", by_sendfile },
	{ "copy_file_range", by_copy_range },
	{ "splice", by_splice },
	{ "ftruncate", by_ftruncate },
	{ "truncate", by_truncate },
	{ "fallocate", by_fallocate },
	{ "open", by_open },
	{ "openat", by_openat },
	{ "creat", by_creat },
	{ "a descriptor of its own", by_descriptor_of_a_library },
	{ "an append", by_append },
};

/* Is the file no longer that of lettered_relation()? */
static bool
has_changed(void)
{
	int fd = open(PATH, O_RDONLY);
	bool changed = false;

	for (int i = 0; i < BLOCKS; i++)
	{
		Page page = page_of('?');

		if (pread(fd, &page, sizeof(page), (off_t) i * FC_BLOCK_SIZE) !=
		        FC_BLOCK_SIZE ||
		    !page_is(&page, 'a' + i))
			changed = true;
	}
	close(fd);
	return changed;
}

static void
test_ways(void)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
	{
		int fd = lettered_relation(BLOCKS);
		int own = open(PATH, O_RDWR);
		bool done = ways[i].action(own);

		OK(done && has_changed(), "a library changes a file by %s",
		   ways[i].name);
		OK(all_true(fd), "LIBRARY_CALL: nothing stale is read after %s",
		   ways[i].name);
		OK(fc_mode(&runtime.cache, NULL) == FC_SERVE, "and the cache serves");
		close(own);
		server_close(fd);
	}
}

static void
test_what_is_not_touched_stays(void)
{
	int fd = lettered_relation(BLOCKS);
	int own = open(PATH, O_RDWR);

	(void) by_pwrite(own);
	OK(!block_is_cached(3) || FC_BREAK != 0, "the block that was written goes");
	OK(block_is_cached(2) && block_is_cached(4), "its neighbours stay");
	close(own);

	/* A number for a name, outside the data directory. */
	own = open("../other/12345", O_RDWR | O_CREAT, 0600);
	if (!by_pwrite(own) || !by_ftruncate(own))
		abort();
	close(own);
	own = LIBRARY("open", OpenHook)("../other/12345",
	                                O_RDWR | O_CREAT | O_TRUNC, 0600);
	close(own);
	OK(LIBRARY("unlink", NameHook)("../other/12345") == 0 &&
	       block_is_cached(0) && block_is_cached(4),
	   "a file that has a number for its name is not taken for data");
	server_close(fd);
}

/* ---- descriptors and names ----------------------------------------------- */

static void
test_descriptors_are_asked_for(void)
{
	int fd = lettered_relation(BLOCKS);
	int own = plain_file();

	/* The server's table says: no data file. */
	descriptors_closed(own);
	(void) changes_pwrite(own, &wrong, 100, 0);
	close(own);
	if (open(PATH, O_RDWR) != own)
		abort();
	(void) by_pwrite(own);
	OK(all_true(fd), "ASKED_ANEW: what a descriptor was before does not count");
	close(own);

	own = plain_file();
	(void) changes_pwrite(own, &wrong, 100, 0);
	close(own);
	if (LIBRARY("open", OpenHook)(PATH, O_RDWR) != own)
		abort();
	(void) changes_pwrite(own, &wrong, sizeof(wrong), 0);
	OK(all_true(fd),
	   "a library may hand the server a descriptor that it opened");
	close(own);
	server_close(fd);
}

static bool
replaced(int fd)
{
	int new;
	bool right;

	plant_letters(PATH, 'A');
	server_close(fd);
	new = server_open(PATH, O_RDWR);
	right = all_true(new);
	server_close(new);
	return right;
}

static void
test_names_that_go(void)
{
	int folder = open("base", O_RDONLY | O_DIRECTORY);
	int fd = lettered_relation(BLOCKS);

	(void) LIBRARY("unlink", NameHook)(PATH);
	OK(replaced(fd), "LIBRARY_CALL: a library unlinks a file");
	fd = lettered_relation(BLOCKS);
	(void) LIBRARY("remove", NameHook)(PATH);
	OK(replaced(fd), "LIBRARY_CALL: a library removes a file");
	fd = lettered_relation(BLOCKS);
	(void) LIBRARY("unlinkat", UnlinkatHook)(folder, "5/16384", 0);
	OK(replaced(fd), "LIBRARY_CALL: a library unlinks one in a folder");
	close(folder);

	/* Removed behind our back; then a library creates the next one. */
	fd = lettered_relation(BLOCKS);
	unlink(PATH);
	close(LIBRARY("open", OpenHook)(PATH, O_RDWR | O_CREAT, 0600));
	OK(replaced(fd), "LIBRARY_CALL: a library makes a file of that name");
}

/* Data that a call leaves on the stack, and the next one finds there. */
__attribute__((noinline)) static void
leave_dirt(void)
{
	volatile unsigned char dirt[4096];

	for (size_t i = 0; i < sizeof(dirt); i++)
		dirt[i] = 0xa5;
}

static void
test_names_that_cannot_be_asked_for(void)
{
	int fd = lettered_relation(BLOCKS);
	struct rlimit before;
	struct rlimit none;
	int cut;

	if (getrlimit(RLIMIT_NOFILE, &before) != 0)
		abort();
	none = before;
	none.rlim_cur = 0;
	if (setrlimit(RLIMIT_NOFILE, &none) != 0)
		abort();
	leave_dirt();
	cut = LIBRARY("truncate", CutNameHook)(PATH, 0);
	if (setrlimit(RLIMIT_NOFILE, &before) != 0)
		abort();
	OK(cut == 0 && nothing_is_cached(),
	   "LIBRARY_CALL: without a descriptor to ask with it may be any file");
	server_close(fd);
}

/* ---- what cannot be followed --------------------------------------------- */

static bool
maps(void)
{
	int fd = open(PATH, O_RDWR);

	return LIBRARY("mmap", MmapHook)(NULL, FC_BLOCK_SIZE, PROT_READ, MAP_SHARED,
	                                 fd, 0) != MAP_FAILED;
}

static bool
opens_stream(void)
{
	return LIBRARY("fopen64", FopenHook)(PATH, "r+") != NULL;
}

static bool
empties_stream(void)
{
	FILE *stream = LIBRARY("fopen", FopenHook)(OUTSIDE, "w");

	return LIBRARY("freopen", FreopenHook)(PATH, "w", stream) != NULL;
}

static bool
streams_descriptor(void)
{
	return LIBRARY("fdopen", FdopenHook)(open(PATH, O_RDWR), "a") != NULL;
}

static bool
writes_at_once(void)
{
	struct aiocb block = { .aio_fildes = open(PATH, O_RDWR),
		                   .aio_buf = &wrong,
		                   .aio_nbytes = 100 };

	return LIBRARY("aio_write", AioHook)(&block) == 0;
}

static bool
writes_a_list(void)
{
	struct aiocb block = { .aio_fildes = open(PATH, O_RDWR),
		                   .aio_buf = &wrong,
		                   .aio_nbytes = 100,
		                   .aio_lio_opcode = LIO_WRITE };
	struct aiocb *list[] = { NULL, &block };

	return LIBRARY("lio_listio64", ListHook)(LIO_WAIT, list, 2, NULL) == 0;
}

static bool
renames(void)
{
	return LIBRARY("rename", NamesHook)(PATH, "../other/gone") == 0;
}

static bool
renames_over(void)
{
	close(plain_file());
	return LIBRARY("renameat", NamesAtHook)(AT_FDCWD, OUTSIDE, AT_FDCWD, PATH,
	                                        0) == 0;
}

static bool
renames_folder(void)
{
	return LIBRARY("renameat2", NamesAtHook)(AT_FDCWD, "base/5", AT_FDCWD,
	                                         "base/6", 0) == 0 &&
	       rename("base/6", "base/5") == 0;
}

static bool
links(void)
{
	unlink("../other/twin");
	return LIBRARY("link", NamesHook)(PATH, "../other/twin") == 0;
}

static bool
links_open_file(void)
{
	char path[64];

	unlink("../other/twin");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", open(PATH, O_RDWR));
	return LIBRARY("linkat", NamesAtHook)(AT_FDCWD, path, AT_FDCWD,
	                                      "../other/twin",
	                                      AT_SYMLINK_FOLLOW) == 0;
}

static void *
write_in_thread(void *fd)
{
	return by_pwrite(*(int *) fd) ? fd : NULL;
}

static bool
writes_in_thread(void)
{
	int fd = open(PATH, O_RDWR);
	pthread_t thread;
	void *done;

	return pthread_create(&thread, NULL, write_in_thread, &fd) == 0 &&
	       pthread_join(thread, &done) == 0 && done != NULL;
}

static const struct
{
	const char *name;
	bool (*action)(void);
} ends[] = {
	{ "maps it", maps },
	{ "opens it as a stream", opens_stream },
	{ "opens a stream again", empties_stream },
	{ "makes a stream of a descriptor", streams_descriptor },
	{ "lets others write it", writes_at_once },
	{ "lets others write a list", writes_a_list },
	{ "renames it", renames },
	{ "puts another file in its place", renames_over },
	{ "renames its folder", renames_folder },
	{ "gives it another name", links },
	{ "gives what it has open another name", links_open_file },
	{ "writes it in a thread", writes_in_thread },
};

static void
test_what_cannot_be_followed(void)
{
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
	{
		int fd = lettered_relation(BLOCKS);

		OK(goes_offline(ends[i].action),
		   "LIBRARY_CALL: the cache is offline when a library %s",
		   ends[i].name);
		server_close(fd);
	}
}

/* The same for a file that is not a data file. */
static bool
does_all_that_elsewhere(void)
{
	struct aiocb block = { .aio_fildes = plain_file(),
		                   .aio_buf = &wrong,
		                   .aio_nbytes = 100 };
	FILE *stream = LIBRARY("fopen", FopenHook)(OUTSIDE, "w+");

	(void) LIBRARY("mmap", MmapHook)(NULL, FC_BLOCK_SIZE, PROT_WRITE,
	                                 MAP_SHARED, block.aio_fildes, 0);
	(void) LIBRARY("aio_write", AioHook)(&block);
	(void) LIBRARY("freopen", FreopenHook)("../other/next", "w", stream);
	(void) LIBRARY("rename", NamesHook)(OUTSIDE, "../other/moved");
	(void) LIBRARY("link", NamesHook)("../other/moved", OUTSIDE);
	return fc_mode(&runtime.cache, NULL) == FC_SERVE &&
	       fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST) == FC_OK;
}

static void
test_other_files(void)
{
	OK(goes_offline(does_all_that_elsewhere),
	   "other files are a library's own affair");
	OK(LIBRARY("open", OpenHook)("nowhere/at/all", O_RDWR) < 0 &&
	       errno == ENOENT,
	   "a failure is handed on");
	OK(LIBRARY("pwrite", PwriteHook)(-1, &wrong, 1, 0) < 0 && errno == EBADF,
	   "a bad descriptor, too");
}

/* ---- all of them --------------------------------------------------------- */

/*
 * The ways in which a file's bytes, its name, or a descriptor's file may
 * change.
 */
static char changers[] =
	"open open64 openat openat64 creat creat64 __open_2 __open64_2 "
	"__openat_2 __openat64_2 __open __open64 fopen fopen64 freopen freopen64 "
	"fdopen dup dup2 dup3 fcntl fcntl64 write writev pwrite pwrite64 pwritev "
	"pwritev64 pwritev2 pwritev64v2 __write __pwrite64 sendfile sendfile64 "
	"splice copy_file_range ioctl aio_write aio_write64 lio_listio "
	"lio_listio64 fallocate fallocate64 posix_fallocate posix_fallocate64 "
	"ftruncate ftruncate64 truncate truncate64 mmap mmap64 unlink unlinkat "
	"remove rename renameat renameat2 link linkat fsync fdatasync "
	"sync_file_range syncfs";

int
main(void)
{
	wrong = page_of('W');
	set_up();
	for (const char *name = strtok(changers, " "); name != NULL;
	     name = strtok(NULL, " "))
		OK(library_function(name) != NULL, "%s is seen", name);
	test_ways();
	test_what_is_not_touched_stays();
	test_descriptors_are_asked_for();
	test_names_that_go();
	test_names_that_cannot_be_asked_for();
	test_what_cannot_be_followed();
	test_other_files();
	tear_down();
	return tap_done();
}
