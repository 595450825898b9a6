/*
 * descriptors.h
 *		A table of the open file descriptors, and what the file behind each one is.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_DESCRIPTORS_H
#define PGFLASH_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "account/account.h"
#include "fcache/cache.h"
#include "hooks/paths.h"

/* Descriptors from here on are of unknown class at every call. */
#define DESCRIPTORS_MAX 65536

typedef struct OpenFile
{
	uint8_t class;  /* a FileClass */
	bool direct;    /* opened with O_DIRECT */
	bool dead;      /* its file is unlinked: never read from the cache */
	uint8_t stamps; /* when they are taken: see descriptors_stamps_at_once() */

	/* A run of reads, each beginning where the last one ended. */
	uint32_t next_block;
	uint32_t streak_blocks;
	uint32_t in_a_row;    /* reads that left no gap between them */
	uint32_t ahead_block; /* up to here blocks have been read ahead */

	FcFile file;

	/*
	 * The number and generation for which the descriptor was seen to be of the
	 * file that has the name.  A change finds the number by name alone, so a
	 * handle may be current though the descriptor's own file is long unlinked.
	 */
	uint32_t checked_number;
	uint64_t checked_generation;

	AccountFile account;
} OpenFile;

/* The entry of a descriptor as last set; NULL if it is beyond the table. */
extern OpenFile *descriptors_entry(int fd);

/* A descriptor was opened for path.  path may be NULL: unknown. */
extern void descriptors_opened(int fd, const char *path, int flags);

/* A descriptor is about to be closed, or was made by an unknown call. */
extern void descriptors_closed(int fd);

/* to is a copy of from, made by dup and its kind. */
extern void descriptors_copied(int from, int to);

/*
 * Find out what a descriptor of unknown class is, by asking the kernel for its
 * name.  The answer lies in *entry, which is the table's or, beyond the table,
 * spare.  False if it cannot be told.
 */
extern bool descriptors_identify(int fd, OpenFile *spare, OpenFile **entry_out);

/*
 * What a change by this name, or through a descriptor that was opened by it, would
 * change: what the name says, or what it leads to by a symbolic link, if it may be
 * another's.  A name that nothing has is FILE_OTHER.  PostgreSQL itself opens relations
 * by their own names, to write in place.  Leaves errno changed.
 */
extern FilePlace descriptors_place(const char *path, int flags);

/* Does a name for writing say too little, so that what was opened has to be asked? */
extern bool descriptors_is_foreign(const char *path, int flags);

/* May an open file be a data file, by whatever name it was opened? */
extern bool descriptors_may_be_data(int fd);

/*
 * What the inode of an open file says, or of the file with this name (fd < 0);
 * false if the kernel does not tell, or the file has no name any more.  Leaves errno
 * changed.
 */
extern bool descriptors_stamp(int fd, const char *path, FcStamp *stamp_out);

/*
 * May a stamp be taken after each change?  Where the kernel knows the change time by
 * itself.  Elsewhere (NFS, FUSE) it has to write back what is dirty first, or to ask a
 * server: there files are stamped when they have been synced.  entry may be NULL.
 */
extern bool descriptors_stamps_at_once(int fd, const char *path,
                                       OpenFile *entry);

/*
 * Hand in a stamp of the file, if it may have one; somebody who changed it behind the
 * cache is met here.
 */
extern void descriptors_hand_in(FcFileId id, const FcStampPermit *permit,
                                const FcStamp *stamp);

/* Before a change: is the file what it was when it was last looked at? */
extern void descriptors_look_before(int fd, const char *path, FcFile *file);

/* After a sync: stamp the file, if that was not done at once. */
extern void descriptors_synced(int fd, OpenFile *entry);

/* Before a change: compare the file if it is still asleep. */
extern void descriptors_wake(int fd, const char *path, const FcFile *file);

/*
 * Make the entry's file number good, for reading and filling through fd; false if
 * the file is not to be cached.
 */
extern bool descriptors_number(int fd, OpenFile *entry);

#endif
