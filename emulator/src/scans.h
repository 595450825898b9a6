/*
 * scans.h
 *		What scans have passed lately, in whichever process.
 *
 * Several processes that scan a file together each read pieces of it, and skip
 * the pieces of the others.  Within one process such a scan looks like one with
 * gaps, or like random reads; to the device it is one stream, identified by
 * file and position.  So the blocks that scans pass are noted here, in memory
 * that all processes share:
 *
 * - a block that a scan has skipped has been paid for: a process that reads it
 *   soon afterwards continues the scan, and pays no second transfer;
 * - a read just ahead of a scan continues it, whichever process makes it;
 * - a gap costs only the blocks that no scan has passed yet.
 *
 * So each block of a shared scan is transferred once, however many processes
 * share it, in whatever order.
 *
 * Only scans are noted: streams that have read EM_STREAM_SCAN_BYTES (see
 * streams.h).  Random reads that happen to be close to each other are not
 * scans, and do not become cheap.  Nor does a random read where a scan has
 * been, because its block has been read already.
 *
 * Locking: none.  A window is a few atomics in a table without collision
 * handling, forgotten after a while.  A window that is lost, or that two
 * processes take at once, only costs or saves a transfer.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_SCANS_H
#define PGFLASH_EMULATOR_SCANS_H

#include "device.h"

#define EM_SCAN_BLOCK_BYTES   8192
#define EM_SCAN_WINDOW_BLOCKS 64 /* the bits of a word: 512 KB */
#define EM_SCAN_WINDOWS       4096

/* An emulated device has no page cache in which skipped blocks would stay. */
#define EM_SCAN_KEPT_NS 250000000ULL

typedef struct EmScanWindow
{
	_Atomic uint64_t name; /* a hash of file and place; zero: free */
	_Atomic uint64_t used_ns;
	_Atomic uint64_t moved;  /* blocks that a scan has read or skipped */
	_Atomic uint64_t unread; /* those skipped, and not read since */
} EmScanWindow;

typedef struct EmScans
{
	EmScanWindow window[EM_SCAN_WINDOWS];
} EmScans;

/*
 * Does a read begin just ahead of a scan, *gap_bytes from its position, or with
 * a block that a scan has skipped?
 */
extern bool em_scans_near(EmScans *scans, const EmRequest *request,
                          uint64_t *gap_bytes);

/*
 * Note a read of a scan.  Its "gap_bytes" are the distance to the last read of
 * its own process; they are set to the part that no scan has passed, and
 * "paid_bytes" to those of its own bytes that a scan had skipped.  "moves" says
 * whether the read has advanced the scan.
 */
extern void em_scans_note(EmScans *scans, EmRequest *request, bool moves);

#endif
