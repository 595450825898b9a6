/*
 * process.c
 *		The table of processes that fill, and which of them are still alive.
 *
 * A process that claims a slot marks it with a token: its place in the table
 * and how often that place has been used.  So a process that meets a claim can
 * find out whether its owner still exists.  A pid alone would not do, since
 * pids are reused, so the start time of the process is compared, too.
 *
 * Pid, start time and use count are in one word, and one compare-and-swap takes
 * a place.  So wherever a process is killed, the place is either its own or
 * still its predecessor's, and places of dead processes are reused.  The start
 * time keeps 26 bits: if a pid is reused exactly 7.7 days later, to the
 * hundredth of a second, the new process passes for its predecessor, which
 * costs a slot.
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

#include "process.h"

#define START_BITS 26
#define START_MASK ((1U << START_BITS) - 1)

/*
 * Start time of a process in clock ticks since boot (field 22 of its stat
 * file); 0 if it is gone or a zombie, UINT64_MAX if that cannot be known: a
 * missing file may mean that /proc hides other users' processes, or is missing.
 */
static uint64_t
start_time_of(uint32_t pid)
{
	char path[32];
	char text[512];
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd;
	ssize_t length;

	/*
	 * Not by one path: for a process's own file, qemu's user emulation invents
	 * a start time, so every other process would take this one for dead.
	 */
	if (proc < 0)
		return UINT64_MAX;
	snprintf(path, sizeof(path), "%u/stat", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	close(proc);
	if (fd < 0)
		return UINT64_MAX;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return length < 0 && errno == ESRCH ? 0 : UINT64_MAX;
	text[length] = '\0';

	/*
	 * The second field is the command in parentheses, which may contain
	 * anything.
	 */
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

/* The same in the bits that a place has; 0 if it cannot be known. */
static uint32_t
short_start(uint64_t start_time)
{
	uint32_t start = (uint32_t) start_time & START_MASK;

	if (start_time == UINT64_MAX)
		return 0;
	return start != 0 ? start : 1;
}

static uint64_t
word_of(uint32_t pid, uint32_t start, uint32_t incarnation)
{
	FC_ASSERT(start <= START_MASK && incarnation <= 0xffff);
	return (uint64_t) pid << (START_BITS + 16) | (uint64_t) start << 16 |
	       incarnation;
}

static uint32_t
pid_of(uint64_t word)
{
	return (uint32_t) (word >> (START_BITS + 16));
}

static uint32_t
start_of(uint64_t word)
{
	return (uint32_t) (word >> 16) & START_MASK;
}

static uint32_t
incarnation_of(uint64_t word)
{
	return (uint32_t) word & 0xffff;
}

/* Does the process that has, or had, the place still exist? */
static bool
alive(uint64_t word)
{
	if (pid_of(word) == 0)
		return false;

	/* Where there is no /proc, trust the pid. */
	if (kill((pid_t) pid_of(word), 0) != 0 && errno == ESRCH)
		return false;

	uint64_t start_time = start_time_of(pid_of(word));

	if (start_time == UINT64_MAX || start_of(word) == 0)
		return true;
	return start_time != 0 && short_start(start_time) == start_of(word);
}

bool
fc_process_gone(const FcCache *cache, uint32_t token)
{
	int saved_errno = errno;
	uint32_t place = token & 0xffff;

	if (FC_BROKEN(TAKEOVER) && token != cache->token)
		return false;
	if (token == cache->token)
		return !FC_BROKEN(SELF);

	/* Memory that outlived its server may hold anything. */
	if (place >= cache->shared->process_count)
		return true;

	uint64_t word = atomic_load(&fc_processes(cache->shared)[place].word);
	bool gone = incarnation_of(word) != token >> 16 || !alive(word);

	errno = saved_errno;
	return gone;
}

/* Try to take a place that was seen free, or whose process was seen dead. */
static bool
take_place(FcCache *cache, uint32_t place, uint64_t seen)
{
	uint32_t pid = (uint32_t) getpid();
	uint32_t incarnation = (incarnation_of(seen) + 1) & 0xffff;

	FC_ASSERT(cache->token == 0 && place < cache->shared->process_count);
	if (incarnation == 0)
		incarnation = 1;
	if (!atomic_compare_exchange_strong(
			&fc_processes(cache->shared)[place].word, &seen,
			word_of(pid, short_start(start_time_of(pid)), incarnation)))
		return false;
	cache->process = place;
	cache->token = incarnation << 16 | place;
	return true;
}

FcStatus
fc_process_begin(FcCache *cache)
{
	FcShared *shared = cache->shared;
	int saved_errno = errno;
	uint32_t start = (uint32_t) getpid() % shared->process_count;

	if (cache->token != 0)
		return FC_OK;

	for (int pass = 0; pass < 2; pass++)
	{
		for (uint32_t i = 0; i < shared->process_count; i++)
		{
			uint32_t place = (start + i) % shared->process_count;
			uint64_t seen = atomic_load(&fc_processes(shared)[place].word);

			/* First the free places, then those of dead processes. */
			if (pass == 0 ? pid_of(seen) != 0 : alive(seen))
				continue;
			if (take_place(cache, place, seen))
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

	FC_ASSERT(cache->process < cache->shared->process_count);

	FcAtomic64 *word = &fc_processes(cache->shared)[cache->process].word;
	uint64_t mine = atomic_load(word);

	/* The incarnation stays, because the next one must differ. */
	if (incarnation_of(mine) == cache->token >> 16)
		atomic_compare_exchange_strong(word, &mine,
		                               word_of(0, 0, incarnation_of(mine)));
	cache->token = 0;
}
