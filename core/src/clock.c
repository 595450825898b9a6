/*
 * clock.c
 *		The time by which everything in core is measured: monotonic, in
 *		nanoseconds.
 *
 * In test builds a test may set it, and make each look advance it by some
 * amount.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <time.h>

#include "shared.h"

uint64_t
fc_clock_ns(void)
{
	struct timespec now;

#ifdef FC_TEST
	if (fc_test_now_ns != 0)
		return fc_test_now_ns += fc_test_tick_ns;
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000ULL + (uint64_t) now.tv_nsec;
}
