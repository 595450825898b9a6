/*
 * module.h
 *		Was the library loaded by shared_preload_libraries?
 *
 * If not, there are no settings, no shared memory and no redirected file calls,
 * and SQL functions have nothing to report.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_MODULE_H
#define PGFLASH_MODULE_H

/*
 * Each SQL function calls this first: it raises an error unless the library was
 * preloaded.
 */
extern void module_require_preloaded(void);

#endif
