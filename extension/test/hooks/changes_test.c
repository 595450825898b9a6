/*
 * changes_test.c
 *		Every call that changes a file: wherever it writes, through whatever
 *		descriptor, also when it fails.
 *
 * A call that is forgotten in one of these ways makes no other test fail:
 * PostgreSQL makes it seldom, or never.  A library that forgets it serves stale
 * blocks when it is made.
 *
 * One lets another life of the cache begin, as after a crash of the server.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "faults.h"

#include <limits.h>

#include "fcache/writer.h"

static const FcIdentity identity = { .system = 1 };
static const FcCheckpoint checkpoint = { .location = 1 };

/* ---- all of them --------------------------------------------------------- */

/*
 * The ways in which a file's bytes, its name, or a descriptor's file may change
 * behind the cache.
 */
static char changers[] =
	"open open64 openat openat64 creat creat64 __open_2 __open64_2 "
	"fopen fopen64 close dup dup2 dup3 fcntl fcntl64 write writev "
	"pwrite pwrite64 pwritev pwritev64 pwritev2 pwritev64v2 sendfile "
	"sendfile64 splice copy_file_range aio_write aio_write64 "
	"lio_listio lio_listio64 fallocate fallocate64 posix_fallocate "
	"posix_fallocate64 ftruncate ftruncate64 truncate truncate64 "
	"unlink unlinkat remove rename renameat renameat2 fsync fdatasync "
	"sync_file_range syncfs";

static bool
is_hooked(const char *name)
{
	for (size_t i = 0; i < hook_import_count; i++)
	{
		if (strcmp(hook_imports[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool
is_foreign(const char *name)
{
	for (size_t i = 0; hook_foreign[i] != NULL; i++)
	{
		if (strcmp(hook_foreign[i], name) == 0)
			return true;
	}
	return false;
}

static void
test_all_calls(void)
{
	for (const char *name = strtok(changers, " "); name != NULL;
	     name = strtok(NULL, " "))
		OK(is_hooked(name) != is_foreign(name),
		   "%s is seen, or no server may call it", name);
}

/* ---- calls that fail ----------------------------------------------------- */

static Page written;
static struct iovec vector[2] = {
	{ written.bytes, 100 }, { written.bytes + 100, FC_BLOCK_SIZE - 100 }
};
static int source_fd;

static ssize_t
write_block(int fd)
{
	return changes_pwrite(fd, &written, FC_BLOCK_SIZE, 0);
}

static ssize_t
write_part(int fd)
{
	return changes_pwrite(fd, &written, 100, 0);
}

static ssize_t
write_vector(int fd)
{
	return changes_pwritev(fd, vector, 2, 0);
}

static ssize_t
write_here(int fd)
{
	return changes_write(fd, &written, FC_BLOCK_SIZE);
}

static ssize_t
write_vector_here(int fd)
{
	return changes_writev(fd, vector, 2);
}

static ssize_t
copy_block(int fd)
{
	off_t from = 0;
	off_t to = 0;

	return changes_copy_range(source_fd, &from, fd, &to, FC_BLOCK_SIZE, 0);
}

static ssize_t
copy_here(int fd)
{
	off_t from = 0;

	return changes_copy_range(source_fd, &from, fd, NULL, FC_BLOCK_SIZE, 0);
}

static ssize_t
cut_half(int fd)
{
	return changes_ftruncate(fd, BLOCKS / 2 * FC_BLOCK_SIZE);
}

static ssize_t
sync_all(int fd)
{
	return changes_fsync(fd);
}

static ssize_t
sync_data(int fd)
{
	return changes_fdatasync(fd);
}

static ssize_t
sync_range(int fd)
{
	return changes_sync_file_range(fd, 0, FC_BLOCK_SIZE, 0);
}

typedef struct Call
{
	const char *name;
	const char *what;
	ssize_t (*make)(int fd);
} Call;

static const Call calls[] = {
	{ "pwrite", " of a block", write_block },
	{ "pwrite", " of part of a block", write_part },
	{ "pwritev", "", write_vector },
	{ "write", "", write_here },
	{ "writev", "", write_vector_here },
	{ "copy_file_range", "", copy_block },
	{ "copy_file_range", " at the file's position", copy_here },
	{ "ftruncate", "", cut_half },
	{ "fsync", "", sync_all },
	{ "fdatasync", "", sync_data },
	{ "sync_file_range", "", sync_range },
};

/*
 * Nobody knows how much of it the kernel has done; but an interruption alone
 * does not matter.
 */
static void
test_calls_that_fail(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
	{
		const Call *call = &calls[i];
		int fd = lettered_relation(BLOCKS);

		fault = (Fault){ .name = call->name, .fd = fd, .error = EIO };
		OK(call->make(fd) == -1 && errno == EIO && fault.name == NULL &&
		       nothing_is_cached(),
		   "%s%s: the whole file is forgotten if it fails", call->name,
		   call->what);
		server_close(fd);

		fd = lettered_relation(BLOCKS);
		fault = (Fault){ .name = call->name, .fd = fd, .error = EINTR };
		OK(call->make(fd) == -1 && errno == EINTR && fault.name == NULL &&
		       block_is_cached(1),
		   "%s%s: but not if it is interrupted", call->name, call->what);
		server_close(fd);
	}
}

/* In a child, whose cache is a copy; the action says that all is right. */
static bool
right_in_a_child(bool (*action)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(action() ? 0 : 1);
	return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static int alias_fd;

static bool
a_failed_alias_leaves_no_map(void)
{
	bool could = fc_map_save(&runtime.cache, &checkpoint) == FC_OK;

	fault = (Fault){ .name = "pwrite", .fd = alias_fd, .error = EIO };
	return could && write_block(alias_fd) == -1 && errno == EIO &&
	       nothing_is_cached() &&
	       fc_map_save(&runtime.cache, &checkpoint) == FC_SKIP;
}

/* Only a number, which says little about the file that it leads to. */
static void
test_alias_that_fails(void)
{
	char path[PATH_MAX];
	int fd = lettered_relation(BLOCKS);

	snprintf(path, sizeof(path), "%s/../16384", runtime.root.directory);
	alias_fd = server_open(path, O_RDWR | O_CREAT);
	OK(right_in_a_child(a_failed_alias_leaves_no_map),
	   "a write by another name that fails: nothing outlives the server");
	server_close(alias_fd);
	(void) unlink(path);
	server_close(fd);
}

/* ---- where it writes ----------------------------------------------------- */

static void
test_positions(void)
{
	static const Call at_position[] = {
		{ "write", "", write_here },
		{ "writev", "", write_vector_here },
		{ "copy_file_range", "", copy_here },
	};

	for (size_t i = 0; i < sizeof(at_position) / sizeof(at_position[0]); i++)
	{
		const Call *call = &at_position[i];
		int fd = lettered_relation(BLOCKS);

		if (lseek(fd, 5 * FC_BLOCK_SIZE, SEEK_SET) < 0)
			abort();
		OK(call->make(fd) == FC_BLOCK_SIZE && all_true(fd),
		   "%s changes the block at the file's position", call->name);
		server_close(fd);
	}
}

static void
test_copy_of_all(void)
{
	int fd = lettered_relation(BLOCKS);
	off_t from = 0;
	off_t to = 0;

	OK(changes_copy_range(source_fd, &from, fd, &to, SIZE_MAX, 0) > 0 &&
	       all_true(fd),
	   "a copy of as much as there is may change any block behind");
	server_close(fd);
}

/* The checkpointer changes the most blocks. */
static void
test_checkpointer(void)
{
	int fd = lettered_relation(BLOCKS);

	runtime.checkpointer_type = backend_type;
	OK(write_block(fd) == FC_BLOCK_SIZE && all_true(fd),
	   "the checkpointer's writes are changes like any");
	runtime.checkpointer_type = -1;
	server_close(fd);
}

/* ---- by which descriptor ------------------------------------------------- */

typedef int (*Dup3Hook)(int, int, int);
typedef int (*FcntlHook)(int, int, ...);

static void
test_copied_descriptors(void)
{
	int fd = lettered_relation(BLOCKS);
	int other = server_open("base/5/16385", O_RDWR | O_CREAT);
	int copy;

	OK(HOOK("dup3", Dup3Hook)(fd, other, O_CLOEXEC) == other &&
	       write_block(other) == FC_BLOCK_SIZE && all_true(fd),
	   "a descriptor that becomes a copy by dup3 is another file's no more");
	server_close(other);

	/*
	 * At the number of another file's descriptor, which was closed unseen by
	 * any hook.
	 */
	other = server_open("base/5/16385", O_RDWR);
	close(other);
	copy = HOOK("fcntl", FcntlHook)(fd, F_DUPFD_CLOEXEC, other);
	memset(&written, 'D', sizeof(written));
	OK(copy == other && write_block(copy) == FC_BLOCK_SIZE && all_true(fd),
	   "nor is one that becomes a copy by fcntl");
	server_close(copy);
	server_close(fd);
	names_unlink("base/5/16385");
}

static int nameless;

static bool
write_nameless(void)
{
	fault = (Fault){ .name = "readlink", .fd = -1, .error = EACCES };
	return write_block(nameless) == FC_BLOCK_SIZE && fault.name == NULL;
}

static void
test_descriptor_that_does_not_tell(void)
{
	int fd = lettered_relation(BLOCKS);

	nameless = open(PATH, O_RDWR);
	OK(goes_offline(write_nameless),
	   "a write through a descriptor that does not tell its file takes the "
	   "cache offline");
	close(nameless);
	server_close(fd);
}

/* ---- verify -------------------------------------------------------------- */

static int verified;

static bool
a_lost_tail_is_a_mismatch(void)
{
	Page page;

	setting_verify = VERIFY_ALL;
	return truncate(PATH, 100) == 0 && server_read(verified, &page, 0) == 100 &&
	       counter(FC_COUNT_verify_mismatches) == 1;
}

static void
test_verify(void)
{
	verified = lettered_relation(BLOCKS);
	OK(goes_offline(a_lost_tail_is_a_mismatch),
	   "a block that the file no longer holds in full is a mismatch");
	server_close(verified);
}

/* ---- another life -------------------------------------------------------- */

/* The server was killed, and starts again. */
static void
begin_another_life(void)
{
	if (fc_writer_flush(&runtime.cache, PATIENCE_NS) != FC_OK)
		abort();
	fc_process_end(&runtime.cache);
	if (fc_revive(&runtime.cache, server_memory, &cache_config, &cache_device,
	              &identity, 1) != FC_START_MEMORY)
		abort();
	fc_revive_audit(&runtime.cache);
	if (fc_mode_set(&runtime.cache, FC_SERVE, FC_REASON_NONE) != FC_OK)
		abort();
}

static int other_fd;

static void
others_extend_it(void)
{
	if (changes_pwrite(other_fd, &written, FC_BLOCK_SIZE,
	                   BLOCKS * FC_BLOCK_SIZE) != FC_BLOCK_SIZE)
		abort();
}

static void
test_another_life(void)
{
	int fd = lettered_relation(BLOCKS);

	server_close(fd);
	begin_another_life();
	fd = server_open(PATH, O_RDWR);
	OK(write_block(fd) == FC_BLOCK_SIZE && block_is_cached(1) && all_true(fd),
	   "a file that is written before it is read keeps its other blocks");
	server_close(fd);

	begin_another_life();
	plant_letters(PATH, 'A');
	fd = server_open(PATH, O_RDWR);
	OK(all_true(fd), "one that was changed meanwhile is read again");
	server_close(fd);

	fd = lettered_relation(0);
	other_fd = server_open(PATH, O_RDWR);
	fault = (Fault){ .name = "fstat", .fd = fd, .after = others_extend_it };
	OK(all_true(fd) && fault.name == NULL,
	   "one is changed while its first reader looks at its inode");
	server_close(other_fd);
	server_close(fd);
	begin_another_life();
	fd = server_open(PATH, O_RDWR);
	OK(all_true(fd) && counter(FC_COUNT_files_dropped) == 0,
	   "what that reader saw is not what it is known by");
	server_close(fd);

	fd = lettered_relation(0);
	fault = (Fault){ .name = "fdatasync", .fd = fd, .error = EIO };
	OK(changes_fdatasync(fd) == -1 && all_true(fd) && block_is_cached(1),
	   "one that could not be synced is cached again when it is read");
	server_close(fd);
	begin_another_life();
	OK(nothing_is_cached(), "but not in another life");
}

int
main(void)
{
	set_up();
	memset(&written, 'W', sizeof(written));
	plant("../other/source", BLOCKS, 'S');
	source_fd = open("../other/source", O_RDONLY);
	if (fc_life_begin(&runtime.cache, &identity, 1) != FC_OK)
		abort();
	test_all_calls();
	test_another_life(); /* first: no file gets a stamp after it failed */
	test_calls_that_fail();
	test_alias_that_fails();
	test_positions();
	test_copy_of_all();
	test_checkpointer();
	test_copied_descriptors();
	test_descriptor_that_does_not_tell();
	test_verify();
	close(source_fd);
	tear_down();
	return tap_done();
}
