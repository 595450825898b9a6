/*
 * library.c
 *		A library whose imports are replaced, and one that it needs (NEEDED).
 *
 * Built in the ways in which libraries are built; see libraries_test.c, which
 * calls it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <sys/types.h>
#include <unistd.h>

#ifdef NEEDED
#define NAME(name) needed_##name
#else
#define NAME(name) library_##name
#endif

typedef pid_t (*Function)(void);

#ifdef OWN
/* Not libc's, but with the same name. */
pid_t
getppid(void)
{
	return 4711;
}
#endif

extern pid_t NAME(by_call)(void);
extern pid_t NAME(by_table)(void);
extern pid_t NAME(by_address)(void);
extern pid_t NAME(in_constructor)(void);

/* Read-only once it is bound, and not. */
static const Function fixed[] = { getppid, getppid };
Function NAME(table)[] = { getppid };

static pid_t at_start;

__attribute__((constructor)) static void
construct(void)
{
	at_start = getppid();
}

pid_t
NAME(in_constructor)(void)
{
	return at_start;
}

pid_t
NAME(by_call)(void)
{
	return getppid();
}

/* Not the parent's number if they disagree. */
pid_t
NAME(by_table)(void)
{
	volatile int which = 1;
	pid_t one = fixed[which]();

	return one == NAME(table)[0]() ? one : 0;
}

pid_t
NAME(by_address)(void)
{
	static Function volatile taken;

	taken = getppid;
	return taken();
}

#ifndef NEEDED
extern pid_t needed_in_constructor(void);
extern pid_t library_of_needed(void);

pid_t
library_of_needed(void)
{
	return needed_in_constructor();
}
#endif
