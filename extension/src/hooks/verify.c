/*
 * verify.c
 *		Is what the cache gave what the file holds?
 *
 * Asked at each hit, or at some, as pgflash.verify says (reads.c), and for all that is
 * cached by pgflash_cache_verify() (bridge_views.c).  A difference takes the cache
 * offline, so it must be one:
 *
 *	the entry	that gave the hit still stands after the file was read.  Otherwise the
 *				block was changed meanwhile, and both were right.
 *	the file	gave the same twice, one time after the other.  A disk may stutter: a
 *				read comes back short, or with bytes that the next one does not confirm;
 *				and a read beside a write that nobody announced is torn.
 *
 * The file is read again at once, LOOKS_MAX times at most.  One that never gives the same
 * twice, or then fails, leaves it open who is right; the query is then given what it would
 * have been given without the cache, and the entry goes.
 *
 * Runs in hooks: nothing here allocates, reports or takes a lock.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/verify.h"

#include <stdbool.h>
#include <string.h>

#include "broken.h"
#include "hooks/runtime.h"

/* A disk that does not give the same twice in so many reads has had its chance. */
#define LOOKS_MAX 4

/* What a read of the file gave. */
typedef struct Look
{
	_Alignas(FC_IO_ALIGN) unsigned char page[FC_BLOCK_SIZE];
	ssize_t got;
} Look;

static bool
same(const Look *look, const Look *other)
{
	return look->got == other->got &&
	       memcmp(look->page, other->page, (size_t) look->got) == 0;
}

/* Not inlined: its frame is large, and its caller's is on the way of every read. */
__attribute__((noinline)) Verified
verify_hit(VerifyRead *read, void *file, const void *page,
           const FcTicket *ticket)
{
	Look looks[2];

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
	fc_read_hit_drop(&runtime.cache, ticket);
	fc_count(&runtime.cache, FC_COUNT_verify_mismatches, 1);
	runtime.board->mismatch_id = id;
	runtime.board->mismatch_block = ticket->block;
	atomic_fetch_add(&runtime.board->mismatches, 1);
}
