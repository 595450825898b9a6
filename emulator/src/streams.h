/*
 * streams.h
 *		Does a request continue what this process did before?
 *
 * A disk that continues where it stopped pays no positioning.  Each process
 * keeps a few streams per file and matches its requests against them.
 *
 * The delicate part is how large a gap between two requests of a stream may
 * be.  Without gaps, a scan of a table with some pages in shared buffers is
 * taken for random reads (measured: five times too slow).  With gaps for every
 * stream, random reads that happen to fall close by become too cheap (8 % of
 * them).  So a gap is allowed only if the request is large, or if the stream
 * is established: its last requests all moved forward by small steps.
 *
 * Locking: private to a process; a forked child continues with a copy.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_STREAMS_H
#define PGFLASH_EMULATOR_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#define EM_STREAM_COUNT          32
#define EM_STREAMS_PER_FILE      4
#define EM_STREAM_GAP_BYTES      (512 * 1024)
#define EM_STREAM_LARGE_BYTES    (64 * 1024)
#define EM_STREAM_ESTABLISHED_AT 8

typedef struct EmStream
{
	uint64_t file; /* zero: free */
	uint64_t next_offset;
	uint64_t used_at; /* for the least recently used */
	uint32_t steps;   /* small steps forward so far */
	bool writes;
} EmStream;

typedef struct EmStreams
{
	uint64_t clock;
	EmStream stream[EM_STREAM_COUNT];
} EmStreams;

/*
 * Note a request.  Returns whether it continues a stream; *gap_bytes is then
 * the number of bytes that it skipped.
 */
extern bool em_streams_note(EmStreams *streams, uint64_t file, uint64_t offset,
                            uint64_t bytes, bool writes, uint64_t *gap_bytes);

#endif
