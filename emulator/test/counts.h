/*
 * counts.h
 *		For tests that run with the library preloaded: what have the devices
 *		counted since the mark?
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_COUNTS_H
#define PGFLASH_EMULATOR_COUNTS_H

#include "lab.h"

static EmState *state;
static uint64_t count_before[EM_DEVICES_MAX][EM_OPERATION_COUNT];
static uint64_t bytes_before[EM_DEVICES_MAX][EM_OPERATION_COUNT];

static inline void
open_counts(void)
{
	const char *reason;

	state = em_state_open(getenv(EM_STATE_VARIABLE), &reason);
	if (state == NULL)
		lab_give_up("map the state file");
}

/* Remember all counts, to see what the calls after this change. */
static inline void
mark(void)
{
	for (int device = 0; device < EM_DEVICES_MAX; device++)
	{
		for (int operation = 0; operation < EM_OPERATION_COUNT; operation++)
		{
			EmTally *tally = &state->device[device].tally[operation];

			count_before[device][operation] = tally->count;
			bytes_before[device][operation] = tally->bytes;
		}
	}
}

static inline uint64_t
counted(int device, EmOperation operation)
{
	return state->device[device].tally[operation].count -
	       count_before[device][operation];
}

/* All that was counted since the mark, on any device. */
static inline uint64_t
counted_at_all(void)
{
	uint64_t sum = 0;

	for (int device = 0; device < EM_DEVICES_MAX; device++)
		for (int operation = 0; operation < EM_OPERATION_COUNT; operation++)
			sum += counted(device, (EmOperation) operation);
	return sum;
}

/* Exactly one request, of this kind and size, on the first device. */
static inline bool
counted_once(EmOperation operation, uint64_t bytes)
{
	return counted(0, operation) == 1 && counted_at_all() == 1 &&
	       state->device[0].tally[operation].bytes -
	               bytes_before[0][operation] ==
	           bytes;
}

#endif
