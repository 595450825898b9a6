/*
 * life.h
 *		The cache's life: how a host begins one and ends it.
 *
 * A life lasts from one start of the host to the next.
 *
 *	start	The first process, while it is alone, continues with memory that
 *			outlived the host (fc_revive()); otherwise it creates a cache
 *			(fc_cache_create()) and takes in the map that the last life saved
 *			(fc_map_load_begin()).  Then it calls fc_life_begin() and
 *			fc_wear_begin().
 *	run		One process checks what was revived (fc_revive_audit()), or takes in
 *			the map part by part (fc_map_load()), while the others work.
 *	end		The last process calls fc_map_save(), fc_wear_end() and
 *			fc_cache_close().
 *
 * A killed host skips the end.  What it leaves behind is used as far as its
 * validity can be proven; an FcStart says why a cache began cold.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_LIFE_H
#define FCACHE_LIFE_H

#include "fcache/cache.h"
#include "fcache/device.h"
#include "fcache/replacement.h"

typedef struct FcConfig
{
	uint32_t slot_count;     /* on all devices; a multiple of FC_WAYS on each */
	uint32_t slot_count_max; /* the most it can grow to; 0 = slot_count */
	uint32_t device_count;   /* cache files of equal size; 0 = 1 */
	uint32_t file_count;     /* a power of 2; 0 = chosen from slot_count */
	uint32_t ring_pages;     /* the same */
	uint32_t process_count;  /* processes that may fill at the same time */
	const FcReplacement *replacement;
} FcConfig;

/* How the cache began: with an earlier life's blocks, or why without. */
typedef enum FcStart
{
	FC_START_NOTHING,    /* there was no earlier life */
	FC_START_MEMORY,     /* warm: memory outlived the server */
	FC_START_MAP,        /* warm: from the map in the cache file */
	FC_START_UNCLEAN,    /* no map was saved, or it was already used */
	FC_START_CHECKPOINT, /* the cluster has run since, without the cache */
	FC_START_FORMAT,     /* of another version of pgflash */
	FC_START_GEOMETRY,   /* of another size */
	FC_START_SYSTEM,     /* of another cluster */
	FC_START_DIRECTORY,  /* ... or data directory */
	FC_START_BOOT,       /* the machine was restarted since */
	FC_START_NONCE,      /* of a life other than the cache file's */
	FC_START_CORRUPT,    /* a checksum is wrong */
	FC_START_OFFLINE,    /* changes went unannounced */
	FC_START_UNREADABLE, /* the operating system refused */
	FC_START_UNWANTED    /* the host asked for a cold one */
} FcStart;

/* ---- the memory, and a handle on it -------------------------------------- */

/* Bytes that a cache of this configuration takes; 0 if it cannot work. */
extern size_t fc_cache_memory_needed(const FcConfig *config);

/*
 * Lay out an empty cache in memory and fill in the handle.  The memory is
 * aligned to FC_IO_ALIGN and has fc_cache_memory_needed() bytes, all of them
 * zero, since only the head is written.  The mode is passthrough for
 * FC_REASON_STARTING until the host calls fc_mode_set(FC_SERVE).  FC_INVALID:
 * the config cannot work, or the memory is not aligned or already holds a
 * cache.  FC_FAILED: no memory is left for the scratch block.
 */
extern FC_MUST_CHECK FcStatus fc_cache_create(FcCache *cache, void *memory,
                                              const FcConfig *config,
                                              FcDevice *devices);

/*
 * Begin a life of the cache: record its cluster, in the cache files and then in
 * memory, with a random number that no other life has.  The first process calls
 * it once, while it is alone, after fc_cache_create() or fc_revive(); without
 * it nothing outlives the server.
 */
extern FC_MUST_CHECK FcStatus fc_life_begin(FcCache *cache,
                                            const FcIdentity *identity,
                                            uint64_t nonce);

/*
 * Save the map behind the slots, and mark the cache files clean.  The last
 * process of a server calls it, when no file of the server will change any
 * more.  The map is valid as long as the cluster's control file keeps its
 * present content.  FC_SKIP: there is nothing that could be used again.
 * FC_FAILED with errno; EBUSY: a device is out of service and must not be
 * waited for.
 */
extern FC_MUST_CHECK FcStatus fc_map_save(FcCache *cache,
                                          const FcCheckpoint *checkpoint);

/*
 * After fc_cache_create(), before fc_life_begin(): take in the map that the
 * cache files hold, if it is clean, of the same cluster, and at the same
 * checkpoint.  FC_START_MAP, or why not.
 */
extern FC_MUST_CHECK FcStart fc_map_load_begin(FcCache *cache,
                                               const FcIdentity *identity);

/*
 * Take in the next part of the map; false: that was the last.  For one process.
 */
extern bool fc_map_load(FcCache *cache);

/*
 * End a life in which no process took part, because the server failed to start:
 * leave the map that it found to the next life.  FC_SKIP: there was none, or a
 * process may have used the cache or changed a file.
 */
extern FC_MUST_CHECK FcStatus fc_map_load_leave(FcCache *cache);

/* The life that last used all cache files; 0: none, or not the same for all. */
extern uint64_t fc_life_found(const FcDevice *devices, uint32_t count);

/*
 * Continue with memory that holds a cache whose processes have all ended, in
 * whatever way.  FC_START_MEMORY, or why not; in that case the memory is
 * unchanged.  Afterwards the cache is as after fc_cache_create(), except for
 * its blocks: its files are asleep (see fc_stamp_wake()), and fc_revive_audit()
 * must be called before FC_SERVE.
 */
extern FC_MUST_CHECK FcStart fc_revive(FcCache *cache, void *memory,
                                       const FcConfig *config,
                                       FcDevice *devices,
                                       const FcIdentity *identity,
                                       uint64_t nonce);

/*
 * Check the memory of a revived cache, which its last user may have damaged.
 * Takes a while; files may change meanwhile, but nothing is served yet.
 */
extern void fc_revive_audit(FcCache *cache);

/* Fill in a handle on memory that another process laid out. */
extern FC_MUST_CHECK FcStatus fc_cache_attach(FcCache *cache, void *memory,
                                              const FcReplacement *replacement,
                                              FcDevice *devices);

/* Release what the handle holds of the process's own resources. */
extern void fc_cache_close(FcCache *cache);

/* ---- wear ---------------------------------------------------------------- */

/*
 * What was written to flash, and how much of the budget was used, is kept over
 * restarts: each cache file records what was written to it.  The first process
 * calls fc_wear_begin() after fc_life_begin(), with the present budget.  The
 * last process calls fc_wear_end() when everything is written.  In between,
 * housekeeping calls fc_wear_save().
 */
extern void fc_wear_begin(FcCache *cache, uint64_t bytes_per_day);
extern void fc_wear_end(FcCache *cache);

#endif
