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
 * Answers are kept by device number.  If another file system gets a number
 * while a process runs, that process returns the old file system's identity,
 * which is no worse than the device number.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "hooks/volume.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
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

/* More than a cluster's tablespaces are usually on. */
#define VOLUMES_MAX 16

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

static struct
{
	uint64_t device;
	uint64_t volume; /* 0: unused */
} known[VOLUMES_MAX];

static unsigned next;

/* 0: it does not say. */
static uint64_t
xfs_uuid(int fd, const char *path)
{
	XfsGeometry geometry = { 0 };
	int own_fd = -1;
	bool good;

	if (fd < 0)
		own_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	good = (fd >= 0 || own_fd >= 0) &&
	       ioctl(fd >= 0 ? fd : own_fd, XFS_GEOMETRY, &geometry) == 0;
	if (own_fd >= 0)
		close(own_fd);
	return good ? geometry.uuid[0] ^ geometry.uuid[1] : 0;
}

/* 0: it does not say. */
static uint64_t
own_number(int fd, const char *path, const struct statfs *system)
{
	uint64_t number;

	_Static_assert(sizeof(system->f_fsid) == sizeof(number), "");
	switch ((uint32_t) system->f_type)
	{
		case EXT4_SUPER_MAGIC:
		case BTRFS_SUPER_MAGIC:
			memcpy(&number, &system->f_fsid, sizeof(number));
			return number;
		case XFS_SUPER_MAGIC:
			return xfs_uuid(fd, path);
		default:
			return 0;
	}
}

uint64_t
volume_of(int fd, const char *path, uint64_t device)
{
	struct statfs system;
	uint64_t number;

	FC_ASSERT(fd >= 0 || path != NULL);
	if (FC_BROKEN(VOLUME))
		return OWN;
	for (unsigned i = 0; i < VOLUMES_MAX; i++)
	{
		if (known[i].volume != 0 && known[i].device == device)
			return known[i].volume;
	}
	if ((fd >= 0 ? fstatfs(fd, &system) : statfs(path, &system)) != 0)
		return device;
	number = own_number(fd, path, &system);
	number = number != 0 ? number | OWN : device;

	/*
	 * The entry is 0 while incomplete, because a signal handler that ends the
	 * process may use the table.
	 */
	known[next].volume = 0;
	atomic_signal_fence(memory_order_seq_cst);
	known[next].device = device;
	atomic_signal_fence(memory_order_seq_cst);
	known[next].volume = number;
	next = (next + 1) % VOLUMES_MAX;
	return number;
}
