/*
 * reader.h
 *		Reading slots into pages of the process's own, with a limit of time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_READER_H
#define FCACHE_READER_H

#include "index.h"

/*
 * A slot has been read: page holds its FC_BLOCK_SIZE bytes until the call
 * returns.  NULL if it could not be read; failed then says whether the device was
 * asked and refused, so that the copy is of no use.
 */
typedef void FcDeliver(void *context, unsigned index, const void *page,
                       bool failed);

/* Reads are under way: there is time for something else, once. */
typedef void FcMeanwhile(void *context);

/*
 * Read the slots of some entries, at most FC_RUN_BLOCKS_MAX, all at once as far
 * as there are pages, and deliver each as it comes, in any order, each once.
 * Returns after the handle's read deadline at the latest.  Within deliver
 * and meanwhile, which may be NULL, another read gets nothing.
 */
extern void fc_reader_read(FcCache *cache, const FcSeen seen[], unsigned count,
                           FcDeliver *deliver, FcMeanwhile *meanwhile,
                           void *context);

/*
 * Begin to read the slots of entries that fc_reader_read() is likely to be asked
 * for soon, and do not wait.  Says how many, from the first on, need not be
 * asked for again: fewer than count if pages are short.
 */
extern FC_MUST_CHECK unsigned
fc_reader_ahead(FcCache *cache, const FcSeen seen[], unsigned count);

/* The bytes of an entry's slot as they are; false if they are not to be had. */
extern bool fc_reader_slot(FcCache *cache, const FcSeen *seen, void *page);

/* Wait for what is still under way, and give the memory back. */
extern void fc_reader_close(FcCache *cache);

#endif
