/*
 * superblock.h
 *		Reading and writing a cache file's superblock.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_SUPERBLOCK_H
#define FCACHE_SUPERBLOCK_H

#include "fcache/device.h"

/* Read the label; not whole if the file has none that can be trusted. */
extern void fc_superblock_read(int fd, FcLabel *label);

/* Write the label, safe even if the machine crashes; false and errno if not. */
extern bool fc_superblock_write(int fd, const FcLabel *label);

#endif
