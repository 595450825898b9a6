/*
 * scans.c
 *		Which reads of a file are a scan of it, and what a scan will read next.
 *
 * A descriptor that reads block after block is scanning.  Its blocks do not go to
 * flash, where they would only drive out what is read again.
 *
 * A scan that is served from flash has its next blocks read ahead, as the kernel
 * does for a file: block by block, as PostgreSQL 15 and 16 read, it would else wait
 * for flash each time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/scans.h"

#include "hooks/runtime.h"

/* So many blocks in a row are a scan. */
#define BULK_BLOCKS 32

/*
 * io workers share a scan out between them, run by run, so each sees gaps of what
 * the others read: PostgreSQL 18 has 3 of them by default, and now and then the
 * backend reads for itself.  One that has to wait for a processor sees larger gaps.
 */
#define GAP_RUNS 16

/* The gaps of who reads block by block are its own. */
#define GAP_BLOCKS 4

/* A scan's next blocks are read ahead after so many reads without any gap. */
#define AHEAD_AFTER 4

/* ... so many at once at least: one call costs less than several. */
#define AHEAD_BATCH 8

bool
scans_note(OpenFile *entry, uint32_t first, unsigned count)
{
	uint32_t gap = first - entry->next_block;
	uint32_t gap_max = count > 1 ? GAP_RUNS * count : GAP_BLOCKS;
	bool goes_on =
		entry->next_block > 0 && first >= entry->next_block && gap < gap_max;

	if (!goes_on || gap > 0)
		entry->in_a_row = 0;
	else if (entry->in_a_row < AHEAD_AFTER)
		entry->in_a_row++;

	/*
	 * Halved, not forgotten: one odd gap makes no scan look like anything else.  But
	 * who reads the first block begins anew: a small file that is scanned again and
	 * again is no large scan.
	 */
	if (first == 0)
		entry->streak_blocks = 0;
	else if (!goes_on)
		entry->streak_blocks /= 2;
	entry->streak_blocks += count;
	entry->next_block = first + count;

	/* Beyond this it says no more. */
	if (entry->streak_blocks > BULK_BLOCKS)
		entry->streak_blocks = BULK_BLOCKS;
	return entry->streak_blocks >= BULK_BLOCKS;
}

void
scans_read_ahead(OpenFile *entry, uint32_t next)
{
	uint32_t end = next + FC_AHEAD_BLOCKS_MAX;
	uint32_t from = entry->ahead_block;

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
