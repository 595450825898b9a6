/*
 * cache.h
 *		The flash cache, for processes that read and change files.
 *
 * life.h is for creating a cache and ending its life, housekeeping.h for
 * maintaining it and asking about it, writer.h for the process that writes to
 * flash.
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
 * another process.  Only entering a new file takes a lock.  The wait for it is
 * bounded, and it is taken over if its holder died or is the process itself.
 * If the lock is not available, the file is simply not cached.  Every function
 * may be called from a signal handler, in a critical section and at any point
 * of a process's life, and SIGKILL may interrupt it anywhere.  If a signal
 * handler interrupts one of these calls and makes another, it must not return
 * to the first (PostgreSQL's handlers either set a flag or end the process),
 * because the second takes over what the first held.  errno is preserved.
 *
 * Always true:
 *	- fc_read() returns FC_OK only with bytes that the file held at some moment
 *	  during the call, provided every change of a file is bracketed as above;
 *	- announcing a change cannot fail;
 *	- nothing is allocated after fc_cache_create() except the pages that a
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
#include "fcache/status.h"

#define FC_BLOCK_SIZE 8192

/* As a count of blocks: to the end of the file, whatever its length. */
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

/* Segments with this number or a higher one have no name in the cache. */
#define FC_SEGMENTS_MAX (1U << 24)

/*
 * A process's handle on a file, as kept in an fd table entry.  The number is
 * valid only while generation equals the shared one.
 */
typedef struct FcFile
{
	FcFileId id;
	uint32_t number;     /* FC_FILE_NONE until known */
	uint64_t generation; /* of the number */
	/* At this epoch the dictionary did not hold the file; 0 = unknown. */
	uint64_t absent_epoch;
} FcFile;

/* ---- modes ------------------------------------------------------------- */

typedef enum FcMode
{
	FC_SERVE,       /* reads and fills */
	FC_PASSTHROUGH, /* invalidates only; the cache stays warm */
	FC_OFFLINE      /* not used until the next start */
} FcMode;

/* Why the mode is what it is; the host turns it into words. */
typedef enum FcReason
{
	FC_REASON_STARTING,     /* self-test has not passed yet */
	FC_REASON_NONE,         /* serving normally */
	FC_REASON_USER,         /* a function call asked for it */
	FC_REASON_SELF_TEST,    /* file calls bypass the hooks */
	FC_REASON_READ_ERRORS,  /* too many failed slot reads */
	FC_REASON_WRITE_ERRORS, /* too many failed slot writes */
	FC_REASON_CORRUPTION,   /* too many slots with a wrong CRC32C */
	FC_REASON_MISMATCH, /* verify found a block that differs from its file */
	FC_REASON_UNKNOWN_FILE, /* a write to an fd that could not be classified */
	FC_REASON_HOST          /* a reason of the host, which keeps its text */
} FcReason;

/* ---- the cache --------------------------------------------------------- */

typedef struct FcReplacement FcReplacement; /* see fcache/replacement.h */
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
	uint32_t token;    /* identifies it as an owner; 0 = not begun */
	void *scratch;     /* one aligned block, for the copy that is written */

	/* The limit for a read from flash; 50 ms unless set. */
	uint64_t read_deadline_ns;
	FcReader *reader; /* the process's own; NULL before its first read */
	struct FcWriter *stand_in; /* ... before it first stood in for the writer */
	FcProber *prober;          /* the same, for housekeeping */
	FcWearWriter *wear;        /* the same */
} FcCache;

/*
 * Take a place in the process table.  Each process does so once, after fork and
 * before its first fill (fc_fill() does it if the token is 0).  A child must
 * set cache->token to 0 first, or it would pass for its parent.  Places of dead
 * processes are reused.
 */
extern FcStatus fc_process_begin(FcCache *cache);
extern void fc_process_end(FcCache *cache);

extern FcMode fc_mode(const FcCache *cache, FcReason *reason_out);

/*
 * Change the mode for all processes at once.  FC_INVALID if the mode is
 * offline, because blocks may have changed unseen since.
 */
extern FcStatus fc_mode_set(FcCache *cache, FcMode mode, FcReason reason);

/* Drop every cached block.  Safe at any time, in any mode. */
extern void fc_cache_clear(FcCache *cache);

/* ---- files ------------------------------------------------------------- */

/* A handle on the file of this name, not yet looked up. */
extern FcFile fc_file(FcFileId id);

/* Does the handle's number (still) belong to the file? */
extern bool fc_file_current(const FcCache *cache, const FcFile *file);

/* Make the handle current without assigning a number; false = file unknown. */
extern bool fc_file_resolve(FcCache *cache, FcFile *file);

/*
 * Find the file's number, and assign one if it has none.  If necessary, another
 * file is displaced: it loses its number and its cached blocks.  FC_FULL: no
 * number is available now; read the file without the cache.  Afterwards the
 * caller checks that the file it holds open still exists (fstat, st_nlink >
 * 0); if it does not, the caller calls fc_file_retire() and reads without the
 * cache.  The check is needed for every pair of number AND generation that was
 * not checked yet: a change may have made the handle current, too, and two
 * numbers may have the same generation.
 */
extern FC_MUST_CHECK FcStatus fc_file_enter(FcCache *cache, FcFile *file);

/*
 * The file is about to be unlinked, or has just been: forget its blocks and
 * retire its number.  Also for a file that is created again under an existing
 * name.  Call it before the real call and again after it.
 */
extern void fc_file_retire(FcCache *cache, FcFileId id);

/*
 * The same for all files of this relation number, fork and segment, in whatever
 * tablespace and database.
 */
extern void fc_file_retire_alike(FcCache *cache, const FcFileId *like);

/* ---- files of an earlier life ------------------------------------------ */

/*
 * A cache may be older than the server that uses it (fc_revive(), a saved map).
 * What it holds of a file is valid only if nobody changed the file meanwhile.
 * The inode shows that, because each change moves ctime.  So the host hands
 * core a stamp after each change and when a file becomes known.  A file of an
 * earlier life is asleep until its stamp has been compared.  See src/stamp.c.
 */
typedef struct FcStamp
{
	uint64_t volume; /* the file system, by a number that outlives its mount */
	uint64_t inode;
	uint64_t size;
	int64_t changed_ns; /* ctime */
} FcStamp;

/*
 * Permission to hand in a stamp that is taken (fstat) after the permit was
 * given.
 */
typedef struct FcStampPermit
{
	uint32_t number; /* FC_FILE_NONE: none */
	uint64_t changes;
	uint64_t in_flight;
	uint64_t everyone;
} FcStampPermit;

/* Is the file known from an earlier life and not compared yet? */
extern bool fc_stamp_asleep(const FcCache *cache, const FcFile *file);

/*
 * Compare the stamp.  If it is the one the file fell asleep with, the file's
 * blocks are valid from now on; otherwise they are dropped.  NULL: no stamp
 * could be taken.  Call it before the file is read through the cache and before
 * it is changed: at a change, or at fc_file_enter(), core drops what is still
 * asleep.
 */
extern void fc_stamp_wake(FcCache *cache, const FcFile *file,
                          const FcStamp *stamp);

/*
 * May a stamp of this file be handed in?  Not while a process is changing it.
 * After a change, fc_change_end() gives the permit.
 */
extern FcStampPermit fc_stamp_permit(const FcCache *cache, const FcFile *file);

/* Under a permit: does the file's last stamp still describe it? */
typedef enum FcStampAge
{
	FC_STAMP_NONE,   /* the file has had none since it became known */
	FC_STAMP_PAST,   /* the file was changed since */
	FC_STAMP_PRESENT /* it was not: a new stamp should equal it */
} FcStampAge;

extern FcStampAge fc_stamp_age(const FcCache *cache,
                               const FcStampPermit *permit);

/*
 * Hand in a stamp that was taken under the permit.  False: the file has changed
 * although no change was announced since its last stamp.  Something changes it
 * behind the cache's back; its cached blocks are dropped.
 */
extern bool fc_stamp_set(FcCache *cache, const FcStampPermit *permit,
                         const FcStamp *stamp);

/* ---- reads ------------------------------------------------------------- */

/*
 * What a look-up noted.  After a miss it permits a fill with what the file held
 * after the look-up; after a hit it names the entry that served.
 */
typedef struct FcTicket
{
	uint32_t file; /* number */
	uint32_t block;
	uint32_t set; /* that a fill uses */
	uint64_t set_generation;
	uint64_t file_generation;
	uint64_t mode_word;
	uint32_t slot; /* after a hit: the entry */
	uint32_t crc;
	uint64_t meta;
} FcTicket;

/*
 * A read of this run is about to ask: let the processor fetch what its first
 * look-ups need meanwhile.  This is a hint that changes nothing, best given
 * before a system call that has to come first.
 */
extern void fc_read_prefetch(const FcCache *cache, const FcFile *file,
                             uint32_t first, unsigned count);

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
 * Read a run of blocks, each into its page.  True if all of them are cached and
 * were read.  Their slots are read at once, and one deadline covers all of
 * them.  False if a block was not cached, which is counted nowhere, or could
 * not be read after all; the pages may then be overwritten with anything.
 */
extern FC_MUST_CHECK bool fc_read_run(FcCache *cache, const FcFile *file,
                                      uint32_t first, unsigned count,
                                      void *const page[], FcTicket ticket[]);

/* The most blocks fc_read_ahead() takes. */
#define FC_AHEAD_BLOCKS_MAX 24

/*
 * Begin to fetch the blocks that this process is likely to read next, in order,
 * as far as they are on flash.  Does not wait; a later fc_read() finds the
 * blocks in this process.  This is a hint: when a block is read, every rule of
 * a hit is applied as if nothing had been read ahead.  Returns the block to
 * continue with, which lies before the end if there was no room for more.
 */
extern uint32_t fc_read_ahead(FcCache *cache, const FcFile *file,
                              uint32_t first, unsigned count);

/*
 * The same for one block.  True: it is being fetched and has not come yet, so
 * that it is better to do something else before reading it.
 */
extern FC_MUST_CHECK bool fc_read_begin(FcCache *cache, const FcFile *file,
                                        uint32_t block);

/*
 * Is the block still being fetched, as its entry is now?  False too if what was
 * fetched has come, or was given up for another block's.
 */
extern FC_MUST_CHECK bool fc_read_under_way(FcCache *cache, const FcFile *file,
                                            uint32_t block);

/*
 * Look a block up without reading it.  FC_MISS: it is not cached, and the
 * ticket permits a fill; FC_OK: it is cached; else as fc_read().  For reads
 * that no query asked for: nothing is counted.
 */
extern FC_MUST_CHECK FcStatus fc_read_ticket(FcCache *cache, const FcFile *file,
                                             uint32_t block, FcTicket *ticket);

/* Is the entry that served this hit still there, unchanged? */
extern bool fc_read_hit_holds(const FcCache *cache, const FcTicket *ticket);

/* Drop the entry that served this hit (a verified mismatch). */
extern void fc_read_hit_drop(FcCache *cache, const FcTicket *ticket);

/* Is the block cached right now?  A hint: no I/O, not counted. */
extern bool fc_read_would_hit(const FcCache *cache, const FcFile *file,
                              uint32_t block);

/*
 * Put a block into the cache.  page is what the real read returned, and that
 * read began after fc_read() gave the ticket.  page is copied first and may
 * change meanwhile, as long as the caller would accept each of its states as
 * the block.  Core cannot tell a block from what a disk returns by mistake; a
 * caller that can must check first.  FC_OK, or FC_SKIP with the reason counted.
 */
extern FcStatus fc_fill(FcCache *cache, const FcTicket *ticket,
                        const void *page);

/*
 * The same for a block that no read asked for: somebody expects that it will be
 * read, with this heat (replacement.h; 0 if nothing is known).  It takes a free
 * way, or that of a block that is worth less than one whose last read was long
 * ago; with FC_HEAT_SPARE a free way only.
 */
extern FcStatus fc_fill_load(FcCache *cache, const FcTicket *ticket,
                             const void *page, unsigned heat);

/*
 * May fc_fill_load() take it now?  It does not while any block of the file's
 * segment is being changed.  A hint.
 */
extern FC_MUST_CHECK bool fc_fill_may_load(const FcCache *cache,
                                           const FcTicket *ticket);

/* Would a fill with this ticket find a free way?  A hint. */
extern FC_MUST_CHECK bool fc_fill_has_room(const FcCache *cache,
                                           const FcTicket *ticket);

/* ---- changes ----------------------------------------------------------- */

/* What fc_change_begin() noted; opaque to the caller. */
typedef struct FcChange
{
	uint32_t first;
	uint32_t count;
	bool was_cached;   /* a single block that was cached before */
	bool was_staged;   /* ... but neither on flash yet nor on its way there */
	FcTicket ticket;   /* of that block; set_generation after the first bump */
	bool counted_in;   /* as one of the changes in flight */
	uint32_t changing; /* the file number that counted this change */

	/* After fc_change_end(): may a stamp be handed in? */
	FcStampPermit permit;
} FcChange;

/*
 * Blocks first .. first + count - 1 of the file are about to change.  Finds the
 * file's number again if the handle is stale; a file that the dictionary does
 * not know has no cached blocks.  Cannot fail.  Does nothing while offline.
 */
extern void fc_change_begin(FcCache *cache, FcFile *file, uint32_t first,
                            uint32_t count, FcChange *change);

/* The change is over, whether it worked or not. */
extern void fc_change_end(FcCache *cache, FcFile *file, FcChange *change);

/*
 * Any file may be about to change: the whole cache is cleared before the change
 * and after it.
 */
extern void fc_change_all_begin(FcCache *cache);
extern void fc_change_all_end(FcCache *cache);

/*
 * The cluster's control file is about to be written with a content of this CRC;
 * it has been written.  What outlives the server is valid only for a control
 * file that this server wrote itself.
 */
extern void fc_life_control_begins(FcCache *cache, uint32_t crc);
extern void fc_life_control_ends(FcCache *cache);

/*
 * The host does not always sync its files, so that a crash of the machine may
 * lose what they hold.  No map is saved in this life, nor in one that continues
 * with its memory.
 */
extern void fc_map_unsynced_set(FcCache *cache);
extern bool fc_map_unsynced(const FcCache *cache);

/*
 * The operating system reported an error about the file.  Nobody knows what it
 * holds, or will hold when its pages leave memory.  Its blocks are dropped, and
 * it will be cold at the next start whatever happens until then.
 */
extern void fc_change_distrust(FcCache *cache, FcFile *file);

/*
 * After fc_change_end() of one whole block that was written from page: refresh
 * the cached copy, if the block was cached before.  page must hold exactly the
 * bytes given to the real write, unchanged since.
 */
extern FcStatus fc_change_fill(FcCache *cache, const FcChange *change,
                               const void *page);

/* ---- counting ---------------------------------------------------------- */

typedef enum FcCounter
{
#define FC_COUNTER(name, text) FC_COUNT_##name,
#include "fcache/counters.def"
#undef FC_COUNTER
	FC_COUNTER_COUNT
} FcCounter;

typedef enum FcTimer
{
	FC_TIME_FLASH_READ,
	FC_TIME_FLASH_WRITE,
	FC_TIME_DISK_READ,
	FC_TIMER_COUNT
} FcTimer;

extern void fc_count(FcCache *cache, FcCounter counter, uint64_t amount);
extern void fc_count_time(FcCache *cache, FcTimer timer, uint64_t ns);

/*
 * Count one read of the disk for this file: counters, timer and the file's own
 * sums.  ns of 0: how long it took is not known.
 */
extern void fc_read_disk_done(FcCache *cache, const FcFile *file,
                              uint32_t blocks, uint64_t bytes, uint64_t ns);

/*
 * Monotonic time in nanoseconds, for fc_count_time() and fc_read_disk_done().
 */
extern uint64_t fc_clock_ns(void);

#endif
