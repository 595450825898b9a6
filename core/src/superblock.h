/*
 * superblock.h
 *		A cache file's superblock, read and written.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef FCACHE_SUPERBLOCK_H
#define FCACHE_SUPERBLOCK_H

#include "fcache/device.h"

/* What the file says; not whole if it says nothing that can be believed. */
extern void fc_superblock_read(int fd, FcLabel *label);

/* Make it say this, whatever becomes of the machine; false and errno if not. */
extern bool fc_superblock_write(int fd, const FcLabel *label);

#endif
