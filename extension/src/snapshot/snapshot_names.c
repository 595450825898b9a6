/*
 * snapshot_names.c
 *		The names of other databases' files.
 *
 * A snapshot is taken in one database, and only a process connected to a
 * database can tell which relation a file belongs to.  So the process that
 * takes a snapshot stores the files that it wants named in shared memory.  The
 * launcher (snapshot_worker.c) then sends a visitor into each of their
 * databases, which adds the names, and the next snapshot finds them there.
 * From then on they are kept with the files' numbers (snapshot_relations.c).
 *
 * Locking: a single lock, held for a walk over some hundred places.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "broken.h"
#include "server/compat.h"
#include "server/shmem.h"
#include "snapshot/snapshot.h"

#define NAMES_MAX 256

typedef enum NameState
{
	NAME_FREE,
	NAME_WANTED,
	NAME_ANSWERED /* with a name, or without one if the file has none */
} NameState;

typedef struct NamedFile
{
	NameState state;
	SnapshotFile file;
	SnapshotName name;
} NamedFile;

static NamedFile *files;
static LWLock *lock;

#define TRANCHE "pgflash snapshot names"

static void
request_lock(void)
{
	RequestNamedLWLockTranche(TRANCHE, 1);
}

static size_t
files_size_bytes(void)
{
	return NAMES_MAX * sizeof(NamedFile);
}

static void
start_files(void *memory)
{
	files = memory;
	memset(files, 0, files_size_bytes());
	lock = &GetNamedLWLockTranche(TRANCHE)->lock;
}

void
snapshot_names_install(void)
{
	static const SharedPart part = { .name = TRANCHE,
		                             .request = request_lock,
		                             .size_bytes = files_size_bytes,
		                             .start = start_files };

	shmem_add(&part);
}

static void
take_name(SnapshotName *name, Form_pg_class form, const char *suffix)
{
	char *schema = get_namespace_name(form->relnamespace);
	const char *relation = NameStr(form->relname);
	int length = pg_mbcliplen(relation, (int) strlen(relation),
	                          NAMEDATALEN - 1 - (int) strlen(suffix));

	memset(&name->relation, 0, sizeof(name->relation));
	snprintf(NameStr(name->relation), NAMEDATALEN, "%.*s%s", length, relation,
	         suffix);
	namestrcpy(&name->schema, schema == NULL ? "" : schema);
}

/*
 * A TOAST relation gets the name of its table, whose OID is part of its own
 * name.
 */
static void
take_name_of_table(SnapshotName *name, Form_pg_class toast)
{
	bool is_index = toast->relkind == RELKIND_INDEX;
	Oid owner = InvalidOid;
	HeapTuple tuple;

	if (sscanf(NameStr(toast->relname), "pg_toast_%u", &owner) != 1)
		return;
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(owner));
	if (!HeapTupleIsValid(tuple))
		return;
	take_name(name, (Form_pg_class) GETSTRUCT(tuple),
	          is_index ? " (TOAST index)" : " (TOAST)");
	ReleaseSysCache(tuple);
}

bool
snapshot_name_relation(Oid relation, SnapshotName *name)
{
	HeapTuple tuple = OidIsValid(relation)
	                      ? SearchSysCache1(RELOID, ObjectIdGetDatum(relation))
	                      : NULL;
	Form_pg_class form;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	name->relkind = form->relkind;
	take_name(name, form, "");
	if (form->relnamespace == PG_TOAST_NAMESPACE)
		take_name_of_table(name, form);
	ReleaseSysCache(tuple);
	return true;
}

bool
snapshot_name_here(const SnapshotFile *file, SnapshotName *name)
{
	return snapshot_name_relation(
		compat_relation_of_file(file->tablespace, file->number), name);
}

/*
 * The number of a catalog's first file is its OID, which is the same in every
 * database.
 */
bool
snapshot_name_catalog(const SnapshotFile *file, SnapshotName *name)
{
	return file->number < FirstNormalObjectId &&
	       snapshot_name_relation(file->number, name);
}

static bool
same(const SnapshotFile *a, const SnapshotFile *b)
{
	return a->number == b->number && a->database == b->database &&
	       a->tablespace == b->tablespace;
}

/*
 * Find a file's place, or else a free one.  If there is none, the answer about
 * another file makes room: a file that was dropped, or is hardly read any more,
 * is not asked for again.  NULL if all places wait for answers.
 */
static NamedFile *
find(const SnapshotFile *file)
{
	NamedFile *place = NULL;

	Assert(LWLockHeldByMeInMode(lock, LW_EXCLUSIVE));
	for (int i = 0; i < NAMES_MAX; i++)
	{
		if (files[i].state != NAME_FREE && same(&files[i].file, file))
			return &files[i];
		if (files[i].state != NAME_WANTED &&
		    (place == NULL ||
		     (place->state == NAME_ANSWERED && files[i].state == NAME_FREE)))
			place = &files[i];
	}
	if (place != NULL)
		place->state = NAME_FREE;
	return place;
}

void
snapshot_name_elsewhere(const SnapshotFile *file, SnapshotName *name)
{
	NamedFile *place;

	Assert(OidIsValid(file->database) && file->database != MyDatabaseId);
	if (!FC_BROKEN(NAMES_LOCK))
		LWLockAcquire(lock, LW_EXCLUSIVE);
	place = find(file);
	if (place != NULL && place->state == NAME_ANSWERED)
	{
		if (place->name.relkind != '\0')
			*name = place->name;
		place->state = NAME_FREE;
	}
	else if (place != NULL)
	{
		place->state = NAME_WANTED;
		place->file = *file;
	}
	LWLockRelease(lock);
}

Oid
snapshot_names_wanted(Oid after)
{
	Oid next = InvalidOid;

	LWLockAcquire(lock, LW_SHARED);
	for (int i = 0; i < NAMES_MAX; i++)
	{
		Oid database = files[i].file.database;

		if (files[i].state == NAME_WANTED && database > after &&
		    (!OidIsValid(next) || database < next))
			next = database;
	}
	LWLockRelease(lock);
	Assert(!OidIsValid(next) || next > after);
	return next;
}

/*
 * The catalog is read without holding the lock, since the read may have to
 * wait.
 */
void
snapshot_names_answer(void)
{
	Assert(OidIsValid(MyDatabaseId) && IsTransactionState());
	for (int i = 0; i < NAMES_MAX; i++)
	{
		NamedFile asked;
		SnapshotName name = { 0 };

		LWLockAcquire(lock, LW_SHARED);
		asked = files[i];
		LWLockRelease(lock);
		if (asked.state != NAME_WANTED || asked.file.database != MyDatabaseId)
			continue;
		(void) snapshot_name_here(&asked.file, &name);

		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (files[i].state == NAME_WANTED && same(&files[i].file, &asked.file))
		{
			files[i].name = name;
			files[i].state = NAME_ANSWERED;
		}
		LWLockRelease(lock);
	}
}

void
snapshot_names_forget(Oid database)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < NAMES_MAX; i++)
	{
		if (files[i].file.database == database)
			files[i].state = NAME_FREE;
	}
	LWLockRelease(lock);
}
