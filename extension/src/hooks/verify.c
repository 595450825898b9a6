/*
 * verify.c
 *		Does a hit match its file?
 *
 * Hits are compared, all or some, as pgflash.verify says (reads.c);
 * pgflash_cache_verify() compares everything that is cached (bridge_views.c).
 * A difference takes the cache offline, so it must be certain:
 *
 *	the entry	that gave the hit is still valid after the file was read.
 *				Otherwise the block was changed meanwhile, and both were right.
 *	the file	returned the same content twice in a row.  A disk may stutter: a
 *				read comes back short, or with bytes that the next one does not
 *				confirm; and a read that overlaps an unannounced write is torn.
 *
 * The file is read again at once, LOOKS_MAX times at most.  If it never returns
 * the same content twice, or fails after the first read, nothing is proven.
 * Then the query gets what it would have got without the cache, and the
 * entry is dropped.
 *
 * Runs in hooks: nothing here allocates, reports or takes a lock.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/verify.h"

#include <stdbool.h>
#include <string.h>

#include "broken.h"
#include "fcache/assert.h"
#include "hooks/runtime.h"

/*
 * After so many reads, give up on a disk that never returns the same content
 * twice.
 */
#define LOOKS_MAX 4

/* The result of one read of the file. */
typedef struct Look
{
	_Alignas(FC_IO_ALIGN) unsigned char page[FC_BLOCK_SIZE];
	ssize_t got;
} Look;

static bool
same(const Look *look, const Look *other)
{
	FC_ASSERT(look->got <= FC_BLOCK_SIZE);
	return look->got == other->got &&
	       memcmp(look->page, other->page, (size_t) look->got) == 0;
}

/* Not inlined: its frame is large, and every read passes through its caller. */
__attribute__((noinline)) Verified
verify_hit(VerifyRead *read, void *file, const void *page,
           const FcTicket *ticket)
{
	Look looks[2];

	FC_ASSERT(ticket->file != FC_FILE_NONE);
	for (int i = 0; i < LOOKS_MAX; i++)
	{
		Look *look = &looks[i % 2];

		look->got = read(file, ticket->block, look->page);
		if (look->got < 0 && i > 0)
			break;
		if (look->got < 0)
			return VERIFIED_UNREADABLE;
		if (i == 0)
			fc_count(&runtime.cache, FC_COUNT_verify_compared, 1);
		if (look->got == FC_BLOCK_SIZE &&
		    memcmp(look->page, page, FC_BLOCK_SIZE) == 0)
			return VERIFIED_SAME;
		if (!fc_read_hit_holds(&runtime.cache, ticket))
			return VERIFIED_CHANGED;
		if (FC_BROKEN(SECOND_LOOK) ||
		    (i > 0 && same(look, &looks[(i - 1) % 2])))
			return VERIFIED_DIFFERENT;
	}
	fc_read_hit_drop(&runtime.cache, ticket);
	return VERIFIED_UNSTEADY;
}

void
verify_report(FcFileId id, const FcTicket *ticket)
{
	FC_ASSERT(id.relation != 0);
	fc_read_hit_drop(&runtime.cache, ticket);
	fc_count(&runtime.cache, FC_COUNT_verify_mismatches, 1);
	runtime.board->mismatch_id = id;
	runtime.board->mismatch_block = ticket->block;
	atomic_fetch_add(&runtime.board->mismatches, 1);
}
