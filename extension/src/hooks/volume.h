/*
 * volume.h
 *		Identify a file system independently of its device number.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_VOLUME_H
#define PGFLASH_VOLUME_H

#include <stdint.h>

/*
 * Return a number for the file system of an open file, or of the file with this
 * name (fd < 0), which now has this device number.  Changes errno.
 */
extern uint64_t volume_of(int fd, const char *path, uint64_t device);

#endif
