/*
 * bridge_resize.h
 *		The size of the cache follows the setting.  For bridge.c alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_RESIZE_H
#define PGFLASH_BRIDGE_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "fcache/life.h"

/*
 * The size to lay a cache out with: what the setting says, as far as cache files
 * that are open already have room.
 */
extern uint32_t bridge_resize_begin_with(const FcConfig *config);

/* Why the size is not that of the setting, and will not be; NULL if it is, or will be. */
extern const char *bridge_resize_reason(uint32_t each_max);

/* One step towards the setting; true if there is more to do at once. */
extern bool bridge_resize_tick(const FcConfig *config);

#endif
