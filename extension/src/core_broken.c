/*
 * core_broken.c
 *		A negative control of core's, in a server.
 *
 * Only in builds for one: core is linked as for its own tests, and the
 * safeguard that CORE_BREAK names is left out from the start.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#undef FC_BREAK /* of the command line: what it means to the extension */
#include "../../core/src/broken.h"

static void break_core(void) __attribute__((constructor));

static void
break_core(void)
{
	fc_test_broken = CORE_BREAK;
}
