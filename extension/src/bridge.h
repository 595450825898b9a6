/*
 * bridge.h
 *		What the PostgreSQL-facing files may ask of the cache.
 *
 * Plain C: neither PostgreSQL's words nor core's.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_H
#define PGFLASH_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BRIDGE_WAIT_EVENT "FlashCacheRead"

/* ---- start ------------------------------------------------------------- */

/*
 * Is there going to be a cache, or at least advice or accounting?  Judges the settings, redirects
 * the server's file calls.  If there is no cache, it has said why in the log (or
 * nothing, if none was asked for).
 */
extern bool bridge_prepare(void);

/* Is there going to be a cache? */
extern bool bridge_wanted(void);

/* Do the server's file calls pass the hooks? */
extern bool bridge_redirected(void);

/* bridge_memory.c: once bridge_prepare() said yes, what it will need shared memory for. */
extern void bridge_memory_install(void);

/* Shared memory to ask for then. */
extern size_t bridge_memory_size(void);

/*
 * Open the cache file and lay out the cache in memory.  Called again in the same
 * process after a crash of a child, then with new memory.  On failure the file calls
 * only watched for the advice, if at all, and the log says why.
 */
extern void bridge_create(void *memory, uint32_t wait_event);

/* Shared memory is going away. */
extern void bridge_detach(void);

/* ... for good: the server ends. */
extern void bridge_end(void);

/* ---- the worker ---------------------------------------------------------- */

/* Is there a cache in this process? */
extern bool bridge_attached(void);

/* Is the cache waiting for its self-test? */
extern bool bridge_needs_self_test(void);

/* Begin to watch which calls pass the hooks; name the first that did not. */
extern void bridge_self_test_begin(void);
extern const char *bridge_self_test_end(void);

/* The self-test's verdict: serve, or go offline because of the named call. */
extern void bridge_start_serving(void);
extern void bridge_fail_self_test(const char *call);

/* Take in a part of what was saved at the last shutdown; false: that was all. */
extern bool bridge_load(void);

/*
 * Housekeeping, and log what hooks could not.  Says after how many milliseconds it
 * wants to be called again.
 */
extern unsigned bridge_tick(void);

/* ---- the writer ----------------------------------------------------------- */

/* Become the process that writes to flash; false if another one still is. */
extern bool bridge_writer_begin(void);

/* Write what is staged and due; rest so long at most, if there is nothing. */
extern void bridge_writer_run(unsigned rest_ms);

/* End a rest.  May be called in a signal handler. */
extern void bridge_writer_wake(void);

/* Write all that is staged, as far as the time suffices, and stop. */
extern void bridge_writer_end(unsigned limit_ms);

/* ---- views ---------------------------------------------------------------- */

typedef struct BridgeHistogram
{
	uint64_t count;
	double mean_ms;
	const uint64_t *bucket;
	int bucket_count;
} BridgeHistogram;

typedef enum BridgeTimer
{
	BRIDGE_FLASH_READ,
	BRIDGE_FLASH_WRITE,
	BRIDGE_DISK_READ
} BridgeTimer;

typedef struct BridgeFile
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	const char *fork;
	uint32_t cached_blocks;
	uint64_t hits;
	uint64_t misses;
	double disk_read_ms;
	const char *policy;
} BridgeFile;

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

/* The mode in a word, and why it is that; both always have text. */
extern const char *bridge_mode(const char **reason_out);

/* Why the cache began warm or cold. */
extern const char *bridge_start_reason(void);

/* A counter of core's by its name; false if there is none of that name. */
extern bool bridge_counter(const char *name, uint64_t *value_out);

extern void bridge_histogram(BridgeTimer timer, BridgeHistogram *out);
extern bool bridge_direct_io(void);
extern const char *bridge_io_engine(void);
extern uint32_t bridge_device_count(void);
extern void bridge_device(uint32_t number, BridgeDevice *out);

/* False if there is no cache. */
extern bool bridge_writes(BridgeWrites *out);
/* The staging ring. */
typedef struct BridgeStaging
{
	uint32_t blocks; /* it can hold */
	uint32_t used;   /* about */
	bool writer_running;
} BridgeStaging;

extern BridgeStaging bridge_staging(void);

typedef struct BridgeSize
{
	uint32_t slots;     /* that the cache has, or is about to have */
	uint32_t slots_max; /* that it can grow to */
	bool changing;
	double done; /* of the change, 0 to 1 */
} BridgeSize;

extern BridgeSize bridge_size(void);
extern uint32_t bridge_slot_count(void); /* that may be in use */
extern uint32_t bridge_used_slots(void);
extern size_t bridge_metadata_bytes(void);
extern uint32_t bridge_file_count(void);
extern bool bridge_file(uint32_t number, BridgeFile *out);

/* ---- functions ------------------------------------------------------------- */

/* Change the mode to the one of this name; NULL, or why it cannot be. */
extern const char *bridge_set_mode(const char *name);
extern void bridge_clear(void);

typedef enum BridgeVerdict
{
	BRIDGE_NOTHING, /* the slot is empty, or changed meanwhile */
	BRIDGE_SAME,
	BRIDGE_DIFFERENT
} BridgeVerdict;

/* Compare one slot with its file. */
extern BridgeVerdict bridge_verify_slot(uint32_t slot);

/* A slot was different: take the cache offline, once all have been compared. */
extern void bridge_verify_failed(void);

#endif
