/*
 * changes.c
 *		Every way in which the server changes the contents of a file.
 *
 * Each call here is announced to the cache before and after the real one
 * (announce.c):
 *
 *	pwrite, pwritev, write, writev, copy_file_range		the blocks written
 *	posix_fallocate, fallocate							the blocks allocated
 *	ftruncate, truncate									the blocks cut off
 *	a failed write, fsync, fdatasync, sync_file_range	the whole file
 *	a failed syncfs										all files
 *
 * After a failure the kernel may have dropped what was written.
 *
 * A cached block is refreshed after a write of that block alone.  Hint bits may
 * be set in a page while it is written, so the page is copied first, and the
 * copy is written to both the file and the cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/assert.h"
#include "fcache/writer.h"
#include "hooks/announce.h"
#include "hooks/runtime.h"

/* ---- writes -------------------------------------------------------------- */

/*
 * Write one whole block that is cached, and refresh the cached copy.  A
 * separate function, because its stack frame is large.
 */
static __attribute__((noinline)) ssize_t
write_and_refill(int fd, const void *buffer, off_t offset, Announced *announced,
                 OpenFile *entry, int saved_errno)
{
	FC_ASSERT(announced->scope == SCOPE_BLOCKS && announced->change.count == 1);
	_Alignas(FC_IO_ALIGN) unsigned char page[FC_BLOCK_SIZE];
	ssize_t put;

	memcpy(page, buffer, sizeof(page));
	errno = saved_errno;
	put = pwrite(fd, page, sizeof(page), offset);
	announce_end(announced, entry, put < 0);
	if (put == FC_BLOCK_SIZE)
	{
		saved_errno = errno;
		fc_change_fill(&runtime.cache, &announced->change, page);
		errno = saved_errno;
	}
	return put;
}

ssize_t
changes_pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(WRITE) ? NULL : announce_entry(fd, &spare);
	ssize_t put;

	if (entry == NULL)
	{
		errno = saved_errno;
		return pwrite(fd, buffer, size, offset);
	}

	if (runtime_is_checkpointer() && !FC_BROKEN(STAND_IN))
		fc_stand_in(&runtime.cache, STAND_IN_NS);
	announce_change(&announced, entry, fd, offset, (off_t) size);
	if (announced.scope == SCOPE_BLOCKS && size == FC_BLOCK_SIZE &&
	    offset % FC_BLOCK_SIZE == 0 && announced.change.was_cached &&
	    fc_mode(&runtime.cache, NULL) == FC_SERVE &&
	    descriptors_number(fd, entry))
		return write_and_refill(fd, buffer, offset, &announced, entry,
		                        saved_errno);

	errno = saved_errno;
	put = pwrite(fd, buffer, size, offset);
	announce_end(&announced, entry, put < 0);
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
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry =
		FC_BROKEN(ZERO_EXTEND) ? NULL : announce_entry(fd, &spare);
	ssize_t put;

	announce_change(&announced, entry, fd, offset, iov_size(iov, count));
	errno = saved_errno;
	put = pwritev(fd, iov, count, offset);
	announce_end(&announced, entry, put < 0);
	return put;
}

/*
 * Begin a write at the file's own position, which must be queried before the
 * write.
 */
static void
begin_at_position(Announced *announced, OpenFile *entry, int fd, off_t size)
{
	int flags = entry == NULL ? 0 : fcntl(fd, F_GETFL);
	off_t offset = entry == NULL ? 0 : lseek(fd, 0, SEEK_CUR);

	FC_ASSERT(entry == NULL || runtime_attached());

	/* The offset of an append is known only after the call, if at all. */
	if (entry != NULL && (flags < 0 || (flags & O_APPEND) != 0 || offset < 0))
	{
		offset = 0;
		size = -1;
	}
	announce_change(announced, entry, fd, offset, size);
}

/*
 * The control file changes often while a server runs.  Memory that outlives the
 * server is valid only with its last content, or with the content that was
 * being written.
 */
static ssize_t
write_control(int fd, const void *buffer, size_t size)
{
	int saved_errno = errno;
	uint32_t crc;
	ssize_t put;

	FC_ASSERT(size >= runtime.control_crc_offset + sizeof(crc));
	memcpy(&crc, (const char *) buffer + runtime.control_crc_offset,
	       sizeof(crc));
	if (!*runtime.syncs && !FC_BROKEN(UNSYNCED))
		fc_map_unsynced_set(&runtime.cache);
	fc_life_control_begins(&runtime.cache, crc);
	errno = saved_errno;
	put = write(fd, buffer, size);
	if (put == (ssize_t) size)
		fc_life_control_ends(&runtime.cache);
	return put;
}

ssize_t
changes_write(int fd, const void *buffer, size_t size)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = descriptors_entry(fd);
	ssize_t put;

	if (entry != NULL && entry->class == FILE_CONTROL && runtime_attached() &&
	    size >= runtime.control_crc_offset + sizeof(uint32_t))
		return write_control(fd, buffer, size);
	entry = FC_BROKEN(FILECOPY) ? NULL : announce_entry(fd, &spare);
	begin_at_position(&announced, entry, fd, (off_t) size);
	errno = saved_errno;
	put = write(fd, buffer, size);
	announce_end(&announced, entry, put < 0);
	return put;
}

ssize_t
changes_writev(int fd, const struct iovec *iov, int count)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(FILECOPY) ? NULL : announce_entry(fd, &spare);
	ssize_t put;

	begin_at_position(&announced, entry, fd, iov_size(iov, count));
	errno = saved_errno;
	put = writev(fd, iov, count);
	announce_end(&announced, entry, put < 0);
	return put;
}

ssize_t
changes_copy_range(int in, off_t *in_offset, int out, off_t *out_offset,
                   size_t size, unsigned flags)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(FILECOPY) ? NULL : announce_entry(out, &spare);
	off_t length = size > (size_t) INT64_MAX ? -1 : (off_t) size;
	ssize_t put;

	if (out_offset != NULL)
		announce_change(&announced, entry, out, *out_offset, length);
	else
		begin_at_position(&announced, entry, out, length);
	errno = saved_errno;
	put = copy_file_range(in, in_offset, out, out_offset, size, flags);
	announce_end(&announced, entry, put < 0);
	return put;
}

/* ---- allocation and truncation ------------------------------------------- */

/* An error is returned as the result; errno is not touched. */
int
changes_posix_fallocate(int fd, off_t offset, off_t length)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry =
		FC_BROKEN(ZERO_EXTEND) ? NULL : announce_entry(fd, &spare);
	int result;

	announce_change(&announced, entry, fd, offset, length);
	errno = saved_errno;
	result = posix_fallocate(fd, offset, length);
	announce_end(&announced, entry, false);
	return result;
}

int
changes_fallocate(int fd, int mode, off_t offset, off_t length)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry =
		FC_BROKEN(ZERO_EXTEND) ? NULL : announce_entry(fd, &spare);
	bool shifts = (mode & ~FALLOC_FL_KEEP_SIZE) != 0;
	int result;

	/* Some modes move everything that follows. */
	announce_change(&announced, entry, fd, offset, shifts ? -1 : length);
	errno = saved_errno;
	result = fallocate(fd, mode, offset, length);
	announce_end(&announced, entry, false);
	return result;
}

int
changes_ftruncate(int fd, off_t length)
{
	int saved_errno = errno;
	OpenFile spare;
	Announced announced;
	OpenFile *entry = FC_BROKEN(TRUNCATE) ? NULL : announce_entry(fd, &spare);
	int result;

	announce_change(&announced, entry, fd, length, -1);
	errno = saved_errno;
	result = ftruncate(fd, length);
	announce_end(&announced, entry, result < 0);
	return result;
}

int
changes_truncate(const char *path, off_t length)
{
	int saved_errno = errno;
	Announced announced = { .scope = SCOPE_NOTHING };
	FcFile file;
	int result;

	if (!FC_BROKEN(TRUNCATE))
		announce_cut(&announced, &file, path, length, O_RDWR);
	errno = saved_errno;
	result = truncate(path, length);
	announce_end(&announced, NULL, false);
	return result;
}

/* ---- syncs --------------------------------------------------------------- */

/*
 * stable: earlier writes are on permanent storage now, unless this call failed.
 */
static int
synced(int fd, int result, bool stable)
{
	int saved_errno = errno;
	OpenFile spare;
	OpenFile *entry;

	if (result < 0 && saved_errno != EINTR)
		announce_distrust(announce_entry(fd, &spare));
	else if (result == 0 && stable)
	{
		entry = announce_entry(fd, &spare);
		if (entry != NULL)
			descriptors_synced(fd, entry);
	}
	errno = saved_errno;
	return result;
}

int
changes_fsync(int fd)
{
	return synced(fd, fsync(fd), true);
}

int
changes_fdatasync(int fd)
{
	return synced(fd, fdatasync(fd), true);
}

int
changes_sync_file_range(int fd, off_t offset, off_t length, unsigned flags)
{
	return synced(fd, sync_file_range(fd, offset, length, flags), false);
}

/*
 * After a crash the server may sync a whole file system; if that fails, the
 * kernel does not say whose data it has lost.
 */
int
changes_syncfs(int fd)
{
	int result = syncfs(fd);
	int saved_errno = errno;

	/* No matching end, for the reason given in announce_distrust(). */
	if (result < 0 && saved_errno != EINTR && !FC_BROKEN(SYNCFS) &&
	    runtime_attached() && fc_mode(&runtime.cache, NULL) != FC_OFFLINE)
		fc_change_all_begin(&runtime.cache);
	errno = saved_errno;
	return result;
}
