/*
 * fill.c
 *		A fill: from the caller's page to the staging ring.
 *
 * Take a page of the ring, claim a way, copy the block, publish; the writer
 * writes it to its slot later.  Anything that changed since the look-up that
 * gave the ticket makes the fill fail: in the claim, or at the latest when it
 * is published (claim.c).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "fill.h"

#include <errno.h>

#include "budget.h"
#include "devices.h"
#include "file.h"
#include "map.h"
#include "staging.h"

/* Why a block is filled. */
typedef struct Fill
{
	bool update; /* it was changed, and cached before */
	bool load;   /* no read asked for it, and it has this heat */
	unsigned heat;
} Fill;

static FcStatus
claim_for(FcCache *cache, const FcTicket *ticket, Fill fill, FcSeen *claim)
{
	FC_ASSERT(!fill.load || !fill.update);
	return fill.load ? fc_claim_load(cache, ticket, fill.heat, claim)
	                 : fc_claim(cache, ticket, claim);
}

static FcStatus
fill_page(FcCache *cache, const FcTicket *ticket, const void *page, Fill fill)
{
	uint64_t key = fc_key(ticket->file, ticket->block);
	FcSeen claim;
	uint32_t ref;

	FC_ASSERT(ticket->file != FC_FILE_NONE);

	/* Do not copy the block if the fill must fail anyway. */
	if (!FC_BROKEN(MODE_CHECK) &&
	    atomic_load(&cache->shared->mode_word) != ticket->mode_word)
	{
		fc_count(cache, FC_COUNT_insert_skip_not_current, 1);
		return FC_SKIP;
	}
	if (!fc_devices_take_set(cache, ticket->set))
	{
		fc_count(cache, FC_COUNT_insert_skip_device, 1);
		return FC_SKIP;
	}
	if (fc_map_load_expects(cache->shared, ticket->set))
	{
		fc_count(cache, FC_COUNT_insert_skip_not_useful, 1);
		return FC_SKIP;
	}
	if (!fc_budget_allows(cache))
	{
		fc_count(cache, FC_COUNT_insert_skip_budget, 1);
		return FC_SKIP;
	}

	/* Take the page first: if there is none, no block may be evicted. */
	if ((cache->token == 0 && fc_process_begin(cache) != FC_OK) ||
	    !fc_staging_take(cache, &ref))
	{
		fc_count(cache, FC_COUNT_insert_skip_writer_overloaded, 1);
		return FC_SKIP;
	}
	FC_ASSERT(cache->token != 0);
	FC_POINT("page-taken");
	if (claim_for(cache, ticket, fill, &claim) != FC_OK)
	{
		fc_staging_free(cache->shared, ref);
		return FC_SKIP;
	}
	FC_POINT("claimed");
	fc_staging_put(cache, ref, key, claim.slot, page, fill.update);
	FC_POINT("block-copied");
	if (fc_claim_publish(cache, ticket, &claim, FC_STAGED, ref) != FC_OK)
	{
		fc_staging_free(cache->shared, ref);
		return FC_SKIP;
	}
	FC_POINT("published");
	fc_count(cache, FC_COUNT_inserts, 1);
	fc_staging_hand_over(cache, ref);
	return FC_OK;
}

static FcStatus
fill_for(FcCache *cache, const FcTicket *ticket, const void *page, Fill fill)
{
	int saved_errno = errno;
	FcStatus status;

	FC_ASSERT(page != NULL);
	status = fill_page(cache, ticket, page, fill);
	errno = saved_errno;
	return status;
}

FcStatus
fc_fill(FcCache *cache, const FcTicket *ticket, const void *page)
{
	return fill_for(cache, ticket, page, (Fill){ 0 });
}

FcStatus
fc_fill_load(FcCache *cache, const FcTicket *ticket, const void *page,
             unsigned heat)
{
	FC_ASSERT(heat <= FC_HEAT_SPARE);

	/*
	 * A query never reads a block that is being written; this read may have.
	 * Then the entry would be older than the file until the change ends, and
	 * who compares them meanwhile would find a wrong block.  A change that
	 * begins later makes the fill fail.
	 */
	if (!fc_fill_may_load(cache, ticket))
	{
		fc_count(cache, FC_COUNT_insert_skip_modification, 1);
		return FC_SKIP;
	}
	return fill_for(cache, ticket, page, (Fill){ .load = true, .heat = heat });
}

bool
fc_fill_may_load(const FcCache *cache, const FcTicket *ticket)
{
	return !fc_stamp_changing(cache->shared, ticket);
}

bool
fc_fill_has_room(const FcCache *cache, const FcTicket *ticket)
{
	return !fc_map_load_expects(cache->shared, ticket->set) &&
	       fc_claim_has_room(cache, ticket->set);
}

FcStatus
fc_fill_update(FcCache *cache, const FcTicket *ticket, const void *page)
{
	return fill_for(cache, ticket, page, (Fill){ .update = true });
}
