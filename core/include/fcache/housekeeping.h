/*
 * housekeeping.h
 *		Housekeeping: what one process does from time to time, what an administrator
 *		may set, and what there is to know about a cache.
 *
 * One process of the host calls fc_cache_sweep() and fc_wear_save() about once a second,
 * and fc_bypass_check() as often as that asks for.  Any process may change the size, the
 * cache policies and the write budget, and ask for anything, at any time.
 *
 * Locking: as in cache.h.  A call that needs the file lock and cannot have it soon says
 * so; the host repeats it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_HOUSEKEEPING_H
#define FCACHE_HOUSEKEEPING_H

#include "fcache/cache.h"

/*
 * Housekeeping, to be called about once a second by one process.  Returns at once
 * when there is nothing to do.
 */
extern void fc_cache_sweep(FcCache *cache);

/* ---- size -------------------------------------------------------------- */

typedef struct FcSize
{
	uint32_t slots;      /* that fills go to */
	uint32_t slots_max;  /* that it can grow to */
	uint32_t room_slots; /* that the devices must have room for */
	bool changing;       /* fc_resize_step() has something to do */
	double done;         /* of the change, 0 to 1 */
} FcSize;

extern FcSize fc_geometry_size(const FcCache *cache);

/*
 * Begin to change the size, to a multiple of FC_WAYS for each device, up to the
 * maximum.  To grow, the devices must have room for it already.  FC_OK: go on
 * with fc_resize_step().  FC_SKIP: another change is under way; end it first.
 * FC_OFF: offline.
 */
extern FC_MUST_CHECK FcStatus fc_resize_begin(FcCache *cache,
                                              uint32_t slot_count);

/*
 * Go on changing the size, for so many sets; any process may, one at a time, and
 * one that died is taken over.  False when there is nothing left to do: then
 * nobody writes a slot from room_slots on, and the devices may take that space
 * back.
 */
extern bool fc_resize_step(FcCache *cache, uint32_t sets);

/* ---- cache policies ---------------------------------------------------- */

/* What the host wants of a relation; see fc_cache_policy_set(). */
typedef enum FcCachePolicy
{
	FC_CACHE_POLICY_DEFAULT,
	FC_CACHE_POLICY_KEEP, /* goes only for others that are kept, up to a share */
	FC_CACHE_POLICY_NONE  /* not looked up, not filled */
} FcCachePolicy;

/*
 * Set the cache policy of a relation, whether it has file numbers or not: all forks of
 * tablespace, database and relation of the id.  round (24 bits) marks the entry
 * for fc_cache_policy_forget().  FC_FULL: no place for another one that is not
 * the default; FC_SKIP: the lock could not be had, try again.  Takes effect with
 * fc_cache_policy_apply(), or the next fc_cache_sweep().
 */
extern FC_MUST_CHECK FcStatus fc_cache_policy_set(FcCache *cache, FcFileId id,
                                                  FcCachePolicy policy,
                                                  uint32_t round);

/*
 * All relations of the database have the default policy again, but those set in
 * this round.  False: the lock could not be had, try again.
 */
extern bool fc_cache_policy_forget(FcCache *cache, uint32_t database,
                                   uint32_t round);

/* Make what was set take effect; false as above. */
extern bool fc_cache_policy_apply(FcCache *cache);

/* The policy at a place of the table (default: free); false beyond its end. */
extern bool fc_cache_policy_info(const FcCache *cache, uint32_t place,
                                 FcFileId *id_out, FcCachePolicy *policy_out);

/* Relations that surely find a place: half of the table. */
extern uint32_t fc_cache_policy_count(const FcCache *cache);

/* The share of the cache that keep may hold against others, in percent. */
extern void fc_cache_policy_set_keep_share(FcCache *cache, unsigned percent);

/* Cached blocks of files that are kept. */
extern uint64_t fc_cache_policy_keep_blocks(const FcCache *cache);

/* ---- devices ----------------------------------------------------------- */

/* What a device is fit for; see src/health.c. */
typedef enum FcDeviceState
{
	FC_DEVICE_IN_SERVICE,
	FC_DEVICE_STALLED, /* bypassed: a read was not done in time */
	FC_DEVICE_SLOW,    /* bypassed: it took longer than the disk */
	FC_DEVICE_ABSENT,  /* could not be opened at the start */
	FC_DEVICE_READ_FAILS,
	FC_DEVICE_WRITE_FAILS,
	FC_DEVICE_CORRUPTS
} FcDeviceState;

/* How the process reads flash: "aio", or "plain" where that cannot be had. */
extern const char *fc_reader_engine(FcCache *cache);

/* What a device has done since the cache was created. */
typedef struct FcDeviceInfo
{
	FcDeviceState state;
	uint64_t reads; /* of slots, whatever their end */
	uint64_t read_bytes;
	/* That somebody waited for, and that gave their slot. */
	uint64_t timed_reads;
	uint64_t read_ns; /* of those */
	uint64_t read_errors;
	uint64_t read_timeouts;
	uint64_t writes;
	uint64_t write_bytes;
	uint64_t write_ns;
	uint64_t write_errors;
	uint64_t corrupt_slots;
	uint64_t bypassed_reads; /* of cached blocks: from disk instead */
} FcDeviceInfo;

extern uint32_t fc_devices_count(const FcCache *cache);
extern void fc_devices_info(const FcCache *cache, uint32_t number,
                            FcDeviceInfo *out);

/*
 * Housekeeping of devices, by the process that calls fc_cache_sweep(): bypass the slow
 * ones, probe the bypassed ones, take back who answers.  Says after how many
 * milliseconds it wants to be called again.  Waits no longer than a fifth of a
 * second, unless there is no AIO.
 */
extern unsigned fc_bypass_check(FcCache *cache);

/* ---- write budget ------------------------------------------------------ */

/* From now on so many bytes a day may be written to flash; 0: any number. */
extern void fc_budget_set(FcCache *cache, uint64_t bytes_per_day);

typedef struct FcBudgetInfo
{
	uint64_t bytes_per_day;    /* 0 = unlimited */
	uint64_t left_now_bytes;   /* may be written at once */
	uint64_t left_today_bytes; /* of the budget, less day_bytes */
	uint64_t day_bytes;        /* written in the last 24 hours, of all lives */
	uint64_t day_ns;           /* ... of which so much is known */
} FcBudgetInfo;

extern void fc_budget_info(const FcCache *cache, FcBudgetInfo *out);

/* Keep what was written; see fc_wear_begin() in life.h.  About once a second. */
extern void fc_wear_save(FcCache *cache);

/* ---- what there is to say ---------------------------------------------- */

/* Bucket i counts times t with 2^i <= t in microseconds < 2^(i+1); 0: below 2. */
#define FC_HISTOGRAM_BUCKETS 24

typedef struct FcHistogram
{
	uint64_t count;
	uint64_t total_ns;
	uint64_t bucket[FC_HISTOGRAM_BUCKETS];
} FcHistogram;

extern uint64_t fc_count_sum(const FcCache *cache, FcCounter counter);
extern void fc_count_histogram(const FcCache *cache, FcTimer timer,
                               FcHistogram *out);

/* Bytes, all included. */
extern size_t fc_cache_memory_size(const FcCache *cache);

/* That may be in use, and that are. */
extern uint32_t fc_geometry_slot_count(const FcCache *cache);
extern uint32_t fc_file_used_slots(const FcCache *cache);
extern uint32_t fc_file_count(const FcCache *cache);

typedef struct FcFileInfo
{
	FcFileId id;
	FcCachePolicy cache_policy;
	uint64_t hits;
	uint64_t misses;
	uint64_t disk_read_ns;
	/* May be a little high after a crash of a process. */
	uint32_t cached_blocks;
} FcFileInfo;

/* The live file with this number; false if there is none. */
extern bool fc_file_info(const FcCache *cache, uint32_t number,
                         FcFileInfo *out);

/*
 * The block in a slot, read back and checked against its CRC32C: to verify the
 * whole cache slot by slot.  FC_MISS: the slot is empty or changed meanwhile.
 */
extern FC_MUST_CHECK FcStatus fc_read_slot(FcCache *cache, uint32_t slot,
                                           void *page, FcFileId *id_out,
                                           FcTicket *ticket);

#endif
