/*
 * page.c
 *		Would PostgreSQL accept these bytes as the block?
 *
 * PostgreSQL checks every page that it reads.  It rejects a page whose header
 * is impossible or, in a cluster with data checksums, whose checksum is wrong
 * ("invalid page in block").  If the disk returned it by mistake, a second read
 * may be right.  A cache that kept it would make the mistake permanent, so the
 * same check is made here before a block from the disk is cached.
 *
 * The rule is PostgreSQL's own (PageIsVerified), and accepts all-zero pages, by
 * which a file is extended.  Two things differ.  With ignore_checksum_failure
 * PostgreSQL would accept a wrong page, which is still not worth caching.  And
 * nothing is reported, since this is called from hooks, and PostgreSQL is about
 * to report it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xlog.h"
#include "storage/bufpage.h"
#include "storage/checksum.h"

#include "bridge/page.h"

static bool
all_zeros(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, BLCKSZ - 1) == 0;
}

static bool
header_sane(const PageHeaderData *header)
{
	return (header->pd_flags & ~PD_VALID_FLAG_BITS) == 0 &&
	       header->pd_lower <= header->pd_upper &&
	       header->pd_upper <= header->pd_special &&
	       header->pd_special <= BLCKSZ &&
	       header->pd_special == MAXALIGN(header->pd_special);
}

bool
page_valid(void *page, uint32_t block)
{
	const PageHeaderData *header = page;

	Assert(page != NULL);
	if (PageIsNew(page))
		return all_zeros(page);
	if (!header_sane(header))
		return false;
	return !DataChecksumsEnabled() ||
	       pg_checksum_page(page, block) == header->pd_checksum;
}
