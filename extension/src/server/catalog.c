/*
 * catalog.c
 *		The extension in the catalog of this database.
 *
 * It can be in any schema, and be moved to another one.  If one of our
 * processes finds no extension, it is in a database that does not use pgflash.
 *
 * The owner of the schema can create tables there.  So an object with one of
 * our names is ours only if it is a member of the extension, and views are read
 * only where the extension's SQL has the library's own version, whose script
 * created them.
 *
 * SQL that is older than the library has not been updated.  SQL can be newer if
 * the library was loaded before the new one was installed, on a standby, or if
 * the server's packages were downgraded.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "broken.h"
#include "server/catalog.h"

/*
 * Not heap_getattr(), since in some builds its headers call functions that are
 * missing.
 */
static char *
version_of(HeapTuple tuple, TupleDesc row)
{
	Datum values[Natts_pg_extension];
	bool nulls[Natts_pg_extension];
	int version = Anum_pg_extension_extversion - 1;

	heap_deform_tuple(tuple, row, values, nulls);
	return nulls[version] ? pstrdup("") : TextDatumGetCString(values[version]);
}

CatalogExtension
catalog_look(void)
{
	CatalogExtension found = { 0 };
	Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
	            F_NAMEEQ, CStringGetDatum(CATALOG_EXTENSION));
	scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1,
	                          &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		found.oid = form->oid;
		found.schema = form->extnamespace;
		found.owner = form->extowner;
		found.version = version_of(tuple, RelationGetDescr(extensions));
		found.is_current = FC_BROKEN(SQL_VERSION) ||
		                   strcmp(found.version, PGFLASH_SQL_VERSION) == 0;
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	Assert(OidIsValid(found.oid) == OidIsValid(found.schema) &&
	       OidIsValid(found.oid) == OidIsValid(found.owner));
	return found;
}

bool
catalog_is_newer(CatalogExtension here)
{
	return OidIsValid(here.oid) &&
	       strverscmp(here.version, PGFLASH_SQL_VERSION) > 0;
}

const char *
catalog_remedy(CatalogExtension here)
{
	if (catalog_is_newer(here))
		return psprintf("The server has loaded the library of pgflash %s, and "
		                "the extension in this database is %s: install pgflash "
		                "%s and restart the server.",
		                PGFLASH_SQL_VERSION, here.version, here.version);
	return RecoveryInProgress() ? "Run ALTER EXTENSION pgflash UPDATE in this "
	                              "database, on the primary."
	                            : "Run ALTER EXTENSION pgflash UPDATE in this "
	                              "database.";
}

CatalogExtension
catalog_lock(LOCKMODE mode)
{
	CatalogExtension here = catalog_look();
	Oid locked = InvalidOid;

	while (OidIsValid(here.oid) && here.oid != locked)
	{
		locked = here.oid;
		LockDatabaseObject(ExtensionRelationId, locked, 0, mode);
		here = catalog_look();
	}
	return here;
}

Oid
catalog_schema(void)
{
	return catalog_look().schema;
}

Oid
catalog_table(const char *name)
{
	Assert(IsTransactionState() && name != NULL);

	CatalogExtension here = catalog_look();
	Oid table = OidIsValid(here.oid) ? get_relname_relid(name, here.schema)
	                                 : InvalidOid;

	if (!OidIsValid(table) || FC_BROKEN(MEMBER))
		return table;
	return getExtensionOfObject(RelationRelationId, table) == here.oid
	           ? table
	           : InvalidOid;
}
