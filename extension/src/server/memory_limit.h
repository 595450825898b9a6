/*
 * memory_limit.h
 *		How much memory this process may have.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_MEMORY_LIMIT_H
#define PGFLASH_MEMORY_LIMIT_H

#include <stdint.h>

extern uint64_t machine_memory_bytes(void);

/*
 * The machine's memory, or less if a control group limits it.  The kernel's
 * files are read below root, which is "" except in tests.
 */
extern uint64_t memory_limit_bytes(const char *root);

#endif
