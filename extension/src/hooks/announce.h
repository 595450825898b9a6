/*
 * announce.h
 *		A change of a file, announced to the cache before and after the real
 *		call.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ANNOUNCE_H
#define PGFLASH_ANNOUNCE_H

#include "hooks/descriptors.h"

typedef enum AnnouncedScope
{
	SCOPE_NOTHING,   /* no data file, or no cache */
	SCOPE_BLOCKS,    /* of one segment of a relation */
	SCOPE_ALIKE,     /* all segment files of one number */
	SCOPE_EVERYTHING /* which file is unknown */
} AnnouncedScope;

/* A change in progress. */
typedef struct Announced
{
	AnnouncedScope scope;
	int fd;           /* of the file; -1: known by its path only */
	const char *path; /* if fd is -1 */
	OpenFile *entry;  /* of the descriptor, or NULL */
	FcFile *file;
	FcFileId like; /* what a foreign name reveals about the file */
	FcChange change;
} Announced;

/*
 * Return the entry of a descriptor whose file is about to change, or NULL if
 * there is nothing to announce. spare serves for descriptors beyond the table.
 */
extern OpenFile *announce_entry(int fd, OpenFile *spare);

/*
 * Bytes offset .. offset + size - 1 of the file are about to change; size < 0:
 * all from offset. entry is what announce_entry() returned.
 */
extern void announce_change(Announced *announced, OpenFile *entry, int fd,
                            off_t offset, off_t size);

/*
 * Everything from offset length on is about to change, in the file with this
 * path; NULL: in any file. flags are those that it is opened with.
 */
extern void announce_cut(Announced *announced, FcFile *file, const char *path,
                         off_t length, int flags);

/*
 * The second half of each change: end it; errno stays as the real call left it.
 */
extern void announce_end(Announced *announced, OpenFile *entry, bool failed);

/* The kernel reported an error: what the file holds now is unknown. */
extern void announce_distrust(OpenFile *entry);

#endif
