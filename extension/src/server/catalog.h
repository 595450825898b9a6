/*
 * catalog.h
 *		The extension in the catalog of this database.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_CATALOG_H
#define PGFLASH_CATALOG_H

#include "postgres.h"

#define CATALOG_EXTENSION "pgflash"

typedef struct CatalogExtension
{
	Oid oid; /* InvalidOid: it is not there, and the rest is unset */
	Oid schema;
	Oid owner;
	const char *version; /* of its SQL */
	bool is_current;     /* that is the library's version, too */
} CatalogExtension;

extern CatalogExtension catalog_look(void);

/* Is its SQL newer than the library? */
extern bool catalog_is_newer(CatalogExtension here);

/* A hint: what to do where SQL and library do not fit. */
extern const char *catalog_remedy(CatalogExtension here);

/* Its OID; InvalidOid if it is not installed. */
extern Oid catalog_extension(void);

/* The schema of its objects; InvalidOid if it is not installed. */
extern Oid catalog_schema(void);

/* A table of the extension; InvalidOid if it has none of this name. */
extern Oid catalog_table(const char *name);

#endif
