/*
 * module.h
 *		What the PostgreSQL-facing files have of each other.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_MODULE_H
#define PGFLASH_MODULE_H

#include <stdbool.h>

/* Was the library loaded by shared_preload_libraries? */
extern bool module_preloaded;

/* shmem.c */
extern void shmem_install_hooks(void);

/* worker.c */
extern void worker_register(void);

#endif
