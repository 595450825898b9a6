/*
 * page.c
 *		Would PostgreSQL take these bytes for the block?
 *
 * PostgreSQL looks at every page that it reads, and refuses one whose header cannot be
 * or, in a cluster with data checksums, whose checksum is wrong ("invalid page in
 * block").  If the disk gave it by mistake, a second read may be right.  A cache
 * that kept it would make the mistake last, so the same is asked here before a block
 * from the disk is cached.
 *
 * The rule is PostgreSQL's own (PageIsVerified), all-zero pages included: a file is
 * extended by them.  Two things are different.  With ignore_checksum_failure it would
 * take a page that is wrong; still it is not one to keep.  And nothing is reported:
 * this is called by hooks, and PostgreSQL is about to do that itself.
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

	if (PageIsNew(page))
		return all_zeros(page);
	if (!header_sane(header))
		return false;
	return !DataChecksumsEnabled() ||
	       pg_checksum_page(page, block) == header->pd_checksum;
}
