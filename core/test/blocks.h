/*
 * blocks.h
 *		What one process does with a block, for tests of one cache: look it up,
 *		put it in, and report whether the right page is served.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include "support.h"

static Page page;
static Page back;
UNUSED static FcTicket ticket;
UNUSED static FcChange change;

UNUSED static FcStatus
look(Rig *rig, const FcFile *file, uint32_t block)
{
	memset(&back, 0xee, sizeof(back));
	return fc_read(&rig->cache, file, block, &back, &ticket);
}

/* Put in version 1 of the block unless it is cached, and write it to flash. */
UNUSED static FcStatus
put(Rig *rig, const FcFile *file, uint32_t block)
{
	FcStatus status = look(rig, file, block);

	if (status != FC_MISS)
		return status;
	page_make(&page, file->id.relation, block, 1);
	status = fc_fill(&rig->cache, &ticket, &page);
	if (status == FC_OK)
		rig_flush(rig);
	return status;
}

UNUSED static bool
serves(Rig *rig, const FcFile *file, uint32_t block, uint64_t version)
{
	return look(rig, file, block) == FC_OK &&
	       page_is(&back, file->id.relation, block, version);
}

UNUSED static uint64_t
count_of(const Rig *rig, FcCounter counter)
{
	return fc_count_sum(&rig->cache, counter);
}

#endif
