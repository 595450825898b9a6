/*
 * verify.h
 *		Does a hit match its file?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_VERIFY_H
#define PGFLASH_VERIFY_H

#include <stdint.h>
#include <sys/types.h>

#include "fcache/cache.h"

typedef enum Verified
{
	VERIFIED_SAME,
	VERIFIED_CHANGED,    /* the block changed meanwhile: both were right */
	VERIFIED_UNREADABLE, /* the file cannot be read: proves nothing */
	VERIFIED_UNSTEADY,   /* each read returned something else */
	VERIFIED_DIFFERENT   /* beyond doubt */
} Verified;

/*
 * Read the block from its file; returns the number of bytes, or -1 if it cannot
 * be read.
 */
typedef ssize_t VerifyRead(void *file, uint32_t block, void *page);

/* Compare a hit, whose ticket names the block, with the file. */
extern Verified verify_hit(VerifyRead *read, void *file, const void *page,
                           const FcTicket *ticket);

/* Count the difference, note it for the log, and drop the entry. */
extern void verify_report(FcFileId id, const FcTicket *ticket);

#endif
