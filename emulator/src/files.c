/*
 * files.c
 *		Which file descriptor of this process belongs to which device.
 *
 * The kernel is asked for the path after the open.  The argument is not enough:
 * PostgreSQL opens "base/5/1259" and "pg_wal/0000..."  relative to its data
 * directory, and the log and the tablespaces may be symbolic links.
 */
/* SPDX-License-Identifier: PostgreSQL */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

EmFile em_files[EM_FILES_MAX];

/* Writes "/proc/self/fd/N"; sprintf is not safe in a signal handler. */
static void
link_name(int fd, char *name)
{
	static const char folder[] = "/proc/self/fd/";
	char digit[12];
	int count = 0;

	memcpy(name, folder, sizeof(folder) - 1);
	name += sizeof(folder) - 1;
	do
		digit[count++] = (char) ('0' + fd % 10);
	while ((fd /= 10) > 0);
	while (count > 0)
		*name++ = digit[--count];
	*name = '\0';
}

static bool
named_as_log(const char *base)
{
	if (strncmp(base, "xlogtemp.", strlen("xlogtemp.")) == 0)
		return true;

	return strlen(base) == 24 && strspn(base, "0123456789ABCDEF") == 24;
}

/*
 * A WAL segment of a server: its name is 24 upper-case hexadecimal digits, or
 * that of a segment being created, and its folder contains archive_status,
 * which every server creates.  The folder's own name does not tell, since
 * pg_wal may be a link; a copy in an archive has a segment's name but is an
 * ordinary file.
 */
static bool
is_log(const char *path)
{
	static const char beside[] = "archive_status";
	const char *base = strrchr(path, '/') + 1;
	size_t folder_length = (size_t) (base - path);
	char neighbour[EM_PATH_MAX + sizeof(beside)];

	if (!named_as_log(base))
		return false;

	memcpy(neighbour, path, folder_length);
	memcpy(neighbour + folder_length, beside, sizeof(beside));
	return access(neighbour, F_OK) == 0;
}

void
em_file_enter(EmState *state, int fd, int open_flags)
{
	int saved_errno = errno;
	char name[32];
	char path[EM_PATH_MAX];
	ssize_t length;
	struct stat status;
	EmDevice *device;

	if ((unsigned int) fd >= EM_FILES_MAX)
		return;

	em_files[fd].device = NULL;
	link_name(fd, name);
	length = readlink(name, path, sizeof(path) - 1);
	if (length > 0 && path[0] == '/')
	{
		path[length] = '\0';
		device = em_state_device_of(state, path);
		if (device != NULL && fstat(fd, &status) == 0)
		{
			EmFile *file = &em_files[fd];

			/* Never zero: zero marks a free stream. */
			file->identity = ((uint64_t) status.st_dev << 48) ^
			                 (uint64_t) status.st_ino ^ (1ULL << 63);
			file->is_log = is_log(path);
			file->syncs_writes = (open_flags & (O_SYNC | O_DSYNC)) != 0;
			file->device = device;
		}
	}
	errno = saved_errno;
}

void
em_file_copy(int from, int to)
{
	if ((unsigned int) to >= EM_FILES_MAX)
		return;

	if ((unsigned int) from >= EM_FILES_MAX)
		em_files[to].device = NULL;
	else
		em_files[to] = em_files[from];
}
