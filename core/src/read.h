/*
 * read.h
 *		The steps of a read that other files use, too; see read.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_READ_H
#define FCACHE_READ_H

#include "index.h"

/* The first half of fc_read(), also used by the replay tool. */
extern FC_MUST_CHECK FcStatus fc_read_look_up(FcCache *cache,
                                              const FcFile *file,
                                              uint32_t block, FcTicket *ticket,
                                              FcSeen *seen);

/*
 * fc_read() for several consecutive blocks, each with its page, ticket and
 * answer.  Their slots are read at once, and one deadline covers all of them.
 */
extern void fc_read_blocks(FcCache *cache, const FcFile *file, uint32_t first,
                           unsigned count, void *const page[],
                           FcTicket ticket[], FcStatus status[]);

#endif
