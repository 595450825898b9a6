/*
 * flights.h
 *		Pages on their way from the staging ring to their slots; see flights.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_FLIGHTS_H
#define FCACHE_FLIGHTS_H

#include <time.h>

#include "fcache/writer.h"
#include "queue.h"
#include "shared.h"

/* With writes under way, new ones are looked for so often at least. */
#define FC_FLIGHTS_BUSY_NS 2000000ULL

/* What the dead have left is looked for so often. */
#define FC_FLIGHTS_TIDY_NS 1000000000ULL

/* A page on its way to its slot. */
typedef struct FcFlight
{
	FcTransfer transfer;
	uint64_t key;
	uint64_t start_ns;
	uint32_t ref;
	uint32_t slot;
	uint32_t crc;
	bool used;
} FcFlight;

struct FcWriter
{
	FcCache *cache;
	FcQueue queue;
	FcFlight flight[FC_QUEUE_DEPTH_WRITER];
	unsigned flying;
	unsigned waiting_count; /* picked, but not taken by the queue yet */
	FcTransfer *waiting[FC_QUEUE_DEPTH_WRITER];
	unsigned room[FC_DEVICES_MAX]; /* pages that may take off to each device */
	uint64_t tidied_ns;
	bool worked; /* since the last rest */
	bool busy;   /* in a call, of who stands in */
};

static inline struct timespec
fc_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t) (ns / 1000000000),
		                      .tv_nsec = (long) (ns % 1000000000) };
}

/* Open the queue of a writer that is all zeros. */
extern void fc_flights_open(FcWriter *writer, FcCache *cache);

/* Go on with everything that a dead writer had under way. */
extern void fc_flights_take_up(FcShared *shared);

/* Put right what the dead have left, fillers above all. */
extern void fc_flights_tidy(FcWriter *writer);

/* Is there a page that may go now? */
extern bool fc_flights_due(FcShared *shared);

/* Begin to write what is due; with linger, updates may wait for others. */
extern void fc_flights_begin(FcWriter *writer, bool linger);

/* Hand to the queue what it did not take before. */
extern void fc_flights_submit(FcWriter *writer);

/* Wait at most so long until so many are written; settle all that are. */
extern void fc_flights_finish(FcWriter *writer, unsigned min,
                              uint64_t timeout_ns);

/* Wait for what a stand-in still has under way, and give its memory back. */
extern void fc_stand_in_close(FcCache *cache);

#endif
