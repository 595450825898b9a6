/*
 * libraries.h
 *		Replace functions that loaded libraries import.
 *
 * Knows nothing of caches: the caller passes names and replacements.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LIBRARIES_H
#define PGFLASH_LIBRARIES_H

#include "hooks/imports.h"

/* What happened to one library's imports. */
typedef struct LibraryNote
{
	char name[64];
	unsigned replaced; /* imports that now lead to a replacement */
	unsigned left;     /* redirected by another program, or protected */
} LibraryNote;

/*
 * Replace these imports in all libraries that are loaded, and in each one
 * loaded from now on.  This library, the main program, and the providers of the
 * functions (libc, and what is preloaded to replace it) are left alone.
 */
extern void libraries_watch(const Import *imports, size_t count);

/* Put back what the loader had bound, and stop replacing. */
extern void libraries_restore(void);

/* Replace imports of libraries loaded since. */
extern void libraries_look(void);

/*
 * Notes on what happened since the last call; returns their number.  The latest
 * may be missing.
 */
extern size_t libraries_notes(LibraryNote *notes, size_t room);

/* The main program's dlopen, and the function to call after each. */
extern void *libraries_dlopen(const char *path, int flags);
extern void (*libraries_loaded)(void);

#endif
