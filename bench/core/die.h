/*
 * die.h
 *		For benchmarks: end the program if a step of it fails.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef BENCH_CORE_DIE_H
#define BENCH_CORE_DIE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fcache/status.h"

/* Report what failed, with errno. */
static inline void
die(const char *what)
{
	fprintf(stderr, "%s: could not %s: %s\n", program_invocation_short_name,
	        what, strerror(errno));
	exit(1);
}

/* Do so if core did not do what was asked. */
static inline void
must(FcStatus status, const char *what)
{
	if (status != FC_OK)
		die(what);
}

#endif
