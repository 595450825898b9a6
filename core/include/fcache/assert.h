/*
 * assert.h
 *		Assertions: what a programmer guarantees, checked in test builds.
 *
 * FC_ASSERT(condition) ends the process at its line if the condition is false.
 * Without FC_TEST it is compiled and costs nothing: it is never evaluated, so
 * it must have no effect.  What flash or time could break is checked in every
 * build and never asserted.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_ASSERT_H
#define FCACHE_ASSERT_H

#ifdef FC_TEST
#include <assert.h>
/* assert() itself would print the condition with its macros expanded. */
#define FC_ASSERT(condition)                                                   \
	((condition) ? (void) 0                                                    \
	             : __assert_fail(#condition, __FILE__, __LINE__, __func__))
#else
#define FC_ASSERT(condition) ((void) (1 || (condition)))
#endif

#endif
