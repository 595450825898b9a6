/*
 * volume.h
 *		Identify a file system independently of its device number.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_VOLUME_H
#define PGFLASH_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Volume
{
	uint64_t number; /* 0: only the device's number tells it from others */
	uint32_t magic;
} Volume;

/*
 * Ask for the file system of an open file, or of the file with this name (fd <
 * 0).  False if that fails.  Changes errno.
 */
extern bool volume_ask(int fd, const char *path, Volume *volume_out);

#endif
