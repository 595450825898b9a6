/*
 * sample_ring.h
 *		The ring in memory that the sampler writes and anybody reads.
 *
 * Plain C, no PostgreSQL.
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
	uint64_t number;      /* 1 and up, none is left out */
	uint32_t interval_us; /* the cadence it was made at */
	uint32_t covers_us;   /* how much time it stands for */
	uint32_t gap_ms;      /* time before that for which no look stands */
	uint32_t missed;      /* looks that should have been in the gap */
	uint32_t count;       /* records that follow */
	uint32_t idle;        /* sessions that had nothing to do */
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

/* Look or record take one slot. */
#define SAMPLE_SLOT_BYTES 40

typedef struct SampleRing SampleRing;

/* Shared memory for a ring of so many slots; laid out once, in zeroed memory. */
extern size_t sample_ring_memory_size(uint64_t slots);
extern SampleRing *sample_ring_create(void *memory, uint64_t slots);

/*
 * One process at a time.  A look takes count + 1 slots; one that takes more than half
 * of the ring is left out.
 */
extern void sample_ring_put(SampleRing *ring, const SampleLook *look,
                            const SampleRecord *records);

/* Slots in all, and slots in use. */
extern uint64_t sample_ring_slots(const SampleRing *ring);
extern uint64_t sample_ring_used(const SampleRing *ring);

typedef struct SampleCursor
{
	const SampleRing *ring;
	uint64_t at;
	uint64_t end;
} SampleCursor;

/* From the oldest look there is to the newest there is now. */
extern SampleCursor sample_cursor(const SampleRing *ring);

/*
 * From a look on before which all are older than SINCE: not the first that is not, but
 * near it, so that who wants the last second need not go through a quarter of an hour.
 */
extern SampleCursor sample_cursor_since(const SampleRing *ring, int64_t since);

/* From the newest on: that one, if any. */
extern SampleCursor sample_cursor_newest(const SampleRing *ring);

/*
 * The next look and its records, of which there is room for so many (as many as
 * processes can be).  False: there is none.  Looks that were overwritten since the
 * cursor was made are left out.
 */
extern bool sample_cursor_next(SampleCursor *cursor, SampleLook *look,
                               SampleRecord *records, uint32_t room);

#endif
