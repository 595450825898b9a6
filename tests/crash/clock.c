/*
 * clock.c
 *		A clock that is set while a server runs: a library to preload.
 *
 *	CLOCK_STATE	a file that holds one number, by how many seconds the time of
 *				day is off; every process of the server maps it, the test
 *				changes it
 *
 * Only the time of day moves, as it does when somebody sets it or a machine's
 * clock is corrected: CLOCK_MONOTONIC and the others go on.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *step_s;

static struct
{
	int (*clock_gettime)(clockid_t, struct timespec *);
	int (*gettimeofday)(struct timeval *, void *);
	time_t (*time)(time_t *);
} real;

__attribute__((constructor)) static void
begin(void)
{
	const char *path = getenv("CLOCK_STATE");
	int fd;

	*(void **) &real.clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	*(void **) &real.gettimeofday = dlsym(RTLD_NEXT, "gettimeofday");
	*(void **) &real.time = dlsym(RTLD_NEXT, "time");
	if (path == NULL)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	step_s = fd < 0 ? MAP_FAILED
	                : mmap(NULL, sizeof(*step_s), PROT_READ | PROT_WRITE,
	                       MAP_SHARED, fd, 0);
	if (step_s == MAP_FAILED)
	{
		/* A test that relies on a moving clock must not run without it. */
		perror("clock.so: could not map CLOCK_STATE");
		_exit(1);
	}
	close(fd);
}

static time_t
step(void)
{
	return step_s == NULL ? 0 : (time_t) atomic_load(step_s);
}

int
clock_gettime(clockid_t id, struct timespec *now)
{
	int result;

	if (real.clock_gettime == NULL)
		begin();
	result = real.clock_gettime(id, now);
	if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		now->tv_sec += step();
	return result;
}

int
gettimeofday(struct timeval *now, void *zone)
{
	int result;

	if (real.gettimeofday == NULL)
		begin();
	result = real.gettimeofday(now, zone);
	if (result == 0)
		now->tv_sec += step();
	return result;
}

time_t
time(time_t *out)
{
	time_t now;

	if (real.time == NULL)
		begin();
	now = real.time(NULL) + step();
	if (out != NULL)
		*out = now;
	return now;
}
