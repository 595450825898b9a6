/*
 * bridge_mounts.h
 *		The file systems that hold data files.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_MOUNTS_H
#define PGFLASH_BRIDGE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A number that changes when a file system that holds data is mounted again; 0
 * before Linux 6.8, where mounts cannot be distinguished.
 */
extern uint64_t bridge_mounts_id(void);

/* Sync everything written to them; false, with errno, if any of it failed. */
extern bool bridge_mounts_sync(void);

#endif
