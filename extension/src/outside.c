/*
 * outside.c
 *		What can be known of a database without going into it.
 *
 * Most databases have nothing to do with pgflash.  Whoever goes into one is counted in its
 * statistics, waits for locks on its catalogs, and is in the way of those who drop or copy
 * it.  So whether the extension is there at all is read from outside, as CREATE DATABASE
 * reads its template: pg_class, whose file the database's map names, has the file of
 * pg_extension, and that has the row, or not.
 *
 * Locking: pages of other databases may be in shared buffers only while nobody drops the
 * database, moves it or rewrites the catalog.  So the database and both catalogs are locked
 * against that while they are read, some pages long, which hinders nothing else.  Each
 * lock is had at once or not at all, and without it nothing is known.
 *
 * A row is judged by a snapshot.  Since the snapshot is of no database, a vacuum there does
 * not wait for it: a row that is replaced meanwhile may be missed.  The next look finds it.
 *
 * Whatever goes wrong, a damaged page included, is logged, and is not known; the others'
 * databases do not suffer.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relmapper.h"
#include "utils/snapmgr.h"

#include "catalog.h"
#include "compat.h"
#include "outside.h"

/* pg_database.datconnlimit of a database whose DROP was cut off. */
#define DATABASE_INVALID (-2)

/* ---- the list ------------------------------------------------------------------------ */

static int
by_oid(const ListCell *left, const ListCell *right)
{
	Oid a = ((const ListedDatabase *) lfirst(left))->oid;
	Oid b = ((const ListedDatabase *) lfirst(right))->oid;

	return a < b ? -1 : a > b;
}

bool
outside_databases(List **databases_out)
{
	List *list = NIL;
	Relation databases;
	TableScanDesc scan;
	HeapTuple tuple;

	if (!ConditionalLockRelationOid(DatabaseRelationId, AccessShareLock))
		return false;
	databases = table_open(DatabaseRelationId, NoLock);
	scan = table_beginscan_catalog(databases, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		ListedDatabase *listed;

		/* One that is half dropped has a limit of connections of its own. */
		if (!form->datallowconn || form->datconnlimit == DATABASE_INVALID)
			continue;
		listed = palloc(sizeof(ListedDatabase));
		listed->oid = form->oid;
		listed->owner = form->datdba;
		listed->tablespace = form->dattablespace;
		listed->is_template = form->datistemplate;
		listed->name = form->datname;
		list = lappend(list, listed);
	}
	table_endscan(scan);
	table_close(databases, AccessShareLock);
	list_sort(list, by_oid);
	*databases_out = list;
	return true;
}

/* NULL: it is not there, or nobody can say. */
static const ListedDatabase *
find_database(Oid database)
{
	List *databases;
	ListCell *cell;

	if (!outside_databases(&databases))
		return NULL;
	foreach (cell, databases)
	{
		const ListedDatabase *one = lfirst(cell);

		if (one->oid == database)
			return one;
	}
	return NULL;
}

/* ---- catalogs of other databases ------------------------------------------------------- */

/* Against those who would take its files away; until the transaction's end. */
static bool
lock_database(Oid database)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 0);
	return LockAcquire(&tag, AccessShareLock, false, true) !=
	       LOCKACQUIRE_NOT_AVAIL;
}

static bool
lock_catalog(Oid database, Oid catalog)
{
	LOCKTAG tag;

	SET_LOCKTAG_RELATION(tag, database, catalog);
	return LockAcquire(&tag, AccessShareLock, false, true) !=
	       LOCKACQUIRE_NOT_AVAIL;
}

/* Is it the row that is looked for?  Notes of it what is wanted. */
typedef bool (*IsWanted)(HeapTuple tuple, Oid *noted);

/* Look for it among the rows of a page that the snapshot sees. */
static bool
find_in_page(Buffer buffer, Oid catalog, Snapshot snapshot, IsWanted is_wanted,
             Oid *noted)
{
	Page page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	for (OffsetNumber at = FirstOffsetNumber; at <= last; at++)
	{
		ItemId item = PageGetItemId(page, at);
		HeapTupleData tuple;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_tableOid = catalog;
		ItemPointerSet(&tuple.t_self, block, at);
		if (HeapTupleSatisfiesVisibility(&tuple, snapshot, buffer) &&
		    is_wanted(&tuple, noted))
			return true;
	}
	return false;
}

/* Look through a catalog, which is locked. */
static bool
find_row(CompatFile file, Oid catalog, Snapshot snapshot, IsWanted is_wanted,
         Oid *noted)
{
	BlockNumber blocks = compat_file_blocks(file);
	bool found = false;

	for (BlockNumber block = 0; block < blocks && !found; block++)
	{
		Buffer buffer;

		CHECK_FOR_INTERRUPTS();
		buffer = ReadBufferWithoutRelcache(file, MAIN_FORKNUM, block,
		                                   RBM_NORMAL, NULL, true);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		found = find_in_page(buffer, catalog, snapshot, is_wanted, noted);
		UnlockReleaseBuffer(buffer);
	}
	return found;
}

static bool
is_pg_extension(HeapTuple tuple, Oid *file_number)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

	*file_number = form->relfilenode;
	return form->oid == ExtensionRelationId;
}

static bool
is_ours(HeapTuple tuple, Oid *noted)
{
	(void) noted;
	return namestrcmp(&((Form_pg_extension) GETSTRUCT(tuple))->extname,
	                  CATALOG_EXTENSION) == 0;
}

static Outside
read_catalogs(Oid database, Oid tablespace)
{
	Snapshot snapshot = GetActiveSnapshot();
	Oid number = compat_mapped_file(GetDatabasePath(database, tablespace),
	                                RelationRelationId);

	if (!find_row(compat_file(tablespace, database, number), RelationRelationId,
	              snapshot, is_pg_extension, &number))
		return OUTSIDE_UNKNOWN;
	return find_row(compat_file(tablespace, database, number),
	                ExtensionRelationId, snapshot, is_ours, &number)
	           ? OUTSIDE_THERE
	           : OUTSIDE_STRANGER;
}

static Outside
look(Oid database, Oid *owner_out)
{
	const ListedDatabase *listed;
	Outside found;

	if (!lock_database(database) ||
	    (listed = find_database(database)) == NULL ||
	    !lock_catalog(database, RelationRelationId) ||
	    !lock_catalog(database, ExtensionRelationId))
		return OUTSIDE_UNKNOWN;
	*owner_out = listed->owner;

	/* After the locks: an older one might see a file that is gone. */
	PushActiveSnapshot(GetLatestSnapshot());
	found = read_catalogs(database, listed->tablespace);
	PopActiveSnapshot();
	return found;
}

Outside
outside_look(Oid database, Oid *owner_out)
{
	MemoryContext before = CurrentMemoryContext;
	volatile Outside found = OUTSIDE_UNKNOWN;

	StartTransactionCommand();
	PG_TRY();
	{
		found = look(database, owner_out);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		found = OUTSIDE_UNKNOWN;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	return found;
}
