/*
 * looks.c
 *		The cost of reading a file's change time after each write.
 *
 *	looks FOLDER...
 *
 * A process that announces a change asks for the file's change time before and
 * after it where the file system keeps such times itself (decision 36).  In
 * each folder (on ext4 or on a FUSE mount, for example): a write of a block
 * alone, with one fstat() and with two, and once more alone, the null control.
 * Elapsed time, since a daemon or the file system's journal does part of the
 * work.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEASURE_CLOCK CLOCK_MONOTONIC
#define MEASURE_CALLS 1000
#include "../measure.h"

#define BLOCK  8192
#define BLOCKS 1024

static int file;
static char block[BLOCK];

static void
fail(const char *what)
{
	fprintf(stderr, "looks: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void
look(void)
{
	struct stat status;

	if (fstat(file, &status) != 0)
		fail("fstat");
}

static void
work(int looks)
{
	for (int i = 0; i < MEASURE_CALLS; i++)
	{
		if (looks > 1)
			look();
		if (pwrite(file, block, BLOCK, (off_t) (i % BLOCKS) * BLOCK) != BLOCK)
			fail("pwrite");
		if (looks > 0)
			look();
	}
}

static void
write_alone(void *unused)
{
	(void) unused;
	work(0);
}

static void
write_and_look(void *unused)
{
	(void) unused;
	work(1);
}

static void
look_write_look(void *unused)
{
	(void) unused;
	work(2);
}

int
main(int argc, char **argv)
{
	Figure figures[] = {
		{ .name = "a write alone", .work = write_alone },
		{ .name = "a write and a look", .work = write_and_look },
		{ .name = "a look, a write and a look", .work = look_write_look },
		{ .name = "a write alone, again", .work = write_alone },
	};
	int count = sizeof(figures) / sizeof(figures[0]);

	if (argc < 2)
	{
		fprintf(stderr, "usage: looks FOLDER...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++)
	{
		char name[4096];

		snprintf(name, sizeof(name), "%s/looks.XXXXXX", argv[i]);
		file = mkstemp(name);
		if (file < 0)
			fail(argv[i]);
		unlink(name);
		measure(figures, count, NULL);
		measure_print(figures, count, argv[i], false);
		close(file);
	}
	return 0;
}
