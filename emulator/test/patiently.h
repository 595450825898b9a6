/*
 * patiently.h
 *		What a busy machine can break is tried again.
 *
 * A machine that is busy makes things take longer, and none makes them take less.  So what
 * holds only if we were not kept waiting is IN_TIME(condition, "a sentence"), in a function
 * that PATIENTLY() calls again as long as it does not: at most TRIALS times.
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
