/*
 * preload.h
 *		The common part of the libraries that intercept libc's file calls.
 *
 * Each has a struct real of the calls that it replaces, among them syscall, and
 * a function find_real_calls() that fills it in by FIND().
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>

#define FIND(name) *(void **) &real.name = dlsym(RTLD_NEXT, #name)

/* A constructor of another library may come first, and use our calls. */
#define ENSURE()                                                               \
	do                                                                         \
	{                                                                          \
		if (real.syscall == NULL)                                              \
			find_real_calls();                                                 \
	} while (0)

/* An open() of this name that hands its arguments to a function. */
#define DEFINE_OPEN(name, function)                                            \
	int name(const char *path, int flags, ...)                                 \
	{                                                                          \
		va_list arguments;                                                     \
		mode_t mode = 0;                                                       \
                                                                               \
		va_start(arguments, flags);                                            \
		if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)        \
			mode = va_arg(arguments, mode_t);                                  \
		va_end(arguments);                                                     \
		return function(path, flags, mode);                                    \
	}

#endif
