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
	bool is_current; /* its SQL is of the library's version */
} CatalogExtension;

extern CatalogExtension catalog_look(void);

/* Its OID; InvalidOid if it is not installed. */
extern Oid catalog_extension(void);

/* The schema of its objects; InvalidOid if it is not installed. */
extern Oid catalog_schema(void);

/* A table of the extension; InvalidOid if it has none of this name. */
extern Oid catalog_table(const char *name);

#endif
