/*
 * async.h
 *		Linux AIO on files that a device plays.
 *
 * Linux AIO has no libc names: programs call io_submit(2) and the others
 * through syscall(), and the library intercepts them there.  (libaio has
 * assembly of its own and bypasses the library, as liburing does.)
 *
 * A request for a device's file is passed to the kernel at once, like all
 * calls.  At the same moment it reserves its time on the device; io_getevents()
 * then holds back the kernel's answer until that time.  min_nr, nr and the
 * timeout have the same meaning as for the kernel, and a signal ends the wait.
 *
 * The kernel gets a copy of each such request, because an answer contains only
 * the address of its request, and the caller may reuse the original at once.
 * Copies are in a table of EM_ASYNC_MAX; when it is full, io_submit() accepts
 * fewer requests than it was given, or fails with EAGAIN.
 *
 * io_destroy() waits for the devices of all requests in flight, as it would for
 * real ones.  A process that exits does not wait, since its I/O is already
 * done.
 *
 * io_uring_setup() fails with ENOSYS, so that no program bypasses its device.
 *
 * Locking: the table is private to a process, and PostgreSQL's processes have
 * one thread.  A forked child finds it empty (MADV_WIPEONFORK), and inherits
 * none of its parent's contexts.  Nothing here allocates, except one mmap at
 * the first submission.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_ASYNC_H
#define PGFLASH_EMULATOR_ASYNC_H

#include <stdbool.h>

#define EM_ASYNC_MAX 1024

/* The C library's syscall(). */
typedef long (*EmKernel)(long number, ...);

/* Must this system call go through em_async_call()? */
extern bool em_async_plays(long number);

/* Make the call; result and errno are as the kernel's. */
extern long em_async_call(EmKernel kernel, long number, const long argument[6]);

#endif
