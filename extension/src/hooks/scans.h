/*
 * scans.h
 *		Which reads of a file are a scan of it, and what a scan will read next.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SCANS_H
#define PGFLASH_SCANS_H

#include <stdbool.h>
#include <stdint.h>

#include "hooks/descriptors.h"

/* A run of blocks is read: is the descriptor by now in the middle of a scan? */
extern bool scans_note(OpenFile *entry, uint32_t first, unsigned count);

/*
 * A scan was served from flash up to block next: start fetching the blocks that
 * follow.
 */
extern void scans_read_ahead(OpenFile *entry, uint32_t next);

#endif
