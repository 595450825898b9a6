/*
 * fill.h
 *		A fill that refreshes a copy; see fill.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_FILL_H
#define FCACHE_FILL_H

#include "index.h"

/* As fc_fill(), for a block that was changed: it was worth a slot before. */
extern FcStatus fc_fill_update(FcCache *cache, const FcTicket *ticket,
                               const void *page);

#endif
