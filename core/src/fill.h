/*
 * fill.h
 *		A fill that refreshes a copy; see fill.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_FILL_H
#define FCACHE_FILL_H

#include "index.h"

/*
 * As fc_fill(), for a block that changed while it was cached: it is not asked
 * again whether it is worth a slot.
 */
extern FcStatus fc_fill_update(FcCache *cache, const FcTicket *ticket,
                               const void *page);

#endif
