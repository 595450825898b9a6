/*
 * writer.h
 *		The writer: the one process that writes to flash.
 *
 * Fills leave their blocks in the staging ring (cache.h).  One process of the
 * host writes them to their slots, in a loop around fc_writer_run().  Without a
 * writer the cache keeps working and accepts new blocks until the ring is full.
 *
 * A writer that died is replaced by the next fc_writer_begin().  Its transfers
 * are known to be over once it is gone, since the kernel does not end a process
 * before its transfers are done; until then fc_writer_begin() returns FC_FULL.
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
 * One round: reap what has been written, begin to write what is due, and wait
 * at most timeout_ns if there is nothing to do.  A signal handler that must end
 * the wait calls fc_writer_wake().
 */
extern void fc_writer_run(FcWriter *writer, uint64_t timeout_ns);

/*
 * End the wait of fc_writer_run() in any process.  Signal handlers may call it.
 */
extern void fc_writer_wake(FcCache *cache);

/*
 * Write everything that is staged now; FC_FAILED if that took longer than
 * timeout_ns, or the device does not answer.
 */
extern FC_MUST_CHECK FcStatus fc_writer_drain(FcWriter *writer,
                                              uint64_t timeout_ns);

/*
 * Stop being the writer.  If the device still holds writes after timeout_ns,
 * this process stays their owner until it exits, and FC_FAILED says so.
 */
extern FcStatus fc_writer_end(FcWriter *writer, uint64_t timeout_ns);

/*
 * Begin, drain and end in one call: for a host's exit, when its writer has
 * ended.  FC_FULL: another process is the writer.
 */
extern FC_MUST_CHECK FcStatus fc_writer_flush(FcCache *cache,
                                              uint64_t timeout_ns);

/*
 * For a process that changes blocks and may wait.  Call it before each change:
 * if the ring is full and the writer has ended, it writes a part of the ring to
 * flash.  So the last changes are kept even if the host's writer ends before
 * them.  All processes together spend at most about limit_ns until a writer
 * begins again, plus one second if the device does not answer; after that it
 * does nothing.  Allocates nothing, preserves errno, and may be called where
 * nothing may fail.
 */
extern void fc_stand_in(FcCache *cache, uint64_t limit_ns);

/* The state of the ring. */
typedef struct FcRingInfo
{
	uint32_t pages;
	uint32_t used; /* approximately */
	uint64_t
		stood_in_ns; /* by others, since it began; the maximum: they gave up */
} FcRingInfo;

extern FcRingInfo fc_writer_ring_info(const FcCache *cache);

/* Is there a writer that lives?  Asks the kernel: some microseconds. */
extern bool fc_writer_serves(const FcCache *cache);

#endif
