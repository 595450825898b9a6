/*
 * dies.h
 *		Does a broken invariant end the process at the assertion that states it?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef DIES_H
#define DIES_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tap.h"

/* Does the act, in a child process, die at an assertion that says this? */
static bool
dies_at(void (*act)(void), const char *condition)
{
	char said[1000];
	size_t length = 0;
	ssize_t got;
	int status;
	int ends[2];
	pid_t child;

	if (pipe(ends) != 0)
		abort();
	fflush(stdout);
	child = fork();
	if (child < 0)
		abort();
	if (child == 0)
	{
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		dup2(ends[1], STDERR_FILENO);
		act();
		_exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0)
		length += (size_t) got;
	said[length] = '\0';
	close(ends[0]);
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	    WTERMSIG(status) == SIGABRT && strstr(said, condition) != NULL)
		return true;
	printf("# status %d: %s\n", status, said);
	return false;
}

#endif
