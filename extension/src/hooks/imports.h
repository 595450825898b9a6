/*
 * imports.h
 *		Replace functions that the main program imports.
 *
 * Knows nothing of caches: the caller passes names and replacements.
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
	IMPORTS_MISSING,    /* no slot for a required group of names */
	IMPORTS_FOREIGN,    /* the program imports a name that we do not replace */
	IMPORTS_TOO_MANY,   /* more slots than there is room to remember */
	IMPORTS_PROTECTED   /* memory protection could not be changed: errno */
} ImportsProblem;

/*
 * Point every slot of the named imports to its replacement: all or none.
 *
 * required ends with NULL; each element is one or more names separated by '|',
 * one of which must have a slot. foreign ends with NULL: names that must have
 * no slot.  On a problem, *culprit_out is the name concerned, or NULL.
 */
extern ImportsProblem imports_replace(const Import *imports, size_t count,
                                      const char *const *required,
                                      const char *const *foreign,
                                      const char **culprit_out);

/*
 * Put back what imports_replace() found.  Does nothing if nothing was replaced.
 */
extern void imports_restore(void);

/* How many slots are replaced now. */
extern size_t imports_replaced(void);

#endif
