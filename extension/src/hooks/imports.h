/*
 * imports.h
 *		Replace functions that the main program imports.
 *
 * Knows nothing of caches: it is handed names and replacements.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_IMPORTS_H
#define PGFLASH_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Import
{
	const char *name;
	void (*replacement)(void);
} Import;

typedef enum ImportsProblem
{
	IMPORTS_FINE,
	IMPORTS_NO_PROGRAM, /* the main program's tables cannot be found */
	IMPORTS_MISSING,    /* a required group of names has no slot */
	IMPORTS_FOREIGN,    /* the program imports a name nobody here replaces */
	IMPORTS_TOO_MANY,   /* more slots than there is room to remember */
	IMPORTS_PROTECTED   /* memory protection could not be changed: errno */
} ImportsProblem;

/*
 * Point every slot of the named imports to its replacement: all or none.
 *
 * required ends with NULL; each is one or more names with '|' between, of which
 * one must have a slot.  foreign ends with NULL: names that must have none.  On a
 * problem *culprit_out is the name it is about, or NULL.
 */
extern ImportsProblem imports_replace(const Import *imports, size_t count,
                                      const char *const *required,
                                      const char *const *foreign,
                                      const char **culprit_out);

/* Put back what imports_replace() found.  Harmless if there is nothing. */
extern void imports_restore(void);

/* Slots replaced now. */
extern size_t imports_replaced(void);

#endif
