/*
 * bridge_mounts.c
 *		The file systems that data files lie on: the data directory's, and those of
 *		tablespaces.
 *
 * One that is mounted anew may have lost what was not synced, and keep the times that
 * its files had.  So what they are mounted as belongs to the boot that memory is of.
 * A tablespace on the data directory's own file system changes nothing; one on another,
 * made or dropped since the start, looks like a mount.
 *
 * In the postmaster, which stands in the data directory: at its start and its end.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/fd.h"

#include "bridge/bridge_mounts.h"
#include "broken.h"

#define TABLESPACES "pg_tblspc"

/* Of newer kernels than the headers may be: one that no other mount ever has. */
#define MOUNT_ID_UNIQUE 0x4000U

/* Spreads numbers that follow each other, so that sums of some differ. */
#define SPREAD 0x9e3779b97f4a7c15ULL

/* Do this for each tablespace; false, with errno, if it fails for one. */
static bool
each_tablespace(bool (*visit)(const char *path, void *argument), void *argument)
{
	DIR *directory = AllocateDir(TABLESPACES);
	struct dirent *entry;
	bool good = directory != NULL;

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
		int after = errno;

		FreeDir(directory);
		errno = after;
	}
	return good;
}

/* ---- mounts ------------------------------------------------------------------ */

static uint64_t
mount_of(const char *path)
{
	struct statx status;

	if (statx(AT_FDCWD, path, 0, MOUNT_ID_UNIQUE, &status) != 0 ||
	    (status.stx_mask & MOUNT_ID_UNIQUE) == 0)
		return 0;
	return status.stx_mnt_id;
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

/* ---- syncing ------------------------------------------------------------------- */

static bool
sync_around(const char *path, void *argument)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool good;
	int after;

	(void) argument;
	if (fd < 0)
		return false;
	good = syncfs(fd) == 0;
	after = errno;
	close(fd);
	errno = after;
	return good;
}

bool
bridge_mounts_sync(void)
{
	return sync_around(".", NULL) && each_tablespace(sync_around, NULL);
}
