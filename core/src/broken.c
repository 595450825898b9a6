/*
 * broken.c
 *		Set by tests: which safeguards to leave out, and where a process stops.
 *
 * In the shipped library this file is empty; see broken.h.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "broken.h"

#include <stddef.h>
#include <stdio.h>

#ifdef FC_TEST
FcBreaks fc_test_broken;
void (*fc_test_point)(const char *name);
uint64_t fc_test_now_ns;
uint64_t fc_test_tick_ns;
void *const *fc_test_page;

/* Their names, until the next call. */
const char *
fc_broken_names(FcBreaks breaks)
{
	static const char *const name_of[] = {
#define BREAK(name) #name,
#include "broken.def"
#undef BREAK
	};
	static char names[200];
	size_t length = 0;

	names[0] = '\0';
	for (int i = 0; i < FC_BREAKS && length < sizeof(names); i++)
		if ((breaks & ((FcBreaks) 1 << i)) != 0)
			length += (size_t) snprintf(names + length, sizeof(names) - length,
			                            "%s%s", length > 0 ? " and " : "",
			                            name_of[i]);
	return names;
}
#endif
