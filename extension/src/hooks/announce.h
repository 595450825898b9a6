/*
 * announce.h
 *		A change of a file, announced to the cache before and after the real call.
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
	SCOPE_EVERYTHING /* nobody knows which */
} AnnouncedScope;

/* A change that is under way. */
typedef struct Announced
{
	AnnouncedScope scope;
	int fd;           /* of the file; -1: it is known by its path */
	const char *path; /* then */
	OpenFile *entry;  /* of the descriptor, or NULL */
	FcFile *file;
	FcFileId like; /* what is known of it, if its name is foreign */
	FcChange change;
} Announced;

/*
 * The entry of a descriptor that is about to be changed, or NULL if there is
 * nothing to announce.  spare serves for descriptors beyond the table.
 */
extern OpenFile *announce_whom(int fd, OpenFile *spare);

/*
 * Bytes offset .. offset + size - 1 of the file are about to change; size < 0: all from
 * offset.  entry is what announce_whom() said.
 */
extern void announce_change(Announced *announced, OpenFile *entry, int fd,
                            off_t offset, off_t size);

/*
 * All from offset length on, of a file that is given by its path; NULL: of any.  flags
 * are those that it is opened with.
 */
extern void announce_cut(Announced *announced, FcFile *file, const char *path,
                         off_t length, int flags);

/* The second half of each change: end it, with errno as the real call left it. */
extern void announce_end(Announced *announced, OpenFile *entry, bool failed);

/* The kernel reported an error: what the file holds now is anyone's guess. */
extern void announce_distrust(OpenFile *entry);

#endif
