/*
 * libraries.h
 *		Replace functions that loaded libraries import.
 *
 * Knows nothing of caches: it is handed names and replacements.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_LIBRARIES_H
#define PGFLASH_LIBRARIES_H

#include "hooks/imports.h"

/* What became of one library's imports. */
typedef struct LibraryNote
{
	char name[64];
	unsigned replaced; /* imports that lead to a replacement from now on */
	unsigned
		left; /* that somebody else has redirected, or that are protected */
} LibraryNote;

/*
 * Replace these imports in all libraries that are loaded, and from now on in each that
 * will be.  Left alone are this library, the main program, and who provides one of the
 * functions: libc, and what is preloaded to stand in for it.
 */
extern void libraries_watch(const Import *imports, size_t count);

/* Put back what the loader had found, and replace no more. */
extern void libraries_restore(void);

/* Replace in what was loaded since. */
extern void libraries_look(void);

/* What has happened since the last call; how many notes.  The last ones may be missing. */
extern size_t libraries_notes(LibraryNote *notes, size_t room);

/* The main program's dlopen, and whom to tell after each. */
extern void *libraries_dlopen(const char *path, int flags);
extern void (*libraries_loaded)(void);

#endif
