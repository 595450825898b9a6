/*
 * superblock.c
 *		A cache file's superblock: its cluster, and the life it was used in.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "superblock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fcache/assert.h"
#include "fcache/cache.h"
#include "fcache/crc32c.h"
#include "ondisk.h"

/* Aligned, and as long as a write to flash must be with O_DIRECT. */
typedef struct SuperblockPage
{
	_Alignas(FC_IO_ALIGN) unsigned char bytes[FC_IO_ALIGN];
} SuperblockPage;

static uint32_t
crc_of(const FcDiskSuperblock *superblock)
{
	return fc_crc32c(0, superblock, offsetof(FcDiskSuperblock, crc));
}

void
fc_superblock_read(int fd, FcLabel *label)
{
	SuperblockPage page;
	FcDiskSuperblock disk;

	FC_ASSERT(fd >= 0);
	*label = (FcLabel){ .whole = false };
	if (pread(fd, page.bytes, sizeof(page), 0) != (ssize_t) sizeof(page))
		return;
	memcpy(&disk, page.bytes, sizeof(disk));
	if (disk.magic != FC_DISK_MAGIC)
		return;
	label->other_version = disk.version != FC_DISK_VERSION;
	label->damaged = !label->other_version && (disk.crc != crc_of(&disk) ||
	                                           disk.slot_size != FC_BLOCK_SIZE);
	if (label->other_version || label->damaged)
		return;
	*label = (FcLabel){
		.whole = true,
		.clean = disk.clean == 1,
		.slot_count = disk.slot_count,
		.position = disk.position,
		.count = disk.count,
		.nonce = disk.nonce,
		.identity = { .system = disk.system,
		              .directory_volume = disk.directory_volume,
		              .directory_inode = disk.directory_inode,
		              .checkpoint = { .location = disk.checkpoint_location,
		                              .time = disk.checkpoint_time,
		                              .timeline = disk.checkpoint_timeline,
		                              .crc = disk.checkpoint_crc } },
	};
}

bool
fc_superblock_write(int fd, const FcLabel *label)
{
	SuperblockPage page = { { 0 } };
	FcDiskSuperblock disk = {
		.magic = FC_DISK_MAGIC,
		.version = FC_DISK_VERSION,
		.slot_size = FC_BLOCK_SIZE,
		.slot_count = label->slot_count,
		.position = label->position,
		.count = label->count,
		.clean = label->clean,
		.nonce = label->nonce,
		.system = label->identity.system,
		.directory_volume = label->identity.directory_volume,
		.directory_inode = label->identity.directory_inode,
		.checkpoint_location = label->identity.checkpoint.location,
		.checkpoint_time = label->identity.checkpoint.time,
		.checkpoint_timeline = label->identity.checkpoint.timeline,
		.checkpoint_crc = label->identity.checkpoint.crc,
	};
	ssize_t put;

	FC_ASSERT(fd >= 0 && label->slot_count > 0);
	disk.crc = crc_of(&disk);
	memcpy(page.bytes, &disk, sizeof(disk));
	put = pwrite(fd, page.bytes, sizeof(page), 0);
	if (put >= 0 && put != (ssize_t) sizeof(page))
		errno = ENOSPC;
	return put == (ssize_t) sizeof(page) && fdatasync(fd) == 0;
}
