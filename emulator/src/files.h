/*
 * files.h
 *		Which file descriptor of this process belongs to which device.
 *
 * A table indexed by descriptor, filled when a file is opened, copied by dup,
 * cleared before the real close, inherited by fork.  A zero entry is a file
 * that no device plays, so the look-up of the common case is one load and one
 * test.
 *
 * Locking: none; PostgreSQL's processes have one thread.  Nothing here
 * allocates, so all of it may run in a signal handler.
 */
/* SPDX-License-Identifier: PostgreSQL */
#ifndef PGFLASH_EMULATOR_FILES_H
#define PGFLASH_EMULATOR_FILES_H

#include "state.h"

#include <stddef.h>

/* Descriptors from here on are never delayed.  PostgreSQL uses about 1000. */
#define EM_FILES_MAX 65536

typedef struct EmFile
{
	EmDevice *device; /* NULL: not played */
	uint64_t identity;
	bool is_log;       /* a WAL segment of a server, not an archived copy */
	bool syncs_writes; /* opened O_SYNC or O_DSYNC */
} EmFile;

extern EmFile em_files[EM_FILES_MAX];

static inline EmFile *
em_file_of(int fd)
{
	if ((unsigned int) fd >= EM_FILES_MAX || em_files[fd].device == NULL)
		return NULL;

	return &em_files[fd];
}

static inline void
em_file_clear(int fd)
{
	if ((unsigned int) fd < EM_FILES_MAX)
		em_files[fd].device = NULL;
}

/* Enter a descriptor that was just opened.  Leaves errno alone. */
extern void em_file_enter(EmState *state, int fd, int open_flags);

extern void em_file_copy(int from, int to);

#endif
