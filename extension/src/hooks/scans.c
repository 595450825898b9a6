/*
 * scans.c
 *		Which reads of a file are a scan of it, and what a scan will read next.
 *
 * A descriptor that reads block after block is scanning.  Its blocks do not go
 * to flash, where they would only evict blocks that are read again.
 *
 * A scan that is served from flash has its next blocks read ahead, as the
 * kernel does for a file.  PostgreSQL 15 and 16 read block by block; without
 * read-ahead such a scan would wait for flash each time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/scans.h"

#include "fcache/assert.h"
#include "hooks/runtime.h"

/* This many blocks in a row make a scan. */
#define BULK_BLOCKS 32

/*
 * I/O workers divide a scan among them, run by run, so each sees gaps where the
 * others read.  PostgreSQL 18 has 3 of them by default, and now and then the
 * backend reads for itself.  A worker that waits for a processor sees larger
 * gaps.
 */
#define GAP_RUNS 16

/* If single blocks are read, only the reader itself leaves gaps. */
#define GAP_BLOCKS 4

/* A scan's next blocks are read ahead after this many reads without any gap. */
#define AHEAD_AFTER 4

/* ... at least this many at once: one call costs less than several. */
#define AHEAD_BATCH 8

bool
scans_note(OpenFile *entry, uint32_t first, unsigned count)
{
	uint32_t gap = first - entry->next_block;
	uint32_t gap_max = count > 1 ? GAP_RUNS * count : GAP_BLOCKS;
	bool goes_on =
		entry->next_block > 0 && first >= entry->next_block && gap < gap_max;

	FC_ASSERT(count > 0);
	if (!goes_on || gap > 0)
		entry->in_a_row = 0;
	else if (entry->in_a_row < AHEAD_AFTER)
		entry->in_a_row++;

	/*
	 * The streak is halved, not reset, so that one odd gap does not hide a
	 * scan.  But a read of the first block resets it: repeated scans of a small
	 * file are not a large scan.
	 */
	if (first == 0)
		entry->streak_blocks = 0;
	else if (!goes_on)
		entry->streak_blocks /= 2;
	entry->streak_blocks += count;
	entry->next_block = first + count;

	/* A longer streak tells nothing more. */
	if (entry->streak_blocks > BULK_BLOCKS)
		entry->streak_blocks = BULK_BLOCKS;
	return entry->streak_blocks >= BULK_BLOCKS;
}

void
scans_read_ahead(OpenFile *entry, uint32_t next)
{
	uint32_t end = next + FC_AHEAD_BLOCKS_MAX;
	uint32_t from = entry->ahead_block;

	FC_ASSERT(next > 0);
	if (entry->in_a_row < AHEAD_AFTER)
		return;
	if (end > runtime.segment_blocks)
		end = runtime.segment_blocks;
	if (from < next || from > end)
		from = next;

	if (end - from >= AHEAD_BATCH)
		entry->ahead_block =
			fc_read_ahead(&runtime.cache, &entry->file, from, end - from);
}
