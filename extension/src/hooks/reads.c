/*
 * reads.c
 *		Reads of relation files: page cache, then flash, then disk.
 *
 * This file combines the parts in request.c for a read that the server makes
 * itself and waits for.
 *
 * Every read is timed and counted as a whole, with its source (account.c).
 *
 * On every way out, errno is what the real call left, or what it was before.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "broken.h"
#include "fcache/assert.h"
#include "hooks/advice.h"
#include "hooks/neighbours.h"
#include "hooks/request.h"
#include "hooks/runtime.h"
#include "settings.h"

static ssize_t
real_read(const Call *call)
{
	if (call->iov != NULL)
		return preadv(call->fd, call->iov, call->iov_count, call->offset);
	return pread(call->fd, call->buffer, call->size, call->offset);
}

/*
 * The real read, with the neighbours if there are some, timed and counted for
 * the file.
 */
static ssize_t
read_disk(const Call *call, const OpenFile *entry, const Run *run,
          Neighbours *neighbours, int saved_errno)
{
	uint64_t begin = fc_clock_ns();
	uint64_t ns;
	ssize_t got = -1;

	FC_ASSERT(run->count > 0 && entry->class == FILE_RELATION);
	errno = saved_errno;
	if (neighbours->count > 0)
		got = neighbours_read(call, run->page[0], neighbours);

	/* What is wrong with a neighbour does not concern this block. */
	if (got < 0)
	{
		errno = saved_errno;
		got = real_read(call);
	}
	saved_errno = errno;
	ns = fc_clock_ns() - begin;
	neighbours_timed(neighbours, ns);
	fc_read_disk_done(&runtime.cache, &entry->file, run->count,
	                  got > 0 ? (uint64_t) got : 0, ns);
	advice_disk_read(run->count, ns);
	errno = saved_errno;
	return got;
}

ssize_t
reads_wanted(const Call *call, OpenFile *entry, const Run *run)
{
	int saved_errno = errno;
	Neighbours neighbours;
	FillPlan plan;
	ssize_t got;

	if (request_serve(call, entry, run, &plan))
	{
		if (run->count == 1)
			neighbours_hit(entry->file.id, run->first);
		errno = saved_errno;
		return (ssize_t) call->size;
	}
	neighbours_plan(call, entry, run, &plan, &neighbours);
	got = read_disk(call, entry, run, &neighbours, saved_errno);
	saved_errno = errno;
	request_fill(&entry->file, &plan, run->page, got);
	neighbours_fill(call->fd, &entry->file, &neighbours);
	errno = saved_errno;
	return got;
}

static ssize_t
read_relation(const Call *call, OpenFile *entry)
{
	int saved_errno = errno;
	Run run;

	switch (request_begin(call, entry, &run))
	{
		case REQUEST_PAGE_CACHE:
			fc_count(&runtime.cache, FC_COUNT_page_cache_reads, run.count);
			errno = saved_errno;
			return real_read(call);
		case REQUEST_BYPASS:
			fc_count(&runtime.cache, FC_COUNT_bypass_reads, 1);
			errno = saved_errno;
			return real_read(call);
		case REQUEST_WANTED:
			break;
	}

	runtime.cache.read_deadline_ns =
		(uint64_t) setting_read_deadline_ms * 1000000;
	errno = saved_errno;
	return reads_wanted(call, entry, &run);
}

/* A read that only the accounting sees, and only on its turns. */
static ssize_t
read_plain(const Call *call, const OpenFile *entry, bool turn)
{
	int saved_errno = errno;

	if (turn && call->offset >= 0 && call->size > 0)
	{
		(void) request_in_page_cache(call, entry);
		errno = saved_errno;
	}
	return real_read(call);
}

/* A read that does not concern the cache, observed for the advice. */
static ssize_t
read_watched(const Call *call, const OpenFile *entry, bool account_turn)
{
	int saved_errno = errno;
	bool turn = advice_turn();
	uint64_t begin;
	ssize_t got;
	Run run;

	FC_ASSERT(entry->class == FILE_RELATION);
	if (*runtime.is_walsender || !request_run(call, &run) ||
	    (!turn && !advice_wants(entry->file.id, run.first, run.count)))
		return read_plain(call, entry, account_turn);
	if (request_in_page_cache(call, entry))
	{
		errno = saved_errno;
		return real_read(call);
	}

	advice_note(entry->file.id, run.first, run.count);
	begin = fc_clock_ns();
	errno = saved_errno;
	got = real_read(call);
	saved_errno = errno;
	if (turn)
	{
		advice_count(run.count, ADVICE_TURNS);
		advice_disk_read(run.count, fc_clock_ns() - begin);
	}
	errno = saved_errno;
	return got;
}

/* The entry of a relation's descriptor, if the cache applies to it now. */
static OpenFile *
cached_file(int fd)
{
	OpenFile *entry = request_file(fd);

	return entry != NULL && request_cache_serves() ? entry : NULL;
}

static ssize_t
read_call(Call *call)
{
	OpenFile *open_file = descriptors_entry(call->fd);
	OpenFile *entry = request_file(call->fd);
	AccountSource source = SOURCE_UNTOLD;
	Accounted counted;
	ssize_t got;

	call->source = &source;
	account_begin(&counted, open_file);
	if (entry != NULL && request_cache_serves())
		got = read_relation(call, entry);
	else if (entry != NULL && advice_attached())
		got = read_watched(call, entry, counted.turn);
	else
		got = read_plain(call, open_file, counted.turn);
	FC_ASSERT(got <= (ssize_t) call->size);
	account_end_read(&counted, source, call->fd, call->size, got);
	return got;
}

ssize_t
reads_pread(int fd, void *buffer, size_t size, off_t offset)
{
	Call call = { .fd = fd, .buffer = buffer, .size = size, .offset = offset };

	return read_call(&call);
}

ssize_t
reads_preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	Call call = { .fd = fd, .iov = iov, .iov_count = count, .offset = offset };

	FC_ASSERT(count >= 0);
	for (int i = 0; i < count; i++)
		call.size += iov[i].iov_len;
	return read_call(&call);
}

/*
 * PostgreSQL reads a relation in this way only to copy it, once and in order.
 */
ssize_t
reads_read(int fd, void *buffer, size_t size)
{
	Accounted counted;
	ssize_t got;

	if (cached_file(fd) != NULL)
		fc_count(&runtime.cache, FC_COUNT_bypass_reads, 1);
	account_begin(&counted, descriptors_entry(fd));
	got = read(fd, buffer, size);
	account_end_read(&counted, SOURCE_UNTOLD, fd, size, got);
	return got;
}

/*
 * Advice to fetch blocks that are cached is not passed on: they will be read
 * from flash, so the disk would work for nothing.  An error is returned as the
 * result; errno is not touched.
 */
int
reads_fadvise(int fd, off_t offset, off_t length, int advice)
{
	OpenFile *entry = cached_file(fd);
	int saved_errno = errno;
	uint32_t first = (uint32_t) (offset / FC_BLOCK_SIZE);
	unsigned count;
	bool swallow = false;

	if (entry != NULL && advice == POSIX_FADV_WILLNEED && offset >= 0 &&
	    offset % FC_BLOCK_SIZE == 0 && length > 0 &&
	    length <= (off_t) RUN_BLOCKS_MAX * FC_BLOCK_SIZE &&
	    offset / FC_BLOCK_SIZE < runtime.segment_blocks &&
	    descriptors_number(fd, entry))
	{
		count = (unsigned) ((length + FC_BLOCK_SIZE - 1) / FC_BLOCK_SIZE);
		swallow = request_all_cached(entry, first, count);
		if (swallow)
		{
			fc_count(&runtime.cache, FC_COUNT_prefetches_swallowed, 1);
			if (count > FC_AHEAD_BLOCKS_MAX)
				count = FC_AHEAD_BLOCKS_MAX;
			(void) fc_read_ahead(&runtime.cache, &entry->file, first, count);
		}
	}

	errno = saved_errno;
	return swallow ? 0 : posix_fadvise(fd, offset, length, advice);
}
