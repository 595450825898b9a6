/*
 * cache.h
 *		The flash cache: core's door to its host.
 *
 * A cache is one block of shared memory (index, file dictionary, processes,
 * counters) and one device with slot_count slots of 8 KB.  Every process of the
 * host uses the same memory through its own FcCache handle.
 *
 * How a host uses it, for each call that touches a relation's file:
 *
 *	read	fc_read(); on FC_MISS read the file, then fc_fill() with the ticket
 *	write	fc_change_begin(); real write; fc_change_end() on every way out;
 *			then, if the whole block was written, fc_change_fill()
 *	truncate the same begin and end, with the range of blocks cut off
 *	unlink	fc_file_retire() before and again after the real call
 *
 * Locking: none.  Reads, fills and changes use atomics only; no call blocks on
 * another process.  Only entering a new file takes a lock, bounded, whose holder
 * is taken over if it died or is oneself; if it cannot be had the file is just
 * not cached.  Every function may be called from a signal handler, in a critical
 * section and at any point of a process's life, and may be cut off by SIGKILL
 * anywhere.  A handler that cut off a call of ours and then calls in must not
 * return to it (PostgreSQL's either set a flag or end the process): what the cut
 * off call held is taken over.  errno is left as it was found.
 *
 * Always true:
 *	- fc_read() answers FC_OK only with bytes that the file held at some moment
 *	  during the call, provided every change of a file is bracketed as above;
 *	- announcing a change cannot fail;
 *	- nothing is allocated after fc_cache_create(), but for the pages that a
 *	  process maps at its first read.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_CACHE_H
#define FCACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fcache/device.h"
#include "fcache/replacement.h"
#include "fcache/status.h"

#define FC_BLOCK_SIZE 8192

/* As a count of blocks: to the end of the file, however long it is. */
#define FC_BLOCKS_ALL UINT32_MAX

/* As a file number: the dictionary does not know the file. */
#define FC_FILE_NONE 0

/* ---- files ------------------------------------------------------------- */

/* One segment file of a relation fork.  Blocks count from its beginning. */
typedef struct FcFileId
{
	uint32_t tablespace;
	uint32_t database;
	uint32_t relation; /* relfilenumber */
	uint32_t fork : 8;
	uint32_t segment : 24;
} FcFileId;

/* Segments from here on have no name in the cache. */
#define FC_SEGMENTS_MAX (1U << 24)

/*
 * A process's handle on a file: what an fd table entry holds.  The number is
 * good only while generation equals the shared one.
 */
typedef struct FcFile
{
	FcFileId id;
	uint32_t number;     /* FC_FILE_NONE until known */
	uint64_t generation; /* of the number */
	uint64_t
		absent_epoch; /* the dictionary held no such file then; 0 = unknown */
} FcFile;

/* What the host wants of a relation; see fc_cache_policy_set(). */
typedef enum FcCachePolicy
{
	FC_CACHE_POLICY_DEFAULT,
	FC_CACHE_POLICY_KEEP, /* evicted only for others that are kept, up to a share */
	FC_CACHE_POLICY_NONE /* not looked up, not filled */
} FcCachePolicy;

typedef struct FcFileInfo
{
	FcFileId id;
	FcCachePolicy cache_policy;
	uint64_t hits;
	uint64_t misses;
	uint64_t disk_read_ns;
	uint32_t
		cached_blocks; /* may be a little high after a crash of a process */
} FcFileInfo;

/* ---- modes ------------------------------------------------------------- */

typedef enum FcMode
{
	FC_SERVE,       /* reads and fills */
	FC_PASSTHROUGH, /* invalidates only, stays warm */
	FC_OFFLINE      /* untouched until the next start */
} FcMode;

/* Why the mode is what it is; the host turns it into words. */
typedef enum FcReason
{
	FC_REASON_STARTING,     /* self-test has not passed yet */
	FC_REASON_NONE,         /* serving as it should */
	FC_REASON_USER,         /* a function call asked for it */
	FC_REASON_SELF_TEST,    /* file calls do not pass the hooks */
	FC_REASON_READ_ERRORS,  /* too many failed slot reads */
	FC_REASON_WRITE_ERRORS, /* too many failed slot writes */
	FC_REASON_CORRUPTION,   /* too many slots with a wrong CRC32C */
	FC_REASON_MISMATCH,     /* verify found a block unlike its file */
	FC_REASON_UNKNOWN_FILE, /* a write to an fd that could not be classified */
	FC_REASON_HOST          /* the host's own; it keeps the words */
} FcReason;

/* ---- the cache --------------------------------------------------------- */

typedef struct FcConfig
{
	uint32_t slot_count; /* of all devices; each has a multiple of FC_WAYS */
	uint32_t slot_count_max; /* that it can grow to; 0 = slot_count */
	uint32_t device_count;   /* cache files of equal size; 0 = 1 */
	uint32_t file_count;     /* a power of 2; 0 = chosen from slot_count */
	uint32_t ring_pages;     /* the same */
	uint32_t process_count;  /* processes that may fill at the same time */
	const FcReplacement *replacement;
} FcConfig;

/* How the cache began: with the blocks of an earlier life, or why without. */
typedef enum FcStart
{
	FC_START_NOTHING,    /* there was no earlier life */
	FC_START_MEMORY,     /* warm: memory outlived the server */
	FC_START_MAP,        /* warm: from the map in the cache file */
	FC_START_UNCLEAN,    /* no map was saved, or it was used already */
	FC_START_CHECKPOINT, /* the cluster has lived on without the cache */
	FC_START_FORMAT,     /* of another version of pgflash */
	FC_START_GEOMETRY,   /* of another size */
	FC_START_SYSTEM,     /* of another cluster */
	FC_START_DIRECTORY,  /* ... or data directory */
	FC_START_BOOT,       /* the machine was started since */
	FC_START_NONCE,      /* of another life than the cache file */
	FC_START_CORRUPT,    /* a checksum is wrong */
	FC_START_OFFLINE,    /* changes went by unannounced */
	FC_START_UNREADABLE, /* the operating system refused */
	FC_START_UNWANTED    /* the host asked for a cold one */
} FcStart;

typedef struct FcShared FcShared; /* the shared memory; see src/shared.h */
typedef struct FcReader FcReader; /* see src/reader.c */
typedef struct FcProber FcProber; /* see src/probe.c */
typedef struct FcWearWriter FcWearWriter; /* see src/wear.c */

/* A process's handle.  Copied by fork; see fc_process_begin(). */
typedef struct FcCache
{
	FcShared *shared;
	const FcReplacement *replacement;
	FcDevice *devices; /* as many as the config said */
	uint32_t process;  /* own number in the process table */
	uint32_t token;    /* own name as an owner; 0 = not begun */
	void *scratch;     /* one aligned block, for the copy that is written */

	/* A read from flash takes no longer than this; 50 ms unless set. */
	uint64_t read_deadline_ns;
	FcReader *reader; /* the process's own; NULL before its first read */
	struct FcWriter *stand_in; /* ... before it first stood in for the writer */
	FcProber *prober;          /* the same, of housekeeping's */
	FcWearWriter *wear;        /* the same */
} FcCache;

extern size_t fc_cache_memory_needed(const FcConfig *config);

/*
 * Lay an empty cache into memory (aligned to FC_IO_ALIGN, fc_cache_memory_needed()
 * bytes, all of them zero: only the head is written) and fill in the handle.  The
 * mode is passthrough for FC_REASON_STARTING until the host says
 * fc_mode_set(FC_SERVE).  FC_INVALID if the config cannot work, or the memory is
 * not aligned or holds a cache already, FC_FAILED if no memory for the scratch
 * block is left.
 */
extern FC_MUST_CHECK FcStatus fc_cache_create(FcCache *cache, void *memory,
                                              const FcConfig *config,
                                              FcDevice *devices);

/*
 * Begin a life of the cache: say whose it is, in its cache files and then in memory,
 * with a random number that no other life has.  Once, after fc_cache_create() or
 * fc_revive(), by the only process; without it nothing outlives the server.
 */
extern FC_MUST_CHECK FcStatus fc_life_begin(FcCache *cache,
                                            const FcIdentity *identity,
                                            uint64_t nonce);

/*
 * Save the map behind the slots, and mark the cache files clean: by the last process
 * of a server whose files are all as they will be found.  The map counts as long as the
 * cluster's control file says what it says now.  FC_SKIP: there is nothing that could be
 * used again.  FC_FAILED with errno; EBUSY: a device is out of service, and not to be
 * waited for.
 */
extern FC_MUST_CHECK FcStatus fc_map_save(FcCache *cache,
                                          const FcCheckpoint *checkpoint);

/*
 * What the files hold may be lost with the machine, since their host does not always
 * sync them: no map is saved in this life, nor in one that goes on with its memory.
 */
extern void fc_map_unsynced_set(FcCache *cache);
extern bool fc_map_unsynced(const FcCache *cache);

/*
 * After fc_cache_create(), before fc_life_begin(): take in the map that the cache files
 * hold, if it is of the same cluster, at the same checkpoint, and clean.  FC_START_MAP,
 * or why not.
 */
extern FC_MUST_CHECK FcStart fc_map_load_begin(FcCache *cache,
                                               const FcIdentity *identity);

/* Take in the next part of the map; false: that was all.  By one process. */
extern bool fc_map_load(FcCache *cache);

/*
 * A life that ends before anybody took part in it, since the server did not come up:
 * leave the map that it found to the next one.  FC_SKIP: there was none, or somebody
 * may have used the cache, or changed a file.
 */
extern FC_MUST_CHECK FcStatus fc_map_load_leave(FcCache *cache);

/*
 * The cluster's control file is about to get a content of this CRC; it has got it.  What
 * outlives the server counts only for what it wrote itself.
 */
extern void fc_life_control_begins(FcCache *cache, uint32_t crc);
extern void fc_life_control_ends(FcCache *cache);

/* The life that all cache files were last used in; 0: none, or not all the same. */
extern uint64_t fc_life_found(const FcDevice *devices, uint32_t count);

/*
 * Go on with memory in which a cache lies whose processes are all gone, by
 * whatever end.  FC_START_MEMORY, or why not; then the memory is as it was.
 * Afterwards the cache is as after fc_cache_create(), but for its blocks: its
 * files are asleep (see fc_stamp_wake()), and fc_revive_audit() has to come before
 * FC_SERVE.
 */
extern FC_MUST_CHECK FcStart fc_revive(FcCache *cache, void *memory,
                                       const FcConfig *config,
                                       FcDevice *devices,
                                       const FcIdentity *identity,
                                       uint64_t nonce);

/*
 * Look through the memory of a revived cache, whose last user may have been
 * running wild.  Takes a while; changes may go on, nothing is served yet.
 */
extern void fc_revive_audit(FcCache *cache);

/* Fill in a handle on memory that another process laid out. */
extern FC_MUST_CHECK FcStatus fc_cache_attach(FcCache *cache, void *memory,
                                              const FcReplacement *replacement,
                                              FcDevice *devices);

/* Give back what the handle has of the process's own. */
extern void fc_cache_close(FcCache *cache);

/*
 * Take a place in the process table: once in each process, after fork, before
 * its first fill (fc_fill() does it by itself if the token is 0).  A child must
 * set cache->token to 0 first, or it would pass for its parent.  Places of dead
 * processes are reused.
 */
extern FcStatus fc_process_begin(FcCache *cache);
extern void fc_process_end(FcCache *cache);

extern FcMode fc_mode(const FcCache *cache, FcReason *reason_out);

/*
 * Change the mode for every process at once.  FC_INVALID if it is offline now:
 * blocks may have changed unseen since.
 */
extern FcStatus fc_mode_set(FcCache *cache, FcMode mode, FcReason reason);

/* Drop every cached block.  Safe at any time, in any mode. */
extern void fc_cache_clear(FcCache *cache);

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

/* ---- files ------------------------------------------------------------- */

/* A handle on the file of this name, not yet looked up. */
extern FcFile fc_file(FcFileId id);

/* Is the handle's number (still) the file's? */
extern bool fc_file_current(const FcCache *cache, const FcFile *file);

/* Make the handle current without giving the file a number; false = unknown. */
extern bool fc_file_resolve(FcCache *cache, FcFile *file);

/*
 * Find the file's number, giving it one if it has none; if need be another file
 * loses its own, and what it has cached.  FC_FULL: no number to be had just now;
 * read the file without the cache.  After this the caller makes sure
 * that the file it holds open still exists (fstat, st_nlink > 0), else calls
 * fc_file_retire() and reads without the cache.  That holds for every number AND
 * generation it has not checked yet, for a change may have made the handle
 * current too, and two numbers may have the same generation.
 */
extern FC_MUST_CHECK FcStatus fc_file_enter(FcCache *cache, FcFile *file);

/*
 * The file is about to be, or has just been, unlinked: forget its blocks and
 * retire its number.  Also for a file created anew under a name.  Call it before
 * and again after the real call.
 */
extern void fc_file_retire(FcCache *cache, FcFileId id);

/*
 * The same for every file of this relation number, fork and segment, whatever its
 * tablespace and database.
 */
extern void fc_file_retire_alike(FcCache *cache, const FcFileId *like);

/* ---- cache policies ----------------------------------------------------------- */

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

/* ---- files of an earlier life --------------------------------------------- */

/*
 * A cache may be older than the server that uses it (fc_revive(), a saved
 * map).  What it knows of a file counts only if nobody changed the file meanwhile,
 * and what says so is its inode: each change moves ctime.  So after each change,
 * and when a file becomes known, the host hands core a stamp; a file of an earlier
 * life is asleep until its stamp has been compared.  See src/stamp.c.
 */
typedef struct FcStamp
{
	uint64_t device;
	uint64_t inode;
	uint64_t size;
	int64_t changed_ns; /* ctime */
} FcStamp;

/* Permission to hand in a stamp that was taken (fstat) after it was given. */
typedef struct FcStampPermit
{
	uint32_t number; /* FC_FILE_NONE: none */
	uint64_t changes;
	uint64_t in_flight;
	uint64_t everyone;
} FcStampPermit;

/* Is the file known from an earlier life, and was not compared yet? */
extern bool fc_stamp_asleep(const FcCache *cache, const FcFile *file);

/*
 * Compare: its blocks count from now on if the stamp is the one it fell asleep
 * with, else they are dropped.  NULL: the file could not be asked.  Before the
 * file is read through the cache, and before it is changed: core drops what is
 * still asleep at a change, or at fc_file_enter().
 */
extern void fc_stamp_wake(FcCache *cache, const FcFile *file,
                          const FcStamp *stamp);

/*
 * May a stamp of this file be handed in?  Not while somebody changes it.  After a
 * change fc_change_end() gives the permit.
 */
extern FcStampPermit fc_stamp_permit(const FcCache *cache, const FcFile *file);

/* Under a permit: what the file's last stamp is worth. */
typedef enum FcStampAge
{
	FC_STAMP_NONE,   /* the file has had none since it became known */
	FC_STAMP_PAST,   /* it was changed since */
	FC_STAMP_PRESENT /* it was not: whoever looks now should see the same */
} FcStampAge;

extern FcStampAge fc_stamp_age(const FcCache *cache,
                               const FcStampPermit *permit);

/*
 * Hand in a stamp that was taken under the permit.  False: the file is not what it was,
 * though no change was announced since its last stamp.  Somebody changes it behind the
 * cache; what was cached of it is dropped.
 */
extern bool fc_stamp_set(FcCache *cache, const FcStampPermit *permit,
                         const FcStamp *stamp);

/* ---- reads ------------------------------------------------------------- */

/*
 * What a look-up noted.  After a miss it is the permission to fill with what the
 * file held after the look-up; after a hit it names the entry that served.
 */
typedef struct FcTicket
{
	uint32_t file; /* number */
	uint32_t block;
	uint32_t set; /* that a fill goes into */
	uint64_t set_generation;
	uint64_t file_generation;
	uint64_t mode_word;
	uint32_t slot; /* after a hit: the entry */
	uint32_t crc;
	uint64_t meta;
} FcTicket;

/*
 * Read a block from flash into page (FC_BLOCK_SIZE bytes; any alignment).
 *
 * FC_OK	page holds the block.
 * FC_MISS	page may be overwritten with anything; read the file, then
 *			fc_fill() may be called with the ticket.
 * FC_STALE	the handle's number is not (or no longer) the file's.
 * FC_OFF	the mode is not serve, or the file has the cache policy none.
 * FC_INVALID	no file has such a block.
 */
extern FC_MUST_CHECK FcStatus fc_read(FcCache *cache, const FcFile *file,
                                      uint32_t block, void *page,
                                      FcTicket *ticket);

/* The longest run fc_read_run() takes. */
#define FC_RUN_BLOCKS_MAX 128

/*
 * Read a run of blocks, each into its page, if all of them are cached: true.  Their
 * slots are read at once; the deadline is for all of them together.  False if one was
 * not there, which is counted nowhere, or was not to be had after all; the pages may
 * then be overwritten with anything.
 */
extern FC_MUST_CHECK bool fc_read_run(FcCache *cache, const FcFile *file,
                                      uint32_t first, unsigned count,
                                      void *const page[], FcTicket ticket[]);

/* The most blocks fc_read_ahead() takes. */
#define FC_AHEAD_BLOCKS_MAX 24

/*
 * Blocks that this process is likely to read next, in order: begin to fetch those
 * that are on flash, without waiting, so that fc_read() finds them here.  A hint:
 * every rule of a hit is applied when the block is read, as if nothing had been
 * read ahead.  Says where to go on: before the end if there was no room for more.
 */
extern uint32_t fc_read_ahead(FcCache *cache, const FcFile *file,
                              uint32_t first, unsigned count);

/* Does the entry that served this hit still stand, unchanged? */
extern bool fc_read_hit_holds(const FcCache *cache, const FcTicket *ticket);

/* Drop the entry that served this hit (a verified mismatch). */
extern void fc_read_hit_drop(FcCache *cache, const FcTicket *ticket);

/* Is the block cached right now?  A hint: no I/O, not counted. */
extern bool fc_read_would_hit(const FcCache *cache, const FcFile *file,
                              uint32_t block);

/*
 * Put a block into the cache: page is what the real read, begun after fc_read()
 * gave the ticket, returned.  page is copied first and may change meanwhile, as
 * long as each of its states is one the caller would accept as the block.  Core
 * cannot tell a block from what a disk gives by mistake: whoever can looks first.
 * FC_OK, or FC_SKIP with the reason counted.
 */
extern FcStatus fc_fill(FcCache *cache, const FcTicket *ticket,
                        const void *page);

/* ---- changes ----------------------------------------------------------- */

/* What fc_change_begin() noted; opaque to the caller. */
typedef struct FcChange
{
	uint32_t first;
	uint32_t count;
	bool was_cached; /* one block, and it was cached before */
	bool was_staged; /* ... but not on flash yet, nor on its way */
	FcTicket ticket; /* of the one block; set_generation after the first bump */
	bool counted_in; /* among the changes in flight */
	uint32_t changing; /* the number that counted us as a change */

	/* After fc_change_end(): may a stamp be handed in? */
	FcStampPermit permit;
} FcChange;

/*
 * Blocks first .. first + count - 1 of the file are about to change.  Finds the
 * file's number again if the handle's is stale; a file that the dictionary does
 * not know has nothing cached.  Cannot fail.  Does nothing while offline.
 */
extern void fc_change_begin(FcCache *cache, FcFile *file, uint32_t first,
                            uint32_t count, FcChange *change);

/* The change is over, whether it worked or not. */
extern void fc_change_end(FcCache *cache, FcFile *file, FcChange *change);

/*
 * Not one file but any may be about to change: the whole cache is cleared before
 * and after.
 */
extern void fc_change_all_begin(FcCache *cache);
extern void fc_change_all_end(FcCache *cache);

/*
 * The operating system reported an error about the file: what it holds, and what
 * it will hold when its pages leave memory, is anyone's guess.  Its blocks go, and
 * it will be cold at the next start whatever happens until then.
 */
extern void fc_change_distrust(FcCache *cache, FcFile *file);

/*
 * After fc_change_end() of one whole block that was written from page: refresh
 * the cached copy, if the block was cached before.  page must be the very bytes
 * given to the real write, unchanged since.
 */
extern FcStatus fc_change_fill(FcCache *cache, const FcChange *change,
                               const void *page);

/* ---- what it has to say ------------------------------------------------- */

typedef enum FcCounter
{
#define FC_COUNTER(name, text) FC_COUNT_##name,
#include "fcache/counters.def"
#undef FC_COUNTER
	FC_COUNTER_COUNT
} FcCounter;

/* Bucket i counts times t with 2^i <= t in microseconds < 2^(i+1); 0: below 2. */
#define FC_HISTOGRAM_BUCKETS 24

typedef enum FcTimer
{
	FC_TIME_FLASH_READ,
	FC_TIME_FLASH_WRITE,
	FC_TIME_DISK_READ,
	FC_TIMER_COUNT
} FcTimer;

typedef struct FcHistogram
{
	uint64_t count;
	uint64_t total_ns;
	uint64_t bucket[FC_HISTOGRAM_BUCKETS];
} FcHistogram;

extern void fc_count(FcCache *cache, FcCounter counter, uint64_t amount);
extern void fc_count_time(FcCache *cache, FcTimer timer, uint64_t ns);

/* One read of the disk for this file: counters, timer and the file's own sums. */
extern void fc_read_disk_done(FcCache *cache, const FcFile *file,
                              uint32_t blocks, uint64_t bytes, uint64_t ns);

extern uint64_t fc_count_sum(const FcCache *cache, FcCounter counter);
extern void fc_count_histogram(const FcCache *cache, FcTimer timer,
                               FcHistogram *out);

extern size_t
fc_cache_memory_size(const FcCache *cache); /* bytes, all included */
extern uint32_t
fc_geometry_slot_count(const FcCache *cache); /* that may be in use */
extern uint32_t fc_file_used_slots(const FcCache *cache);
extern uint32_t fc_file_count(const FcCache *cache);

/* ---- devices ------------------------------------------------------------ */

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
	uint64_t
		timed_reads;  /* that somebody waited for, and that gave their slot */
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
 * milliseconds it wants to be called again.  Waits no longer
 * than a fifth of a second, unless there is no AIO.
 */
extern unsigned fc_bypass_check(FcCache *cache);

/* ---- write budget --------------------------------------------------------- */

/* From now on so many bytes a day may be written to flash; 0: any number. */
extern void fc_budget_set(FcCache *cache, uint64_t bytes_per_day);

/*
 * What was written to flash, and what of the budget was used, outlives restarts: each
 * cache file keeps what was written to itself.  begin: after fc_life_begin(), by the
 * only process, with the budget as it is now; save: about once a second, by the one that calls fc_cache_sweep(); end: by the
 * last process, when all is written.
 */
extern void fc_wear_begin(FcCache *cache, uint64_t bytes_per_day);
extern void fc_wear_save(FcCache *cache);
extern void fc_wear_end(FcCache *cache);

typedef struct FcBudgetInfo
{
	uint64_t bytes_per_day;    /* 0 = unlimited */
	uint64_t left_now_bytes;   /* may be written at once */
	uint64_t left_today_bytes; /* of the budget, less day_bytes */
	uint64_t day_bytes;        /* written in the last 24 hours, of all lives */
	uint64_t day_ns;           /* ... of which so much is known */
} FcBudgetInfo;

extern void fc_budget_info(const FcCache *cache, FcBudgetInfo *out);

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

/* Monotonic time in nanoseconds, for fc_count_time() and fc_read_disk_done(). */
extern uint64_t fc_clock_ns(void);

#endif
