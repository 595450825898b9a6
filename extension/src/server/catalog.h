/*
 * catalog.h
 *		The extension in the catalog of this database.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_CATALOG_H
#define PGFLASH_CATALOG_H

#include "postgres.h"

#include "storage/lockdefs.h"

#define CATALOG_EXTENSION "pgflash"

typedef struct CatalogExtension
{
	Oid oid; /* InvalidOid: not installed; the rest is unset */
	Oid schema;
	Oid owner;
	const char *version; /* of its SQL */
	bool is_current;     /* that is the library's version, too */
} CatalogExtension;

extern CatalogExtension catalog_look(void);

/* Is its SQL newer than the library? */
extern bool catalog_is_newer(CatalogExtension here);

/* A hint: what to do if the SQL and the library do not match. */
extern const char *catalog_remedy(CatalogExtension here);

/*
 * The same, with a lock on the extension until the transaction ends.  DROP
 * EXTENSION locks the extension first and then its objects in any order, so a
 * session that uses several of them without this lock may deadlock.
 */
extern CatalogExtension catalog_lock(LOCKMODE mode);

/* The schema of its objects; InvalidOid if it is not installed. */
extern Oid catalog_schema(void);

/* A table of the extension; InvalidOid if it has none of this name. */
extern Oid catalog_table(const char *name);

#endif
