/*
 * housekeeping.h
 *		Housekeeping: what one process does from time to time, what an
 *		administrator may set, and what can be asked about a cache.
 *
 * One process of the host calls fc_cache_sweep() and fc_wear_save() about once
 * a second, and fc_bypass_check() as often as that function asks for.  Any
 * process may change the size, the cache policies and the write budget, and
 * query anything, at any time.
 *
 * Locking: as in cache.h.  A call that cannot get the file lock soon says so,
 * and the host repeats the call.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_HOUSEKEEPING_H
#define FCACHE_HOUSEKEEPING_H

#include "fcache/cache.h"

/*
 * Housekeeping, to be called about once a second by one process.  Returns at
 * once when there is nothing to do.
 */
extern void fc_cache_sweep(FcCache *cache);

/* ---- size -------------------------------------------------------------- */

typedef struct FcSize
{
	uint32_t slots;      /* in use for fills */
	uint32_t slots_max;  /* the most it can grow to */
	uint32_t room_slots; /* room that the devices must have */
	bool changing;       /* fc_resize_step() has something to do */
	double done;         /* of the change, 0 to 1 */
} FcSize;

extern FcSize fc_geometry_size(const FcCache *cache);

/*
 * Begin to change the size, to a multiple of FC_WAYS for each device, up to the
 * maximum.  To grow, the devices must already have room.  FC_OK: continue with
 * fc_resize_step().  FC_SKIP: another change is under way; finish it first.
 * FC_OFF: the mode is offline.
 */
extern FC_MUST_CHECK FcStatus fc_resize_begin(FcCache *cache,
                                              uint32_t slot_count);

/*
 * Continue to change the size, for so many sets.  Any process may call it, one
 * at a time; a process that died is taken over.  False when there is nothing
 * left to do: then no process writes a slot from room_slots on, and the devices
 * may release that space.
 */
extern bool fc_resize_step(FcCache *cache, uint32_t sets);

/* ---- cache policies ---------------------------------------------------- */

/* What the host wants of a relation; see fc_cache_policy_set(). */
typedef enum FcCachePolicy
{
	FC_CACHE_POLICY_DEFAULT,
	FC_CACHE_POLICY_KEEP, /* evicted only for kept blocks, up to a share */
	FC_CACHE_POLICY_NONE  /* neither looked up nor filled */
} FcCachePolicy;

/*
 * Set the cache policy of a relation, that is, of all forks of the id's
 * tablespace, database and relation, whether or not it has file numbers.  round
 * (24 bits) marks the entry for fc_cache_policy_forget().  FC_FULL: there is no
 * place for another policy other than the default.  FC_SKIP: the lock was not
 * available, try again.  Takes effect with fc_cache_policy_apply() or the next
 * fc_cache_sweep().
 */
extern FC_MUST_CHECK FcStatus fc_cache_policy_set(FcCache *cache, FcFileId id,
                                                  FcCachePolicy policy,
                                                  uint32_t round);

/*
 * Give all relations of the database the default policy again, except those set
 * in this round.  False: the lock was not available, try again.
 */
extern bool fc_cache_policy_forget(FcCache *cache, uint32_t database,
                                   uint32_t round);

/* Make the policies that were set take effect; false as above. */
extern bool fc_cache_policy_apply(FcCache *cache);

/* The policy at a place of the table (default: free); false beyond its end. */
extern bool fc_cache_policy_info(const FcCache *cache, uint32_t place,
                                 FcFileId *id_out, FcCachePolicy *policy_out);

/* Relations that are sure to find a place: half of the table. */
extern uint32_t fc_cache_policy_count(const FcCache *cache);

/* The share of the cache that keep may reserve against others, in percent. */
extern void fc_cache_policy_set_keep_share(FcCache *cache, unsigned percent);

/* Cached blocks of files that are kept. */
extern uint64_t fc_cache_policy_keep_blocks(const FcCache *cache);

/* ---- devices ----------------------------------------------------------- */

/* What a device is fit for; see src/health.c. */
typedef enum FcDeviceState
{
	FC_DEVICE_IN_SERVICE,
	FC_DEVICE_STALLED, /* bypassed: a read exceeded its deadline */
	FC_DEVICE_SLOW,    /* bypassed: it was slower than the disk */
	FC_DEVICE_ABSENT,  /* could not be opened at the start */
	FC_DEVICE_READ_FAILS,
	FC_DEVICE_WRITE_FAILS,
	FC_DEVICE_CORRUPTS
} FcDeviceState;

/* How the process reads flash: "aio", or "plain" where there is no AIO. */
extern const char *fc_reader_engine(FcCache *cache);

/* What a device has done since the cache was created. */
typedef struct FcDeviceInfo
{
	FcDeviceState state;
	uint64_t reads; /* of slots, whatever their outcome */
	uint64_t read_bytes;
	/* Reads that a process waited for and that returned their slot. */
	uint64_t timed_reads;
	uint64_t read_ns; /* of those */
	uint64_t read_errors;
	uint64_t read_timeouts;
	uint64_t writes;
	uint64_t write_bytes;
	uint64_t write_ns;
	uint64_t write_errors;
	uint64_t corrupt_slots;
	uint64_t bypassed_reads; /* of cached blocks, from disk instead */
} FcDeviceInfo;

extern uint32_t fc_devices_count(const FcCache *cache);
extern void fc_devices_info(const FcCache *cache, uint32_t number,
                            FcDeviceInfo *out);

/*
 * Housekeeping of devices, for the process that calls fc_cache_sweep(): bypass
 * slow devices, probe bypassed ones, and reuse those that answer.  Returns the
 * number of milliseconds after which it should be called again.  Waits at
 * most a fifth of a second, unless there is no AIO.
 */
extern unsigned fc_bypass_check(FcCache *cache);

/*
 * Does each device that is in use answer a read within this time?  For the last
 * process of a host, before calls that wait without a limit.  Without AIO and
 * direct I/O, so does this one.
 */
extern FC_MUST_CHECK bool fc_probe_all(FcCache *cache, uint64_t timeout_ns);

/* ---- write budget ------------------------------------------------------ */

/*
 * Allow so many bytes a day to be written to flash from now on; 0: any number.
 */
extern void fc_budget_set(FcCache *cache, uint64_t bytes_per_day);

typedef struct FcBudgetInfo
{
	uint64_t bytes_per_day;    /* 0 = unlimited */
	uint64_t left_now_bytes;   /* may be written now */
	uint64_t burst_bytes;      /* the most that may be left */
	uint64_t left_today_bytes; /* of the budget, less day_bytes */
	uint64_t day_bytes;        /* written in the last 24 hours, of all lives */
	uint64_t day_ns;           /* ... as far as they are known */
} FcBudgetInfo;

extern void fc_budget_info(const FcCache *cache, FcBudgetInfo *out);

/*
 * Save what was written; see fc_wear_begin() in life.h.  About once a second.
 */
extern void fc_wear_save(FcCache *cache);

/* ---- statistics -------------------------------------------------------- */

/*
 * Bucket i counts times t with 2^i <= t in microseconds < 2^(i+1); 0: below 2.
 */
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

/* In bytes, everything included. */
extern size_t fc_cache_memory_size(const FcCache *cache);

/* Slots that may be in use, slots that are, and file numbers in all. */
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

/*
 * Which block is in a slot, without reading it; false: none.  It may have
 * changed before the caller looks at the answer.
 */
extern bool fc_read_slot_block(const FcCache *cache, uint32_t slot,
                               FcFileId *id_out, uint32_t *block_out);

/* ---- what is cached ------------------------------------------------------ */

/*
 * A list of all blocks in the cache, as bitmaps: a hint of what to load into
 * another cache of the same files (fc_fill_load()).  It is taken in one walk
 * through the index, without a lock, and differs from what is cached at any one
 * moment by what changed meanwhile.  It lives in memory of the caller, aligned
 * as by malloc(), which the caller frees.
 */
typedef struct FcList FcList;

/* The size of that memory: a little more than four bytes for a cached block. */
extern size_t fc_list_size(const FcCache *cache);

/* Begin; size is what fc_list_size() has returned. */
extern FcList *fc_list_begin(const FcCache *cache, void *memory, size_t size);

/* Walk through so many more sets; false: there are none left. */
extern bool fc_list_walk(FcList *list, uint32_t sets);

/* The cached blocks of one segment file that have the same heat. */
typedef struct FcListPart
{
	FcFileId id;
	unsigned heat;   /* 0 to FC_HEATS - 1: see replacement.h */
	uint32_t blocks; /* bits that are set */
	uint32_t size;   /* bytes up to the last one that is not 0 */
} FcListPart;

/*
 * After the walk: the next part, the hottest of each file first.  Bit n of the
 * bitmap, the lowest of a byte first, is block n.  The bitmap has so many
 * bytes; blocks beyond it are left out.  False: that was the last one.
 */
extern bool fc_list_next(FcList *list, uint8_t *bitmap, uint32_t size,
                         FcListPart *out);

#endif
