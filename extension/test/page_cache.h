/*
 * page_cache.h
 *		The kernel's answer to "is that in the page cache?", as a test wants it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PAGE_CACHE_H
#define PAGE_CACHE_H

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHESTAT 451

static bool page_cache_is_full;
static uint64_t page_cache_pages; /* otherwise it has so many of any range */
static unsigned cachestats;       /* times it was asked */
static int page_cache_errno;      /* 0: it can be asked */

/* Pass a call on to the kernel. */
static long
really(long number, va_list arguments)
{
	long (*next)(long, ...);
	long value[6];

	*(void **) &next = dlsym(RTLD_NEXT, "syscall");
	for (int i = 0; i < 6; i++)
		value[i] = va_arg(arguments, long);
	return next(number, value[0], value[1], value[2], value[3], value[4],
	            value[5]);
}

/* A test may have a few more calls; false: it does not have this one. */
#ifndef CALL_OF_TEST
#define CALL_OF_TEST(number, arguments, result_out) false
#endif

/*
 * A few of the kernel's other calls; core's queue needs no more.
 */
long
syscall(long number, ...)
{
	va_list arguments;
	uint64_t *answer;
	long result;

	if (number == SYS_gettid)
		return gettid();
	if (number == SYS_io_uring_setup || number == SYS_io_uring_enter)
	{
		va_start(arguments, number);
		result = really(number, arguments);
		va_end(arguments);
		return result;
	}
	va_start(arguments, number);
	if (CALL_OF_TEST(number, arguments, &result))
	{
		va_end(arguments);
		return result;
	}
	va_end(arguments);
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
	cachestats++;
	if (page_cache_errno != 0)
	{
		errno = page_cache_errno;
		return -1;
	}
	answer[0] = page_cache_is_full ? 1000000 : page_cache_pages;
	return 0;
}

#endif
