/*
 * process.c
 *		Who fills: the table of processes, and who of them is still alive.
 *
 * A process that claims a slot signs with a token: its place in the table and
 * how often that place has been used.  Whoever meets a claim can so find out
 * whether its owner still exists: a pid alone would not do, since pids come
 * again, so it is compared with the start time of the process.
 *
 * A place is taken by one compare-and-swap of its pid and needs no clean-up by
 * its owner: places of dead processes are taken again.  A process killed in the
 * few instructions between taking a place and signing it loses that place for
 * good; the table has room to spare.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared.h"

/* A place somebody is just moving into. */
#define PID_TAKING UINT32_MAX

/*
 * Start time of a process in clock ticks since boot (field 22 of its stat file);
 * 0 if it is gone or a zombie, UINT64_MAX if that cannot be known: a file that is
 * not there may mean that /proc hides other users' processes, or is no /proc.
 */
static uint64_t
start_time_of(uint32_t pid)
{
	char path[32];
	char text[512];
	int fd;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return UINT64_MAX;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return length < 0 && errno == ESRCH ? 0 : UINT64_MAX;
	text[length] = '\0';

	/* The second field is the command in brackets, which may hold anything. */
	char *field = strrchr(text, ')');

	if (field == NULL || field[1] == '\0')
		return UINT64_MAX;
	field += 2; /* the third field, the state */
	if (*field == 'Z' || *field == 'X')
		return 0;

	for (int i = 3; i < 22; i++)
	{
		field = strchr(field, ' ');
		if (field == NULL)
			return UINT64_MAX;
		field++;
	}
	return strtoull(field, NULL, 10);
}

static bool
alive(uint32_t pid, uint64_t start_time)
{
	/* Where there is no /proc, believe the pid. */
	if (kill((pid_t) pid, 0) != 0 && errno == ESRCH)
		return false;

	uint64_t now = start_time_of(pid);

	if (now == UINT64_MAX || start_time == UINT64_MAX)
		return true;
	return now == start_time;
}

bool
fc_owner_gone(const FcCache *cache, uint32_t token)
{
	int saved_errno = errno;
	uint32_t place = token & 0xffff;
	bool gone;

	if (FC_BROKEN(TAKEOVER) && token != cache->token)
		return false;
	if (token == cache->token)
		return !FC_BROKEN(SELF);

	FC_ASSERT(place < cache->shared->process_count);

	FcProcess *process = &fc_processes(cache->shared)[place];
	uint32_t pid = atomic_load(&process->pid);
	uint64_t start_time = atomic_load(&process->start_time);

	if (atomic_load(&process->token) != token)
		gone = true; /* the place has moved on */
	else if (pid == PID_TAKING)
		gone = false; /* not known yet */
	else
		gone = pid == 0 || !alive(pid, start_time);

	errno = saved_errno;
	return gone;
}

/* Try to move into a place that held the given pid. */
static bool
take_place(FcCache *cache, uint32_t place, uint32_t old_pid)
{
	FcProcess *process = &fc_processes(cache->shared)[place];

	if (!atomic_compare_exchange_strong(&process->pid, &old_pid, PID_TAKING))
		return false;

	uint32_t incarnation = (atomic_load(&process->token) >> 16) + 1;
	uint32_t token = (incarnation << 16) | place;

	if ((incarnation & 0xffff) == 0)
		token |= 1U << 16; /* never 0 */
	atomic_store(&process->token, token);
	atomic_store(&process->start_time, start_time_of((uint32_t) getpid()));
	atomic_store(&process->pid, (uint32_t) getpid());
	cache->process = place;
	cache->token = token;
	return true;
}

FcStatus
fc_process_begin(FcCache *cache)
{
	FcShared *shared = cache->shared;
	FcProcess *processes = fc_processes(shared);
	int saved_errno = errno;
	uint32_t start = (uint32_t) getpid() % shared->process_count;

	if (cache->token != 0)
		return FC_OK;

	for (int pass = 0; pass < 2; pass++)
	{
		for (uint32_t i = 0; i < shared->process_count; i++)
		{
			uint32_t place = (start + i) % shared->process_count;
			uint32_t pid = atomic_load(&processes[place].pid);
			uint64_t start_time = atomic_load(&processes[place].start_time);

			/* First the free places, then those of the dead. */
			if (pass == 0 ? pid != 0
			              : pid == PID_TAKING || alive(pid, start_time))
				continue;
			if (take_place(cache, place, pid))
			{
				errno = saved_errno;
				return FC_OK;
			}
		}
	}

	errno = saved_errno;
	return FC_FULL;
}

void
fc_process_end(FcCache *cache)
{
	if (cache->token == 0)
		return;
	atomic_store(&fc_processes(cache->shared)[cache->process].pid, 0);
	cache->token = 0;
}
