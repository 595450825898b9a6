/*
 * reader.h
 *		Reading slots into the process's own pages, with a time limit.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_READER_H
#define FCACHE_READER_H

#include "index.h"

/*
 * A slot has been read: page holds its FC_BLOCK_SIZE bytes until the call
 * returns.  NULL if it could not be read; failed then says whether the device
 * was asked and refused, so that the copy is useless.
 */
typedef void FcDeliver(void *context, unsigned index, const void *page,
                       bool failed);

/* Called once while reads are under way, for work to do meanwhile. */
typedef void FcMeanwhile(void *context);

/*
 * Read the slots of some entries, at most FC_RUN_BLOCKS_MAX, all at once as far
 * as there are pages, and deliver each exactly once as it arrives, in any
 * order.  Returns no later than the handle's read deadline.  Within deliver,
 * and within meanwhile (which may be NULL), another read gets nothing.
 */
extern void fc_reader_read(FcCache *cache, const FcSeen seen[], unsigned count,
                           FcDeliver *deliver, FcMeanwhile *meanwhile,
                           void *context);

/*
 * Begin to read the slots of entries that fc_reader_read() is likely to be
 * asked for soon, without waiting.  Returns how many, from the first on, need
 * not be asked for again: fewer than count if pages are short.
 */
extern FC_MUST_CHECK unsigned
fc_reader_ahead(FcCache *cache, const FcSeen seen[], unsigned count);

/* Is the slot of exactly this entry being read ahead, and not there yet? */
extern bool fc_reader_under_way(FcCache *cache, const FcSeen *seen);

/*
 * Read the slot of an entry into the caller's page if its file is in memory:
 * one call, which nothing delays.  False, with the page in any state, if it is
 * not, or if the read fails; fc_reader_read() knows more then.
 */
extern FC_MUST_CHECK bool fc_reader_copy(FcCache *cache, const FcSeen *seen,
                                         void *page);

/* The bytes of an entry's slot, unchecked; false if they cannot be read. */
extern bool fc_reader_slot(FcCache *cache, const FcSeen *seen, void *page);

/* Wait for the reads still under way, and free the memory. */
extern void fc_reader_close(FcCache *cache);

#endif
