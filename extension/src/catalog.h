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

/* Its OID; InvalidOid if it is not there. */
extern Oid catalog_extension(void);

/* The schema that its objects are in; InvalidOid if it is not there. */
extern Oid catalog_schema(void);

#endif
