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

/* While writes are under way, the longest time between looks for new ones. */
#define FC_FLIGHTS_BUSY_NS 2000000ULL

/* The time between looks for what dead processes have left. */
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
	unsigned waiting_count; /* picked, but not accepted by the queue yet */
	FcTransfer *waiting[FC_QUEUE_DEPTH_WRITER];
	unsigned room[FC_DEVICES_MAX]; /* flights that may begin to each device */
	uint64_t tidied_ns;
	bool worked; /* since the last rest */
	bool busy;   /* a stand-in is in a call */
};

static inline struct timespec
fc_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t) (ns / 1000000000),
		                      .tv_nsec = (long) (ns % 1000000000) };
}

/* Open the queue of a writer that is all zeros. */
extern void fc_flights_open(FcWriter *writer, FcCache *cache);

/* Resume what a dead writer had under way. */
extern void fc_flights_take_up(FcShared *shared);

/* Clean up what dead processes have left, fillers above all. */
extern void fc_flights_tidy(FcWriter *writer);

/* Is there a page that is due to be written? */
extern bool fc_flights_due(FcShared *shared);

/* Begin to write what is due; with linger, updates may wait for others. */
extern void fc_flights_begin(FcWriter *writer, bool linger);

/* Hand to the queue what it did not accept before. */
extern void fc_flights_submit(FcWriter *writer);

/* Wait up to timeout_ns until min are written; settle all that are. */
extern void fc_flights_finish(FcWriter *writer, unsigned min,
                              uint64_t timeout_ns);

/* Wait for what a stand-in still has under way, and free its memory. */
extern void fc_stand_in_close(FcCache *cache);

#endif
