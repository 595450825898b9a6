/*
 * bridge_mounts.c
 *		The file systems that hold data files: the data directory's and those of
 *		tablespaces.
 *
 * A file system that is mounted again may have lost what was not synced,
 * although its files still have the same times.  So the identity of the mounts
 * is part of the boot that saved memory belongs to.  Before Linux 6.8 a mount
 * has no number of its own, so the device's is used.  A tablespace on the data
 * directory's own file system changes nothing; one on another file system that
 * was created or dropped since the start looks like a new mount.
 *
 * Runs in the postmaster, whose working directory is the data directory, at its
 * start and at its end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#include "bridge/bridge_mounts.h"
#include "hooks/libc.h"
#include "broken.h"

#define TABLESPACES "pg_tblspc"

/* Asks for a mount number that is never used again; the headers may lack it. */
#define MOUNT_ID_UNIQUE 0x4000U

/* Spreads consecutive numbers, so that sums of several differ. */
#define SPREAD 0x9e3779b97f4a7c15ULL

/* Call visit for each tablespace; false, with errno, if it fails for one. */
static bool
each_tablespace(bool (*visit)(const char *path, void *argument), void *argument)
{
	DIR *directory = AllocateDir(TABLESPACES);
	struct dirent *entry;
	bool good = directory != NULL;

	Assert(!IsUnderPostmaster); /* others may have changed directory */
	while (good &&
	       (entry = ReadDirExtended(directory, TABLESPACES, LOG)) != NULL)
	{
		char path[MAXPGPATH];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), TABLESPACES "/%s", entry->d_name);
		good = visit(path, argument);
	}
	if (directory != NULL)
	{
		int saved_errno = errno;

		FreeDir(directory);
		errno = saved_errno;
	}
	return good;
}

/* ---- mounts -------------------------------------------------------------- */

static uint64_t
mount_of(const char *path)
{
	struct statx status;

	if (statx(AT_FDCWD, path, 0, MOUNT_ID_UNIQUE, &status) != 0)
		return 0;
	if ((status.stx_mask & MOUNT_ID_UNIQUE) != 0)
		return status.stx_mnt_id;

	/* If a volume has another device number now, it was mounted again. */
	return FC_BROKEN(DEVICE_NUMBER)
	           ? 0
	           : makedev(status.stx_dev_major, status.stx_dev_minor);
}

typedef struct Mounts
{
	uint64_t own; /* the data directory's */
	uint64_t others;
} Mounts;

static bool
add_mount(const char *path, void *argument)
{
	Mounts *mounts = argument;
	uint64_t mount = mount_of(path);

	if (mount != mounts->own)
		mounts->others += mount * SPREAD;
	return true;
}

uint64_t
bridge_mounts_id(void)
{
	Mounts mounts = { .own = mount_of(".") };

	if (!FC_BROKEN(MOUNTS))
		(void) each_tablespace(add_mount, &mounts);
	return mounts.own ^ mounts.others;
}

/* ---- syncing ------------------------------------------------------------- */

static bool
sync_around(const char *path, void *argument)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool good;
	int saved_errno;

	(void) argument;
	if (fd < 0)
		return false;
	good = syncfs(fd) == 0;
	saved_errno = errno;
	close(fd);
	errno = saved_errno;
	return good;
}

bool
bridge_mounts_sync(void)
{
	return sync_around(".", NULL) && each_tablespace(sync_around, NULL);
}
