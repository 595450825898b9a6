/*
 * restrict.h
 *		What the statements of pgflash may use.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_RESTRICT_H
#define PGFLASH_RESTRICT_H

/* Have each statement checked while pgflash.restrict_objects is on. */
extern void restrict_install(void);

#endif
