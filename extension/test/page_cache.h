/*
 * page_cache.h
 *		The kernel's answer to "is that in the page cache?", as a test wants it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PAGE_CACHE_H
#define PAGE_CACHE_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHESTAT 451

static bool page_cache_is_full;
static unsigned cachestats; /* times it was asked */

/*
 * Of the kernel's other calls there is one: core's queue does without the rest.
 */
long
syscall(long number, ...)
{
	va_list arguments;
	uint64_t *answer;

	if (number == SYS_gettid)
		return gettid();
	if (number != CACHESTAT)
	{
		errno = ENOSYS;
		return -1;
	}
	va_start(arguments, number);
	(void) va_arg(arguments, int);
	(void) va_arg(arguments, void *);
	answer = va_arg(arguments, uint64_t *);
	va_end(arguments);
	answer[0] = page_cache_is_full ? 1000000 : 0;
	cachestats++;
	return 0;
}

#endif
