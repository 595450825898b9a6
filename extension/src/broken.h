/*
 * broken.h
 *		Negative controls: builds of the library with one safeguard left out.
 *
 * A test that has never caught a stale block proves nothing.  "make
 * FC_BREAK=WRITE" builds a library that does not invalidate on write, and the
 * test that passes with the real library must fail with it.  The choice is a
 * compile-time constant: the real library contains no trace of it, and no
 * setting can change it.  Each comment below says what is left out, or what
 * happens instead.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BROKEN_H
#define PGFLASH_BROKEN_H

enum
{
	FC_BREAK_NONE,
	FC_BREAK_CORE,             /* one of core's: see core_broken.c */
	FC_BREAK_WRITE,            /* pwrite of existing blocks */
	FC_BREAK_ZERO_EXTEND,      /* pwritev, posix_fallocate, fallocate */
	FC_BREAK_TRUNCATE,         /* ftruncate, truncate, O_TRUNC */
	FC_BREAK_UNLINK,           /* unlink, rename */
	FC_BREAK_CREATE,           /* open with O_CREAT | O_EXCL */
	FC_BREAK_FILECOPY,         /* write(), copy_file_range */
	FC_BREAK_DEAD_FILE,        /* check the name after entering */
	FC_BREAK_TICKET_AFTER,     /* the ticket is taken before the real read */
	FC_BREAK_CHANGE_END,       /* the second invalidation of a write */
	FC_BREAK_UNKNOWN_FILE,     /* classify an unknown fd at its first write */
	FC_BREAK_CHECKED,          /* check a number that a change found by name */
	FC_BREAK_STAMP,            /* all files from before a restart pass */
	FC_BREAK_STAND_IN,         /* no process stands in for the writer */
	FC_BREAK_UNSYNCED,         /* a map is saved though fsync was off */
	FC_BREAK_SYNCFS,           /* a failed sync of a file system is ignored */
	FC_BREAK_BYPASSED,         /* changes while a cache file is bypassed */
	FC_BREAK_INVALID_PAGE,     /* check the page that the disk returned */
	FC_BREAK_FOREIGN,          /* a name outside the data is trusted */
	FC_BREAK_SECOND_LOOK,      /* a hit that differs is read again */
	FC_BREAK_ACCOUNT_ERRNO,    /* the accounting keeps errno as it was */
	FC_BREAK_ACCOUNT_COPIES,   /* readers add up all copies */
	FC_BREAK_ACCOUNT_ANEW,     /* a reused place starts at 0 */
	FC_BREAK_ACCOUNT_CHANGES,  /* changes in any copy are seen */
	FC_BREAK_ACCOUNT_LEADER,   /* a parallel worker reads for its leader */
	FC_BREAK_RECOVERY_SYNC,    /* a shutdown in recovery has synced */
	FC_BREAK_MOUNTS,           /* tablespaces are mounted as they were */
	FC_BREAK_DEVICE_NUMBER,    /* ... and are under the same device numbers */
	FC_BREAK_VOLUME,           /* file systems are told apart */
	FC_BREAK_OVERWRITTEN,      /* detect samples overwritten while read */
	FC_BREAK_SAMPLE_RIGHTS,    /* every user sees all sessions */
	FC_BREAK_STATEMENT_RIGHTS, /* queries of others are hidden */
	FC_BREAK_STATEMENT_LEVEL,  /* a statement that fails leaves its level */
	FC_BREAK_STATEMENT_FATAL,  /* what a FATAL error ends is counted */
	FC_BREAK_SEEK,             /* a search by time skips only older looks */
	FC_BREAK_RIGHTS,           /* our work has all a worker's rights */
	FC_BREAK_SETTINGS,         /* a database's settings reach workers */
	FC_BREAK_SQL_VERSION,      /* views of another SQL version are read */
	FC_BREAK_ROW_TYPE,         /* columns of SQL functions are not checked */
	FC_BREAK_MEMBER,           /* an object of our name is taken for ours */
	FC_BREAK_TRIGGERS,         /* triggers on our tables fire when we write */
	FC_BREAK_ANEW,     /* snapshots see that a row's counters started over */
	FC_BREAK_LIFE,     /* ... and that the server has started since */
	FC_BREAK_NO_VALUE, /* an invalid setting gets its default */
	FC_BREAK_MEMORY_LIMIT,    /* there is as much memory as in the machine */
	FC_BREAK_LEFT_OUT,        /* a worker that was left out stays so */
	FC_BREAK_VISIT_LOCKS,     /* visitors give up on locks */
	FC_BREAK_VISIT_LIMIT,     /* ... and are asked to leave in time */
	FC_BREAK_VISIT_LATE,      /* launchers do not wait for late ones */
	FC_BREAK_VISIT_GIVES_WAY, /* DROP DATABASE asks them to leave */
	FC_BREAK_REPLICATED,      /* rows of another server are ignored */
	FC_BREAK_VISIT_TRACE,     /* visits do not appear in statistics */
	FC_BREAK_VISIT_STRANGERS, /* databases without pgflash are not visited */
	FC_BREAK_UPGRADE_VISITS,  /* snapshots are taken during pg_upgrade */
	FC_BREAK_VISIT_OWNER,     /* its owner may end a visitor by force */
	FC_BREAK_MEMORY_LOCK,  /* the cache's memory is locked while it is used */
	FC_BREAK_LIBRARIES,    /* libraries' own calls are seen */
	FC_BREAK_LOADED,       /* ... also of libraries loaded later */
	FC_BREAK_CONSTRUCTORS, /* ... before their own code runs */
	FC_BREAK_LIBRARY_CALL, /* what a library changes is announced */
	FC_BREAK_ASKED_ANEW,   /* identify a library's descriptor at each call */
	FC_BREAK_PROCESSES,    /* the cache is laid out for all processes */
	FC_BREAK_POLICY_LOCK,  /* writers of policies lock their table */
	FC_BREAK_NAMES_LOCK,   /* requests for a file's name lock the names */
	FC_BREAK_URING_END,    /* a read by io_uring ends before it fills */
	FC_BREAK_URING_HELD,   /* ... if held, is finished by any process */
	FC_BREAK_URING_AGAIN,  /* ... if repeated, has the whole deadline */
	FC_BREAK_LOAD_TICKET,  /* a loaded block's ticket is older than its read */
	FC_BREAK_NEIGHBOUR_TICKET /* ... and so is a neighbour's */
};

#ifndef FC_BREAK
#define FC_BREAK FC_BREAK_NONE
#endif

#define FC_BROKEN(name) (FC_BREAK == FC_BREAK_##name)

#endif
