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

/* An error, unless the library was there from the beginning. */
extern void module_require_library(void);

/*
 * A process of ours from the start of the server to its end, without a database;
 * started again a second after it has ended.
 */
extern void module_register_process(const char *name, const char *function);

/* shmem.c */
extern void shmem_install_hooks(void);

/* account_setup.c: once it is known how many processes there may be */
extern void account_setup(void);

/* worker.c */
extern void worker_register(void);

/* writer.c */
extern void writer_register(void);

#endif
