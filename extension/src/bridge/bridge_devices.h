/*
 * bridge_devices.h
 *		The cache files: checking their paths, opening them, reporting their
 *		state.
 *
 * Includes neither PostgreSQL's headers nor core's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_DEVICES_H
#define PGFLASH_BRIDGE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

/* ---- for bridge.c -------------------------------------------------------- */

/* Split pgflash.cache_file and check the paths; false: refused, and logged. */
extern bool bridge_devices_judge(const char *real_data_directory);

/* How many cache files there should be. */
extern uint32_t bridge_devices_count(void);

/*
 * Open those that are not open yet, with this many slots each.  True if at
 * least one is open; for the others, the log says that their share is missing.
 */
extern bool bridge_devices_open(uint32_t slots_of_each);

/* Are all of them read and written without the page cache? */
extern bool bridge_devices_direct(void);

/* Log which of them have gone out of use. */
extern void bridge_devices_tick(void);

/* ---- views --------------------------------------------------------------- */

/* A cache file.  Means are negative if there was nothing to average. */
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

/* What was written to flash, and what may be. */
typedef struct BridgeWrites
{
	bool limited;              /* is there a budget? */
	uint64_t left_today_bytes; /* of the budget */
	uint64_t day_bytes;        /* written in the last 24 hours */
	double day_seconds;        /* ... as far as they are known */
} BridgeWrites;

extern uint32_t bridge_device_count(void);
extern void bridge_device(uint32_t number, BridgeDevice *out);

/* False if there is no cache. */
extern bool bridge_writes(BridgeWrites *out);

#endif
