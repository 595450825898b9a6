/*
 * account_writes.c
 *		Accounting of writes: which of them extend a file, and WAL.
 *
 * A write that begins at or beyond the end of its file is an extend.  A hook
 * cannot know where PostgreSQL believes the end to be, and asking the kernel
 * costs some 0.4 us.  So an open file's entry remembers a minimum length of the
 * file, which holds until any file is truncated: truncations are counted in
 * shared memory.
 *
 * WAL is written in whole pages, so the page in which a commit ends is written
 * again with the next commit.  The amount rewritten follows from the position
 * up to which WAL was written before.
 *
 * Runs in hooks: no allocation, no report, no wait; errno is left alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <sys/stat.h>

#include "account/account_calls.h"
#include "account/account_shared.h"
#include "broken.h"
#include "fcache/assert.h"

/* Does the write begin at or beyond the file's end? */
static bool
begins_at_end(AccountFile *known, int fd, off_t offset, size_t size)
{
	uint64_t truncations = account_get(&account_memory.shared->truncations);
	struct stat status;

	FC_ASSERT(fd >= 0);
	if (known->truncations != truncations)
	{
		known->truncations = truncations;
		known->end_bytes = 0;
	}
	if (offset < 0 || (uint64_t) offset + size <= known->end_bytes ||
	    fstat(fd, &status) != 0)
		return false;
	known->end_bytes = (uint64_t) status.st_size;
	return (uint64_t) offset >= known->end_bytes;
}

void
account_start_write(Accounted *call, OpenFile *file, int fd, off_t offset,
                    size_t size)
{
	int saved_errno = errno;

	if (!account_admit(call, file))
		return;
	call->offset = offset;
	call->extends =
		(file->class == FILE_RELATION || file->class == FILE_TEMP_RELATION) &&
		begins_at_end(&file->account, fd, offset, size);
	errno = FC_BROKEN(ACCOUNT_ERRNO) ? EDOM : saved_errno;
	call->begin_ns = fc_clock_ns();
}

static void
note_wal(const FcFileId *segment, off_t offset, uint64_t size)
{
	AccountShared *shared = account_memory.shared;
	uint64_t begin = ((uint64_t) segment->relation << 32) +
	                 (uint64_t) segment->segment * account_wal_segment_bytes() +
	                 (uint64_t) offset;
	uint64_t end = begin + size;
	uint64_t before = account_get(&shared->wal_end);

	FC_ASSERT(size > 0 && account_wal_segment_bytes() > 0);
	if (begin < before)
		account_add(&shared->wal_rewritten,
		            (end < before ? end : before) - begin);

	/* Relaxed: a single word, which only grows; nothing else depends on it. */
	while (before < end && !atomic_compare_exchange_weak_explicit(
							   &shared->wal_end, &before, end,
							   memory_order_relaxed, memory_order_relaxed))
		;
}

void
account_count_write(const Accounted *call, ssize_t put)
{
	uint64_t bytes = put > 0 ? (uint64_t) put : 0;
	OpenFile *file = call->file;

	FC_ASSERT(file != NULL);
	account_count(call, call->extends ? ACCOUNT_EXTEND : ACCOUNT_WRITE, bytes);
	if (call->extends &&
	    file->account.end_bytes < (uint64_t) call->offset + bytes)
		file->account.end_bytes = (uint64_t) call->offset + bytes;
	if (file->class == FILE_WAL && bytes > 0)
		note_wal(&file->file.id, call->offset, bytes);
}

void
account_truncated(void)
{
	if (account_attached())
		account_add(&account_memory.shared->truncations, 1);
}
