/*
 * broken.h
 *		Negative controls: builds of the library with one safeguard left out.
 *
 * A test that never caught a stale block proves nothing.  "make FC_BREAK=WRITE"
 * makes a library that forgets to invalidate on write, and the same test that
 * passes on the true library has to fail on it.  The choice is a constant of the
 * compiler: the true library contains no trace of it, and no setting reaches it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BROKEN_H
#define PGFLASH_BROKEN_H

#define FC_BREAK_NONE         0
#define FC_BREAK_WRITE        1  /* pwrite of existing blocks */
#define FC_BREAK_ZERO_EXTEND  2  /* pwritev, posix_fallocate, fallocate */
#define FC_BREAK_TRUNCATE     3  /* ftruncate, truncate, O_TRUNC */
#define FC_BREAK_UNLINK       4  /* unlink, rename */
#define FC_BREAK_CREATE       5  /* open with O_CREAT | O_EXCL */
#define FC_BREAK_FILECOPY     6  /* write(), copy_file_range */
#define FC_BREAK_DEAD_FILE    7  /* look at the name after a file was entered */
#define FC_BREAK_TICKET_AFTER 8  /* the ticket is taken before the real read */
#define FC_BREAK_CHANGE_END   9  /* the second invalidation of a write */
#define FC_BREAK_UNKNOWN_FILE 10 /* classify an unknown fd at its first write */

#define FC_BREAK_CHECKED 11 /* believe a number that a change found by name */
#define FC_BREAK_STAMP   12 /* files of before a restart are all alike */

#define FC_BREAK_STAND_IN 13 /* nobody stands in for the writer at a shutdown */

#define FC_BREAK_UNSYNCED 14 /* a map is saved though fsync was off */

#define FC_BREAK_SYNCFS 15 /* a file system that failed is believed */

#define FC_BREAK_BYPASSED 16 /* changes while a cache file is bypassed */

#define FC_BREAK_INVALID_PAGE 17 /* look at what the disk gave */

#define FC_BREAK_FOREIGN 18 /* a name outside the data directory is believed */

#define FC_BREAK_SECOND_LOOK                                                   \
	19 /* a hit that differs from its file, does so twice */

#define FC_BREAK_ACCOUNT_ERRNO 20 /* the accounting keeps errno as it was */
#define FC_BREAK_ACCOUNT_COPIES                                                \
	21 /* readers add up all copies of a relation's counters */
#define FC_BREAK_ACCOUNT_ANEW                                                  \
	22 /* a relation that is given a place starts at zero, in all copies */
#define FC_BREAK_ACCOUNT_CHANGES                                               \
	23 /* whether a relation's counters changed is asked of all copies */
#define FC_BREAK_RECOVERY_SYNC                                                 \
	24 /* a server that is shut down in recovery has synced */
#define FC_BREAK_MOUNTS 25 /* tablespaces are mounted as they were */
#define FC_BREAK_OVERWRITTEN                                                   \
	30 /* looks that were overwritten while they were read */
#define FC_BREAK_SAMPLE_RIGHTS 31 /* every user sees all sessions */
#define FC_BREAK_SEEK          32 /* a search by time skips only older looks */

#define FC_BREAK_RIGHTS                                                        \
	33 /* our own work is done with all of a worker's rights */
#define FC_BREAK_SETTINGS                                                      \
	34 /* a worker takes the settings that a database's owner gave it */
#define FC_BREAK_SQL_VERSION                                                   \
	35                       /* views of another version of the SQL are read */
#define FC_BREAK_ROW_TYPE 36 /* columns of SQL functions are not looked at */
#define FC_BREAK_MEMBER   37 /* a table of our name is taken for ours */
#define FC_BREAK_TRIGGERS 38 /* triggers on our tables fire when we write */

#define FC_BREAK_ANEW 40 /* snapshots see that a row's counters started over */
#define FC_BREAK_LIFE 41 /* ... and that the server has started since */

#define FC_BREAK_NO_VALUE     70 /* a setting that is no value has its default */
#define FC_BREAK_MEMORY_LIMIT 71 /* there is as much memory as in the machine */
#define FC_BREAK_LEFT_OUT     72 /* a worker that was left out stays so */

#define FC_BREAK_VISIT_LOCKS 50 /* visitors give up on locks */
#define FC_BREAK_VISIT_LIMIT 51 /* ... and are asked to leave in time */
#define FC_BREAK_VISIT_LATE  52 /* launchers go on without the late */
#define FC_BREAK_VISIT_GIVES_WAY                                               \
	53 /* a process that drops a database asks visitors to leave */
#define FC_BREAK_VISIT_TRACE     54 /* visits are not in statistics */
#define FC_BREAK_VISIT_STRANGERS 55 /* databases without us are not visited */
#define FC_BREAK_VISIT_OWNER     56 /* its owner may end a visitor by force */

#define FC_BREAK_MEMORY_LOCK                                                   \
	65 /* the cache's memory is locked while it is used */

#define FC_BREAK_LIBRARIES    60 /* libraries' own calls are seen */
#define FC_BREAK_LOADED       61 /* ... of those that are loaded later, too */
#define FC_BREAK_CONSTRUCTORS 62 /* ... before their own code runs */
#define FC_BREAK_LIBRARY_CALL 63 /* what a library changes is announced */
#define FC_BREAK_ASKED_ANEW                                                    \
	64 /* what a library's descriptor is, at each call */

/* Core's, applied by core_broken.c. */
#define FC_BREAK_OLD_HOME 100 /* changes look at a block's new home only */
#define FC_BREAK_IN_FLIGHT                                                     \
	101 /* stamps are taken and believed while others write */
#define FC_BREAK_BOOT      102 /* what outlived a restart may be of another boot */
#define FC_BREAK_SYSTEM    103 /* ... of another cluster */
#define FC_BREAK_DIRECTORY 104 /* ... of another data directory */
#define FC_BREAK_NONCE     105 /* ... of another life of the cache files */
#define FC_BREAK_CLEAN     106 /* ... of a server that was not shut down */
#define FC_BREAK_GEOMETRY  107 /* ... of a cache that was laid out otherwise */
#define FC_BREAK_CHECKPOINT                                                    \
	108 /* ... of a cluster that has lived on without the cache */
#define FC_BREAK_ACCUSE 109 /* an outsider that changes files is not detected */
#define FC_BREAK_WEAR   110 /* what was written is known after a restart */

#ifndef FC_BREAK
#define FC_BREAK FC_BREAK_NONE
#endif

#define FC_BROKEN(name) (FC_BREAK == FC_BREAK_##name)

#endif
