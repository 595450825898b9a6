/*
 * names.c
 *		Every way in which a name comes to denote another file, or none.
 *
 *	unlink, rename, remove			the whole file: it is retired
 *	open with O_CREAT | O_EXCL		likewise: the name is new
 *	open with O_TRUNC				the blocks cut off, as any change
 *									(announce.c)
 *
 * A name is forgotten before the real call and again after it, because a
 * process that entered the file in between used the old one.  If a directory of
 * data files is removed (a tablespace's link), the whole cache is forgotten.
 *
 * Two changes cannot be followed and take the cache offline: opening a data
 * file as a stream for writing, and moving a data file or a directory of them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/assert.h"
#include "hooks/announce.h"
#include "hooks/runtime.h"

/*
 * The file with this name is about to be removed, or was just removed or
 * created.
 */
static void
forget_name(const char *path)
{
	FilePlace place;

	if (FC_BROKEN(UNLINK) || !runtime_attached())
		return;

	place = paths_classify(&runtime.root, path);
	if (place.class == FILE_RELATION)
		fc_file_retire(&runtime.cache, place.id);
	else if (place.class == FILE_ALIAS && place.id.relation != 0)
		fc_file_retire_alike(&runtime.cache, &place.id);
	else if (place.class == FILE_ALIAS || place.class == FILE_DATA_DIRECTORY)
		fc_cache_clear(&runtime.cache);
}

/* The same after the real call; errno stays as that call left it. */
static void
forget_name_after(const char *path)
{
	int saved_errno = errno;

	forget_name(path);
	errno = saved_errno;
}

/* Remove the name with the given call. */
static int
remove_name(const char *path, int (*call)(const char *))
{
	int saved_errno = errno;
	int result;

	FC_ASSERT(call == unlink || call == remove);
	forget_name(path);
	errno = saved_errno;
	result = call(path);
	forget_name_after(path);
	return result;
}

int
names_unlink(const char *path)
{
	return remove_name(path, unlink);
}

int
names_remove(const char *path)
{
	return remove_name(path, remove);
}

/*
 * PostgreSQL moves no data files.  A process that has a moved file open keeps
 * announcing changes under its old name, so the cache goes offline.
 */
static void
forget_moved(const char *path)
{
	FileClass class;

	if (FC_BROKEN(UNLINK) || !runtime_attached())
		return;

	class = paths_classify(&runtime.root, path).class;
	if (class == FILE_RELATION || class == FILE_DATA_DIRECTORY)
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
	else
		forget_name(path);
}

int
names_rename(const char *from, const char *to)
{
	int saved_errno = errno;
	int result;

	forget_moved(from);
	forget_moved(to);
	errno = saved_errno;
	result = rename(from, to);
	forget_name_after(from);
	forget_name_after(to);
	return result;
}

/*
 * libc itself writes streams, which bypasses the hooks.  Only COPY TO by a
 * superuser can write a data file in this way; then the cache goes offline.
 */
FILE *
names_fopen(const char *path, const char *mode)
{
	int saved_errno = errno;
	bool writes = strpbrk(mode, "wa+") != NULL && runtime_attached();
	FILE *stream;

	if (writes && paths_classify(&runtime.root, path).class == FILE_RELATION)
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
	errno = saved_errno;
	stream = fopen(path, mode);
	saved_errno = errno;
	if (stream != NULL && writes && descriptors_is_foreign(path, O_WRONLY) &&
	    descriptors_may_be_data(fileno(stream)))
		(void) fc_mode_set(&runtime.cache, FC_OFFLINE, FC_REASON_HOST);
	errno = saved_errno;
	return stream;
}

int
names_open(int directory, const char *path, int flags, mode_t mode)
{
	int saved_errno = errno;
	Announced announced = { .scope = SCOPE_NOTHING };
	FcFile file;
	bool relative = directory != AT_FDCWD && path[0] != '/';
	const char *known = relative ? NULL : path;
	int fd;

	if ((flags & O_TRUNC) != 0 && !FC_BROKEN(TRUNCATE))
		announce_cut(&announced, &file, known, 0, flags);

	errno = saved_errno;
	if (directory == AT_FDCWD)
		fd = open(path, flags, mode);
	else
		fd = openat(directory, path, flags, mode);
	announce_end(&announced, NULL, false);

	if (fd >= 0)
	{
		OpenFile spare;
		OpenFile *entry;

		saved_errno = errno;

		/*
		 * A file that cannot be identified now is identified when it is
		 * written.
		 */
		if (known == NULL || !runtime_attached() ||
		    !descriptors_is_foreign(known, flags))
			descriptors_opened(fd, known, flags);
		else if (!descriptors_identify(fd, &spare, &entry))
			descriptors_opened(fd, NULL, flags);
		if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) &&
		    known != NULL && !FC_BROKEN(CREATE))
			forget_name(path);
		errno = saved_errno;
	}
	return fd;
}
