/*
 * bridge_devices.h
 *		The cache files: judged, opened, told about.  For bridge.c alone.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_DEVICES_H
#define PGFLASH_BRIDGE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

/* There is no cache: say why in the log.  False, for the caller to return. */
extern bool bridge_refuse(const char *hint, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Take pgflash.cache_file apart and judge the paths; false: refused, and said. */
extern bool bridge_devices_judge(const char *real_data_directory);

/* How many cache files there are to be. */
extern uint32_t bridge_devices_count(void);

/*
 * Open those that are not open yet, each for so many slots.  True if there is at
 * least one; what is said of the others is that their share is missing.
 */
extern bool bridge_devices_open(uint32_t slots_of_each);

/* Are all of them read and written without the page cache? */
extern bool bridge_devices_direct(void);

/* Log which of them went out of use. */
extern void bridge_devices_tick(void);

#endif
