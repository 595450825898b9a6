/*
 * account_source.c
 *		Disk or page cache?  Inferred from a read's time, where the kernel was
 *		not asked.
 *
 * While the cache serves, the kernel is asked before each read whether its page
 * cache has the blocks (cachestat), so the accounting knows.  While the cache
 * does not serve, asking costs two or three times as much as the rest of the
 * accounting.  So the kernel is asked about one read in 16, and the times of
 * those classify the others: the page cache answers in microseconds, a disk
 * takes tens of them at least.
 *
 * Each class of read size has a limit, which is a bucket of the histogram:
 * faster reads are attributed to the page cache.  The limit is the one with the
 * fewest errors among the reads that the kernel was asked about.  It starts
 * where neither a disk nor a page cache is expected, and stays there on kernels
 * that cannot be asked (page_cache.c).  The counts of those reads are halved
 * now and then, so that the limit follows a change of device.
 *
 * Numbers and times of reads are exact in any case; only their division between
 * disk and page cache is modelled (told_calls is the number of reads for which
 * it is not).  Locking: none; a count lost in a race is one of many.  So all
 * accesses are relaxed: a process that sees a new limit late classifies a read
 * by the old one.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "account/account_shared.h"
#include "fcache/assert.h"

enum
{
	PAGE_CACHE,
	DISK
};

/* Halve the counts when a bucket has reached this one. */
#define ASKED_MAX 1024

/*
 * A limit is kept if it makes at most 1 more error in this many reads, or a
 * single one, than the best.
 */
#define MOVE_FOR 64

/* In buckets: a source's times commonly vary by this much, seldom by more. */
#define MARGIN 2

/* The initial limits: 2^15 ns for one block, 2^19 for the longest runs. */
static const uint8_t limit_before[ACCOUNT_SIZES] = {
	15 - ACCOUNT_BUCKET_FIRST, 16 - ACCOUNT_BUCKET_FIRST,
	17 - ACCOUNT_BUCKET_FIRST, 19 - ACCOUNT_BUCKET_FIRST
};

static unsigned
size_class(size_t size)
{
	if (size <= 8192)
		return 0;
	if (size <= 32768)
		return 1;
	return size <= 131072 ? 2 : 3;
}

void
account_source_begin(void)
{
	for (unsigned i = 0; i < ACCOUNT_SIZES; i++)
		atomic_store(&account_memory.shared->limit[i], limit_before[i]);
}

/* Relaxed, here and below: see above. */
bool
account_source_is_disk(unsigned bucket, size_t size)
{
	FC_ASSERT(bucket < ACCOUNT_BUCKETS);
	return bucket >=
	       atomic_load_explicit(&account_memory.shared->limit[size_class(size)],
	                            memory_order_relaxed);
}

/* Relaxed: see above. */
static uint32_t
asked(unsigned class, unsigned source, unsigned bucket)
{
	FC_ASSERT(class < ACCOUNT_SIZES && bucket < ACCOUNT_BUCKETS);
	return atomic_load_explicit(
		&account_memory.shared->told[class][source][bucket],
		memory_order_relaxed);
}

/* Relaxed: see above. */
static void
forget_half(unsigned class)
{
	for (unsigned bucket = 0; bucket < ACCOUNT_BUCKETS; bucket++)
	{
		for (unsigned source = PAGE_CACHE; source <= DISK; source++)
			atomic_store_explicit(
				&account_memory.shared->told[class][source][bucket],
				asked(class, source, bucket) / 2, memory_order_relaxed);
	}
}

/*
 * Errors if the limit were the first bucket.  Errors are page cache reads from
 * the limit on, and disk reads before it.
 */
static uint64_t
first_errors(unsigned class)
{
	uint64_t errors = 0;

	for (unsigned bucket = 0; bucket < ACCOUNT_BUCKETS; bucket++)
		errors += asked(class, PAGE_CACHE, bucket);
	return errors;
}

/*
 * Choose among limits with equally few errors, from first to last: near the
 * present one, but MARGIN away from the times seen, if there is room.
 */
static unsigned
choose(unsigned now, unsigned first, unsigned last)
{
	unsigned middle = (first + last) / 2;

	FC_ASSERT(first <= last && last < ACCOUNT_BUCKETS);
	if (now < first)
		return first + MARGIN < middle ? first + MARGIN : middle;
	return last > middle + MARGIN ? last - MARGIN : middle;
}

/*
 * Take a limit with the fewest errors, but only if that saves more than 1 error
 * in MOVE_FOR, since a busy processor may delay a copy from memory.  Relaxed:
 * see above.
 */
static void
move_limit(unsigned class)
{
	_Atomic uint8_t *limit = &account_memory.shared->limit[class];
	unsigned now = atomic_load_explicit(limit, memory_order_relaxed);
	uint64_t errors = first_errors(class);
	uint64_t total = errors;
	uint64_t least = errors;
	uint64_t errors_now = errors;
	unsigned first = 0;
	unsigned last = 0;

	for (unsigned bucket = 1; bucket < ACCOUNT_BUCKETS; bucket++)
	{
		errors -= asked(class, PAGE_CACHE, bucket - 1);
		errors += asked(class, DISK, bucket - 1);
		total += asked(class, DISK, bucket - 1);
		if (bucket == now)
			errors_now = errors;
		if (errors < least)
		{
			least = errors;
			first = bucket;
		}
		if (errors == least)
			last = bucket;
	}
	if (errors_now - least > 1 && (errors_now - least) * MOVE_FOR > total)
		atomic_store_explicit(limit, (uint8_t) choose(now, first, last),
		                      memory_order_relaxed);
}

/*
 * A read that the limit classified correctly gives no reason to move it.
 * Relaxed: see above.
 */
void
account_source_learn(unsigned bucket, size_t size, bool disk)
{
	unsigned class = size_class(size);
	uint32_t before = atomic_fetch_add_explicit(
		&account_memory.shared->told[class][disk ? DISK : PAGE_CACHE][bucket],
		1, memory_order_relaxed);

	FC_ASSERT(bucket < ACCOUNT_BUCKETS);
	if (disk != account_source_is_disk(bucket, size))
		move_limit(class);
	if (before >= ASKED_MAX)
		forget_half(class);
}
