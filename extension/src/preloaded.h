/*
 * preloaded.h
 *		Was the library loaded by shared_preload_libraries?
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_PRELOADED_H
#define PGFLASH_PRELOADED_H

/* It is being loaded so. */
extern void preloaded_note(void);

/* An error, unless it was. */
extern void preloaded_require(void);

#endif
