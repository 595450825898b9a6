/*
 * reader.h
 *		Reading slots into pages of the process's own, with a limit of time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_READER_H
#define FCACHE_READER_H

#include "shared.h"

/*
 * A slot has been read: page holds its FC_BLOCK_SIZE bytes until the call
 * returns.  NULL if it could not be read; failed then says whether the device was
 * asked and refused, so that the copy is of no use.
 */
typedef void FcDeliver(void *context, unsigned index, const void *page,
                       bool failed);

/*
 * Read slots, all at once as far as there are pages, and deliver each as it
 * comes, in any order, each once.  Returns after the handle's read deadline at
 * the latest.  Within deliver, another read gets nothing.
 */
extern void fc_reader_read(FcCache *cache, const uint32_t slot[],
                           unsigned count, FcDeliver *deliver, void *context);

/* Wait for what is still under way, and give the memory back. */
extern void fc_reader_close(FcCache *cache);

#endif
