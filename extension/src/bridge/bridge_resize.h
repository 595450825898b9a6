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
 * The size for laying out a cache: the setting, limited to the room in cache
 * files that are already open.
 */
extern uint32_t bridge_resize_begin_with(const FcConfig *config);

/* Why the size does not follow the setting; NULL if it does, or soon will. */
extern const char *bridge_resize_reason(uint32_t each_max);

/* The settings were reloaded: try a refused size again. */
extern void bridge_resize_retry(void);

/* One step towards the setting; true if there is more to do at once. */
extern bool bridge_resize_tick(const FcConfig *config);

#endif
