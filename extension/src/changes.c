/*
 * changes.c
 *		Every way in which the server changes a file, announced to the cache.
 *
 * A cached block must never outlive what it is a copy of.  So each call here is
 * bracketed: the change is announced, the real call is made, and the change is
 * announced to be over, whether the call worked or not, since a write that failed
 * may have written something.  Announcing cannot fail and waits for nobody.  It
 * happens in every mode but offline, and for every process: nobody bypasses it.
 *
 *	pwrite, pwritev, write, writev, copy_file_range		the blocks written
 *	posix_fallocate, fallocate							the blocks allocated
 *	ftruncate, truncate, open with O_TRUNC				the blocks cut off
 *	unlink, rename, remove								the whole file: it is retired
 *	open with O_CREAT | O_EXCL							likewise: the name is new
 *	a failed write, fsync, fdatasync, sync_file_range	the whole file: the kernel may
 *														have dropped what was written
 *	a failed syncfs										all files
 *
 * A single block that was cached is refreshed after it was written.  Hint bits may
 * be set in a page while it is written, so the page is copied first and the copy
 * is what goes to the file and to the cache.
 *
 * A file under a foreign name (FILE_ALIAS), or a directory of data files that goes
 * (a tablespace's link): the whole cache is cleared before and after.  What cannot
 * be followed takes the cache offline: a descriptor that does not tell what it is, a
 * stream opened to write a data file, a directory of data files that is moved.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/writer.h"
#include "files.h"
#include "runtime.h"

typedef enum Scope
{
	SCOPE_NOTHING,   /* no data file, or no cache */
	SCOPE_BLOCKS,    /* of one segment of a relation */
	SCOPE_EVERYTHING /* nobody knows which */
} Scope;

/* A change that is under way. */
typedef struct Announced
{
	Scope scope;
	int fd;           /* of the file; -1: it is known by its path */
	const char *path; /* then */
	FcFile *file;
	FcChange change;
} Announced;

/* ---- announcing ---------------------------------------------------------- */

/* Negative control: what happens if changes stop while a device is bypassed. */
static __attribute__((noinline)) bool
something_is_bypassed(void)
{
	for (uint32_t i = 0; i < fc_device_count(&runtime.cache); i++)
	{
		FcDeviceInfo info;

		fc_device_info(&runtime.cache, i, &info);
		if (info.state == FC_DEVICE_STALLED)
			return true;
	}
	return false;
}

/*
 * The entry of a descriptor that is about to be changed, or NULL if there is
 * nothing to announce.  spare serves for descriptors beyond the table.
 */
static OpenFile *
changed_file(int fd, OpenFile *spare)
{
	OpenFile *entry = files_entry(fd);

	if (entry != NULL && entry->class != FILE_UNKNOWN &&
	    entry->class != FILE_RELATION && entry->class != FILE_ALIAS)
		return NULL;
	if (!runtime_attached() || fc_mode(&runtime.cache, NULL) == FC_OFFLINE)
		return NULL;
	if (FC_BROKEN(BYPASSED) && something_is_bypassed())
		return NULL;

	if (entry == NULL || entry->class == FILE_UNKNOWN)
	{
		if (FC_BROKEN(UNKNOWN_FILE))
			return NULL;
		if (!files_identify(fd, spare, &entry))
		{
			atomic_store(&runtime.board->unknown_errno, errno);
			atomic_store(&runtime.board->unknown_fd, fd);
			(void) fc_mode_set(&runtime.cache, FC_OFFLINE,
			                   FC_REASON_UNKNOWN_FILE);
			return NULL;
		}
	}

	return entry->class == FILE_RELATION || entry->class == FILE_ALIAS ? entry
	                                                                   : NULL;
}

/*
 * Bytes offset .. offset + size - 1 of the segment are about to change; size < 0:
 * all from offset.  class is FILE_RELATION, or anything else for everything.
 */
static void
begin(Announced *announced, FileClass class, FcFile *file, off_t offset,
      off_t size)
{
	uint64_t first = offset <= 0 ? 0 : (uint64_t) offset / FC_BLOCK_SIZE;
	uint64_t end = runtime.segment_blocks;

	if (class != FILE_RELATION)
	{
		announced->scope = SCOPE_EVERYTHING;
		fc_change_all_begin(&runtime.cache);
		return;
	}

	/* Nothing is read beyond a segment's end; a wild offset changes all of it. */
	if (offset < 0 || first >= end)
		first = 0;
	else if (size >= 0 &&
	         (uint64_t) size < (end - first) * FC_BLOCK_SIZE -
	                               (uint64_t) offset % FC_BLOCK_SIZE)
		end = ((uint64_t) offset + (uint64_t) size + FC_BLOCK_SIZE - 1) /
		      FC_BLOCK_SIZE;
	if (end <= first)
		end = first + 1;

	announced->scope = SCOPE_BLOCKS;
	announced->file = file;
	files_wake(announced->fd, announced->path, file);
	fc_change_begin(&runtime.cache, file, (uint32_t) first,
	                (uint32_t) (end - first), &announced->change);
}

static void
begin_entry(Announced *announced, OpenFile *entry, int fd, off_t offset,
            off_t size)
{
	announced->fd = fd;
	announced->path = NULL;
	if (entry == NULL)
		announced->scope = SCOPE_NOTHING;
	else
		begin(announced, entry->class, &entry->file, offset, size);
}

static void
end(Announced *announced)
{
	FcStamp stamp;

	if (FC_BROKEN(CHANGE_END))
		return;
	if (announced->scope == SCOPE_EVERYTHING)
		fc_change_all_end(&runtime.cache);
	if (announced->scope != SCOPE_BLOCKS)
		return;

	fc_change_end(&runtime.cache, announced->file, &announced->change);
	if (announced->change.permit.number != FC_FILE_NONE &&
	    files_stamp(announced->fd, announced->path, &stamp))
		fc_stamp_set(&runtime.cache, &announced->change.permit, &stamp);
}

/* The kernel reported an error: what the file holds now is anyone's guess. */
static void
distrust(OpenFile *entry)
{
	if (entry == NULL)
		return;

	/* Not followed by its end: nothing of all this outlives the server. */
	if (entry->class != FILE_RELATION)
		fc_change_all_begin(&runtime.cache);
	else
		fc_file_distrust(&runtime.cache, &entry->file);
}

/* The second half of each change: end it, with errno as the real call left it. */
static void
finish(Announced *announced, OpenFile *entry, bool failed)
{
	int after = errno;

	end(announced);
	if (failed && after != EINTR && announced->scope != SCOPE_NOTHING)
		distrust(entry);
	errno = after;
}

/* ---- writes ---------------------------------------------------------------- */

/*
 * Write one whole block that is cached, and refresh the cached copy.  Kept apart
 * for its large frame.
 */
static __attribute__((noinline)) ssize_t
write_and_refill(int fd, const void *buffer, off_t offset, Announced *announced,
                 OpenFile *entry, int errno_before)
{
	_Alignas(FC_IO_ALIGN) unsigned char page[FC_BLOCK_SIZE];
	ssize_t put;

	memcpy(page, buffer, sizeof(page));
	errno = errno_before;
	put = pwrite(fd, page, sizeof(page), offset);
	finish(announced, entry, put < 0);
	if (put == FC_BLOCK_SIZE)
	{
		int after = errno;

		fc_change_fill(&runtime.cache, &announced->change, page);
		errno = after;
	}
	return put;
}

ssize_t
changes_pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(WRITE) ? NULL : changed_file(fd, &spare);
	ssize_t put;

	if (entry == NULL)
	{
		errno = errno_before;
		return pwrite(fd, buffer, size, offset);
	}

	if (runtime_is_checkpointer() && !FC_BROKEN(STAND_IN))
		fc_writer_stand_in(&runtime.cache, STAND_IN_NS);
	begin_entry(&announced, entry, fd, offset, (off_t) size);
	if (announced.scope == SCOPE_BLOCKS && size == FC_BLOCK_SIZE &&
	    offset % FC_BLOCK_SIZE == 0 && announced.change.was_cached &&
	    fc_mode(&runtime.cache, NULL) == FC_SERVE && files_number(fd, entry))
		return write_and_refill(fd, buffer, offset, &announced, entry,
		                        errno_before);

	errno = errno_before;
	put = pwrite(fd, buffer, size, offset);
	finish(&announced, entry, put < 0);
	return put;
}

static off_t
iov_size(const struct iovec *iov, int count)
{
	off_t size = 0;

	for (int i = 0; i < count; i++)
		size += (off_t) iov[i].iov_len;
	return size;
}

ssize_t
changes_pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(ZERO_EXTEND) ? NULL : changed_file(fd, &spare);
	ssize_t put;

	begin_entry(&announced, entry, fd, offset, iov_size(iov, count));
	errno = errno_before;
	put = pwritev(fd, iov, count, offset);
	finish(&announced, entry, put < 0);
	return put;
}

/* Begin a write at the file's own position, which has to be asked for before. */
static void
begin_at_position(Announced *announced, OpenFile *entry, int fd, off_t size)
{
	int flags = entry == NULL ? 0 : fcntl(fd, F_GETFL);
	off_t offset = entry == NULL ? 0 : lseek(fd, 0, SEEK_CUR);

	/* Where an append lands is known only afterwards, or not at all. */
	if (entry != NULL && (flags < 0 || (flags & O_APPEND) != 0 || offset < 0))
	{
		offset = 0;
		size = -1;
	}
	begin_entry(announced, entry, fd, offset, size);
}

ssize_t
changes_write(int fd, const void *buffer, size_t size)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(FILECOPY) ? NULL : changed_file(fd, &spare);
	ssize_t put;

	begin_at_position(&announced, entry, fd, (off_t) size);
	errno = errno_before;
	put = write(fd, buffer, size);
	finish(&announced, entry, put < 0);
	return put;
}

ssize_t
changes_writev(int fd, const struct iovec *iov, int count)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(FILECOPY) ? NULL : changed_file(fd, &spare);
	ssize_t put;

	begin_at_position(&announced, entry, fd, iov_size(iov, count));
	errno = errno_before;
	put = writev(fd, iov, count);
	finish(&announced, entry, put < 0);
	return put;
}

ssize_t
changes_copy_range(int in, off_t *in_offset, int out, off_t *out_offset,
                   size_t size, unsigned flags)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(FILECOPY) ? NULL : changed_file(out, &spare);
	off_t length = size > (size_t) INT64_MAX ? -1 : (off_t) size;
	ssize_t put;

	if (out_offset != NULL)
		begin_entry(&announced, entry, out, *out_offset, length);
	else
		begin_at_position(&announced, entry, out, length);
	errno = errno_before;
	put = copy_file_range(in, in_offset, out, out_offset, size, flags);
	finish(&announced, entry, put < 0);
	return put;
}

/* ---- allocation and truncation ---------------------------------------------- */

/* An error comes back as the result; errno is not touched. */
int
changes_posix_fallocate(int fd, off_t offset, off_t length)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(ZERO_EXTEND) ? NULL : changed_file(fd, &spare);
	int result;

	begin_entry(&announced, entry, fd, offset, length);
	errno = errno_before;
	result = posix_fallocate(fd, offset, length);
	finish(&announced, entry, false);
	return result;
}

int
changes_fallocate(int fd, int mode, off_t offset, off_t length)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(ZERO_EXTEND) ? NULL : changed_file(fd, &spare);
	bool shifts = (mode & ~FALLOC_FL_KEEP_SIZE) != 0;
	int result;

	/* Some modes move all that follows. */
	begin_entry(&announced, entry, fd, offset, shifts ? -1 : length);
	errno = errno_before;
	result = fallocate(fd, mode, offset, length);
	finish(&announced, entry, false);
	return result;
}

int
changes_ftruncate(int fd, off_t length)
{
	int errno_before = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(TRUNCATE) ? NULL : changed_file(fd, &spare);
	int result;

	begin_entry(&announced, entry, fd, length, -1);
	errno = errno_before;
	result = ftruncate(fd, length);
	finish(&announced, entry, result < 0);
	return result;
}

/* Begin to cut a file off that is given by its path. */
static void
begin_path(Announced *announced, FcFile *file, const char *path, off_t length)
{
	FilePlace place = { .class = FILE_ALIAS };

	announced->scope = SCOPE_NOTHING;
	announced->fd = -1;
	announced->path = path;
	if (!runtime_attached())
		return;

	if (path != NULL)
		place = paths_classify(&runtime.root, path);
	if (place.class != FILE_RELATION && place.class != FILE_ALIAS)
		return;

	*file = fc_file(place.id);
	begin(announced, place.class, file, length, -1);
}

int
changes_truncate(const char *path, off_t length)
{
	int errno_before = errno;
	Announced announced = { .scope = SCOPE_NOTHING };
	FcFile file;
	int result;

	if (!FC_BROKEN(TRUNCATE))
		begin_path(&announced, &file, path, length);
	errno = errno_before;
	result = truncate(path, length);
	finish(&announced, NULL, false);
	return result;
}

/* ---- names -------------------------------------------------------------------- */

/* What stands under this name is going, or has just gone or come. */
static void
forget_name(const char *path)
{
	FilePlace place;

	if (FC_BROKEN(UNLINK) || !runtime_attached())
		return;

	place = paths_classify(&runtime.root, path);
	if (place.class == FILE_RELATION)
		fc_file_retire(&runtime.cache, place.id);
	else if (place.class == FILE_ALIAS || place.class == FILE_DATA_DIRECTORY)
		fc_cache_clear(&runtime.cache);
}

/* The same after the real call, with errno as that left it. */
static void
forget_name_after(const char *path)
{
	int after = errno;

	forget_name(path);
	errno = after;
}

int
changes_unlink(const char *path)
{
	int errno_before = errno;
	int result;

	forget_name(path);
	errno = errno_before;
	result = unlink(path);
	forget_name_after(path);
	return result;
}

int
changes_remove(const char *path)
{
	int errno_before = errno;
	int result;

	forget_name(path);
	errno = errno_before;
	result = remove(path);
	forget_name_after(path);
	return result;
}

/*
 * PostgreSQL moves no data files.  One moved under a name that other processes
 * have open is handled; a whole directory would need all their descriptors
 * looked at, so the cache stops.
 */
static void
forget_moved(const char *path)
{
	if (!FC_BROKEN(UNLINK) && runtime_attached() &&
	    paths_classify(&runtime.root, path).class == FILE_DATA_DIRECTORY)
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
	else
		forget_name(path);
}

int
changes_rename(const char *from, const char *to)
{
	int errno_before = errno;
	int result;

	forget_moved(from);
	forget_moved(to);
	errno = errno_before;
	result = rename(from, to);
	forget_name_after(from);
	forget_name_after(to);
	return result;
}

/*
 * Streams are written by libc itself, which passes no hook.  Nobody but a
 * superuser's COPY TO can aim one at a data file; then the cache stops.
 */
FILE *
changes_fopen(const char *path, const char *mode)
{
	int errno_before = errno;

	if (strpbrk(mode, "wa+") != NULL && runtime_attached() &&
	    paths_classify(&runtime.root, path).class == FILE_RELATION)
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
	errno = errno_before;
	return fopen(path, mode);
}

int
changes_open(int directory, const char *path, int flags, mode_t mode)
{
	int errno_before = errno;
	Announced announced = { .scope = SCOPE_NOTHING };
	FcFile file;
	bool relative = directory != AT_FDCWD && path[0] != '/';
	const char *known = relative ? NULL : path;
	int fd;

	if ((flags & O_TRUNC) != 0 && !FC_BROKEN(TRUNCATE))
		begin_path(&announced, &file, known, 0);

	errno = errno_before;
	if (directory == AT_FDCWD)
		fd = open(path, flags, mode);
	else
		fd = openat(directory, path, flags, mode);
	finish(&announced, NULL, false);

	if (fd >= 0)
	{
		int after = errno;

		files_opened(fd, known, flags);
		if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) &&
		    known != NULL && !FC_BROKEN(CREATE))
			forget_name(path);
		errno = after;
	}
	return fd;
}

/* ---- syncs -------------------------------------------------------------------- */

static int
synced(int fd, int result)
{
	int after = errno;

	if (result < 0 && after != EINTR)
	{
		OpenFile spare;

		distrust(changed_file(fd, &spare));
		errno = after;
	}
	return result;
}

int
changes_fsync(int fd)
{
	return synced(fd, fsync(fd));
}

int
changes_fdatasync(int fd)
{
	return synced(fd, fdatasync(fd));
}

int
changes_sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
	return synced(fd, sync_file_range(fd, offset, length, flags));
}

/*
 * After a crash the server may sync a file system as a whole; the kernel then does not
 * say whose data it has lost.
 */
int
changes_syncfs(int fd)
{
	int result = syncfs(fd);
	int after = errno;

	/* Not followed by its end: as in distrust(). */
	if (result < 0 && after != EINTR && !FC_BROKEN(SYNCFS) &&
	    runtime_attached() && fc_mode(&runtime.cache, NULL) != FC_OFFLINE)
		fc_change_all_begin(&runtime.cache);
	errno = after;
	return result;
}
