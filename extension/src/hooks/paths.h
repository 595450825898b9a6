/*
 * paths.h
 *		From a path to what the file is, and back.
 *
 * Pure: strings in, a classification out.  Knows PostgreSQL's layout of a data
 * directory, but neither PostgreSQL nor the operating system.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_PATHS_H
#define PGFLASH_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fcache/cache.h"

/* PostgreSQL's fixed OIDs of tablespaces. */
#define TABLESPACE_DEFAULT 1663
#define TABLESPACE_GLOBAL  1664

/* The longest path that paths_of_file() makes, with its terminating zero. */
#define PATHS_MAX 256

typedef enum FileClass
{
	FILE_UNKNOWN,       /* not looked at yet, or the path does not show it */
	FILE_RELATION,      /* a segment of a relation fork: only they are cached */
	FILE_TEMP_RELATION, /* tN_M: private to one backend */
	FILE_TEMPORARY,     /* in pgsql_tmp */
	FILE_WAL,           /* a segment of the WAL */
	FILE_WAL_INIT,      /* ... that is being created */
	FILE_SLRU,          /* pg_xact and others */
	FILE_CONTROL,       /* global/pg_control */
	FILE_OTHER,         /* certainly no data file */
	FILE_DEVICE,        /* a device, a pipe, or one of the kernel's own */
	FILE_DATA_DIRECTORY, /* a directory that holds data files */
	FILE_ALIAS           /* may be a data file under a foreign name */
} FileClass;

/*
 * For a relation, id is its name in the cache.  For an alias, only relation,
 * fork and segment are known, or nothing is (0).  For a WAL segment, relation
 * and segment are the two halves of its number.
 */
typedef struct FilePlace
{
	FileClass class;
	FcFileId id;
} FilePlace;

/*
 * What the parser needs to know about the server.  Directories are absolute,
 * without a slash at the end; real is the first one with its symbolic links
 * resolved.
 */
typedef struct PathsRoot
{
	const char *directory;
	const char *real_directory;
	const char *version_directory; /* PG_15_202209061: below a tablespace */
} PathsRoot;

/* Classify a path as passed to a call. */
extern FilePlace paths_classify(const PathsRoot *root, const char *path);

/*
 * The same for what is known to be a regular file: it may be in a file system
 * below /dev, such as /dev/shm.
 */
extern FilePlace paths_classify_regular(const PathsRoot *root,
                                        const char *path);

/*
 * A file's path, relative to the data directory.  buffer has PATHS_MAX bytes.
 */
extern void paths_of_file(const PathsRoot *root, FcFileId id, char *buffer);

/* Forks that a relation can have. */
#define PATHS_FORKS 4

/* main, fsm, vm or init. */
extern const char *paths_fork_name(uint32_t fork);

#endif
