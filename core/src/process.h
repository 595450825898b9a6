/*
 * process.h
 *		The table of processes; see process.c.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_PROCESS_H
#define FCACHE_PROCESS_H

#include "shared.h"

/*
 * A place in the table of processes; one word identifies the process that has
 * it.
 *
 *	bits 42-63	pid; 0 = free (Linux has no pid beyond 2^22)
 *	bits 16-41	when it was started, in clock ticks since boot; 0 = not known
 *	bits  0-15	incarnation: + 1 whenever the place is taken, never 0
 *
 * An owner's token is incarnation << 16 | place.
 */
typedef struct FcProcess
{
	FcAtomic64 word;
} FcProcess;

static inline FcProcess *
fc_processes(const FcShared *shared)
{
	return FC_AT(shared, processes_offset, FcProcess);
}

/*
 * Is the owner with this token gone, or is it the caller itself, interrupted by
 * a signal handler?  Either way nobody will continue what it began.
 */
extern bool fc_process_gone(const FcCache *cache, uint32_t token);

#endif
