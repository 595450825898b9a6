/*
 * sample_ring.c
 *		The ring of samples in shared memory: the sampler writes it, any process
 *		may read it.
 *
 * A look is a header and a record for each session that was active, in
 * consecutive slots of 40 bytes.  Positions count slots from the beginning and
 * never wrap (uint64); position p is in slot p mod slot_count.
 *
 *	tail <= p < head	can be read
 *	newest				position of the newest header
 *	mark				for each part of the ring, the first header in it, and
 *						the latest time of all looks before it, so that a search
 *						by time can skip parts.  A clock that was set back makes
 *						it skip less, never more.
 *
 * The writer first removes old looks (tail), then writes, then publishes the
 * new look (head).  A reader copies a look and then checks whether the tail has
 * passed it.  If so, the copy may be torn; the reader discards it and continues
 * from the tail.
 *
 * Locking: none.  There is one writer (the only sampler) and any number of
 * readers, and neither waits for the other.  Slots are read and written by
 * relaxed atomics of 8 bytes; two fences order them against tail and head.
 *
 * Crash: if the writer is killed, the whole server restarts with a new ring.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "sampler/sample_ring.h"

#include <stdatomic.h>
#include <string.h>

#include "broken.h"
#include "fcache/assert.h"

#define WORDS (SAMPLE_SLOT_BYTES / 8)

typedef struct Slot
{
	_Atomic uint64_t word[WORDS];
} Slot;

/*
 * Parts of a ring.  Marks take 4 kB; one part of the default 16 MB holds 3 s of
 * 50 sessions.
 */
#define PARTS 256

typedef struct Mark
{
	_Atomic uint64_t position;
	_Atomic int64_t latest;
} Mark;

struct SampleRing
{
	uint64_t slot_count;
	uint64_t part_slots;
	_Atomic uint64_t head;
	_Atomic uint64_t tail;
	_Atomic uint64_t newest;
	_Atomic int64_t latest; /* of all times so far; for the writer only */
	Mark mark[PARTS];
	Slot slot[];
};

_Static_assert(sizeof(SampleLook) == SAMPLE_SLOT_BYTES, "a look takes a slot");
_Static_assert(sizeof(SampleRecord) == SAMPLE_SLOT_BYTES,
               "a record takes a slot");
_Static_assert(sizeof(Slot) == SAMPLE_SLOT_BYTES, "slots have no gaps");

size_t
sample_ring_memory_size(uint64_t slots)
{
	return offsetof(SampleRing, slot) + slots * sizeof(Slot);
}

SampleRing *
sample_ring_create(void *memory, uint64_t slots)
{
	SampleRing *ring = memory;

	FC_ASSERT(slots > 1 && ring->head == 0 && ring->newest == 0);
	ring->slot_count = slots;
	ring->part_slots = slots / PARTS + 1;
	return ring;
}

/* ---- slots --------------------------------------------------------------- */

/*
 * Relaxed: the fence of sample_ring_put() is before it, the store of the head
 * after it.
 */
static void
store(SampleRing *ring, uint64_t position, const void *from)
{
	Slot *slot = &ring->slot[position % ring->slot_count];
	uint64_t words[WORDS];

	memcpy(words, from, sizeof(words));
	for (int i = 0; i < WORDS; i++)
		atomic_store_explicit(&slot->word[i], words[i], memory_order_relaxed);
}

/* Relaxed: the fence of is_whole() is between it and the tail's load. */
static void
load(const SampleRing *ring, uint64_t position, void *to)
{
	const Slot *slot = &ring->slot[position % ring->slot_count];
	uint64_t words[WORDS];

	for (int i = 0; i < WORDS; i++)
		words[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
	memcpy(to, words, sizeof(words));
}

/* Relaxed: for words that only the caller stores, and where a fence is. */
static uint64_t
relaxed(const _Atomic uint64_t *number)
{
	return atomic_load_explicit(number, memory_order_relaxed);
}

/* ---- the writer ---------------------------------------------------------- */

/*
 * Mark a look that is the first one in its part of the ring.  A reader that
 * sees the position also sees its time, or a later time of the next round,
 * which makes a search by time stop earlier and so skip less.  Relaxed: head,
 * newest, tail and the latest time are stored by this process only.
 */
static void
mark(SampleRing *ring, uint64_t position, const SampleLook *look)
{
	uint64_t part = position / ring->part_slots;
	int64_t latest = atomic_load_explicit(&ring->latest, memory_order_relaxed);

	if (position > 0 && part != relaxed(&ring->newest) / ring->part_slots)
	{
		Mark *entry = &ring->mark[part % PARTS];

		atomic_store_explicit(&entry->latest, latest, memory_order_relaxed);
		atomic_store_explicit(&entry->position, position, memory_order_release);
	}
	if (look->at > latest)
		atomic_store_explicit(&ring->latest, look->at, memory_order_relaxed);
}

void
sample_ring_put(SampleRing *ring, const SampleLook *look,
                const SampleRecord *records)
{
	uint64_t head = relaxed(&ring->head);
	uint64_t tail = relaxed(&ring->tail);
	uint64_t end = head + 1 + look->count;

	FC_ASSERT(tail <= head && head - tail <= ring->slot_count);
	/* Should not happen.  Losing a look is better than breaking the ring. */
	if (2 * (1 + (uint64_t) look->count) > ring->slot_count)
		return;
	while (end - tail > ring->slot_count)
	{
		SampleLook oldest;

		load(ring, tail, &oldest);
		tail += 1 + oldest.count;
		FC_ASSERT(tail <= head);
	}

	/*
	 * Release: a process that sees this tail sees a head that is not below it.
	 */
	atomic_store_explicit(&ring->tail, tail, memory_order_release);

	/* A reader that sees any of the following stores sees the tail. */
	atomic_thread_fence(memory_order_release);
	store(ring, head, look);
	for (uint32_t i = 0; i < look->count; i++)
		store(ring, head + 1 + i, &records[i]);
	mark(ring, head, look);
	FC_ASSERT(relaxed(&ring->head) == head); /* there is one writer */
	atomic_store_explicit(&ring->head, end, memory_order_release);
	atomic_store_explicit(&ring->newest, head, memory_order_release);
}

/* ---- readers ------------------------------------------------------------- */

uint64_t
sample_ring_slots(const SampleRing *ring)
{
	return ring->slot_count;
}

uint64_t
sample_ring_used(const SampleRing *ring)
{
	/*
	 * In this order the difference is never negative, since the tail never
	 * passes the head.  It may be too high by what was written between the two
	 * loads.
	 */
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);

	return atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
}

SampleCursor
sample_cursor(const SampleRing *ring)
{
	SampleCursor cursor = { .ring = ring };

	/*
	 * Acquire: the looks below the head are whole, and the tail, loaded after
	 * it, is at least the one that made room for them.  A tail that has passed
	 * this head leaves nothing to read.
	 */
	cursor.end = atomic_load_explicit(&ring->head, memory_order_acquire);
	cursor.at = relaxed(&ring->tail);
	return cursor;
}

SampleCursor
sample_cursor_since(const SampleRing *ring, int64_t since)
{
	SampleCursor cursor = sample_cursor(ring);

	for (uint64_t part = cursor.at / ring->part_slots + 1;
	     part <= cursor.end / ring->part_slots; part++)
	{
		const Mark *entry = &ring->mark[part % PARTS];

		/* Acquire: with the position comes its time, relaxed; see mark(). */
		uint64_t position =
			atomic_load_explicit(&entry->position, memory_order_acquire);

		/* No look begins in this part, or the mark was set after we started. */
		if (position / ring->part_slots != part || position >= cursor.end)
			continue;
		if (!FC_BROKEN(SEEK) &&
		    atomic_load_explicit(&entry->latest, memory_order_relaxed) >= since)
			break;
		cursor.at = position;
	}
	return cursor;
}

SampleCursor
sample_cursor_newest(const SampleRing *ring)
{
	SampleCursor cursor = { .ring = ring };

	/* Loaded in this order, the newest look is below the head. */
	cursor.at = atomic_load_explicit(&ring->newest, memory_order_acquire);
	cursor.end = atomic_load_explicit(&ring->head, memory_order_acquire);
	FC_ASSERT(cursor.at <= cursor.end);
	return cursor;
}

/*
 * Is the copy from the cursor's position intact?  The fence keeps the loads of
 * the copy before that of the tail, so if one of them saw a newer look, we see
 * the tail that made room for it.
 */
static bool
is_whole(SampleCursor *cursor)
{
	uint64_t tail;

	if (FC_BROKEN(OVERWRITTEN))
		return true;
	atomic_thread_fence(memory_order_acquire);
	tail = relaxed(&cursor->ring->tail);
	if (cursor->at >= tail)
		return true;
	cursor->at = tail;
	return false;
}

bool
sample_cursor_next(SampleCursor *cursor, SampleLook *look,
                   SampleRecord *records, uint32_t room)
{
	while (cursor->at < cursor->end)
	{
		load(cursor->ring, cursor->at, look);
		if (!is_whole(cursor))
			continue;
		if (look->count > room) /* should not happen */
			return false;
		for (uint32_t i = 0; i < look->count; i++)
			load(cursor->ring, cursor->at + 1 + i, &records[i]);
		if (!is_whole(cursor))
			continue;
		cursor->at += 1 + look->count;
		FC_ASSERT(FC_BROKEN(OVERWRITTEN) || cursor->at <= cursor->end);
		return true;
	}
	return false;
}
