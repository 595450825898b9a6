/*
 * library_calls.h
 *		The functions that replace libc's in libraries.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LIBRARY_CALLS_H
#define PGFLASH_LIBRARY_CALLS_H

#include "hooks/imports.h"

extern const Import library_imports[];
extern const size_t library_import_count;

#endif
