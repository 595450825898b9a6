/*
 * bridge_mounts.h
 *		The file systems that data files lie on.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_BRIDGE_MOUNTS_H
#define PGFLASH_BRIDGE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A number that is another one when a file system of the data was mounted since; 0
 * before Linux 6.8, where mounts cannot be told apart.
 */
extern uint64_t bridge_mounts_id(void);

/* Have all that was written to them on disk; false, with errno, if not all of it is. */
extern bool bridge_mounts_sync(void);

#endif
