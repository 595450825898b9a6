/*
 * queue.c
 *		The engine: Linux AIO, by its system calls directly.
 *
 * Why AIO: containers that forbid io_uring allow it; one call begins any number
 * of transfers, and another waits for them with a time limit; the kernel does
 * not end a process before its transfers are done (so no transfer writes a slot
 * whose owner is gone); and the lab can emulate a device behind syscall(2).
 * docs/decisions has the figures.
 *
 * AIO is truly asynchronous only with O_DIRECT.  A file opened without it would
 * be read within io_submit(), so it is read by plain calls, as all files are
 * where there is no AIO.  Then no time limit holds.
 *
 * Devices of tests handle transfers themselves (FcDeviceOps.start and
 * .finished), so that they can delay, reorder and hang; they are polled.
 *
 * After a fork: the kernel's queue belongs to the parent's memory and does not
 * exist in the child, which must begin with a queue that is all zeros.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "queue.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fcache/assert.h"
#include "fcache/cache.h"

/* With less depth than this, the plain engine is used. */
#define DEPTH_MIN 4

/* The pause between polls of a test's device. */
#define OWN_WAY_NAP_NS 20000

void
fc_queue_open(FcQueue *queue, unsigned depth)
{
	FC_ASSERT(depth > 0);
	memset(queue, 0, sizeof(*queue));
	queue->depth = depth < FC_QUEUE_DEPTH_MAX ? depth : FC_QUEUE_DEPTH_MAX;

	/* fs.aio-max-nr limits the sum of all depths on the machine. */
	for (unsigned less = queue->depth; less >= DEPTH_MIN; less /= 2)
	{
		if (syscall(SYS_io_setup, (long) less, &queue->context) == 0)
		{
			queue->engine = FC_QUEUE_AIO;
			queue->depth = less;
			return;
		}
		if (errno != EAGAIN)
			return;
	}
}

void
fc_queue_close(FcQueue *queue)
{
	if (queue->engine == FC_QUEUE_AIO)
		syscall(SYS_io_destroy, queue->context);
	memset(queue, 0, sizeof(*queue));
}

/* ---- submitting ---------------------------------------------------------- */

static void
finish(FcQueue *queue, FcTransfer *transfer, ssize_t result)
{
	FC_ASSERT(queue->done_count < FC_QUEUE_DEPTH_MAX);
	transfer->result = result;
	queue->done[queue->done_count++] = transfer;
}

static void
do_now(FcQueue *queue, FcTransfer *transfer)
{
	FcDevice *device = transfer->device;
	ssize_t result = transfer->write
	                     ? device->ops->write(device, transfer->page,
	                                          FC_BLOCK_SIZE, transfer->offset)
	                     : device->ops->read(device, transfer->page,
	                                         FC_BLOCK_SIZE, transfer->offset);

	finish(queue, transfer, result < 0 ? -errno : result);
}

static void
start_own_way(FcQueue *queue, FcTransfer *transfer)
{
	FcDevice *device = transfer->device;
	unsigned i = 0;

	while (i < queue->own_way_count && queue->own_way[i] != device)
		i++;
	if (i == queue->own_way_count)
		queue->own_way[queue->own_way_count++] = device;
	FC_ASSERT(queue->own_way_count <= FC_DEVICES_MAX);
	device->ops->start(device, transfer);
}

static struct iocb
request_of(const FcTransfer *transfer)
{
	FC_ASSERT(transfer->offset % FC_IO_ALIGN == 0);
	FC_ASSERT((uintptr_t) transfer->page % FC_IO_ALIGN == 0);
	return (struct iocb){
		.aio_data = (uint64_t) (uintptr_t) transfer,
		.aio_lio_opcode = transfer->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t) transfer->device->fd,
		.aio_buf = (uint64_t) (uintptr_t) transfer->page,
		.aio_nbytes = FC_BLOCK_SIZE,
		.aio_offset = transfer->offset,
	};
}

/* The kernel copies the requests, so they need not outlive the call. */
static unsigned
aio_submit(FcQueue *queue, FcTransfer *const transfer[], unsigned count)
{
	struct iocb request[FC_QUEUE_DEPTH_MAX];
	struct iocb *requests[FC_QUEUE_DEPTH_MAX];
	unsigned taken = 0;

	FC_ASSERT(count > 0 && count <= FC_QUEUE_DEPTH_MAX);
	for (unsigned i = 0; i < count; i++)
	{
		request[i] = request_of(transfer[i]);
		requests[i] = &request[i];
	}

	while (taken < count)
	{
		long begun = syscall(SYS_io_submit, queue->context,
		                     (long) (count - taken), &requests[taken]);

		if (begun > 0)
		{
			queue->in_kernel += (unsigned) begun;
			taken += (unsigned) begun;
		}
		else if (begun < 0 && errno == EAGAIN)
			break;
		else
		{
			/* The kernel stops at the first request that it refuses. */
			finish(queue, transfer[taken], begun < 0 ? -errno : -EIO);
			taken++;
		}
	}
	return taken;
}

static bool
for_kernel(const FcQueue *queue, const FcTransfer *transfer)
{
	return queue->engine == FC_QUEUE_AIO && transfer->device->fd >= 0 &&
	       transfer->device->direct && transfer->device->ops->start == NULL;
}

unsigned
fc_queue_submit(FcQueue *queue, FcTransfer *const transfer[], unsigned count)
{
	unsigned room = queue->depth - queue->in_flight;
	unsigned taken = 0;

	FC_ASSERT(queue->in_flight <= queue->depth);
	if (count > room)
		count = room;
	while (taken < count)
	{
		unsigned run = 0;

		while (taken + run < count && for_kernel(queue, transfer[taken + run]))
			run++;
		if (run > 0)
		{
			unsigned begun = aio_submit(queue, transfer + taken, run);

			taken += begun;
			if (begun < run)
				break;
			continue;
		}

		if (transfer[taken]->device->ops->start != NULL)
			start_own_way(queue, transfer[taken]);
		else
			do_now(queue, transfer[taken]);
		taken++;
	}
	queue->in_flight += taken;
	return taken;
}

/* ---- waiting ------------------------------------------------------------- */

static unsigned
take_done(FcQueue *queue, FcTransfer *done[], unsigned max)
{
	unsigned count = queue->done_count < max ? queue->done_count : max;

	FC_ASSERT(queue->done_count <= queue->in_flight);
	memcpy(done, queue->done, count * sizeof(FcTransfer *));
	queue->done_count -= count;
	memmove(queue->done, queue->done + count,
	        queue->done_count * sizeof(FcTransfer *));
	return count;
}

static unsigned
take_own_way(FcQueue *queue, FcTransfer *done[], unsigned max)
{
	unsigned count = 0;

	for (unsigned i = 0; i < queue->own_way_count; i++)
	{
		FcDevice *device = queue->own_way[i];

		while (count < max &&
		       (done[count] = device->ops->finished(device)) != NULL)
			count++;
	}
	return count;
}

static unsigned
take_from_kernel(FcQueue *queue, unsigned min, uint64_t timeout_ns,
                 FcTransfer *done[], unsigned max)
{
	struct io_event event[FC_QUEUE_DEPTH_MAX];
	struct timespec timeout = { .tv_sec = (time_t) (timeout_ns / 1000000000),
		                        .tv_nsec = (long) (timeout_ns % 1000000000) };
	long got;

	if (max > FC_QUEUE_DEPTH_MAX)
		max = FC_QUEUE_DEPTH_MAX;
	got = syscall(SYS_io_getevents, queue->context, (long) min, (long) max,
	              event, &timeout);
	if (got < 0)
		return 0;
	for (long i = 0; i < got; i++)
	{
		done[i] = (FcTransfer *) (uintptr_t) event[i].data;
		done[i]->result = event[i].res;
	}
	FC_ASSERT((unsigned) got <= queue->in_kernel);
	queue->in_kernel -= (unsigned) got;
	return (unsigned) got;
}

/* Look at everything once; waits only if the kernel alone has transfers. */
static unsigned
take(FcQueue *queue, unsigned min, uint64_t timeout_ns, FcTransfer *done[],
     unsigned max)
{
	unsigned count = take_done(queue, done, max);

	if (queue->own_way_count > 0)
		count += take_own_way(queue, done + count, max - count);
	if (queue->in_kernel > 0 && count < max)
	{
		unsigned more = min > count ? min - count : 0;

		if (more > queue->in_kernel)
			more = queue->in_kernel;
		count += take_from_kernel(
			queue, more, more > 0 && queue->own_way_count == 0 ? timeout_ns : 0,
			done + count, max - count);
	}
	return count;
}

unsigned
fc_queue_reap(FcQueue *queue, unsigned min, uint64_t timeout_ns,
              FcTransfer *done[], unsigned max)
{
	uint64_t begin = min > 0 ? fc_clock_ns() : 0;
	uint64_t left = timeout_ns;
	unsigned count = 0;

	if (min > max)
		min = max;
	if (min > queue->in_flight)
		min = queue->in_flight;

	for (;;)
	{
		count += take(queue, min - count, left, done + count, max - count);
		if (count >= min)
			break;

		/* Interrupted by a signal, at the limit, or polling a test's device. */
		uint64_t waited = fc_clock_ns() - begin;

		if (waited >= timeout_ns)
			break;
		left = timeout_ns - waited;
		if (queue->own_way_count > 0)
			nanosleep(&(struct timespec){ .tv_nsec = OWN_WAY_NAP_NS }, NULL);
	}
	FC_ASSERT(count <= queue->in_flight);
	queue->in_flight -= count;
	return count;
}
