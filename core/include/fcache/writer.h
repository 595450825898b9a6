/*
 * writer.h
 *		The writer: the one process that writes to flash.
 *
 * Fills leave their blocks in the staging ring (cache.h); one process of the host
 * writes them to their slots, in a loop around fc_writer_run().  While nobody
 * does, the cache works on and takes new blocks until the ring is full.
 *
 * A writer that died is replaced by the next fc_writer_begin().  What it had under
 * way is known to be over once it is gone, since the kernel lets no process go
 * before its transfers are done; until then fc_writer_begin() answers FC_FULL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_WRITER_H
#define FCACHE_WRITER_H

#include "fcache/cache.h"

typedef struct FcWriter FcWriter;

/*
 * Become the writer.  FC_FULL: another process is.  FC_FAILED: out of memory.
 * Once per process; not in a signal handler (it allocates).
 */
extern FC_MUST_CHECK FcStatus fc_writer_begin(FcCache *cache,
                                              FcWriter **writer_out);

/*
 * One round: see what has been written, begin to write what is due, and wait at
 * most timeout_ns if there is nothing to do.  To end a wait for sure, a signal
 * handler calls fc_writer_wake().
 */
extern void fc_writer_run(FcWriter *writer, uint64_t timeout_ns);

/* End a wait of fc_writer_run(), in whatever process.  For signal handlers, too. */
extern void fc_writer_wake(FcCache *cache);

/*
 * Write everything that is staged now; FC_FAILED if that took longer than
 * timeout_ns, or the device does not answer.
 */
extern FC_MUST_CHECK FcStatus fc_writer_drain(FcWriter *writer,
                                              uint64_t timeout_ns);

/*
 * Stop being the writer.  If the device still holds writes after timeout_ns, this
 * process stays their owner until it exits, and FC_FAILED says so.
 */
extern FcStatus fc_writer_end(FcWriter *writer, uint64_t timeout_ns);

/*
 * Begin, drain and end at once: for a host's exit, when its writer is gone.
 * FC_FULL: there is a writer.
 */
extern FC_MUST_CHECK FcStatus fc_writer_flush(FcCache *cache,
                                              uint64_t timeout_ns);

/*
 * For a process that changes blocks and may wait, before each change: if the ring is
 * full and the writer has ended, write a part of it to flash.  Where the host's writer
 * ends before its last changes, they are so kept.  All processes together spend at most
 * about limit_ns until a writer begins again, and one second more if the device does
 * not answer; after that it does nothing.  Allocates nothing, leaves
 * errno alone, and may be called where nothing may fail.
 */
extern void fc_stand_in(FcCache *cache, uint64_t limit_ns);

/* What there is to say of the ring. */
typedef struct FcRingInfo
{
	uint32_t pages;
	uint32_t used; /* about */
	bool served;   /* a process is the writer, and lives */
	uint64_t
		stood_in_ns; /* by others, since it began; they gave up: for ever */
} FcRingInfo;

extern FcRingInfo fc_writer_ring_info(const FcCache *cache);

#endif
