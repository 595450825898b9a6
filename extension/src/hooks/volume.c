/*
 * volume.c
 *		Identify a file system independently of its device number.
 *
 * A device number belongs to a mount: a cloud's volume, a loop device or a
 * subvolume of btrfs may have another one after it was attached again, and its
 * old number may be another volume's.  What is compared with an earlier life of
 * the server (stamps, the identity of the data directory) names the file system
 * by what its own superblock says:
 *
 *	ext2, ext3, ext4	its UUID, as statfs() folds it
 *	btrfs				its UUID and the subvolume's number, likewise
 *	XFS					its UUID by an ioctl; statfs() only repeats the device
 *	all others			the device number
 *
 * statfs() may identify others, too, but not on all kernels, and not in the
 * same way: overlayfs has files of several file systems, f2fs repeats the
 * device, tmpfs ends with its mount.  For those, another device number means
 * another file system, and the cache is cold.
 *
 * Copies of a file system have the same UUID, as they may have the same device
 * number at different times.  Other checks tell them apart: the control file,
 * change times, and, for memory, the mount.  See docs/decisions.
 *
 * Answers must not be kept by device number: after a tablespace was unmounted
 * and another file system got its number, old processes would name the old one
 * and new processes the new one, and each would take the other's stamps for
 * changes from outside.  They may be kept with an open file, which holds its
 * file system.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/volume.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "broken.h"
#include "fcache/assert.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* Distinguishes a file system's own number from a device's. */
#define OWN (1ULL << 63)

/*
 * XFS has had this ioctl since its first version for Linux.  The kernel does
 * not export its header.
 */
typedef struct XfsGeometry
{
	uint32_t sizes[8];
	uint64_t places[4];
	uint64_t uuid[2];
	uint32_t others[7];
} XfsGeometry;

_Static_assert(offsetof(XfsGeometry, uuid) == 64 && sizeof(XfsGeometry) == 112,
               "the kernel's layout");

#define XFS_GEOMETRY _IOR('X', 100, XfsGeometry)

/*
 * The number is 0 if the file system does not say.  False: it could not be
 * asked.
 */
static bool
xfs_uuid(int fd, const char *path, uint64_t *number_out)
{
	XfsGeometry geometry = { 0 };
	int own_fd = -1;

	FC_ASSERT(*number_out == 0);
	if (fd < 0)
		fd = own_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;

	/*
	 * A descriptor that only names the file (O_PATH) cannot be asked.  Its
	 * stamp then differs from the file's, whose blocks are dropped: not to look
	 * would hide a change of another program's.
	 */
	if (ioctl(fd, XFS_GEOMETRY, &geometry) == 0)
		*number_out = geometry.uuid[0] ^ geometry.uuid[1];
	if (own_fd >= 0)
		close(own_fd);
	return true;
}

/* Likewise. */
static bool
own_number(int fd, const char *path, const struct statfs *system,
           uint64_t *number_out)
{
	_Static_assert(sizeof(system->f_fsid) == sizeof(*number_out), "");
	switch ((uint32_t) system->f_type)
	{
		case EXT4_SUPER_MAGIC:
		case BTRFS_SUPER_MAGIC:
			memcpy(number_out, &system->f_fsid, sizeof(*number_out));
			return true;
		case XFS_SUPER_MAGIC:
			return xfs_uuid(fd, path, number_out);
		default:
			return true;
	}
}

bool
volume_ask(int fd, const char *path, Volume *volume_out)
{
	struct statfs system;
	uint64_t number = 0;

	FC_ASSERT(fd >= 0 || path != NULL);
	if ((fd >= 0 ? fstatfs(fd, &system) : statfs(path, &system)) != 0 ||
	    !own_number(fd, path, &system, &number))
		return false;
	if (number != 0)
		number |= OWN;
	*volume_out = (Volume){ .number = FC_BROKEN(VOLUME) ? OWN : number,
		                    .magic = (uint32_t) system.f_type };
	return true;
}
