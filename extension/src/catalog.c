/*
 * catalog.c
 *		The extension in the catalog of this database.
 *
 * It can be in any schema, and be moved to another one; a process of ours that finds
 * no extension has come into a database of others.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "catalog.h"

static void
find(Oid *extension_out, Oid *schema_out)
{
	Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	*extension_out = InvalidOid;
	*schema_out = InvalidOid;
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
	            F_NAMEEQ, CStringGetDatum(CATALOG_EXTENSION));
	scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1,
	                          &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		*extension_out = form->oid;
		*schema_out = form->extnamespace;
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
}

Oid
catalog_extension(void)
{
	Oid extension;
	Oid schema;

	find(&extension, &schema);
	return extension;
}

Oid
catalog_schema(void)
{
	Oid extension;
	Oid schema;

	find(&extension, &schema);
	return schema;
}
