/*
 * play.h
 *		From a call to the device and back: how long a caller has to wait.
 *
 * calls.c plays synchronous calls: em_play_*() returns when the device is
 * finished.  async.c plays asynchronous ones: it reserves the time when the
 * request is made, and holds back its completion.
 *
 * A process sleeps until an absolute time, so a signal does not lengthen the
 * sleep.  Nor does it shorten it, since a wait for a disk cannot be
 * interrupted.  Nothing here spins, allocates or takes a lock.
 *
 * Locking: streams and prefetches are this process's own; see their headers.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_PLAY_H
#define PGFLASH_EMULATOR_PLAY_H

#include "files.h"

#include <sys/types.h>

/* The state that all processes share; NULL: nothing is played. */
extern EmState *em_state;

/* Reserve the device's time for a request, unless advice has done so. */
extern EmCharge em_play_reserve(const EmFile *file, EmOperation operation,
                                EmRequest *request);

/* Sleep until the device is finished; returns the time of waking. */
extern uint64_t em_play_wait(const EmDevice *device, uint64_t end_ns);

/* A call that began at began_ns was made: wait for its device, and count it. */
extern void em_play_read(const EmFile *file, uint64_t began_ns, off_t offset,
                         ssize_t result);
extern void em_play_write(const EmFile *file, uint64_t began_ns, off_t offset,
                          ssize_t result);
extern void em_play_sync(const EmFile *file, uint64_t began_ns, int result);
extern void em_play_metadata(const EmFile *file, uint64_t began_ns, int result);

/* An announced read begins now; it is counted when it is read. */
extern void em_play_advice(const EmFile *file, off_t offset, off_t bytes);

#endif
