/*
 * writer.c
 *		An extension that writes into data files by its own calls.
 *
 * Built three times by test_libraries_that_write.py: as the extension, as a
 * library that the extension needs (NEEDED), and with a constructor that writes
 * when it is loaded (EARLY), to the file that is named in the file "prey" below
 * the folder that the server stands in.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fmgr.h"
#include "utils/builtins.h"

#define SIZE 100000

static char bytes[SIZE];

typedef struct Calls
{
	int (*open)(const char *, int, ...);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	int (*fsync)(int);
} Calls;

static const Calls table = { open, pwrite, fsync };

static void
check(bool good, const char *what)
{
	if (!good)
		elog(ERROR, "the writer could not %s: %m", what);
}

/* To the disk, or the server would find it in memory. */
static void
finish(int fd)
{
	check(fsync(fd) == 0 && close(fd) == 0, "finish");
}

#if defined(NEEDED)

extern void needed_write(const char *path);

void
needed_write(const char *path)
{
	int fd = open(path, O_RDWR);

	memset(bytes, 'n', SIZE);
	check(pwrite(fd, bytes, SIZE, 0) == SIZE, "write");
	finish(fd);
}

#elif defined(EARLY)

PG_MODULE_MAGIC;

__attribute__((constructor)) static void
write_early(void)
{
	char path[1024];
	int marker = open("prey", O_RDONLY);
	ssize_t length;
	int fd;

	if (marker < 0)
		return;
	length = read(marker, path, sizeof(path) - 1);
	close(marker);
	unlink("prey");
	path[length < 0 ? 0 : length] = '\0';
	fd = open(path, O_RDWR);
	memset(bytes, 'e', SIZE);
	if (pwrite(fd, bytes, SIZE, 0) != SIZE || fsync(fd) != 0)
		_exit(1);
	close(fd);
}

#else

PG_MODULE_MAGIC;

extern void needed_write(const char *path);

static void
write_by_stream(const char *path)
{
	FILE *stream = fopen(path, "r+");

	check(stream != NULL && fwrite(bytes, 1, SIZE, stream) == SIZE &&
	          fflush(stream) == 0,
	      "write a stream");
	finish(dup(fileno(stream)));
	fclose(stream);
}

static void
write_by_map(const char *path)
{
	int fd = open(path, O_RDWR);
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	check(memory != MAP_FAILED, "map");
	memcpy(memory, bytes, SIZE);
	check(msync(memory, SIZE, MS_SYNC) == 0, "sync");
	munmap(memory, SIZE);
	finish(fd);
}

/* A new file with the new content takes the name. */
static void
write_by_rename(const char *path)
{
	int fd = open("pg_stat/new", O_RDWR | O_CREAT, 0600);

	check(write(fd, bytes, SIZE) == SIZE, "write");
	finish(fd);
	check(rename("pg_stat/new", path) == 0, "rename");
}

PG_FUNCTION_INFO_V1(write_by);

Datum
write_by(PG_FUNCTION_ARGS)
{
	const char *way = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *path = text_to_cstring(PG_GETARG_TEXT_PP(1));
	ssize_t (*volatile taken)(int, const void *, size_t, off_t) = pwrite;
	int fd = table.open(path, O_RDWR);

	memset(bytes, 'w', SIZE);
	check(fd >= 0, "open");
	if (strcmp(way, "call") == 0)
		check(pwrite(fd, bytes, SIZE, 0) == SIZE, "write");
	else if (strcmp(way, "table") == 0)
		check(table.pwrite(fd, bytes, SIZE, 0) == SIZE, "write");
	else if (strcmp(way, "address") == 0)
		check(taken(fd, bytes, SIZE, 0) == SIZE, "write");
	else if (strcmp(way, "position") == 0)
		check(write(fd, bytes, SIZE) == SIZE, "write");
	else if (strcmp(way, "cut") == 0)
		check(ftruncate(fd, 0) == 0, "truncate");
	else if (strcmp(way, "empty") == 0)
		close(open(path, O_RDWR | O_TRUNC));
	else if (strcmp(way, "needed") == 0)
		needed_write(path);
	else if (strcmp(way, "stream") == 0)
		write_by_stream(path);
	else if (strcmp(way, "map") == 0)
		write_by_map(path);
	else if (strcmp(way, "rename") == 0)
		write_by_rename(path);
	else
		elog(ERROR, "there is no way \"%s\"", way);
	check(table.fsync(fd) == 0, "sync");
	close(fd);
	PG_RETURN_VOID();
}

#endif
