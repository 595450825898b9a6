/*
 * broken.c
 *		What tests set: which safeguards to leave out, and where a process
 *		stops.
 *
 * In the shipped library this file is empty; see broken.h.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "broken.h"

#include <stddef.h>

#ifdef FC_TEST
uint64_t fc_test_broken;
void (*fc_test_point)(const char *name);
uint64_t fc_test_now_ns;
uint64_t fc_test_tick_ns;
void *const *fc_test_page;
#endif
