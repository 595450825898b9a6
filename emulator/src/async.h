/*
 * async.h
 *		Linux AIO on files that a device plays.
 *
 * There are no libc names for Linux AIO: programs call io_submit(2) and the
 * others through syscall(), and that is where they are met.  (libaio has assembly
 * of its own and bypasses the library, as liburing does.)
 *
 * A request for a device's file is passed to the kernel at once, as all calls are.
 * At the same moment it reserves its time on the device; io_getevents() then
 * keeps the kernel's answer to itself until that time has come.  min_nr, nr and
 * the timeout mean what they mean to the kernel, and a signal ends the wait.
 *
 * The kernel is given a copy of each such request, because only the address of a
 * request comes back with its answer, and the caller may use his own again at
 * once.  Copies lie in a table of EM_ASYNC_MAX; when it is full io_submit()
 * accepts fewer requests than it was given, or fails with EAGAIN.
 *
 * io_destroy() waits for the devices of what is in flight, as it would wait for
 * real ones.  A process that ends does not: its I/O has been done already.
 *
 * io_uring_setup() answers ENOSYS, lest anybody escape his device.
 *
 * Locking: the table is one process's, and PostgreSQL's have one thread.  A
 * forked child finds it empty (MADV_WIPEONFORK), as it finds no context of its
 * parent's.  Nothing here allocates, but for one mmap at the first io_setup().
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_ASYNC_H
#define PGFLASH_EMULATOR_ASYNC_H

#include <stdbool.h>

#define EM_ASYNC_MAX 1024

/* The C library's syscall(). */
typedef long (*EmKernel)(long number, ...);

/* Is this a system call that em_async_call() has to see? */
extern bool em_async_plays(long number);

/* Make the call; result and errno are as the kernel's. */
extern long em_async_call(EmKernel kernel, long number, const long argument[6]);

#endif
