/*
 * status.h
 *		The status codes that core returns.
 *
 * A miss is an answer, not an error: whatever a call here returns, the caller
 * can always read the block from the relation's own file.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_STATUS_H
#define FCACHE_STATUS_H

#define FC_MUST_CHECK __attribute__((warn_unused_result))

typedef enum FcStatus
{
	FC_OK,      /* done; for a read: the page is the block */
	FC_MISS,    /* not cached; the ticket allows a fill */
	FC_SKIP,    /* nothing done, intentionally; counted by reason */
	FC_STALE,   /* the file's number changed: resolve it again, retry once */
	FC_OFF,     /* the mode does not allow it */
	FC_FULL,    /* a table of core is full; the caller continues without */
	FC_INVALID, /* an argument cannot work; nothing was done */
	FC_FAILED   /* the operating system refused; errno says why */
} FcStatus;

#endif
