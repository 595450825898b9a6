/*
 * account_calls.h
 *		What the hooks tell the accounting.
 *
 *	account_begin(&call, file);
 *	... the call ...
 *	account_end(&call, ACCOUNT_SYNC, 0);
 *
 * When accounting is off, this costs one branch at either end.  errno is never
 * changed.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ACCOUNT_CALLS_H
#define PGFLASH_ACCOUNT_CALLS_H

#include <sys/types.h>

#include "account/account.h"
#include "hooks/descriptors.h"
#include "settings.h"

/* The source of a read. */
typedef enum AccountSource
{
	SOURCE_UNTOLD, /* not asked, or the kernel cannot tell */
	SOURCE_DISK,
	SOURCE_PAGE_CACHE,
	SOURCE_FLASH
} AccountSource;

/* A file call in progress. */
typedef struct Accounted
{
	uint64_t begin_ns; /* 0: it is not counted */
	OpenFile *file;
	off_t offset;
	bool extends;
	bool turn; /* a read whose source must be asked for */
} Accounted;

/* A read that another process may complete: its requester. */
typedef struct AccountLater
{
	uint8_t type;     /* backend type + 1; 0: the read is not counted */
	int32_t asked_by; /* process; negative: unknown */
} AccountLater;

extern void account_start(Accounted *call, OpenFile *file);
extern void account_start_write(Accounted *call, OpenFile *file, int fd,
                                off_t offset, size_t size);
extern void account_count(const Accounted *call, AccountKind kind,
                          uint64_t bytes);
extern void account_count_read(const Accounted *call, AccountSource source,
                               int fd, size_t size, ssize_t got);
extern void account_count_write(const Accounted *call, ssize_t put);

/* file may be NULL: the descriptor is not in the table. */
static inline void
account_begin(Accounted *call, OpenFile *file)
{
	call->begin_ns = 0;
	call->turn = false;
	if (setting_account)
		account_start(call, file);
}

/* The same for a write at an offset, which may extend the file. */
static inline void
account_begin_write(Accounted *call, OpenFile *file, int fd, off_t offset,
                    size_t size)
{
	call->begin_ns = 0;
	if (setting_account)
		account_start_write(call, file, fd, offset, size);
}

static inline void
account_end(const Accounted *call, AccountKind kind, uint64_t bytes)
{
	if (call->begin_ns != 0)
		account_count(call, kind, bytes);
}

/* size was requested, got is what the call returned. */
static inline void
account_end_read(const Accounted *call, AccountSource source, int fd,
                 size_t size, ssize_t got)
{
	if (call->begin_ns != 0)
		account_count_read(call, source, fd, size, got);
}

static inline void
account_end_write(const Accounted *call, ssize_t put)
{
	if (call->begin_ns != 0)
		account_count_write(call, put);
}

/*
 * A read that is handed to the kernel, and its end, which any process may see;
 * ns is the time in between.  It is counted as made by another process, because
 * the requester may have done other things meanwhile.
 */
extern AccountLater account_read_begins(OpenFile *file);
extern void account_read_ended(const AccountLater *read, OpenFile *file,
                               AccountSource source, size_t size, ssize_t got,
                               uint64_t ns);

/* A file was truncated; a file was removed; a name belongs to a new file. */
extern void account_truncated(void);
extern void account_removed(const char *path);
extern void account_created(const char *path);

#endif
