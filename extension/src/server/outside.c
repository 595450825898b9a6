/*
 * outside.c
 *		What can be known of a database without going into it.
 *
 * Most databases have nothing to do with pgflash.  Whoever goes into one is counted in its
 * statistics, waits for locks on its catalogs, and is in the way of those who drop or copy
 * it.  So whether the extension is there at all is read from outside: pg_class, whose file
 * the database's map names, has the file of pg_extension, and that has the row, or not.
 *
 * Pages are copied from shared buffers, or else read from the file, past shared buffers:
 * reading into them makes statistics of the database (since 18), and a page of a database
 * that is dropped meanwhile must not stay there.  A page that is not in shared buffers
 * before and after it was read from the file is whole.
 *
 * Locking: the database and both catalogs are locked, for some pages, against whoever takes
 * their files away; that hinders nothing else.  Each lock is had at once or not at all, and
 * without it nothing is known.
 *
 * A row is judged by a snapshot that is taken after the locks, so its file is the one that is
 * in use.  Since the snapshot is of no database, a vacuum there does not wait for it: a row
 * that is replaced meanwhile may be missed.  The next look finds it.
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

/* Copy a page that is in shared buffers; false: it is not there. */
static bool
copy_page(CompatFile file, BlockNumber block, CompatPage *page)
{
	Buffer buffer = compat_buffer_of(file, block);

	if (!BufferIsValid(buffer) ||
	    !ReadRecentBuffer(file, MAIN_FORKNUM, block, buffer))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page->data, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	return true;
}

/* As it is now, or was a moment ago. */
static void
read_page(CompatFile file, BlockNumber block, CompatPage *page)
{
	if (copy_page(file, block, page))
		return;
	smgrread(compat_smgr(file), MAIN_FORKNUM, block, page->data);
	/* Who read it meanwhile may have changed it, and be writing it. */
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

/* Does the snapshot see the row?  Nothing is noted in it: it is a copy. */
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

/* Is it the row that is looked for?  Notes of it what is wanted. */
typedef bool (*IsWanted)(const void *row, Oid *noted);

/* Look for it among the rows of a page; size is of what is looked at. */
static bool
find_in_page(Page page, Snapshot snapshot, Size size, IsWanted is_wanted,
             Oid *noted)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);

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

/* Look through a catalog, which is locked. */
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
