/*
 * patiently.h
 *		Retry a test that a busy machine can make fail.
 *
 * A busy machine makes things take longer, but no machine makes them take
 * less.  A condition that holds only if nothing kept us waiting is
 * IN_TIME(condition, "a sentence"), in a function that PATIENTLY() repeats
 * until it holds, at most TRIALS times.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_PATIENTLY_H
#define PGFLASH_EMULATOR_PATIENTLY_H

#include "tap.h"

#define TRIALS 30

static int tap_trials_left;
static bool tap_late;

#define IN_TIME(condition, ...)                                                \
	do                                                                         \
	{                                                                          \
		bool in_time = (condition);                                            \
                                                                               \
		if (in_time || tap_trials_left == 0)                                   \
			tap_ok(in_time, #condition, __FILE__, __LINE__, __VA_ARGS__);      \
		else                                                                   \
		{                                                                      \
			NOTE("not now, so it is tried again: " __VA_ARGS__);               \
			tap_late = true;                                                   \
		}                                                                      \
	} while (0)

#define PATIENTLY(call)                                                        \
	do                                                                         \
	{                                                                          \
		tap_trials_left = TRIALS;                                              \
		do                                                                     \
		{                                                                      \
			tap_trials_left--;                                                 \
			tap_late = false;                                                  \
			call;                                                              \
		} while (tap_late);                                                    \
		tap_trials_left = 0;                                                   \
	} while (0)

#endif
