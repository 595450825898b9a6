/*
 * device.h
 *		The only way to the flash: where slots are read and written.
 *
 * All I/O of the cache goes through FcDeviceOps, so that tests can fail, tear,
 * delay and misdirect it.  A device knows offsets and bytes, but no blocks.
 * fc_device_file_open() returns the real one: a cache file, locked,
 * preallocated, opened with O_DIRECT where the file system allows it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_DEVICE_H
#define FCACHE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fcache/status.h"

/* O_DIRECT wants memory, offsets and lengths aligned to this. */
#define FC_IO_ALIGN 4096

/* The most cache files that a cache is striped over. */
#define FC_DEVICES_MAX 16

/*
 * What the cluster's control file says.  It differs after any server has run,
 * with the cache or without.
 */
typedef struct FcCheckpoint
{
	uint64_t location; /* of the last checkpoint, in the WAL */
	int64_t time;      /* ... in seconds since 1970 */
	uint32_t timeline;
	uint32_t crc; /* of the whole control file */
} FcCheckpoint;

/* Hours for which the writes are known. */
#define FC_WEAR_HOURS 24

/* The cluster a cache belongs to; no other may use what is cached. */
typedef struct FcIdentity
{
	uint64_t system;           /* the database cluster's own number */
	uint64_t directory_volume; /* its data directory */
	uint64_t directory_inode;
	uint64_t boot[2]; /* of the machine, and so of memory and page cache */
	FcCheckpoint checkpoint; /* the latest one */
} FcIdentity;

/* What a cache file's superblock says. */
typedef struct FcLabel
{
	bool whole;          /* there is one, of this version, with the right CRC */
	bool other_version;  /* ... of another version */
	bool damaged;        /* ... with a wrong CRC */
	bool clean;          /* the file holds a map of all its slots */
	uint32_t slot_count; /* of this file */
	uint32_t position;   /* among the files of the cache */
	uint32_t count;      /* of these */
	uint64_t nonce;      /* of the life that last used it; 0 = none */
	FcIdentity identity;
} FcLabel;

/* What was written to a cache file before this life; see src/wear.c. */
typedef struct FcWear
{
	uint64_t hour;                  /* in which the life began */
	uint64_t blocks[FC_WEAR_HOURS]; /* in that hour, in the one before, ... */
} FcWear;

typedef struct FcDevice FcDevice;

/* A read or write of one slot; see src/queue.h. */
typedef struct FcTransfer
{
	FcDevice *device;
	bool write;
	void *page; /* FC_BLOCK_SIZE bytes, aligned to FC_IO_ALIGN */
	off_t offset;
	void *tag;      /* the caller's own */
	ssize_t result; /* when it is done: bytes, or -errno */
} FcTransfer;

/*
 * read and write are like pread and pwrite: they return bytes, or -1 and errno.
 * Most slots go through a queue, which hands real devices' files to the kernel.
 * A test's device may handle transfers itself: start begins one, and finished
 * returns one that is done, with its result set, or NULL.  Otherwise both are
 * NULL.
 */
typedef struct FcDeviceOps
{
	ssize_t (*read)(FcDevice *device, void *buffer, size_t size, off_t offset);
	ssize_t (*write)(FcDevice *device, const void *buffer, size_t size,
	                 off_t offset);
	void (*close)(FcDevice *device);
	void (*start)(FcDevice *device, FcTransfer *transfer);
	FcTransfer *(*finished)(FcDevice *device);
} FcDeviceOps;

struct FcDevice
{
	const FcDeviceOps *ops;
	int fd;         /* of a cache file, else -1 */
	bool direct;    /* opened with O_DIRECT */
	bool in_memory; /* on tmpfs: a read is a copy from memory */
	FcLabel label;  /* as found when the file was opened */
	FcWear wear;    /* as found when the life began */
	void *state;    /* for the devices of tests */
};

/* Why a cache file could not be opened; errno is kept beside it. */
typedef enum FcDeviceProblem
{
	FC_DEVICE_FINE,
	FC_DEVICE_CANNOT_OPEN, /* errno: missing folder, no permission, ... */
	FC_DEVICE_NOT_A_FILE,  /* a directory, a device, a link to one */
	FC_DEVICE_WRONG_OWNER, /* belongs to another user */
	FC_DEVICE_FOREIGN,     /* not empty and not a pgflash cache file */
	FC_DEVICE_IN_USE,      /* locked by another server */
	FC_DEVICE_TOO_SMALL,   /* size leaves no room for one set */
	FC_DEVICE_NO_SPACE,    /* the file system cannot hold it */
	FC_DEVICE_CANNOT_WRITE /* errno: the header could not be written */
} FcDeviceProblem;

/*
 * Open, lock and size the cache file for slot_count slots.  An existing pgflash
 * cache file is reused and resized; any other file that is not empty is refused
 * and left untouched.  Waits at most lock_wait_ms for the lock, which a dying
 * server may still hold.
 */
extern FC_MUST_CHECK FcDeviceProblem fc_device_file_open(FcDevice *device,
                                                         const char *path,
                                                         uint32_t slot_count,
                                                         unsigned lock_wait_ms);

/* Slots that an open cache file has room for. */
extern uint32_t fc_device_file_slots(const FcDevice *device);

/*
 * Give an open cache file room for exactly so many slots.  If that fails, it
 * keeps its size.
 */
extern FC_MUST_CHECK FcDeviceProblem
fc_device_file_resize(const FcDevice *device, uint32_t slot_count);

/*
 * Cut off what lies beyond so many slots while the file is in use.  It is cut
 * in pieces, since nobody can read the file while the file system removes one.
 * Returns after time_ns; *more_out says whether there is more to cut.
 */
extern FC_MUST_CHECK FcDeviceProblem fc_device_file_cut(const FcDevice *device,
                                                        uint32_t slot_count,
                                                        uint64_t time_ns,
                                                        bool *more_out);

/* Where slot 0 begins in a cache file: after the superblock. */
#define FC_SLOTS_OFFSET 1048576

#endif
