/*
 * neighbours.h
 *		A miss reads its neighbours in the same call while the cache has room.
 *
 *	neighbours_plan()	which blocks around the one that was missed?
 *	neighbours_read()	the read of the file, with them
 *	neighbours_timed()	what the read took, with them or without
 *	neighbours_fill()	put them into the cache
 *	neighbours_hit()	a block was served: was it once a neighbour?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_NEIGHBOURS_H
#define PGFLASH_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hooks/request.h"

typedef struct Neighbours
{
	/* There are neighbours to read, even if none are read this time. */
	bool any;
	unsigned size;   /* of the window: see NEIGHBOUR_SIZES */
	unsigned class;  /* of the relation */
	uint32_t first;  /* block of the window to read */
	unsigned count;  /* blocks of the window; 0: the missed one is read alone */
	unsigned wanted; /* index of the missed one in the window */
	unsigned got;    /* blocks of the window that were read */
	FillPlan plan;   /* the neighbours; indexes count in the window */
} Neighbours;

/*
 * Decide on a read that flash could not serve, under the plan for its own fill.
 * Changes errno.
 */
extern void neighbours_plan(const Call *call, OpenFile *entry, const Run *run,
                            const FillPlan *plan, Neighbours *out);

/*
 * Read the window; the missed block goes to page, and its bytes are the result.
 * -1: it could not be read in this way, and no neighbour will be filled.
 */
extern ssize_t neighbours_read(const Call *call, void *page,
                               Neighbours *neighbours);

extern void neighbours_timed(const Neighbours *neighbours, uint64_t ns);

/* Changes errno. */
extern void neighbours_fill(int fd, const FcFile *file,
                            const Neighbours *neighbours);

extern void neighbours_hit(FcFileId id, uint32_t block);

#endif
