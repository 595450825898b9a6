/*
 * queue.h
 *		Many reads and writes of slots at once, and waiting for them with a time
 *		limit.
 *
 * A queue belongs to one process, and only that process uses it; a child must
 * not use any part of it.  fc_queue_submit() takes transfers, and
 * fc_queue_reap() returns them in whatever order they are done.  Until then the
 * transfer and its page belong to the queue, however long the device takes: a
 * caller that stops waiting must leave both alone.
 *
 * Nothing is allocated; errno is not preserved.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_QUEUE_H
#define FCACHE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "fcache/device.h"

#define FC_QUEUE_DEPTH_READER 32
#define FC_QUEUE_DEPTH_WRITER 64
#define FC_QUEUE_DEPTH_MAX    64

/* How a file's transfers are done. */
typedef enum FcQueueEngine
{
	FC_QUEUE_PLAIN, /* pread and pwrite, one by one, at the submit */
	FC_QUEUE_AIO    /* Linux AIO: all at the same time */
} FcQueueEngine;

typedef struct FcQueue
{
	FcQueueEngine engine;
	unsigned depth;        /* transfers that may be under way; 0 = not open */
	unsigned in_flight;    /* submitted, not reaped */
	unsigned in_kernel;    /* ... of them, given to AIO */
	unsigned done_count;   /* ... of them, done already */
	unsigned long context; /* the kernel's name for an AIO queue */

	/* Devices that handle transfers themselves and have been given one. */
	unsigned own_way_count;
	FcDevice *own_way[FC_DEVICES_MAX];

	FcTransfer *done[FC_QUEUE_DEPTH_MAX];
} FcQueue;

/*
 * Make a queue for depth transfers.  Never fails: without AIO, the engine is
 * plain; where the machine is short of AIO, depth may be less.
 */
extern void fc_queue_open(FcQueue *queue, unsigned depth);

/* Wait for the transfers under way, and discard them. */
extern void fc_queue_close(FcQueue *queue);

/*
 * Begin transfers, on any devices.  Returns how many of them, from the first
 * on, it accepted: fewer than count if the queue or the kernel is full.  A
 * transfer that fails at once is accepted, and reaped with its error.
 */
extern FC_MUST_CHECK unsigned
fc_queue_submit(FcQueue *queue, FcTransfer *const transfer[], unsigned count);

/*
 * Fetch up to max transfers that are done, waiting at most timeout_ns for min
 * of them, or for all there are if that is fewer.  Returns how many.
 */
extern unsigned fc_queue_reap(FcQueue *queue, unsigned min, uint64_t timeout_ns,
                              FcTransfer *done[], unsigned max);

#endif
