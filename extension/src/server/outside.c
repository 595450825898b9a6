/*
 * outside.c
 *		What can be known about a database without connecting to it.
 *
 * Most databases do not use pgflash.  A process that connects to one is counted
 * in its statistics, waits for locks on its catalogs, and blocks commands that
 * drop or copy it.  So we find out from outside whether the extension exists
 * there: the database's map names the file of pg_class, pg_class the file of
 * pg_extension, and that has a row for the extension or not.
 *
 * Pages are copied from shared buffers or else read from the file, bypassing
 * shared buffers.  Reading into shared buffers would add to the database's
 * statistics (since 18), and could leave a page of a dropped database there.  A
 * page read from the file is not torn if it was not in shared buffers before
 * and after the read.
 *
 * Locking: while some pages are read, the database and both catalogs are locked
 * against commands that remove their files; that blocks nothing else.  Each
 * lock is taken only if it is free.  Without it the answer is unknown.
 *
 * A row's visibility is decided by a snapshot taken after the locks, so the
 * file that it names is in use.  Since the snapshot belongs to no database, a
 * vacuum there does not wait for it, and a row that is replaced meanwhile may
 * be missed.  The next look finds it.
 *
 * Any error, a damaged page included, is logged, and the answer is unknown;
 * other databases are not affected.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relmapper.h"
#include "utils/snapmgr.h"

#include "bridge/page.h"
#include "server/catalog.h"
#include "server/compat.h"
#include "server/outside.h"

/* pg_database.datconnlimit of a database whose DROP was interrupted. */
#define DATABASE_INVALID (-2)

/* ---- the list ------------------------------------------------------------ */

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

	Assert(IsTransactionState());
	if (!ConditionalLockRelationOid(DatabaseRelationId, AccessShareLock))
		return false;
	databases = table_open(DatabaseRelationId, NoLock);
	scan = table_beginscan_catalog(databases, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		ListedDatabase *listed;

		/* A half-dropped database has a special connection limit. */
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

/* NULL: it does not exist, or that cannot be determined. */
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

/* ---- catalogs of other databases ----------------------------------------- */

/* Lock it against removal of its files, until the end of the transaction. */
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

/* Copy a page from shared buffers; false: it is not there. */
static bool
copy_page(CompatFile file, BlockNumber block, CompatPage *page)
{
	Buffer buffer = compat_buffer_of(file, block);

	Assert(BlockNumberIsValid(block));
	if (!BufferIsValid(buffer) ||
	    !ReadRecentBuffer(file, MAIN_FORKNUM, block, buffer))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page->data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	return true;
}

/* Read a page as it is now, or was a moment ago. */
static void
read_page(CompatFile file, BlockNumber block, CompatPage *page)
{
	if (copy_page(file, block, page))
		return;
	smgrread(compat_smgr(file), MAIN_FORKNUM, block, page->data);
	/*
	 * Another process may have read, changed and begun to write it meanwhile.
	 */
	if (!copy_page(file, block, page) && !page_valid(page->data, block))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
		                errmsg("pgflash: invalid page in block %u of a catalog "
		                       "of another database",
		                       block)));
}

static bool
happened(TransactionId xid, Snapshot snapshot)
{
	return !XidInMVCCSnapshot(xid, snapshot) && TransactionIdDidCommit(xid);
}

/* Does the snapshot see the row?  No hint bits are set: the row is a copy. */
static bool
is_seen(HeapTupleHeader row, Snapshot snapshot)
{
	if (!HeapTupleHeaderXminFrozen(row) &&
	    (HeapTupleHeaderXminInvalid(row) ||
	     !happened(HeapTupleHeaderGetRawXmin(row), snapshot)))
		return false;
	if ((row->t_infomask & HEAP_XMAX_INVALID) != 0 ||
	    HEAP_XMAX_IS_LOCKED_ONLY(row->t_infomask))
		return true;
	return !happened(HeapTupleHeaderGetUpdateXid(row), snapshot);
}

/* Is this the wanted row?  If so, store the wanted value. */
typedef bool (*IsWanted)(const void *row, Oid *noted);

/* Search the rows of a page; size is that of the part to examine. */
static bool
find_in_page(Page page, Snapshot snapshot, Size size, IsWanted is_wanted,
             Oid *noted)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);

	Assert(size > 0 && size < BLCKSZ);
	for (OffsetNumber at = FirstOffsetNumber; at <= last; at++)
	{
		ItemId item = PageGetItemId(page, at);
		HeapTupleHeader row;

		if (!ItemIdIsNormal(item) ||
		    ItemIdGetOffset(item) + ItemIdGetLength(item) > BLCKSZ ||
		    ItemIdGetLength(item) < SizeofHeapTupleHeader + size)
			continue;
		row = (HeapTupleHeader) PageGetItem(page, item);
		if (row->t_hoff + size <= ItemIdGetLength(item) &&
		    is_seen(row, snapshot) &&
		    is_wanted((const char *) row + row->t_hoff, noted))
			return true;
	}
	return false;
}

/* Search a catalog that is locked. */
static bool
find_row(CompatFile file, Snapshot snapshot, Size size, IsWanted is_wanted,
         Oid *noted)
{
	BlockNumber blocks = smgrnblocks(compat_smgr(file), MAIN_FORKNUM);

	for (BlockNumber block = 0; block < blocks; block++)
	{
		CompatPage page;

		CHECK_FOR_INTERRUPTS();
		read_page(file, block, &page);
		if (find_in_page(page.data, snapshot, size, is_wanted, noted))
			return true;
	}
	return false;
}

static bool
is_pg_extension(const void *row, Oid *file_number)
{
	const FormData_pg_class *form = row;

	*file_number = form->relfilenode;
	return form->oid == ExtensionRelationId;
}

static bool
is_ours(const void *row, Oid *noted)
{
	(void) noted;
	return strncmp(NameStr(((const FormData_pg_extension *) row)->extname),
	               CATALOG_EXTENSION, NAMEDATALEN) == 0;
}

static Outside
read_catalogs(Oid database, Oid tablespace)
{
	Assert(ActiveSnapshotSet());

	Snapshot snapshot = GetActiveSnapshot();
	Oid number = compat_mapped_file(GetDatabasePath(database, tablespace),
	                                RelationRelationId);

	if (!find_row(compat_file(tablespace, database, number), snapshot,
	              CLASS_TUPLE_SIZE, is_pg_extension, &number))
		return OUTSIDE_UNKNOWN;
	return find_row(compat_file(tablespace, database, number), snapshot,
	                offsetof(FormData_pg_extension, extname) + NAMEDATALEN,
	                is_ours, &number)
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

	/*
	 * Taken after the locks, because an older snapshot might see a removed
	 * file.
	 */
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

	Assert(!IsTransactionState());
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
	Assert(found != OUTSIDE_THERE || OidIsValid(*owner_out));
	return found;
}
