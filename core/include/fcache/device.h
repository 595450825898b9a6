/*
 * device.h
 *		The one door to the flash: where slots are read and written.
 *
 * All I/O of the cache goes through FcDeviceOps, so that tests can fail, tear,
 * delay and misdirect it.  A device knows offsets and bytes, nothing of blocks.
 * fc_device_file_open() gives the real one: a cache file, locked, preallocated,
 * opened with O_DIRECT where the file system allows it.
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

/* A cache is striped over so many cache files at most. */
#define FC_DEVICES_MAX 16

/*
 * What the cluster's control file says.  Any server that has run, with the cache or
 * without, has left something else in there.
 */
typedef struct FcCheckpoint
{
	uint64_t location; /* of the last checkpoint, in the WAL */
	int64_t time;      /* ... in seconds since 1970 */
	uint32_t timeline;
	uint32_t crc; /* of the whole control file */
} FcCheckpoint;

/* Hours for which it is known what was written. */
#define FC_WEAR_HOURS 24

/* Whose cache it is: what is cached for one is nothing to another. */
typedef struct FcIdentity
{
	uint64_t system;           /* the database cluster's own number */
	uint64_t directory_device; /* its data directory */
	uint64_t directory_inode;
	uint64_t boot[2]; /* of the machine: memory and page cache are as old */
	FcCheckpoint checkpoint; /* that it stands at */
} FcIdentity;

/* What a cache file's superblock says. */
typedef struct FcLabel
{
	bool whole; /* there is one, of this version, and its CRC is right */
	bool other_version;  /* ... of another one */
	bool damaged;        /* ... and its CRC is wrong */
	bool clean;          /* the file holds a map of all its slots */
	uint32_t slot_count; /* of this file */
	uint32_t position;   /* among the files of the cache */
	uint32_t count;      /* of these */
	uint64_t nonce;      /* of the life it was last used in; 0 = none */
	FcIdentity identity;
} FcLabel;

/* What was written to a cache file before this life; see src/wear.c. */
typedef struct FcWear
{
	uint64_t hour;                  /* in which the life began */
	uint64_t blocks[FC_WEAR_HOURS]; /* in that hour, in the one before, ... */
} FcWear;

typedef struct FcDevice FcDevice;

/* One slot on its way; see src/queue.h. */
typedef struct FcTransfer
{
	FcDevice *device;
	bool write;
	void *page; /* FC_BLOCK_SIZE bytes, aligned to FC_IO_ALIGN */
	off_t offset;
	void *tag;      /* the caller's own */
	ssize_t result; /* once it is done: bytes, or -errno */
} FcTransfer;

/*
 * read and write are like pread and pwrite: bytes done, or -1 and errno.  Most
 * slots go through a queue, which hands the files of real devices to the kernel.
 * A device of a test may take them itself: start begins a transfer, finished
 * gives one that is done, its result set, or NULL.  Both are NULL otherwise.
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
	int fd;        /* of a cache file, else -1 */
	bool direct;   /* opened with O_DIRECT */
	FcLabel label; /* as it was found when the file was opened */
	FcWear wear;   /* as it was found when the life began */
	void *state;   /* for the devices of tests */
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
 * Open, lock and size the cache file for slot_count slots.  An existing cache
 * file of pgflash is reused and its size adjusted; anything else that holds
 * bytes is refused and left untouched.  Waits at most lock_wait_ms for the lock
 * of a server that is just dying.
 */
extern FC_MUST_CHECK FcDeviceProblem fc_device_file_open(FcDevice *device,
                                                         const char *path,
                                                         uint32_t slot_count,
                                                         unsigned lock_wait_ms);

/* Slots that an open cache file has room for. */
extern uint32_t fc_device_file_slots(const FcDevice *device);

/*
 * Give an open cache file room for so many slots, no more and no less.  If that
 * cannot be done it keeps what it had.
 */
extern FC_MUST_CHECK FcDeviceProblem
fc_device_file_resize(const FcDevice *device, uint32_t slot_count);

/*
 * Cut off what is beyond so many slots while the file is used: in pieces, since
 * nobody can read the file while the file system takes a piece off.  After time_ns
 * it returns; *more_out says whether something is left to do.
 */
extern FC_MUST_CHECK FcDeviceProblem fc_device_file_cut(const FcDevice *device,
                                                        uint32_t slot_count,
                                                        uint64_t time_ns,
                                                        bool *more_out);

/* Where slot 0 begins in a cache file: after the superblock. */
#define FC_SLOTS_OFFSET 1048576

#endif
