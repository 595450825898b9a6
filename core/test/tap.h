/*
 * tap.h
 *		The few lines a test needs: OK(condition, "sentence, printf style").
 *
 * A test program prints its plan at the end (tap_done()), so that one that dies
 * half-way counts as a failure.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef TAP_H
#define TAP_H

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int tap_count;
static int tap_failures;

__attribute__((format(printf, 4, 5), unused)) static bool
tap_ok(bool good, const char *file, int line, const char *format, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++tap_count);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	if (!good)
	{
		tap_failures++;
		printf("# failed at %s:%d\n", file, line);
	}
	fflush(stdout);
	return good;
}

#define OK(condition, ...) tap_ok((condition), __FILE__, __LINE__, __VA_ARGS__)

/* Skip what this machine cannot show; the output has the reason. */
#define SKIP(what, why)                                                        \
	do                                                                         \
	{                                                                          \
		printf("ok %d - %s # SKIP %s\n", ++tap_count, (what), (why));          \
		fflush(stdout);                                                        \
	} while (0)

/*
 * Has this machine Linux AIO?  An emulation of another processor that makes the
 * calls of its host's kernel (qemu-user) has none, so what needs it is skipped.
 */
#define NO_AIO "no Linux AIO here"

__attribute__((unused)) static bool
has_aio(void)
{
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, 4L, &context) != 0)
		return errno != ENOSYS;
	syscall(SYS_io_destroy, context);
	return true;
}

/*
 * Name a file or folder "NAME.XXXXXX" for mkstemp() or mkdtemp(), in memory if
 * it is written heavily, and in the folders of this run if tools/scratch.sh
 * made some.
 */
__attribute__((unused)) static void
tap_scratch(char *path, size_t size, const char *name, bool in_memory)
{
	const char *folder = getenv(in_memory ? "MEMDIR" : "TMPDIR");

	if (folder == NULL || folder[0] == '\0')
		folder =
			in_memory && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	if (snprintf(path, size, "%s/%s.XXXXXX", folder, name) >= (int) size)
		abort();
}

__attribute__((unused)) static int
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures == 0 ? 0 : 1;
}

#endif
