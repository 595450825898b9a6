/*
 * descriptors.h
 *		A table of the open file descriptors, with the class of each one's file.
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

/* Descriptors from here on are of unknown class in every call. */
#define DESCRIPTORS_MAX 65536

typedef struct OpenFile
{
	uint8_t class;  /* a FileClass */
	bool direct;    /* opened with O_DIRECT */
	bool dead;      /* its file is unlinked: never serve it */
	bool lacked;    /* the page cache did not have what was read last */
	uint8_t stamps; /* when they are taken: see descriptors_stamps_at_once() */

	uint64_t volume; /* if stamps says that its file system is known */

	/* A run of reads, each starting where the previous one ended. */
	uint32_t next_block;
	uint32_t streak_blocks;
	uint32_t in_a_row;    /* reads without a gap between them */
	uint32_t ahead_block; /* blocks before this are read ahead */

	FcFile file;

	/*
	 * The number and generation for which this descriptor was seen to refer to
	 * the file that has the name.  A change finds the number by name alone, so
	 * a handle may be current although the descriptor's own file was unlinked
	 * long ago.
	 */
	uint32_t checked_number;
	uint64_t checked_generation;

	AccountFile account;
} OpenFile;

/* The entry of a descriptor as last set; NULL if beyond the table. */
extern OpenFile *descriptors_entry(int fd);

/* A descriptor was opened for path.  path may be NULL: unknown. */
extern void descriptors_opened(int fd, const char *path, int flags);

/* A descriptor is about to be closed, or an unknown call made it. */
extern void descriptors_closed(int fd);

/* to is a copy of from, made by dup or the like. */
extern void descriptors_copied(int from, int to);

/*
 * Determine the class of a descriptor by asking the kernel for its name.  The
 * answer is in *entry_out: the table's entry or, beyond the table, spare.
 * False if that fails.
 */
extern bool descriptors_identify(int fd, OpenFile *spare, OpenFile **entry_out);

/*
 * Which file does a change by this name, or through a descriptor opened by it,
 * affect?  Usually the one that the name denotes; where the name may be a
 * symbolic link, the one that the link leads to.  A name that does not exist is
 * FILE_OTHER.  PostgreSQL itself opens relations by their own names to write in
 * place.  Changes errno.
 */
extern FilePlace descriptors_place(const char *path, int flags);

/*
 * If this name is opened for writing, can only the opened file tell what it is?
 */
extern bool descriptors_is_foreign(const char *path, int flags);

/* May an open file be a data file, whatever name it was opened by? */
extern bool descriptors_may_be_data(int fd);

/*
 * Read the stamp of an open file's inode, or of the file with this name (fd <
 * 0).  entry may be NULL.  False if the kernel does not tell, or if the file
 * has lost its name.  Changes errno.
 */
extern bool descriptors_stamp(int fd, const char *path, OpenFile *entry,
                              FcStamp *stamp_out);

/*
 * May a stamp be taken after each change?  Yes, where the kernel itself keeps
 * the change time.  Elsewhere (NFS, FUSE) it would first have to write back
 * dirty pages, or to ask a server; there, files are stamped once they have been
 * synced.  entry may be NULL.
 */
extern bool descriptors_stamps_at_once(int fd, const char *path,
                                       OpenFile *entry);

/*
 * Hand in a stamp of the file, if it may have one.  This detects changes made
 * behind the cache's back.
 */
extern void descriptors_hand_in(FcFileId id, const FcStampPermit *permit,
                                const FcStamp *stamp);

/* Before a change: is the file as its last stamp says? */
extern void descriptors_look_before(int fd, const char *path, OpenFile *entry,
                                    FcFile *file);

/* After a sync: stamp the file, if that was not done at once. */
extern void descriptors_synced(int fd, OpenFile *entry);

/* Before a change: compare the file if it is still asleep. */
extern void descriptors_wake(int fd, const char *path, OpenFile *entry,
                             const FcFile *file);

/*
 * Make the entry's file number valid for reading and filling through fd; false
 * if the file is not to be cached.
 */
extern bool descriptors_number(int fd, OpenFile *entry);

#endif
