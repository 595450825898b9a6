/*
 * tap.h
 *		Tests that speak the Test Anything Protocol, for prove.
 *
 * A test is OK(condition, "a sentence"); main() ends with return done().
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_TAP_H
#define PGFLASH_EMULATOR_TAP_H

#include <stdbool.h>
#include <stdio.h>

static int tap_count;
static int tap_failed;

#define OK(condition, ...)                                                     \
	tap_ok((condition), #condition, __FILE__, __LINE__, __VA_ARGS__)

/* For figures that may interest a reader of the log. */
#define NOTE(...) (printf("# "), printf(__VA_ARGS__), printf("\n"))

__attribute__((format(printf, 5, 6))) static inline void
tap_ok(bool passed, const char *condition, const char *file, int line,
       const char *sentence, ...)
{
	__builtin_va_list arguments;

	printf("%sok %d - ", passed ? "" : "not ", ++tap_count);
	__builtin_va_start(arguments, sentence);
	vprintf(sentence, arguments);
	__builtin_va_end(arguments);
	printf("\n");
	if (!passed)
	{
		tap_failed++;
		printf("#   failed: %s at %s:%d\n", condition, file, line);
	}
	fflush(stdout);
}

static inline int
done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed == 0 ? 0 : 1;
}

#endif
