/*
 * broken.h
 *		What only test builds have: negative controls, stop points, assertions.
 *
 * fc_test_broken is the set of safeguards to leave out, so that a test can show
 * that it notices when one is missing.  FC_ASSERT is in fcache/assert.h.
 * FC_POINT(name) lets a test stop a process between any two steps of the
 * protocol.  The shipped library has none of them: there the macros are empty.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_BROKEN_H
#define FCACHE_BROKEN_H

#include <stdint.h>

#include "fcache/assert.h"

#ifdef FC_TEST
/* Declared one by one in broken.def; none shares its bit with another. */
enum
{
#define BREAK(name) FC_BREAK_##name,
#include "broken.def"
#undef BREAK
	FC_BREAKS
};

/* A set of them, joined by |; 0: nothing is left out. */
typedef unsigned __int128 FcBreaks;

_Static_assert(FC_BREAKS <= 8 * sizeof(FcBreaks), "the set has a bit for each");

#define FC_BREAK(name) ((FcBreaks) 1 << FC_BREAK_##name)

extern FcBreaks fc_test_broken;
extern const char *fc_broken_names(FcBreaks breaks);
extern void (*fc_test_point)(const char *name);
extern uint64_t fc_test_now_ns;   /* the clock's time; 0: use the real clock */
extern uint64_t fc_test_tick_ns;  /* ... which each look advances by this */
extern void *const *fc_test_page; /* callers' pages for a run's slots */

#define FC_BROKEN(name)        ((fc_test_broken & FC_BREAK(name)) != 0)
#define FC_WHOLE               (fc_test_broken == 0)
#define FC_CALLERS_PAGE(index) (fc_test_page[index])
#define FC_POINT(name)                                                         \
	do                                                                         \
	{                                                                          \
		if (fc_test_point != NULL)                                             \
			fc_test_point(name);                                               \
	} while (0)
#else
#define FC_BROKEN(name)        0
#define FC_WHOLE               1
#define FC_CALLERS_PAGE(index) NULL
#define FC_POINT(name)         ((void) 0)
#endif

#endif
