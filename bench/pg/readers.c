/*
 * readers.c
 *		Plain O_DIRECT reads: the device's speed, with which scans are compared.
 *
 *	readers FILE SIZE DEPTH READERS SECONDS AT_ONCE
 *
 * Each of READERS processes keeps reading DEPTH pieces of SIZE bytes from
 * random places of FILE at once, by Linux AIO.  When AT_ONCE of them are done,
 * others take their place: with AT_ONCE = DEPTH it waits as a scan waits for a
 * run; 1 keeps the device as busy as possible.  Prints bytes per second, and
 * the CPU seconds of all.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX 64

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static uint64_t
read_for(int fd, off_t pieces, size_t size, int depth, int at_once,
         double seconds, unsigned seed)
{
	aio_context_t context = 0;
	char *memory = mmap(NULL, size * (size_t) depth, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iocb request[DEPTH_MAX];
	struct iocb *requests[DEPTH_MAX];
	struct io_event event[DEPTH_MAX];
	uint64_t bytes = 0;
	double end = now() + seconds;
	int count = depth; /* to begin */

	if (memory == MAP_FAILED || syscall(SYS_io_setup, depth, &context) != 0)
		exit(1);
	srandom(seed);
	for (int i = 0; i < depth; i++)
	{
		request[i] = (struct iocb){
			.aio_data = (uint64_t) (uintptr_t) &request[i],
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = (uint32_t) fd,
			.aio_buf = (uint64_t) (uintptr_t) (memory + (size_t) i * size),
			.aio_nbytes = size,
		};
		requests[i] = &request[i];
	}
	while (now() < end)
	{
		for (int i = 0; i < count; i++)
			requests[i]->aio_offset = random() % pieces * (off_t) size;
		if (syscall(SYS_io_submit, context, (long) count, requests) != count)
			exit(1);
		count = (int) syscall(SYS_io_getevents, context, (long) at_once,
		                      (long) depth, event, NULL);
		if (count < at_once)
			exit(1);
		for (int i = 0; i < count; i++)
		{
			if (event[i].res != (int64_t) size)
				exit(1);
			bytes += size;
			requests[i] = (struct iocb *) (uintptr_t) event[i].data;
		}
	}
	return bytes;
}

int
main(int argc, char **argv)
{
	if (argc != 7)
	{
		fputs("Usage: readers FILE SIZE DEPTH READERS SECONDS AT_ONCE\n",
		      stderr);
		return 2;
	}

	size_t size = strtoul(argv[2], NULL, 10);
	int depth = atoi(argv[3]);
	int readers = atoi(argv[4]);
	double seconds = atof(argv[5]);
	int at_once = atoi(argv[6]);
	int fd = open(argv[1], O_RDONLY | O_DIRECT);
	struct stat st;
	int out[2];
	uint64_t sum = 0;

	if (fd < 0 || fstat(fd, &st) != 0 || depth > DEPTH_MAX || pipe(out) != 0)
		return 1;
	for (int i = 0; i < readers; i++)
	{
		if (fork() == 0)
		{
			uint64_t bytes =
				read_for(fd, st.st_size / (off_t) size, size, depth, at_once,
			             seconds, (unsigned) i + 1);

			_exit(write(out[1], &bytes, sizeof(bytes)) != sizeof(bytes));
		}
	}
	close(out[1]);
	for (int i = 0; i < readers; i++)
	{
		uint64_t bytes;

		if (read(out[0], &bytes, sizeof(bytes)) != sizeof(bytes))
			return 1;
		sum += bytes;
	}
	while (wait(NULL) > 0)
		;

	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	printf("%.0f %.6f\n", (double) sum / seconds,
	       (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
	           (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
	return 0;
}
