/*
 * library_calls.c
 *		The functions that replace libc's in libraries: extensions, procedural
 *		languages, and the libraries that they need.
 *
 * A library has no reason to touch data files.  These functions make sure that
 * one that does causes no harm.  Libraries are never served from the cache:
 * their reads are libc's.
 *
 *	write, pwrite, ftruncate and similar calls: announced, like the server's
 *		(announce.c); likewise open with O_TRUNC or O_CREAT, and unlink
 *	mmap, streams, aio, rename, link: cannot be followed; on a data file, they
 *		take the cache offline
 *
 * Each call asks the kernel which file its descriptor refers to.  The table of
 * descriptors (descriptors.c) belongs to the server: libraries open and close
 * files unseen (fclose), and have threads.  So no state is kept here.  The only
 * change to the table is that a descriptor handed to a library is unknown from
 * then on.
 *
 * A file given by name is first opened with O_PATH, and the kernel is asked
 * which file that is.  So relative names, links and directory descriptors lead
 * to the right file.
 *
 * If a library changes a data file from a thread of its own, the cache goes
 * offline, since core assumes that all calls of a process come from one thread.
 *
 * The rules for hooks (hooks.c) apply here, too.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/libc.h" /* before the kernel's macros of the same names */
#include "hooks/library_calls.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "broken.h"
#include "hooks/announce.h"
#include "hooks/hooks.h"
#include "hooks/runtime.h"

#define ALL  (-1) /* bytes: everything from the offset on */
#define HERE (-2) /* offset: the file's current position */

/* A change in progress. */
typedef struct Change
{
	Announced announced;
	OpenFile file;
	OpenFile *entry; /* &file, or NULL: there is nothing to announce */
	int probe;       /* a descriptor of ours, or -1 */
} Change;

/* ---- classification ------------------------------------------------------ */

static bool
watching(void)
{
	return runtime_attached() && fc_mode(&runtime.cache, NULL) != FC_OFFLINE &&
	       !FC_BROKEN(LIBRARY_CALL);
}

static void
stop(void)
{
	(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
}

/*
 * Classify the file behind a descriptor.  FILE_ALIAS: it holds data, but which
 * file it is cannot be determined.
 */
static FilePlace
place_of(int fd)
{
	FilePlace place = { .class = FILE_ALIAS };
	char path[PATH_MAX];
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0 || length == sizeof(path) - 1)
		return place;
	path[length] = '\0';

	place = paths_classify(&runtime.root, path);
	if (place.class != FILE_RELATION && place.class != FILE_DATA_DIRECTORY)
		place.class =
			descriptors_may_be_data(fd) ||
					strstr(path, runtime.root.version_directory) != NULL
				? FILE_ALIAS
				: FILE_OTHER;
	return place;
}

static bool
is_main_thread(void)
{
	return syscall(SYS_gettid) == getpid();
}

/*
 * Return the file behind a descriptor, in *file, if it may be a data file; else
 * NULL.
 */
static OpenFile *
data_file(int fd, OpenFile *file)
{
	FilePlace place;

	if (FC_BROKEN(ASKED_ANEW))
		return announce_entry(fd, file);
	if (fd < 0 || !watching() || !descriptors_may_be_data(fd))
		return NULL;
	if (!is_main_thread())
	{
		stop();
		return NULL;
	}

	place = place_of(fd);
	memset(file, 0, sizeof(*file));
	if (place.class == FILE_RELATION)
		file->file = fc_file(place.id);
	file->class = place.class == FILE_RELATION ? FILE_RELATION : FILE_ALIAS;
	return file;
}

/*
 * The change cannot be followed: take the cache offline if this is a data file.
 */
static void
stop_if_data(int fd)
{
	int saved_errno = errno;

	if (fd >= 0 && watching() && descriptors_may_be_data(fd))
		stop();
	errno = saved_errno;
}

/* A new descriptor has appeared that the server does not know. */
static int
descriptor_appeared(int fd)
{
	if (fd >= 0)
		descriptors_closed(fd);
	return fd;
}

/*
 * Does the error leave open which file has the name?  If no file has it, or
 * access is denied, it does not; after any other error it may be a data file's.
 */
static bool
is_inconclusive(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM ||
	       error == EINTR;
}

/* ---- changes through a descriptor ---------------------------------------- */

/* Leaves errno unchanged. */
static void
begin(Change *change, int fd, off_t offset, off_t size)
{
	int saved_errno = errno;

	change->probe = -1;
	change->entry = data_file(fd, &change->file);
	if (change->entry != NULL)
	{
		int flags = fcntl(fd, F_GETFL);

		if (offset == HERE)
			offset = lseek(fd, 0, SEEK_CUR);

		/* The offset of an append is known only after the call. */
		if (offset < 0 || flags < 0 || (flags & O_APPEND) != 0)
		{
			offset = 0;
			size = ALL;
		}
	}
	announce_change(&change->announced, change->entry, fd, offset, size);
	errno = saved_errno;
}

/*
 * The same from offset on, for a file given by name; offset < 0: it does not
 * change.  Returns whether the file exists.
 */
static bool
begin_named(Change *change, int directory, const char *path, off_t offset)
{
	int saved_errno = errno;
	int probe = openat(directory, path, O_PATH | O_CLOEXEC);
	bool no_answer = probe < 0 && is_inconclusive(errno) && watching();

	begin(change, offset < 0 ? -1 : probe, offset, ALL);
	change->probe = probe;
	if (no_answer && offset >= 0)
	{
		change->file = (OpenFile){ .class = FILE_ALIAS }; /* of no number */
		change->entry = &change->file;
		announce_change(&change->announced, change->entry, -1, 0, ALL);
	}
	errno = saved_errno;
	return probe >= 0;
}

/* Pass on the result of the real call; errno stays as that call left it. */
static ssize_t
end(Change *change, ssize_t result)
{
	int saved_errno = errno;

	announce_end(&change->announced, change->entry, result < 0);
	if (change->probe >= 0)
		close(change->probe);
	errno = saved_errno;
	return result;
}

/* A missing or excessive size may mean any number of bytes. */
static off_t
bytes_of(size_t size)
{
	return size > (size_t) INT64_MAX ? ALL : (off_t) size;
}

static ssize_t
library_pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	Change change;

	begin(&change, fd, offset, bytes_of(size));
	return end(&change, pwrite(fd, buffer, size, offset));
}

/*
 * Vectors are not inspected, because only the kernel knows whether they are
 * readable.
 */
static ssize_t
library_pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	Change change;

	begin(&change, fd, offset, ALL);
	return end(&change, pwritev(fd, iov, count, offset));
}

static ssize_t
library_pwritev2(int fd, const struct iovec *iov, int count, off_t offset,
                 int flags)
{
	Change change;
	off_t at = offset == -1 ? HERE : offset;

	begin(&change, fd, (flags & RWF_APPEND) != 0 ? -1 : at, ALL);
	return end(&change, pwritev2(fd, iov, count, offset, flags));
}

static ssize_t
library_write(int fd, const void *buffer, size_t size)
{
	Change change;

	begin(&change, fd, HERE, bytes_of(size));
	return end(&change, write(fd, buffer, size));
}

static ssize_t
library_writev(int fd, const struct iovec *iov, int count)
{
	Change change;

	begin(&change, fd, HERE, ALL);
	return end(&change, writev(fd, iov, count));
}

static ssize_t
library_sendfile(int out, int in, off_t *offset, size_t size)
{
	Change change;

	begin(&change, out, HERE, bytes_of(size));
	return end(&change, sendfile(out, in, offset, size));
}

static off_t
there(const off_t *offset)
{
	return offset == NULL ? HERE : *offset;
}

static ssize_t
library_splice(int in, off_t *in_offset, int out, off_t *out_offset,
               size_t size, unsigned flags)
{
	Change change;

	begin(&change, out, there(out_offset), bytes_of(size));
	return end(&change, splice(in, in_offset, out, out_offset, size, flags));
}

static ssize_t
library_copy_range(int in, off_t *in_offset, int out, off_t *out_offset,
                   size_t size, unsigned flags)
{
	Change change;

	begin(&change, out, there(out_offset), bytes_of(size));
	return end(&change,
	           copy_file_range(in, in_offset, out, out_offset, size, flags));
}

static int
library_ftruncate(int fd, off_t length)
{
	Change change;

	begin(&change, fd, length, ALL);
	return (int) end(&change, ftruncate(fd, length));
}

static int
library_fallocate(int fd, int mode, off_t offset, off_t length)
{
	Change change;

	/* Some modes move everything that follows. */
	begin(&change, fd, offset,
	      (mode & ~FALLOC_FL_KEEP_SIZE) != 0 ? ALL : length);
	return (int) end(&change, fallocate(fd, mode, offset, length));
}

/* An error is returned as the result; errno is not touched. */
static int
library_posix_fallocate(int fd, off_t offset, off_t length)
{
	Change change;

	begin(&change, fd, offset, length);
	return (int) end(&change, posix_fallocate(fd, offset, length));
}

/*
 * The third argument is a number or a pointer; both fit a pointer's register.
 */
static int
library_ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;
	Change change;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);

	/* These two copy blocks of another file. */
	if (request != FICLONE && request != FICLONERANGE)
		return ioctl(fd, request, argument);
	begin(&change, fd, 0, ALL);
	return (int) end(&change, ioctl(fd, request, argument));
}

/* ---- syncs --------------------------------------------------------------- */

static int
synced(int fd, int result)
{
	int saved_errno = errno;
	OpenFile file;

	if (result < 0 && saved_errno != EINTR)
		announce_distrust(data_file(fd, &file));
	errno = saved_errno;
	return result;
}

static int
library_fsync(int fd)
{
	return synced(fd, fsync(fd));
}

static int
library_fdatasync(int fd)
{
	return synced(fd, fdatasync(fd));
}

static int
library_sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
	return synced(fd, sync_file_range(fd, offset, length, flags));
}

/* ---- what cannot be followed --------------------------------------------- */

static void *
library_mmap(void *address, size_t size, int protection, int flags, int fd,
             off_t offset)
{
	int kind = flags & MAP_TYPE;

	/* The mapping may be made writable later. */
	if ((kind == MAP_SHARED || kind == MAP_SHARED_VALIDATE) &&
	    (flags & MAP_ANONYMOUS) == 0)
	{
		int saved_errno = errno;

		if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
			stop_if_data(fd);
		errno = saved_errno;
	}
	return mmap(address, size, protection, flags, fd, offset);
}

static int
library_aio_write(struct aiocb *block)
{
	stop_if_data(block->aio_fildes);
	return aio_write(block);
}

static int
library_lio_listio(int mode, struct aiocb *const *list, int count,
                   struct sigevent *event)
{
	for (int i = 0; i < count; i++)
	{
		if (list[i] != NULL && list[i]->aio_lio_opcode == LIO_WRITE)
			stop_if_data(list[i]->aio_fildes);
	}
	return lio_listio(mode, list, count, event);
}

static void
stop_if_named_data(const char *path)
{
	int saved_errno = errno;
	int probe = open(path, O_PATH | O_CLOEXEC);

	stop_if_data(probe);
	if (probe >= 0)
		close(probe);
	errno = saved_errno;
}

static bool
writes(const char *mode)
{
	return strpbrk(mode, "wa+") != NULL;
}

/* libc itself writes streams, which bypasses the hooks. */
static FILE *
stream_appeared(FILE *stream, const char *mode)
{
	if (stream != NULL && fileno(stream) >= 0)
	{
		(void) descriptor_appeared(fileno(stream));
		if (writes(mode))
			stop_if_data(fileno(stream));
	}
	return stream;
}

static FILE *
library_fopen(const char *path, const char *mode)
{
	if (writes(mode))
		stop_if_named_data(path);
	return stream_appeared(fopen(path, mode), mode);
}

static FILE *
library_freopen(const char *path, const char *mode, FILE *stream)
{
	if (path != NULL && writes(mode))
		stop_if_named_data(path);
	return stream_appeared(freopen(path, mode, stream), mode);
}

static FILE *
library_fdopen(int fd, const char *mode)
{
	if (writes(mode))
		stop_if_data(fd);
	return fdopen(fd, mode);
}

/* ---- names --------------------------------------------------------------- */

/* Classify the file of this name, without following a link. */
static FilePlace
place_named(int directory, const char *path)
{
	FilePlace place = { .class = FILE_OTHER };
	int saved_errno = errno;
	int probe;

	if (!watching())
		return place;
	probe = openat(directory, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (probe >= 0)
	{
		place = place_of(probe);
		close(probe);
	}
	else if (is_inconclusive(errno))
		place.class = FILE_ALIAS;
	errno = saved_errno;
	return place;
}

/* This file's name is about to be removed, or was just removed or created. */
static void
forget(const FilePlace *place)
{
	int saved_errno = errno;

	if (place->class == FILE_OTHER || !watching())
		return;
	if (!is_main_thread())
		stop();
	else if (place->class == FILE_RELATION)
		fc_file_retire(&runtime.cache, place->id);
	else
		fc_cache_clear(&runtime.cache);
	errno = saved_errno;
}

static int
remove_name(int directory, const char *path, int flags,
            int (*call)(int, const char *, int))
{
	FilePlace place = place_named(directory, path);
	int result;

	forget(&place);
	result = call(directory, path, flags);
	forget(&place);
	return result;
}

static int
call_unlink(int directory, const char *path, int flags)
{
	(void) directory;
	(void) flags;
	return unlink(path);
}

static int
call_remove(int directory, const char *path, int flags)
{
	(void) directory;
	(void) flags;
	return remove(path);
}

static int
library_unlink(const char *path)
{
	return remove_name(AT_FDCWD, path, 0, call_unlink);
}

static int
library_remove(const char *path)
{
	return remove_name(AT_FDCWD, path, 0, call_remove);
}

static int
library_unlinkat(int directory, const char *path, int flags)
{
	return remove_name(directory, path, flags, unlinkat);
}

/*
 * Processes that have a moved data file open continue to announce its changes
 * under the old name, and a file with a second name may be changed under that
 * one.
 */
static void
stop_if_name_is_data(int directory, const char *path)
{
	if (place_named(directory, path).class != FILE_OTHER)
		stop();
}

/* Takes the result of a call that has given a file a name. */
static int
named(int result, int directory, const char *path)
{
	if (result == 0)
		stop_if_name_is_data(directory, path);
	return result;
}

static int
library_rename(const char *from, const char *to)
{
	stop_if_name_is_data(AT_FDCWD, from);
	stop_if_name_is_data(AT_FDCWD, to);
	return named(rename(from, to), AT_FDCWD, to);
}

static int
library_renameat(int from_directory, const char *from, int to_directory,
                 const char *to)
{
	stop_if_name_is_data(from_directory, from);
	stop_if_name_is_data(to_directory, to);
	return named(renameat(from_directory, from, to_directory, to), to_directory,
	             to);
}

static int
library_renameat2(int from_directory, const char *from, int to_directory,
                  const char *to, unsigned flags)
{
	stop_if_name_is_data(from_directory, from);
	stop_if_name_is_data(to_directory, to);
	return named(renameat2(from_directory, from, to_directory, to, flags),
	             to_directory, to);
}

static int
library_link(const char *from, const char *to)
{
	stop_if_name_is_data(AT_FDCWD, from);
	return named(link(from, to), AT_FDCWD, to);
}

static int
library_linkat(int from_directory, const char *from, int to_directory,
               const char *to, int flags)
{
	int saved_errno = errno;
	bool is_open = (flags & AT_EMPTY_PATH) != 0 && from[0] == '\0';
	int follow = (flags & AT_SYMLINK_FOLLOW) != 0 ? 0 : O_NOFOLLOW;
	int probe = is_open
	                ? from_directory
	                : openat(from_directory, from, O_PATH | O_CLOEXEC | follow);

	if (probe < 0 && is_inconclusive(errno) && watching())
		stop();
	stop_if_data(probe);
	if (!is_open && probe >= 0)
		close(probe);
	errno = saved_errno;
	return named(linkat(from_directory, from, to_directory, to, flags),
	             to_directory, to);
}

static int
library_truncate(const char *path, off_t length)
{
	Change change;

	(void) begin_named(&change, AT_FDCWD, path, length < 0 ? 0 : length);
	return (int) end(&change, truncate(path, length));
}

/* ---- descriptors --------------------------------------------------------- */

static int
open_plain(int directory, const char *path, int flags, mode_t mode)
{
	return descriptor_appeared(directory == AT_FDCWD
	                               ? open(path, flags, mode)
	                               : openat(directory, path, flags, mode));
}

static int
open_file(int directory, const char *path, int flags, mode_t mode)
{
	Change change;
	bool was_there;
	int fd;

	if ((flags & (O_CREAT | O_TRUNC)) == 0)
		return open_plain(directory, path, flags, mode);

	was_there =
		begin_named(&change, directory, path, (flags & O_TRUNC) != 0 ? 0 : -1);
	fd = (int) end(&change, open_plain(directory, path, flags, mode));
	if (fd >= 0 && !was_there && watching())
	{
		int saved_errno = errno;
		FilePlace place = place_of(fd);

		forget(&place);
		errno = saved_errno;
	}
	return fd;
}

static int
library_open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = hook_mode_argument(flags, arguments);
	va_end(arguments);
	return open_file(AT_FDCWD, path, flags, mode);
}

static int
library_openat(int directory, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = hook_mode_argument(flags, arguments);
	va_end(arguments);
	return open_file(directory, path, flags, mode);
}

static int
library_open_2(const char *path, int flags)
{
	return open_file(AT_FDCWD, path, flags, 0);
}

static int
library_openat_2(int directory, const char *path, int flags)
{
	return open_file(directory, path, flags, 0);
}

static int
library_creat(const char *path, mode_t mode)
{
	return open_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

static int
library_dup(int fd)
{
	return descriptor_appeared(dup(fd));
}

static int
library_dup2(int fd, int to)
{
	return fd == to ? dup2(fd, to) : descriptor_appeared(dup2(fd, to));
}

static int
library_dup3(int fd, int to, int flags)
{
	return descriptor_appeared(dup3(fd, to, flags));
}

static int
library_fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);

	result = fcntl(fd, command, argument);
	return command == F_DUPFD || command == F_DUPFD_CLOEXEC
	           ? descriptor_appeared(result)
	           : result;
}

#define IMPORT(name, function) { name, (void (*)(void)) function }

#define IMPORT_64(name, function)                                              \
	IMPORT(name, function), IMPORT(name "64", function)

const Import library_imports[] = {
	IMPORT_64("open", library_open),
	IMPORT_64("__open", library_open),
	IMPORT_64("openat", library_openat),
	IMPORT("__open_2", library_open_2),
	IMPORT("__open64_2", library_open_2),
	IMPORT("__openat_2", library_openat_2),
	IMPORT("__openat64_2", library_openat_2),
	IMPORT_64("creat", library_creat),
	IMPORT("dup", library_dup),
	IMPORT("dup2", library_dup2),
	IMPORT("__dup2", library_dup2),
	IMPORT("dup3", library_dup3),
	IMPORT_64("fcntl", library_fcntl),
	IMPORT("__fcntl", library_fcntl),

	IMPORT("write", library_write),
	IMPORT("__write", library_write),
	IMPORT("writev", library_writev),
	IMPORT_64("pwrite", library_pwrite),
	IMPORT("__pwrite64", library_pwrite),
	IMPORT_64("pwritev", library_pwritev),
	IMPORT("pwritev2", library_pwritev2),
	IMPORT("pwritev64v2", library_pwritev2),
	IMPORT_64("sendfile", library_sendfile),
	IMPORT("splice", library_splice),
	IMPORT("copy_file_range", library_copy_range),
	IMPORT("ioctl", library_ioctl),
	IMPORT_64("ftruncate", library_ftruncate),
	IMPORT_64("truncate", library_truncate),
	IMPORT_64("fallocate", library_fallocate),
	IMPORT_64("posix_fallocate", library_posix_fallocate),
	IMPORT("fsync", library_fsync),
	IMPORT("fdatasync", library_fdatasync),
	IMPORT("sync_file_range", library_sync_file_range),
	IMPORT("syncfs", changes_syncfs),

	IMPORT_64("mmap", library_mmap),
	IMPORT_64("aio_write", library_aio_write),
	IMPORT_64("lio_listio", library_lio_listio),
	IMPORT_64("fopen", library_fopen),
	IMPORT("_IO_fopen", library_fopen),
	IMPORT_64("freopen", library_freopen),
	IMPORT("fdopen", library_fdopen),
	IMPORT("_IO_fdopen", library_fdopen),

	IMPORT("unlink", library_unlink),
	IMPORT("unlinkat", library_unlinkat),
	IMPORT("remove", library_remove),
	IMPORT("rename", library_rename),
	IMPORT("renameat", library_renameat),
	IMPORT("renameat2", library_renameat2),
	IMPORT("link", library_link),
	IMPORT("linkat", library_linkat),
};

const size_t library_import_count =
	sizeof(library_imports) / sizeof(library_imports[0]);
