/*
 * play.h
 *		From a call to the device and back: who has to wait until when.
 *
 * calls.c plays calls that wait themselves: em_play_*() returns when the device
 * is finished.  async.c plays those that wait elsewhere: it asks for the
 * reservation when the request is made, and holds back its completion.
 *
 * Sleeping is to an absolute time, so a signal does not lengthen it, and is not
 * cut short by one either: a process waiting for a disk cannot be interrupted.
 * Nothing here spins, allocates or takes a lock.
 *
 * Locking: streams and prefetches are this process's own; see their headers.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_PLAY_H
#define PGFLASH_EMULATOR_PLAY_H

#include "files.h"

#include <sys/types.h>

/* What all processes share; NULL: nothing is played. */
extern EmState *em_state;

/* Reserve the device's time for a request, if no advice has done so before. */
extern EmCharge em_play_reserve(const EmFile *file, EmOperation operation,
                                EmRequest *request);

/* Sleep until the device is finished; returns what time it is then. */
extern uint64_t em_play_wait(const EmDevice *device, uint64_t end_ns);

/* A call that began then, and has been made: wait for its device, and count it. */
extern void em_play_read(const EmFile *file, uint64_t began_ns, off_t offset,
                         ssize_t result);
extern void em_play_write(const EmFile *file, uint64_t began_ns, off_t offset,
                          ssize_t result);
extern void em_play_sync(const EmFile *file, uint64_t began_ns, int result);
extern void em_play_metadata(const EmFile *file, uint64_t began_ns, int result);

/* An announced read begins now; it is counted when it is read. */
extern void em_play_advice(const EmFile *file, off_t offset, off_t bytes);

#endif
