/*
 * prefetches.h
 *		Reads that this process has announced by posix_fadvise(WILLNEED).
 *
 * A disk begins an announced read at once: the reservation is made when the
 * advice is given, and the read only waits for the rest of it.  So a bitmap
 * scan with effective_io_concurrency keeps many spindles busy, here as on a
 * real array.
 *
 * Reservations are kept per block in a small table without collision handling;
 * a lost one only costs its reader a second reservation.  They are forgotten
 * after a while, because an emulated device has no page cache in which unread
 * blocks would stay.
 *
 * Locking: private to a process; a forked child continues with a copy.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_PREFETCHES_H
#define PGFLASH_EMULATOR_PREFETCHES_H

#include "device.h"

#define EM_PREFETCH_COUNT       1024
#define EM_PREFETCH_BLOCK_BYTES 8192

/* Advice on more blocks concerns a whole file, not the next reads. */
#define EM_PREFETCH_BLOCKS_MAX 128

#define EM_PREFETCH_KEPT_NS 1000000000ULL

typedef struct EmPrefetch
{
	uint64_t file; /* zero: free */
	uint64_t block;
	uint64_t end_ns;
	uint64_t service_ns; /* this block's part of it */
} EmPrefetch;

typedef struct EmPrefetches
{
	EmPrefetch prefetch[EM_PREFETCH_COUNT];
} EmPrefetches;

extern bool em_prefetches_accept(const EmRequest *request);

extern void em_prefetches_note(EmPrefetches *prefetches,
                               const EmRequest *request,
                               const EmCharge *charge);

/*
 * Was all of this read announced?  If so, *charge_out is the rest of the wait,
 * and the announcement is used up.
 */
extern bool em_prefetches_take(EmPrefetches *prefetches,
                               const EmRequest *request, EmCharge *charge_out);

#endif
