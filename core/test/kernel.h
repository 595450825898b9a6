/*
 * kernel.h
 *		A kernel that may have no AIO, or little of it left: replaces syscall().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

static int setup_errno;      /* what io_setup fails with */
static long setup_depth_max; /* or the most that it grants; 0 = any */
static long submit_max = -1; /* transfers that io_submit accepts; -1 = any */
static unsigned submits;

static long
real_syscall(long number, const long a[6])
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];

	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10),
	                   "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long result __asm__("x0") = a[0];
	register long x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2];
	register long x3 __asm__("x3") = a[3];
	register long x4 __asm__("x4") = a[4];
	register long x5 __asm__("x5") = a[5];

	__asm__ volatile("svc 0"
	                 : "+r"(result)
	                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
	                 : "memory");
#endif
	if (result < 0 && result > -4096)
	{
		errno = (int) -result;
		return -1;
	}
	return result;
}

static long
refused(int error)
{
	errno = error;
	return -1;
}

/* It reads six arguments, like libc's, where a caller may have given fewer. */
__attribute__((no_sanitize("address"))) long
syscall(long number, ...)
{
	long a[6];
	va_list arguments;

	va_start(arguments, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(arguments, long);
	va_end(arguments);

	if (number == SYS_io_setup && setup_errno != 0)
		return refused(setup_errno);
	if (number == SYS_io_setup && setup_depth_max != 0 &&
	    a[0] > setup_depth_max)
		return refused(EAGAIN);
	if (number == SYS_io_submit)
	{
		submits++;
		if (submit_max == 0)
			return refused(EAGAIN);
		if (submit_max > 0 && a[1] > submit_max)
			a[1] = submit_max;
		if (submit_max > 0)
			submit_max -= a[1];
	}
	return real_syscall(number, a);
}

#endif
