/*
 * ondisk.h
 *		The bytes of a cache file.
 *
 * A superblock at offset 0; two wear records at FC_WEAR_OFFSET; zeros up to
 * FC_SLOTS_OFFSET; the slots; then, after a clean shutdown, the map.  Numbers
 * are little-endian, like those of every machine that PostgreSQL's own files
 * are moved between in practice; with another byte order the magic differs.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_ONDISK_H
#define FCACHE_ONDISK_H

#include <stdint.h>

#define FC_DISK_MAGIC   0x0a6873616c666770ULL /* "pgflash\n" */
#define FC_DISK_VERSION 5

typedef struct FcDiskSuperblock
{
	uint64_t magic;
	uint32_t version;
	uint32_t slot_size;  /* bytes */
	uint32_t slot_count; /* of this file */
	uint32_t position;   /* among the files of the cache */
	uint32_t count;      /* of these */
	uint32_t clean;  /* 1: the map is complete, and no slot was written since */
	uint64_t nonce;  /* drawn at each start, the same in all files; 0 = none */
	uint64_t system; /* the cluster it belongs to: see FcIdentity */
	uint64_t directory_volume;
	uint64_t directory_inode;
	uint64_t checkpoint_location; /* see FcCheckpoint */
	int64_t checkpoint_time;
	uint32_t checkpoint_timeline;
	uint32_t checkpoint_crc;
	uint32_t unused;
	uint32_t crc; /* CRC32C of the preceding fields */
} FcDiskSuperblock;

_Static_assert(sizeof(FcDiskSuperblock) == 96, "the superblock has no holes");

/*
 * What was written to the file in the last day; see wear.c.  There are two
 * records, and the one with the higher sequence is valid.  They have a magic of
 * their own and a fixed place, because wear continues when a cache begins cold,
 * for a new version or another size.
 */
#define FC_WEAR_OFFSET 65536
#define FC_WEAR_MAGIC  0x3172616577666770ULL /* "pgfwear1" */

typedef struct FcDiskWear
{
	uint64_t magic;
	uint32_t crc;   /* CRC32C of the following fields */
	uint32_t ended; /* 1: nothing was written after it */
	uint64_t sequence;
	uint64_t inode;         /* of the file: a copy begins without wear */
	uint64_t boot;          /* first half of the machine's; 0 = not known */
	uint64_t monotonic_ns;  /* time of the record, since that boot */
	uint64_t clock_ns;      /* the same by the budget's clock */
	uint64_t known_ns;      /* the time for which blocks are known */
	uint64_t bytes_per_day; /* the budget, of all files; 0 = unlimited */
	int64_t left;           /* bytes in its bucket */
	uint64_t blocks[24];    /* this hour's, those of the one before, ... */
} FcDiskWear;

_Static_assert(sizeof(FcDiskWear) == 272, "the record has no holes");

/*
 * The map, after the slots: a record for each set of the file, followed by the
 * replacement policy's state of the set; as many as fit in each 1 MB.
 */
typedef struct FcDiskRecord
{
	uint32_t crc; /* CRC32C of the fields after it, and of what is behind */
	uint32_t set; /* of the cache */
	uint64_t nonce;
	uint64_t valid; /* bit n: way n holds a block */
	uint64_t key[64];
	uint32_t block_crc[64];
} FcDiskRecord;

_Static_assert(sizeof(FcDiskRecord) == 792, "a record has no holes");

/* In the first file, after its records: the files that have cached blocks. */
typedef struct FcDiskFiles
{
	uint32_t crc; /* CRC32C of the fields after it, and of what is behind */
	uint32_t
		count; /* lines that follow; then the replacement policy's own state */
	uint64_t nonce;
	uint32_t replacement_hash;
	uint32_t file_count;  /* numbers */
	uint32_t set_count;   /* the maximum: homes depend on it */
	uint32_t record_size; /* bytes, including the replacement policy's state */
	uint64_t replacement_size;
} FcDiskFiles;

_Static_assert(sizeof(FcDiskFiles) == 40, "the head has no holes");

typedef struct FcDiskFile
{
	uint32_t id[5]; /* the fields of an FcFileId */
	uint32_t number;
	uint64_t changes;
	uint64_t stamp;
} FcDiskFile;

_Static_assert(sizeof(FcDiskFile) == 40, "a line has no holes");

#endif
