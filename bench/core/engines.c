/*
 * engines.c
 *		The cost of reading a slot with each engine: ns of CPU per 8 KB read.
 *
 *	engines DIRECTORY...
 *
 * Plain pread, Linux AIO (core's queue) and io_uring, one slot at a time and 16
 * at once, from a cache file in each directory, with O_DIRECT where the file
 * system takes it.  io_uring is given every advantage a process of its own
 * could use: registered file and memory, one call that submits and waits.  The
 * decision record on engines rests on this table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MEASURE_CALLS 1600 /* reads in a round: a disk may be slow */
#include "../measure.h"
#include "die.h"
#include "fcache/cache.h"
#include "queue.h"

#define SLOTS 8192
#define BATCH 16

typedef struct Ring
{
	int fd;
	struct io_uring_sqe *sqe;
	_Atomic uint32_t *sq_tail;
	uint32_t *sq_array;
	uint32_t sq_mask;
	_Atomic uint32_t *cq_head;
	_Atomic uint32_t *cq_tail;
	struct io_uring_cqe *cqe;
	uint32_t cq_mask;
} Ring;

typedef struct Bench
{
	FcDevice device;
	FcQueue queue;
	Ring ring;
	bool registered;
	char *pages; /* BATCH of them */
	off_t offset[MEASURE_CALLS];
} Bench;

static void *
page(const Bench *bench, int i)
{
	return bench->pages + (size_t) i * FC_BLOCK_SIZE;
}

/* ---- io_uring ------------------------------------------------------------ */

static void *
map_ring(int fd, size_t size, off_t what)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_POPULATE, fd, what);

	if (memory == MAP_FAILED)
		die("map the ring");
	return memory;
}

/* False if the kernel, or the container, does not allow io_uring. */
static bool
open_ring(Bench *bench)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SINGLE_ISSUER |
		                                       IORING_SETUP_DEFER_TASKRUN };
	Ring *ring = &bench->ring;
	struct iovec memory = { bench->pages, (size_t) BATCH * FC_BLOCK_SIZE };
	char *sq;

	ring->fd = (int) syscall(SYS_io_uring_setup, 2 * BATCH, &params);
	if (ring->fd < 0)
		return false;
	sq = map_ring(ring->fd,
	              params.cq_off.cqes +
	                  params.cq_entries * sizeof(struct io_uring_cqe) +
	                  params.sq_entries * sizeof(uint32_t),
	              IORING_OFF_SQ_RING);
	ring->sqe =
		map_ring(ring->fd, params.sq_entries * sizeof(struct io_uring_sqe),
	             IORING_OFF_SQES);
	ring->sq_tail = (_Atomic uint32_t *) (void *) (sq + params.sq_off.tail);
	ring->sq_mask = *(uint32_t *) (void *) (sq + params.sq_off.ring_mask);
	ring->sq_array = (uint32_t *) (void *) (sq + params.sq_off.array);
	ring->cq_head = (_Atomic uint32_t *) (void *) (sq + params.cq_off.head);
	ring->cq_tail = (_Atomic uint32_t *) (void *) (sq + params.cq_off.tail);
	ring->cq_mask = *(uint32_t *) (void *) (sq + params.cq_off.ring_mask);
	ring->cqe = (struct io_uring_cqe *) (void *) (sq + params.cq_off.cqes);
	bench->registered =
		syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_FILES,
	            &bench->device.fd, 1) == 0 &&
		syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS,
	            &memory, 1) == 0;
	return true;
}

static void
ring_reads(Bench *bench, int batch, bool registered)
{
	Ring *ring = &bench->ring;

	for (int i = 0; i < MEASURE_CALLS; i += batch)
	{
		uint32_t tail = atomic_load(ring->sq_tail);

		for (int j = 0; j < batch; j++, tail++)
		{
			uint32_t place = tail & ring->sq_mask;

			ring->sqe[place] = (struct io_uring_sqe){
				.opcode = registered ? IORING_OP_READ_FIXED : IORING_OP_READ,
				.flags = registered ? IOSQE_FIXED_FILE : 0,
				.fd = registered ? 0 : bench->device.fd,
				.addr = (uint64_t) (uintptr_t) page(bench, j),
				.len = FC_BLOCK_SIZE,
				.off = (uint64_t) bench->offset[i + j],
			};
			ring->sq_array[place] = place;
		}
		atomic_store(ring->sq_tail, tail);

		/* With a limit of time, as a read of the cache has one. */
		struct
		{
			int64_t seconds;
			int64_t nanoseconds;
		} limit = { 5, 0 };
		struct io_uring_getevents_arg argument = {
			.ts = (uint64_t) (uintptr_t) &limit
		};

		if (syscall(SYS_io_uring_enter, ring->fd, batch, batch,
		            IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
		            sizeof(argument)) != batch)
			die("enter the ring");

		uint32_t head = atomic_load(ring->cq_head);

		for (int j = 0; j < batch; j++, head++)
		{
			if (head == atomic_load(ring->cq_tail) ||
			    ring->cqe[head & ring->cq_mask].res != FC_BLOCK_SIZE)
				die("read by io_uring");
		}
		atomic_store(ring->cq_head, head);
	}
}

static void
ring_1(void *context)
{
	ring_reads(context, 1, false);
}

static void
ring_16(void *context)
{
	ring_reads(context, BATCH, false);
}

static void
registered_1(void *context)
{
	ring_reads(context, 1, true);
}

static void
registered_16(void *context)
{
	ring_reads(context, BATCH, true);
}

/* ---- the others ---------------------------------------------------------- */

static void
plain(void *context)
{
	Bench *bench = context;

	for (int i = 0; i < MEASURE_CALLS; i++)
		if (pread(bench->device.fd, bench->pages, FC_BLOCK_SIZE,
		          bench->offset[i]) != FC_BLOCK_SIZE)
			die("read");
}

static void
aio_reads(Bench *bench, int batch)
{
	FcTransfer transfer[BATCH];
	FcTransfer *each[BATCH];

	for (int i = 0; i < MEASURE_CALLS; i += batch)
	{
		for (int j = 0; j < batch; j++)
		{
			transfer[j] = (FcTransfer){ .device = &bench->device,
				                        .page = page(bench, j),
				                        .offset = bench->offset[i + j] };
			each[j] = &transfer[j];
		}
		if (fc_queue_submit(&bench->queue, each, (unsigned) batch) !=
		        (unsigned) batch ||
		    fc_queue_reap(&bench->queue, (unsigned) batch, 5000000000ULL, each,
		                  (unsigned) batch) != (unsigned) batch ||
		    each[batch - 1]->result != FC_BLOCK_SIZE)
			die("read by AIO");
	}
}

static void
aio_1(void *context)
{
	aio_reads(context, 1);
}

static void
aio_16(void *context)
{
	aio_reads(context, BATCH);
}

static void
run(const char *directory)
{
	static Bench bench;
	char path[4096];
	uint64_t seed = 1;

	snprintf(path, sizeof(path), "%s/pgflash-bench-engines-%d", directory,
	         (int) getpid());
	if (fc_device_file_open(&bench.device, path, SLOTS, 0) != FC_DEVICE_FINE)
		die("open the cache file");
	unlink(path);
	bench.pages = aligned_alloc(FC_IO_ALIGN, (size_t) BATCH * FC_BLOCK_SIZE);
	memset(bench.pages, 'x', (size_t) BATCH * FC_BLOCK_SIZE);
	for (int i = 0; i < SLOTS; i++)
		if (pwrite(bench.device.fd, bench.pages, FC_BLOCK_SIZE,
		           FC_SLOTS_OFFSET + (off_t) i * FC_BLOCK_SIZE) !=
		    FC_BLOCK_SIZE)
			die("write");
	for (int i = 0; i < MEASURE_CALLS; i++)
	{
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		bench.offset[i] =
			FC_SLOTS_OFFSET + (off_t) ((seed >> 33) % SLOTS) * FC_BLOCK_SIZE;
	}

	fc_queue_open(&bench.queue, FC_QUEUE_DEPTH_READER);
	if (bench.queue.engine != FC_QUEUE_AIO)
		die("have AIO");

	bool ring = open_ring(&bench);
	Figure figures[] = {
		{ .name = "pread", .work = plain },
		{ .name = "AIO, 1", .work = aio_1 },
		{ .name = "AIO, 16 at once", .work = aio_16 },
		{ .name = "io_uring, 1", .work = ring_1 },
		{ .name = "io_uring, 16 at once", .work = ring_16 },
		{ .name = "io_uring registered, 1", .work = registered_1 },
		{ .name = "io_uring registered, 16 at once", .work = registered_16 },
	};
	int count = !ring ? 3 : bench.registered ? 7 : 5;

	measure(figures, count, &bench);
	for (int i = 0; i < count; i++)
		printf("%-18s %-32s %8.0f %12.0f - %.0f\n", directory, figures[i].name,
		       figures[i].median, figures[i].low, figures[i].high);
	fc_queue_close(&bench.queue);
	if (ring)
		close(bench.ring.fd);
	bench.device.ops->close(&bench.device);
	free(bench.pages);
}

int
main(int argc, char **argv)
{
	printf("%-18s %-32s %8s %18s\n", "cache file in", "engine", "CPU ns",
	       "quartiles");
	for (int i = 1; i < argc; i++)
		run(argv[i]);
	return 0;
}
