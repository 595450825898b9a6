/*
 * reads.c
 *		Reads of relation files: page cache, then flash, then disk.
 *
 * A read that the operating system's page cache can serve is left to it and
 * fills nothing: the block is already in faster memory than ours.  cachestat(2)
 * tells without side effects; preadv2 with RWF_NOWAIT would start the disk
 * read.
 *
 * One block: look it up; on a miss take the ticket, read the file, then fill.
 * The ticket is taken before the read, so any change of the block in between
 * voids it.
 *
 * A run of blocks (PostgreSQL 17 and later read up to 1 MB at once) is served
 * from flash if all of it is cached; its scattered slots are read concurrently.
 * Otherwise one call reads the whole run from the file, since a disk charges
 * per call rather than per block, and the missing blocks are filled.
 *
 * Large scans must not flush the cache.  A descriptor in the middle of one
 * (scans.c) no longer fills, nor does a run longer than RUN_FILL_BLOCKS.  Such
 * reads are still served from flash.  Base backups (walsenders) neither look up
 * nor fill; nor do reads that are not made of whole blocks.
 *
 * pgflash.verify compares hits with the file (verify.c).  One mismatch means
 * that the cache is not what we think it is, so it goes offline at once.
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
#include <sys/syscall.h>
#include <unistd.h>

#include "account/account_calls.h"
#include "broken.h"
#include "fcache/assert.h"
#include "hooks/advice.h"
#include "hooks/descriptors.h"
#include "hooks/runtime.h"
#include "hooks/scans.h"
#include "hooks/verify.h"
#include "settings.h"

/*
 * The longest run that is looked up: PostgreSQL's largest io_max_combine_limit.
 */
#define RUN_BLOCKS_MAX FC_RUN_BLOCKS_MAX

/* The longest run that is filled: PostgreSQL's default io_combine_limit. */
#define RUN_FILL_BLOCKS 16

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* One read as the server issued it: into buffer, or into iov if that is set. */
typedef struct Call
{
	int fd;
	void *buffer;
	size_t size; /* of all buffers */
	const struct iovec *iov;
	int iov_count;
	off_t offset;
	AccountSource *source; /* out: who served it */
} Call;

/* The blocks to read, and the memory that each goes to. */
typedef struct Run
{
	uint32_t first;
	unsigned count;
	void *page[RUN_BLOCKS_MAX];
} Run;

static ssize_t
real_read(const Call *call)
{
	if (call->iov != NULL)
		return preadv(call->fd, call->iov, call->iov_count, call->offset);
	return pread(call->fd, call->buffer, call->size, call->offset);
}

static bool
add_pages(Run *run, void *buffer, size_t size)
{
	size_t count = size / FC_BLOCK_SIZE;

	FC_ASSERT(run->count <= RUN_BLOCKS_MAX);
	if (size % FC_BLOCK_SIZE != 0 || count > RUN_BLOCKS_MAX - run->count)
		return false;
	for (size_t i = 0; i < count; i++)
		run->page[run->count++] = (unsigned char *) buffer + i * FC_BLOCK_SIZE;
	return true;
}

/* Split the call into blocks; false if it does not consist of whole ones. */
static bool
run_of_call(const Call *call, Run *run)
{
	uint64_t block = (uint64_t) call->offset / FC_BLOCK_SIZE;

	run->count = 0;
	if (call->offset < 0 || call->offset % FC_BLOCK_SIZE != 0)
		return false;

	if (call->iov == NULL)
	{
		if (!add_pages(run, call->buffer, call->size))
			return false;
	}
	for (int i = 0; call->iov != NULL && i < call->iov_count; i++)
	{
		if (!add_pages(run, call->iov[i].iov_base, call->iov[i].iov_len))
			return false;
	}

	run->first = (uint32_t) block;
	return run->count > 0 && block + run->count <= runtime.segment_blocks;
}

/*
 * Can the page cache serve the whole call?  If the kernel cannot be asked, the
 * answer is no, and it is unknown whether the disk will serve it.
 */
static bool
in_page_cache(const Call *call, const OpenFile *entry)
{
	static bool cannot_ask;
	static uint64_t page_size;
	struct
	{
		uint64_t offset;
		uint64_t length;
	} range = { (uint64_t) call->offset, call->size };
	struct
	{
		uint64_t cached;
		uint64_t dirty;
		uint64_t writeback;
		uint64_t evicted;
		uint64_t recently_evicted;
	} pages = { 0, 0, 0, 0, 0 };
	uint64_t wanted;

	*call->source = entry->direct ? SOURCE_DISK : SOURCE_UNTOLD;
	if (cannot_ask || entry->direct)
		return false;

	FC_ASSERT(call->offset >= 0 && call->size > 0);
	if (syscall(SYS_cachestat, call->fd, &range, &pages, 0u) != 0)
	{
		cannot_ask = errno == ENOSYS || errno == EPERM;
		return false;
	}

	if (page_size == 0)
		page_size = (uint64_t) sysconf(_SC_PAGESIZE);
	wanted = (range.offset + range.length - 1) / page_size -
	         range.offset / page_size + 1;
	*call->source = pages.cached >= wanted ? SOURCE_PAGE_CACHE : SOURCE_DISK;
	return *call->source == SOURCE_PAGE_CACHE;
}

static FcStatus
look_up(int fd, OpenFile *entry, uint32_t block, void *page, FcTicket *ticket)
{
	uint32_t shown = runtime_wait(runtime.flash_read_event);
	FcStatus status =
		fc_read(&runtime.cache, &entry->file, block, page, ticket);

	FC_ASSERT(block < runtime.segment_blocks);

	/* Perhaps truncated meanwhile: retry once with the current number. */
	if (status == FC_STALE && descriptors_number(fd, entry))
		status = fc_read(&runtime.cache, &entry->file, block, page, ticket);
	runtime_wait(shown);
	return status;
}

static ssize_t
read_by_fd(void *fd, uint32_t block, void *page)
{
	return pread(*(int *) fd, page, FC_BLOCK_SIZE,
	             (off_t) block * FC_BLOCK_SIZE);
}

/* Does the file confirm the hit, so that the query may have it? */
static bool
compare_with_file(int fd, const OpenFile *entry, const void *page,
                  const FcTicket *ticket)
{
	switch (verify_hit(read_by_fd, &fd, page, ticket))
	{
		case VERIFIED_SAME:
		case VERIFIED_CHANGED:
		case VERIFIED_UNREADABLE:
			return true;
		case VERIFIED_UNSTEADY:
			return false;
		case VERIFIED_DIFFERENT:
			break;
	}
	verify_report(entry->file.id, ticket);
	(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_MISMATCH);
	return false;
}

static bool
hit_stands(int fd, const OpenFile *entry, const void *page,
           const FcTicket *ticket)
{
	static unsigned hits;

	FC_ASSERT(ticket->file == entry->file.number &&
	          ticket->file != FC_FILE_NONE);
	if (setting_verify == VERIFY_OFF)
		return true;
	if (setting_verify == VERIFY_SAMPLE && ++hits % VERIFY_SAMPLE_EVERY != 0)
		return true;
	return compare_with_file(fd, entry, page, ticket);
}

/* The real read, timed and counted for the file. */
static ssize_t
read_disk(const Call *call, const OpenFile *entry, const Run *run,
          int saved_errno)
{
	uint64_t begin = fc_clock_ns();
	uint64_t ns;
	ssize_t got;

	FC_ASSERT(run->count > 0 && entry->class == FILE_RELATION);
	errno = saved_errno;
	got = real_read(call);
	saved_errno = errno;
	ns = fc_clock_ns() - begin;
	fc_read_disk_done(&runtime.cache, &entry->file, run->count,
	                  got > 0 ? (uint64_t) got : 0, ns);
	advice_disk_read(run->count, ns);
	errno = saved_errno;
	return got;
}

/* Negative control: what happens if the ticket is taken too late. */
static __attribute__((noinline)) void
take_ticket_again(int fd, OpenFile *entry, uint32_t block, FcTicket *ticket)
{
	unsigned char page[FC_BLOCK_SIZE];

	(void) look_up(fd, entry, block, page, ticket);
}

/*
 * Cache what the disk returned, unless PostgreSQL is about to reject the page:
 * the next read may return the correct block and has to reach the disk.
 */
static void
fill(const OpenFile *entry, const FcTicket *ticket, void *page)
{
	uint32_t block =
		entry->file.id.segment * runtime.segment_blocks + ticket->block;

	FC_ASSERT(ticket->file != FC_FILE_NONE &&
	          ticket->block < runtime.segment_blocks);
	if (!FC_BROKEN(INVALID_PAGE) && !runtime.page_valid(page, block))
		fc_count(&runtime.cache, FC_COUNT_insert_skip_invalid, 1);
	else
		fc_fill(&runtime.cache, ticket, page);
}

static ssize_t
read_block(const Call *call, OpenFile *entry, const Run *run, bool bulk,
           int saved_errno)
{
	FcTicket ticket;
	uint64_t begin = fc_clock_ns();
	FcStatus status =
		look_up(call->fd, entry, run->first, run->page[0], &ticket);
	uint64_t ns = fc_clock_ns() - begin;
	ssize_t got;

	FC_ASSERT(run->count == 1);
	if (status == FC_OK && hit_stands(call->fd, entry, run->page[0], &ticket))
	{
		advice_flash_read(1, ns);
		*call->source = SOURCE_FLASH;
		if (bulk)
			scans_read_ahead(entry, run->first + run->count);
		errno = saved_errno;
		return FC_BLOCK_SIZE;
	}

	got = read_disk(call, entry, run, saved_errno);
	if (FC_BROKEN(TICKET_AFTER))
		take_ticket_again(call->fd, entry, run->first, &ticket);
	if (status == FC_MISS && got == FC_BLOCK_SIZE && !bulk)
		fill(entry, &ticket, run->page[0]);
	return got;
}

static bool
all_cached(const OpenFile *entry, uint32_t first, unsigned count)
{
	FC_ASSERT(count <= RUN_BLOCKS_MAX);
	for (unsigned i = 0; i < count; i++)
	{
		if (!fc_read_would_hit(&runtime.cache, &entry->file, first + i))
			return false;
	}
	return true;
}

/*
 * Serve a run from flash, all its slots at once; false if a block is missing or
 * was not read in time.
 */
static bool
read_run_from_flash(int fd, OpenFile *entry, const Run *run)
{
	FcTicket ticket[RUN_BLOCKS_MAX];
	uint32_t shown = runtime_wait(runtime.flash_read_event);
	uint64_t begin = fc_clock_ns();
	bool whole = fc_read_run(&runtime.cache, &entry->file, run->first,
	                         run->count, run->page, ticket);
	uint64_t ns = fc_clock_ns() - begin;

	FC_ASSERT(run->count > 1 && run->count <= RUN_BLOCKS_MAX);
	runtime_wait(shown);
	for (unsigned i = 0; whole && i < run->count; i++)
		whole = hit_stands(fd, entry, run->page[i], &ticket[i]);
	if (whole)
		advice_flash_read(run->count, ns);
	return whole;
}

static ssize_t
read_run_and_fill(const Call *call, OpenFile *entry, const Run *run,
                  int saved_errno)
{
	FcTicket ticket[RUN_FILL_BLOCKS];
	bool missed[RUN_FILL_BLOCKS];
	ssize_t got;

	FC_ASSERT(run->count <= RUN_FILL_BLOCKS);
	for (unsigned i = 0; i < run->count; i++)
	{
		uint32_t block = run->first + i;

		/* Cached blocks are read along, but neither looked up nor filled. */
		missed[i] = !fc_read_would_hit(&runtime.cache, &entry->file, block) &&
		            look_up(call->fd, entry, block, run->page[i], &ticket[i]) ==
		                FC_MISS;
	}

	got = read_disk(call, entry, run, saved_errno);
	for (unsigned i = 0; i < run->count; i++)
	{
		if (missed[i] && got >= (ssize_t) (i + 1) * FC_BLOCK_SIZE)
			fill(entry, &ticket[i], run->page[i]);
	}
	return got;
}

static ssize_t
read_run(const Call *call, OpenFile *entry, const Run *run, bool bulk,
         int saved_errno)
{
	if (read_run_from_flash(call->fd, entry, run))
	{
		*call->source = SOURCE_FLASH;
		if (bulk)
			scans_read_ahead(entry, run->first + run->count);
		errno = saved_errno;
		return (ssize_t) run->count * FC_BLOCK_SIZE;
	}

	if (!bulk && run->count <= RUN_FILL_BLOCKS)
		return read_run_and_fill(call, entry, run, saved_errno);

	fc_count(&runtime.cache, FC_COUNT_bypass_reads, run->count);
	return read_disk(call, entry, run, saved_errno);
}

static ssize_t
bypass(const Call *call, int saved_errno)
{
	fc_count(&runtime.cache, FC_COUNT_bypass_reads, 1);
	errno = saved_errno;
	return real_read(call);
}

static ssize_t
read_relation(const Call *call, OpenFile *entry)
{
	int saved_errno = errno;
	Run run;
	bool bulk;

	FC_ASSERT(entry->class == FILE_RELATION && runtime_attached());

	/* With a token of its own, a process counts in its own part of memory. */
	if (runtime.cache.token == 0)
		(void) fc_process_begin(&runtime.cache);

	if (*runtime.is_walsender || !run_of_call(call, &run))
		return bypass(call, saved_errno);

	bulk = scans_note(entry, run.first, run.count);
	if (in_page_cache(call, entry))
	{
		fc_count(&runtime.cache, FC_COUNT_page_cache_reads, run.count);
		errno = saved_errno;
		return real_read(call);
	}

	advice_requested(entry->file.id, run.first, run.count);
	if (!descriptors_number(call->fd, entry))
		return bypass(call, saved_errno);

	runtime.cache.read_deadline_ns =
		(uint64_t) setting_read_deadline_ms * 1000000;
	if (run.count == 1)
		return read_block(call, entry, &run, bulk, saved_errno);
	return read_run(call, entry, &run, bulk, saved_errno);
}

/* A read that concerns only the accounting, and that only on its turns. */
static ssize_t
read_plain(const Call *call, const OpenFile *entry, bool turn)
{
	int saved_errno = errno;

	if (turn && call->offset >= 0 && call->size > 0)
	{
		(void) in_page_cache(call, entry);
		errno = saved_errno;
	}
	return real_read(call);
}

/* A read that the cache plays no part in, observed for the advice. */
static ssize_t
read_watched(const Call *call, const OpenFile *entry, bool account_turn)
{
	int saved_errno = errno;
	bool turn = advice_turn();
	uint64_t begin;
	ssize_t got;
	Run run;

	FC_ASSERT(entry->class == FILE_RELATION);
	if (*runtime.is_walsender || !run_of_call(call, &run) ||
	    (!turn && !advice_wants(entry->file.id, run.first, run.count)))
		return read_plain(call, entry, account_turn);
	if (in_page_cache(call, entry))
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

static OpenFile *
relation_file(int fd)
{
	OpenFile *entry = descriptors_entry(fd);

	return entry == NULL || entry->class != FILE_RELATION || entry->dead
	           ? NULL
	           : entry;
}

static bool
cache_serves(void)
{
	return runtime_attached() && fc_mode(&runtime.cache, NULL) == FC_SERVE;
}

/* The entry of a relation's descriptor, if the cache applies to it now. */
static OpenFile *
cached_file(int fd)
{
	OpenFile *entry = relation_file(fd);

	return entry != NULL && cache_serves() ? entry : NULL;
}

static ssize_t
read_call(Call *call)
{
	OpenFile *open_file = descriptors_entry(call->fd);
	OpenFile *entry = relation_file(call->fd);
	AccountSource source = SOURCE_UNTOLD;
	Accounted counted;
	ssize_t got;

	call->source = &source;
	account_begin(&counted, open_file);
	if (entry != NULL && cache_serves())
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

/* PostgreSQL reads a relation like this to copy it, once and in order. */
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
 * Passing on advice to fetch blocks that are cached would make the disk work
 * for nothing: they will be read from flash.  An error is returned as the
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
		swallow = all_cached(entry, first, count);
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
