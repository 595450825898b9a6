/*
 * bridge_devices.h
 *		The cache files: judged, opened, told about.
 *
 * Plain C: neither PostgreSQL's words nor core's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_DEVICES_H
#define PGFLASH_BRIDGE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

/* ---- for bridge.c ----------------------------------------------------------- */

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

/* ---- views --------------------------------------------------------------------- */

/* A cache file.  Means are negative where there is nothing to take one of. */
typedef struct BridgeDevice
{
	const char *cache_file;
	const char *state;
	const char *state_reason;
	bool direct_io;
	uint64_t reads;
	uint64_t writes;
	uint64_t read_bytes;
	uint64_t write_bytes;
	double read_mean_ms;
	double write_mean_ms;
	uint64_t read_errors;
	uint64_t write_errors;
	uint64_t read_timeouts;
	uint64_t corrupt_slots;
	uint64_t bypassed_reads;
} BridgeDevice;

/* What has been written to flash, and may be. */
typedef struct BridgeWrites
{
	bool limited;              /* is there a budget? */
	uint64_t left_today_bytes; /* of it */
	uint64_t day_bytes;        /* written in the last 24 hours */
	double day_seconds;        /* ... of which so much is known */
} BridgeWrites;

extern uint32_t bridge_device_count(void);
extern void bridge_device(uint32_t number, BridgeDevice *out);

/* False if there is no cache. */
extern bool bridge_writes(BridgeWrites *out);

#endif
