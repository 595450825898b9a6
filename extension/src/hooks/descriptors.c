/*
 * descriptors.c
 *		A table of the open file descriptors, with the class of each one's file.
 *
 * The table is indexed by descriptor, private to the process, and inherited by
 * fork, as the descriptors are.  open fills in an entry; close clears it before
 * the real close, since afterwards the number may already belong to another
 * file; dup copies it.
 *
 * The only way in which an entry may be wrong is to be unknown.  Descriptors
 * that no hook saw being opened (inherited, made by another library, beyond the
 * table) are unknown.  Reads through them bypass the cache.  Changes through
 * them must be announced, so descriptors_identify() asks the kernel for the
 * name behind the descriptor, and records the answer.
 *
 * The kernel answers with a real path, so a tablespace appears as the directory
 * that its symbolic link points to.  paths_classify() calls a file in there an
 * alias if it looks like a relation; see the rule there.  A name that
 * PostgreSQL does not use for a file that it writes in place may be that of a
 * link; then the file that was opened is identified, too.
 *
 * No locking: each of PostgreSQL's processes makes its file calls from a single
 * thread.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/descriptors.h"
#include "hooks/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/assert.h"
#include "hooks/page_cache.h"
#include "hooks/runtime.h"
#include "hooks/volume.h"

/* Missing from linux/magic.h, at least in some versions. */
#define ZFS_SUPER_MAGIC 0x2fc12fc1
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef BCACHEFS_SUPER_MAGIC
#define BCACHEFS_SUPER_MAGIC 0xca451a4e
#endif

#define REAL_PATH_MAX (PATH_MAX + sizeof(" (deleted)"))

/*
 * Its pages are not allocated until used, and a server's few hundred
 * descriptors use only a few.
 */
static OpenFile table[DESCRIPTORS_MAX];

OpenFile *
descriptors_entry(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS_MAX ? &table[fd] : NULL;
}

/*
 * A process may exit from inside a signal handler, and its exit callbacks use
 * files.  So an entry has no class while it is incomplete.
 */
static void
set_class(OpenFile *entry, FileClass class)
{
	FC_ASSERT(class <= FILE_ALIAS);
	atomic_signal_fence(memory_order_seq_cst);
	entry->class = (uint8_t) class;
	atomic_signal_fence(memory_order_seq_cst);
}

static void
remember(OpenFile *entry, const FilePlace *place, int flags)
{
	set_class(entry, FILE_UNKNOWN);
	memset(entry, 0, sizeof(*entry));
	entry->direct = (flags & O_DIRECT) != 0;

	if (place->class == FILE_RELATION || place->class == FILE_ALIAS ||
	    place->class == FILE_WAL)
		entry->file = fc_file(place->id);
	set_class(entry, place->class);
}

void
descriptors_opened(int fd, const char *path, int flags)
{
	OpenFile *entry = descriptors_entry(fd);

	if (entry == NULL)
		return;

	page_cache_forget(fd);
	if (path == NULL)
		set_class(entry, FILE_UNKNOWN);
	else
	{
		FilePlace place = paths_classify(&runtime.root, path);

		remember(entry, &place, flags);
	}
}

void
descriptors_closed(int fd)
{
	OpenFile *entry = descriptors_entry(fd);

	page_cache_forget(fd);
	if (entry != NULL)
		set_class(entry, FILE_UNKNOWN);
}

void
descriptors_copied(int from, int to)
{
	OpenFile *old = descriptors_entry(from);
	OpenFile *new = descriptors_entry(to);

	if (new == NULL || new == old)
		return;
	set_class(new, FILE_UNKNOWN);
	page_cache_forget(to);
	if (old != NULL)
	{
		OpenFile copy = *old;

		copy.class = FILE_UNKNOWN;
		*new = copy;
		set_class(new, (FileClass) old->class);
	}
}

/*
 * Get the real path of an open file, in a buffer of REAL_PATH_MAX bytes; false,
 * with errno, if the kernel does not return it.
 */
static bool
real_path(int fd, const struct stat *status, char *path)
{
	static const char deleted[] = " (deleted)";
	char link[64];
	ssize_t length;

	FC_ASSERT(fd >= 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, REAL_PATH_MAX - 1);
	if (length < 0)
		return false;
	if (length == REAL_PATH_MAX - 1)
	{
		errno = ENAMETOOLONG;
		return false;
	}
	path[length] = '\0';

	/* A dropped file that is still open: changing it does no harm. */
	if (status->st_nlink == 0 && (size_t) length >= sizeof(deleted) &&
	    strcmp(path + length - (sizeof(deleted) - 1), deleted) == 0)
		path[(size_t) length - (sizeof(deleted) - 1)] = '\0';
	return true;
}

bool
descriptors_identify(int fd, OpenFile *spare, OpenFile **entry_out)
{
	FilePlace place = { .class = FILE_DEVICE };
	OpenFile *entry = descriptors_entry(fd);
	char path[REAL_PATH_MAX];
	struct stat status;
	int flags;

	FC_ASSERT(spare != NULL);
	*entry_out = entry == NULL ? spare : entry;

	/* Pipes and sockets are no data files; a bad descriptor changes nothing. */
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
	{
		remember(*entry_out, &place, 0);
		return true;
	}
	if (!real_path(fd, &status, path))
		return false;

	flags = fcntl(fd, F_GETFL);
	place = paths_classify_regular(&runtime.root, path);
	remember(*entry_out, &place, flags < 0 ? 0 : flags);
	return true;
}

/* The real paths of a tablespace's files contain the version's directory. */
bool
descriptors_may_be_data(int fd)
{
	char path[REAL_PATH_MAX];
	struct stat status;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	return !real_path(fd, &status, path) ||
	       paths_classify_regular(&runtime.root, path).class == FILE_RELATION ||
	       strstr(path, runtime.root.version_directory) != NULL;
}

bool
descriptors_is_foreign(const char *path, int flags)
{
	FileClass class;

	if (FC_BROKEN(FOREIGN) || (flags & O_ACCMODE) == O_RDONLY)
		return false;
	if ((flags & O_TRUNC) != 0 || (flags & O_ACCMODE) == O_WRONLY)
		return true;
	class = paths_classify(&runtime.root, path).class;
	return class == FILE_OTHER || class == FILE_ALIAS || class == FILE_DEVICE;
}

FilePlace
descriptors_place(const char *path, int flags)
{
	FilePlace place = { .class = FILE_OTHER };
	char real[REAL_PATH_MAX];
	struct stat status;
	int fd;

	if (!descriptors_is_foreign(path, flags))
		return paths_classify(&runtime.root, path);

	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return place;

	/* If the file cannot be examined, it may be any file. */
	if (fd < 0 || fstat(fd, &status) != 0)
		place.class = FILE_ALIAS;
	else if (S_ISREG(status.st_mode))
	{
		if (real_path(fd, &status, real))
			place = paths_classify_regular(&runtime.root, real);
		else
			place.class = FILE_ALIAS;
	}
	if (fd >= 0)
		close(fd);
	return place;
}

/* ---- stamps -------------------------------------------------------------- */

/* OpenFile.stamps */
enum
{
	STAMPS_UNKNOWN,
	STAMPS_AT_ONCE,
	STAMPS_WHEN_SYNCED
};

/* Does the kernel itself keep the change time of files on this file system? */
static bool
keeps_time_itself(uint32_t magic)
{
	static const uint32_t magics[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,      BTRFS_SUPER_MAGIC,
		TMPFS_MAGIC,      F2FS_SUPER_MAGIC,     OVERLAYFS_SUPER_MAGIC,
		ZFS_SUPER_MAGIC,  BCACHEFS_SUPER_MAGIC,
	};

	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
	{
		if (magic == magics[i])
			return true;
	}
	return false;
}

/* Know a file's file system, which an open file's entry remembers. */
static bool
know_volume(int fd, const char *path, OpenFile *entry)
{
	Volume volume;

	FC_ASSERT(entry != NULL);
	if (entry->stamps != STAMPS_UNKNOWN)
		return true;
	if (!volume_ask(fd, path, &volume))
		return false;
	entry->volume = volume.number;
	entry->stamps =
		(uint8_t) (keeps_time_itself(volume.magic) ? STAMPS_AT_ONCE
	                                               : STAMPS_WHEN_SYNCED);
	return true;
}

bool
descriptors_stamps_at_once(int fd, const char *path, OpenFile *entry)
{
	OpenFile spare = { .stamps = STAMPS_UNKNOWN };

	FC_ASSERT(fd >= 0 || path != NULL || entry != NULL);
	if (entry == NULL)
		entry = &spare;
	return know_volume(fd, path, entry) && entry->stamps == STAMPS_AT_ONCE;
}

static bool
stamp_of(int fd, const char *path, const struct stat *status, OpenFile *entry,
         FcStamp *stamp_out)
{
	OpenFile spare = { .stamps = STAMPS_UNKNOWN };

	*stamp_out = (FcStamp){ 0 };
	if (FC_BROKEN(STAMP))
		return true;
	if (entry == NULL)
		entry = &spare;
	if (!know_volume(fd, path, entry))
		return false;
	*stamp_out = (FcStamp){
		.volume =
			entry->volume != 0 ? entry->volume : (uint64_t) status->st_dev,
		.inode = (uint64_t) status->st_ino,
		.size = (uint64_t) status->st_size,
		.changed_ns = (int64_t) status->st_ctim.tv_sec * 1000000000 +
		              status->st_ctim.tv_nsec,
	};
	return true;
}

/*
 * A descriptor of a dropped file tells nothing about the file that now has its
 * name.  Besides, removing a name changes the inode without any announcement.
 */
bool
descriptors_stamp(int fd, const char *path, OpenFile *entry, FcStamp *stamp_out)
{
	struct stat status;

	FC_ASSERT(fd >= 0 || path != NULL);
	return (fd >= 0 ? fstat(fd, &status) : stat(path, &status)) == 0 &&
	       status.st_nlink != 0 &&
	       stamp_of(fd, path, &status, entry, stamp_out);
}

void
descriptors_hand_in(FcFileId id, const FcStampPermit *permit,
                    const FcStamp *stamp)
{
	FC_ASSERT(id.relation != 0);

	/*
	 * In a build without another safeguard, this one must not hide its absence.
	 */
	if (!FC_BROKEN(NONE) &&
	    fc_stamp_age(&runtime.cache, permit) == FC_STAMP_PRESENT)
		return;
	if (fc_stamp_set(&runtime.cache, permit, stamp))
		return;
	runtime.board->foreign_id = id;
	atomic_fetch_add(&runtime.board->foreign, 1);
}

void
descriptors_look_before(int fd, const char *path, OpenFile *entry, FcFile *file)
{
	FcStampPermit permit;
	FcStamp stamp;

	FC_ASSERT(fd >= 0 || path != NULL);
	if (!fc_file_resolve(&runtime.cache, file))
		return;
	permit = fc_stamp_permit(&runtime.cache, file);

	/*
	 * Such a file has nothing to write back, so this is cheap on any file
	 * system.
	 */
	if (fc_stamp_age(&runtime.cache, &permit) == FC_STAMP_PRESENT &&
	    descriptors_stamp(fd, path, entry, &stamp))
		descriptors_hand_in(file->id, &permit, &stamp);
}

void
descriptors_synced(int fd, OpenFile *entry)
{
	FcStampPermit permit;
	FcStamp stamp;

	FC_ASSERT(fd >= 0);
	if (entry->class != FILE_RELATION ||
	    descriptors_stamps_at_once(fd, NULL, entry) ||
	    !fc_file_resolve(&runtime.cache, &entry->file))
		return;
	permit = fc_stamp_permit(&runtime.cache, &entry->file);
	if (permit.number != FC_FILE_NONE &&
	    descriptors_stamp(fd, NULL, entry, &stamp))
		descriptors_hand_in(entry->file.id, &permit, &stamp);
}

void
descriptors_wake(int fd, const char *path, OpenFile *entry, const FcFile *file)
{
	FcStamp stamp;

	FC_ASSERT(fd >= 0 || path != NULL);
	if (fc_stamp_asleep(&runtime.cache, file))
		fc_stamp_wake(&runtime.cache, file,
		              descriptors_stamp(fd, path, entry, &stamp) ? &stamp
		                                                         : NULL);
}

/*
 * Identifies a file until the machine is restarted.  Stamps name the volume
 * instead of the device: they are compared with those of an earlier life.
 */
typedef struct Node
{
	uint64_t device;
	uint64_t inode;
} Node;

static bool
is_same(Node one, Node other)
{
	return FC_BROKEN(STAMP) ||
	       (one.device == other.device && one.inode == other.inode);
}

/* As the kernel has it cached. */
static bool
node_of(int fd, const char *path, Node *node_out)
{
	struct statx status;
	int flags = AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW;

	if (statx(fd >= 0 ? fd : AT_FDCWD, fd >= 0 ? "" : path,
	          fd >= 0 ? flags | AT_EMPTY_PATH : flags, STATX_INO, &status) != 0)
		return false;
	*node_out = (Node){ makedev(status.stx_dev_major, status.stx_dev_minor),
		                status.stx_ino };
	return true;
}

/* The same, and the stamp of the file that is open; false if it has none. */
static bool
stamp_if_named(int fd, const char *path, OpenFile *entry, FcStamp *stamp_out,
               bool *gone_out)
{
	struct stat named;
	struct stat opened;

	*gone_out = lstat(path, &named) != 0;
	if (*gone_out || fstat(fd, &opened) != 0 || opened.st_nlink == 0 ||
	    !is_same((Node){ named.st_dev, named.st_ino },
	             (Node){ opened.st_dev, opened.st_ino }))
		return false;
	return stamp_of(fd, NULL, &opened, entry, stamp_out);
}

/*
 * Does the open file still have its name?  It may have been dropped, and the
 * name may belong to another file by now.  Or the name is a symbolic link, and
 * the file has another name, under which it may be changed unseen.  *gone_out:
 * no file has the name.  With whole, *stamp_out is the file's stamp.
 */
static bool
has_its_name(int fd, OpenFile *entry, bool whole, FcStamp *stamp_out,
             bool *gone_out)
{
	char path[PATHS_MAX];
	Node named;
	Node opened;

	FC_ASSERT(entry->file.id.relation != 0);
	paths_of_file(&runtime.root, entry->file.id, path);
	if (whole)
		return stamp_if_named(fd, path, entry, stamp_out, gone_out);
	*gone_out = !node_of(-1, path, &named);
	return !*gone_out && node_of(fd, NULL, &opened) && is_same(named, opened);
}

/* The entry's descriptor refers to a file that has lost its name. */
static bool
forget_dead(OpenFile *entry, bool gone)
{
	if (gone)
		fc_file_retire(&runtime.cache, entry->file.id);
	entry->dead = true;
	return false;
}

/*
 * The order matters: first take the number, then check the name.  A process
 * that unlinks a file retires its number afterwards.  So if the name is still
 * right, whatever happens to it later makes this number stale.
 *
 * A current number that was not checked through this descriptor is not enough:
 * a change of a dropped file finds the number of the file that now has the
 * name.
 */
static bool
enter(int fd, OpenFile *entry)
{
	FcStampPermit permit;
	FcStamp stamp = { 0 };
	bool gone = false;
	bool whole;

	FC_ASSERT(entry->class == FILE_RELATION && !entry->dead);

	/* The file is known from before the server's start: did it change since? */
	if (fc_stamp_asleep(&runtime.cache, &entry->file))
	{
		if (!has_its_name(fd, entry, true, &stamp, &gone))
			return forget_dead(entry, gone);
		fc_stamp_wake(&runtime.cache, &entry->file, &stamp);
	}
	if (fc_file_enter(&runtime.cache, &entry->file) != FC_OK)
		return false;

	/*
	 * Where reading the change time is expensive, do not read that of a file
	 * that was or is being written.
	 */
	permit = fc_stamp_permit(&runtime.cache, &entry->file);
	whole = descriptors_stamps_at_once(fd, NULL, entry) ||
	        (permit.number != FC_FILE_NONE &&
	         fc_stamp_age(&runtime.cache, &permit) != FC_STAMP_PAST);
	if (FC_BROKEN(DEAD_FILE))
		return true;
	if (!has_its_name(fd, entry, whole, &stamp, &gone))
		return forget_dead(entry, gone);
	if (whole)
		descriptors_hand_in(entry->file.id, &permit, &stamp);
	return true;
}

bool
descriptors_number(int fd, OpenFile *entry)
{
	if (fc_file_current(&runtime.cache, &entry->file) &&
	    (FC_BROKEN(CHECKED) ||
	     (entry->checked_number == entry->file.number &&
	      entry->checked_generation == entry->file.generation)))
		return true;
	if (entry->dead)
		return false;

	/*
	 * Twice: if the first try finds a change from outside, the file loses its
	 * number.
	 */
	if (!enter(fd, entry) ||
	    (!fc_file_current(&runtime.cache, &entry->file) && !enter(fd, entry)))
		return false;
	FC_ASSERT(entry->file.number != FC_FILE_NONE);
	entry->checked_number = entry->file.number;
	entry->checked_generation = entry->file.generation;
	return true;
}
