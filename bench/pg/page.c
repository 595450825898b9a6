/*
 * page.c
 *		The cost of checking a page before it is cached.
 *
 *	LD_PRELOAD=build/libpage.so postgres
 *
 * The check is the server's own pg_checksum_page(), as compiled in its build.
 * So this is a library for a server's executable to load; it measures, and the
 * server does not start. It also measures a plain pread of a page in memory,
 * the least that a read of a disk can cost.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../measure.h"

#define PAGE_BYTES 8192

static uint16_t (*pg_checksum_page)(char *page, uint32_t block);
static int fd;
static _Alignas(4096) char page[PAGE_BYTES];
static volatile uint64_t sink;

static void
nothing(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += (uint64_t) i;
}

static void
plain_pread(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += (uint64_t) pread(fd, page, sizeof(page), 0);
}

static void
page_checksum(void *context)
{
	(void) context;
	for (int i = 0; i < MEASURE_CALLS; i++)
		sink += pg_checksum_page(page, (uint32_t) i);
}

static Figure figures[] = {
	{ .name = "null control", .work = nothing },
	{ .name = "plain pread", .work = plain_pread },
	{ .name = "page checksum", .work = page_checksum },
};

#define FIGURES ((int) (sizeof(figures) / sizeof(figures[0])))

static void run(void) __attribute__((constructor));

static void
run(void)
{
	const char *of = getenv("PAGE_OF");

	/* Only in the server, not in a program that may start it. */
	*(void **) &pg_checksum_page = dlsym(RTLD_DEFAULT, "pg_checksum_page");
	if (pg_checksum_page == NULL || of == NULL)
		return;

	memset(page, 7, sizeof(page));
	fd = memfd_create("page", MFD_CLOEXEC);
	if (fd < 0 || pwrite(fd, page, sizeof(page), 0) != (ssize_t) sizeof(page))
	{
		perror("page: could not make a file in memory");
		_exit(1);
	}
	measure(figures, FIGURES, NULL);
	measure_print(figures, FIGURES, of, false);
	printf("%-18s page checksum / plain pread %.2f\n", of,
	       figures[2].median / figures[1].median);
	fflush(stdout);
	_exit(0);
}
