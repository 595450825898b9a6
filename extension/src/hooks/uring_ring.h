/*
 * uring_ring.h
 *		liburing 2's struct io_uring, as far as it is needed.
 *
 * Its layout is part of liburing's binary interface: the server accesses it by
 * inline code.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_URING_RING_H
#define PGFLASH_URING_RING_H

#include <linux/io_uring.h>
#include <stddef.h>

typedef struct Ring
{
	struct
	{
		unsigned *head;
		unsigned *tail;
		unsigned *mask;
		unsigned *entries;
		unsigned *flags;
		unsigned *dropped;
		unsigned *array;
		struct io_uring_sqe *sqes;
		unsigned staged_from;
		unsigned staged_to;
		size_t ring_size;
		void *ring;
		unsigned reserved[4];
	} submission;
	struct
	{
		unsigned *head;
		unsigned *tail;
		unsigned *mask;
		unsigned *entries;
		unsigned *flags;
		unsigned *overflow;
		struct io_uring_cqe *cqes;
		size_t ring_size;
		void *ring;
		unsigned reserved[4];
	} completion;
	unsigned flags;
	int fd;
	unsigned features; /* of the kernel */
} Ring;

/* With these flags entries are larger, or of several sizes (Linux 6.18). */
#define LARGE_ENTRIES (1U << 10 | 1U << 19)

#endif
