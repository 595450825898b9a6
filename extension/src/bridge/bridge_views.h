/*
 * bridge_views.h
 *		What SQL asks about the cache; bridge_devices.h has its devices.
 *
 * Includes neither PostgreSQL's headers nor core's.  All functions may be
 * called without a cache, and then return zero, or why there is none.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_VIEWS_H
#define PGFLASH_BRIDGE_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- views --------------------------------------------------------------- */

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
	BRIDGE_DISK_READ
} BridgeTimer;

typedef struct BridgeFile
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	uint32_t fork_number;
	const char *fork;
	uint32_t cached_blocks;
	uint64_t hits;
	uint64_t misses;
	double disk_read_ms;
	const char *policy;
} BridgeFile;

/* A cached block; block counts from the beginning of the fork. */
typedef struct BridgeBlock
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	const char *fork;
	uint64_t block;
} BridgeBlock;

/* The mode in a word, and the reason for it; both always have text. */
extern const char *bridge_mode(const char **reason_out);

/* Why the cache started warm or cold. */
extern const char *bridge_start_reason(void);

/* A counter of core, by name; false if there is none of that name. */
extern bool bridge_counter(const char *name, uint64_t *value_out);

extern void bridge_histogram(BridgeTimer timer, BridgeHistogram *out);
extern bool bridge_direct_io(void);
extern const char *bridge_io_engine(void);
extern const char *bridge_page_cache_check(void);

/* The staging ring. */
typedef struct BridgeStaging
{
	uint32_t blocks; /* that it can hold */
	uint32_t used;   /* approximate */
	bool writer_running;
} BridgeStaging;

extern BridgeStaging bridge_staging(void);

typedef struct BridgeSize
{
	uint32_t slots;     /* that the cache has or will soon have */
	uint32_t slots_max; /* that it can grow to */
	bool changing;
	double done; /* of the change, 0 to 1 */
} BridgeSize;

extern BridgeSize bridge_size(void);

/* Why the size is not that of the setting; NULL if it is. */
extern const char *bridge_size_reason(void);
extern uint32_t bridge_slot_count(void); /* that may be used */
extern uint32_t bridge_used_slots(void);
extern size_t bridge_metadata_bytes(void);

/* What of it is in huge pages; false if PostgreSQL knows. */
extern bool bridge_metadata_huge_bytes(size_t *bytes_out);
extern uint32_t bridge_file_count(void);
extern bool bridge_file(uint32_t number, BridgeFile *out);

/* ---- functions ----------------------------------------------------------- */

/* Change to the mode of this name; returns NULL, or why that is impossible. */
extern const char *bridge_set_mode(const char *name);
extern void bridge_clear(void);

typedef enum BridgeVerdict
{
	BRIDGE_NOTHING, /* the slot is empty, or changed meanwhile */
	BRIDGE_SAME,
	BRIDGE_DIFFERENT
} BridgeVerdict;

/* The blocks on disk of a file's fork, in all its segments. */
extern uint64_t bridge_fork_blocks(const BridgeFile *file);

/* The block that a slot holds; false: none. */
extern bool bridge_slot_block(uint32_t slot, BridgeBlock *out);

/* ---- a list of what is cached -------------------------------------------- */

typedef struct FcList BridgeList;

/* Cached blocks of one heat in a segment file. */
typedef struct BridgeListPart
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation;
	const char *fork;
	uint32_t segment;
	unsigned heat;
	uint32_t blocks;
	uint32_t size; /* of the bitmap, in bytes */
} BridgeListPart;

/* Memory for a list; 0: there is no cache. */
extern size_t bridge_list_size(void);

/* Begin in that memory. */
extern BridgeList *bridge_list_begin(void *memory, size_t size);

/* Look at some more of the cache; false: that was all. */
extern bool bridge_list_walk(BridgeList *list);

/* Bytes of the largest bitmap. */
extern uint32_t bridge_list_bitmap_size(void);

/* After the walk, the next part; false: that was the last one. */
extern bool bridge_list_next(BridgeList *list, uint8_t *bitmap,
                             BridgeListPart *out);

/* ---- verification -------------------------------------------------------- */

/* Compare one slot with its file. */
extern BridgeVerdict bridge_verify_slot(uint32_t slot);

/* A slot differed: take the cache offline, after all have been compared. */
extern void bridge_verify_failed(void);

#endif
