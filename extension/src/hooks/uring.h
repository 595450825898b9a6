/*
 * uring.h
 *		Reads that the server hands to io_uring (PostgreSQL 18 and later).
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_URING_H
#define PGFLASH_URING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What must be known about the server's handles of asynchronous reads. */
typedef struct UringServer
{
	uint32_t handles; /* at most so many exist */

	/* The number of the handle that an entry carries; negative: none. */
	int64_t (*handle_number)(uint64_t user_data);

	/* Memory that every process has at the same address: the buffers. */
	const void *(*shared_pages)(size_t *size_out);

	/*
	 * End the read of the handle that an entry carried, as if its completion
	 * were reaped: with so many bytes, or an error's negative number.  Called
	 * from within uring_wait_cqes().  NULL: the server cannot.
	 *
	 * It calls claim() first, once a signal handler can no longer end the
	 * process alone: after claim(), no other process would finish the read.
	 */
	void (*complete)(uint64_t user_data, int result,
	                 void (*claim)(uint64_t user_data));
} UringServer;

/*
 * Find io_uring's own functions, and open what is needed; false: culprit_out
 * says what is missing.  Runs in the postmaster.
 */
extern bool uring_prepare(const char **culprit_out);

/* Ask for memory.  Called once the number of processes is known. */
extern void uring_want(const UringServer *server);
extern size_t uring_memory_size(void);
extern void uring_create(void *memory);
extern void uring_detach(void);

/* Stand in for liburing's functions of these names. */
struct io_uring;
struct io_uring_cqe;
struct __kernel_timespec;
extern int uring_submit(struct io_uring *ring);
extern unsigned uring_peek_batch_cqe(struct io_uring *ring,
                                     struct io_uring_cqe **cqes,
                                     unsigned count);
extern int uring_wait_cqes(struct io_uring *ring, struct io_uring_cqe **cqe,
                           unsigned count, struct __kernel_timespec *limit,
                           void *signals);

#endif
