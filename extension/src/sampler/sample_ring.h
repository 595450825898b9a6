/*
 * sample_ring.h
 *		The ring of samples in shared memory: the sampler writes it, any process
 *		may read it.
 *
 * Includes no headers of PostgreSQL.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SAMPLE_RING_H
#define PGFLASH_SAMPLE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One look at all sessions. */
typedef struct SampleLook
{
	int64_t at;           /* microseconds, as PostgreSQL's timestamps */
	uint64_t number;      /* from 1, without gaps */
	uint32_t interval_us; /* the interval that was in force */
	uint32_t covers_us;   /* the time it represents */
	uint32_t gap_ms;      /* time before it that no look covers */
	uint32_t missed;      /* looks that should have been in the gap */
	uint32_t count;       /* records that follow */
	uint32_t idle;        /* idle sessions */
} SampleLook;

/* What one session was doing. */
typedef struct SampleRecord
{
	int32_t pid;
	int32_t leader_pid; /* of a parallel worker; 0: none */
	uint32_t database;
	uint32_t user;
	uint32_t wait_event; /* PostgreSQL's wait_event_info */
	uint8_t backend_type;
	uint8_t state;
	uint16_t unused;
	int64_t query_id;
	int64_t query_start;
} SampleRecord;

/* A look or a record takes one slot. */
#define SAMPLE_SLOT_BYTES 40

typedef struct SampleRing SampleRing;

/*
 * Shared memory for a ring of this many slots; laid out once, in zeroed memory.
 */
extern size_t sample_ring_memory_size(uint64_t slots);
extern SampleRing *sample_ring_create(void *memory, uint64_t slots);

/*
 * For one process at a time.  A look takes count + 1 slots; one that takes more
 * than half of the ring is dropped.
 */
extern void sample_ring_put(SampleRing *ring, const SampleLook *look,
                            const SampleRecord *records);

/* The number of slots, and of slots in use. */
extern uint64_t sample_ring_slots(const SampleRing *ring);
extern uint64_t sample_ring_used(const SampleRing *ring);

typedef struct SampleCursor
{
	const SampleRing *ring;
	uint64_t at;
	uint64_t end;
} SampleCursor;

/* From the oldest look to the newest one at this moment. */
extern SampleCursor sample_cursor(const SampleRing *ring);

/*
 * From a look before which all are older than since.  It may not be the last
 * such look, but it is near it, so that a reader of the last second need not
 * scan a quarter of an hour.
 */
extern SampleCursor sample_cursor_since(const SampleRing *ring, int64_t since);

/* From the newest look on: only that one, if any. */
extern SampleCursor sample_cursor_newest(const SampleRing *ring);

/*
 * Read the next look and its records; room is how many records fit (as many as
 * there can be processes).  False: there is none.  Looks that were overwritten
 * since the cursor was made are skipped.
 */
extern bool sample_cursor_next(SampleCursor *cursor, SampleLook *look,
                               SampleRecord *records, uint32_t room);

#endif
