/*
 * streams.h
 *		Does a request continue a stream?
 *
 * A disk that continues where it stopped needs no positioning.  A stream is
 * identified by file and position.  Each process keeps a few streams per file
 * and matches its requests against them; once one of them is a scan, it is
 * shared with all other processes (scans.h), so that a scan by several workers
 * is one stream.
 *
 * The question is how large a gap between two requests of a stream may be.
 * Without gaps, a scan of a table with some pages in shared buffers looks like
 * random reads (measured: five times too slow).  With gaps for every stream,
 * random reads that happen to be close to one become too cheap (8 % of them).
 * So a gap is allowed only if the request is large, or if the stream is
 * established: its last requests all moved forward by small steps.
 *
 * The beginning of a stream is detected within a process, where random reads of
 * other processes cannot hide it: with twenty clients, those come between any
 * two reads of a scan.
 *
 * Locking: private to a process; a forked child continues with a copy.  What is
 * shared is in scans.h.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_STREAMS_H
#define PGFLASH_EMULATOR_STREAMS_H

#include "scans.h"

#include <stdbool.h>
#include <stdint.h>

#define EM_STREAM_COUNT          32
#define EM_STREAMS_PER_FILE      4
#define EM_STREAM_GAP_BYTES      (512 * 1024)
#define EM_STREAM_LARGE_BYTES    (64 * 1024)
#define EM_STREAM_ESTABLISHED_AT 8

/* A stream that has read this much is a scan. */
#define EM_STREAM_SCAN_BYTES (128 * 1024)

/* A process that has made this many reads of a scan takes part in it. */
#define EM_STREAM_SCANS_AT 4

typedef struct EmStream
{
	uint64_t file; /* zero: free */
	uint64_t next_offset;
	uint64_t used_at;    /* to find the least recently used */
	uint64_t read_bytes; /* so far */
	uint32_t steps;      /* small steps forward so far */
	bool writes;
} EmStream;

typedef struct EmStreams
{
	uint64_t clock;
	uint64_t scanned_file; /* read by a scan, this many times in a row */
	uint32_t scanned_reads;
	EmStream stream[EM_STREAM_COUNT];
} EmStreams;

/*
 * Note a read or a write.  Sets "continues", and the bytes that the stream has
 * skipped now ("gap_bytes") and had skipped before ("paid_bytes").
 */
extern void em_streams_note(EmStreams *streams, EmScans *scans,
                            EmRequest *request, bool writes);

#endif
