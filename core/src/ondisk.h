/*
 * ondisk.h
 *		The bytes of a cache file.
 *
 * A superblock at offset 0, padded with zeros to FC_SLOTS_OFFSET; slots after
 * it.  Numbers are little-endian, as on every machine PostgreSQL's own files are
 * moved between in practice; another byte order reads as another magic.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_ONDISK_H
#define FCACHE_ONDISK_H

#include <stdint.h>

#define FC_DISK_MAGIC   "pgflash\n"
#define FC_DISK_VERSION 2

typedef struct FcDiskSuperblock
{
	char magic[8];
	uint32_t version;
	uint32_t slot_size;  /* bytes */
	uint32_t slot_count; /* of this file */
	uint32_t position;   /* among the files of the cache */
	uint32_t count;      /* of these */
	uint32_t clean;  /* 1: the map is whole, and no slot was written since */
	uint64_t nonce;  /* drawn at each start, the same in all files; 0 = none */
	uint64_t system; /* whose cache it is: see FcIdentity */
	uint64_t directory_device;
	uint64_t directory_inode;
	uint32_t unused;
	uint32_t crc; /* CRC32C of the fields before it */
} FcDiskSuperblock;

_Static_assert(sizeof(FcDiskSuperblock) == 72, "the superblock has no holes");

#endif
