/*
 * load_sql.c
 *		The SQL functions that load relations into the cache.
 *
 * A relation stands for all that a query of it reads: its TOAST table, its
 * indexes if they are wanted, its partitions or the tables that inherit from
 * it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "bridge/bridge_runtime.h"
#include "load/load.h"
#include "load/load_list.h"
#include "load/load_sql.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_cache_load);
PG_FUNCTION_INFO_V1(pgflash_cache_load_cancel);
PG_FUNCTION_INFO_V1(pgflash_cache_load_progress_rows);

static const char *const state_names[] = { [LOAD_WAITING] = "waiting",
	                                       [LOAD_RUNNING] = "loading",
	                                       [LOAD_DONE] = "done",
	                                       [LOAD_CANCELLED] = "cancelled",
	                                       [LOAD_FAILED] = "failed" };

const char *
load_state_name(int32 state)
{
	Assert(state >= 0 && state < (int) lengthof(state_names));
	return state_names[state];
}

/* Does a relation have blocks, itself or in its partitions? */
static bool
has_blocks(Relation relation)
{
	char kind = relation->rd_rel->relkind;

	return RELKIND_HAS_STORAGE(kind) || kind == RELKIND_PARTITIONED_TABLE ||
	       kind == RELKIND_PARTITIONED_INDEX;
}

static bool
is_temporary(Relation relation)
{
	return relation->rd_rel->relpersistence == RELPERSISTENCE_TEMP;
}

/* On a standby such a relation has no blocks. */
static bool
is_lost(Relation relation)
{
	return relation->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED &&
	       RecoveryInProgress();
}

/* Refuse a relation that was named and cannot be loaded. */
static void
check_kind(Oid id)
{
	Relation relation = try_relation_open(id, AccessShareLock);
	const char *name;

	if (relation == NULL)
		return;
	name = RelationGetRelationName(relation);
	if (!has_blocks(relation))
		ereport(ERROR,
		        (errcode(ERRCODE_WRONG_OBJECT_TYPE),
		         errmsg("\"%s\" has no blocks to load", name),
		         errdetail_relkind_not_supported(relation->rd_rel->relkind)));
	if (is_temporary(relation))
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
		                errmsg("cannot load temporary relation \"%s\"", name),
		                errdetail("Temporary relations are not cached.")));
	if (is_lost(relation))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		                errmsg("cannot load unlogged relation \"%s\" during "
		                       "recovery",
		                       name)));
	relation_close(relation, AccessShareLock);
}

/* Add the relation's own file; returns its blocks. */
static int64
add_file(Relation relation)
{
	CompatFile found = COMPAT_FILE_OF(relation);
	LoadFile file = { .relation = RelationGetRelid(relation),
		              .tablespace = COMPAT_FILE_TABLESPACE(found),
		              .database = COMPAT_FILE_DATABASE(found),
		              .filenode = COMPAT_FILE_NUMBER(found),
		              .blocks = RelationGetNumberOfBlocks(relation) };

	if (file.blocks > 0 && !load_add(&file))
		ereport(ERROR,
		        (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		         errmsg("too many relations are waiting to be loaded"),
		         errdetail("There can be %d, each index and TOAST table "
		                   "included.",
		                   LOAD_FILES_MAX),
		         errhint("Those that were added before the error will be "
		                 "loaded.")));
	return (int64) file.blocks;
}

/*
 * Add a relation with its TOAST table and, if wanted, its indexes.  One that
 * was dropped meanwhile has no blocks, nor has a partition that is a foreign
 * table or, on a standby, unlogged; a temporary child may be another session's.
 */
static int64
add_relation(Oid id, bool indexes)
{
	Relation relation = try_relation_open(id, AccessShareLock);
	int64 blocks = 0;
	ListCell *cell;
	List *list;

	CHECK_FOR_INTERRUPTS();
	if (relation == NULL)
		return 0;
	if (!has_blocks(relation) || is_temporary(relation) || is_lost(relation))
	{
		relation_close(relation, AccessShareLock);
		return 0;
	}
	if (RELKIND_HAS_STORAGE(relation->rd_rel->relkind))
		blocks += add_file(relation);
	if (OidIsValid(relation->rd_rel->reltoastrelid))
		blocks += add_relation(relation->rd_rel->reltoastrelid, indexes);
	list = indexes && RELKIND_HAS_TABLE_AM(relation->rd_rel->relkind)
	           ? RelationGetIndexList(relation)
	           : NIL;
	foreach (cell, list)
		blocks += add_relation(lfirst_oid(cell), false);
	list_free(list);
	relation_close(relation, AccessShareLock);
	return blocks;
}

void
load_require_cache(void)
{
	shmem_require_preloaded();
	if (!bridge_attached() || !load_attached())
		ereport(ERROR,
		        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		         errmsg("there is no cache to load into"),
		         errhint("Set pgflash.cache_file; mode_reason in the view "
		                 "pgflash_cache says what else is missing.")));
}

Datum
pgflash_cache_load(PG_FUNCTION_ARGS)
{
	Oid relation = PG_GETARG_OID(0);
	bool indexes = PG_GETARG_BOOL(1);
	int64 blocks = 0;
	ListCell *cell;

	load_require_cache();
	check_kind(relation);
	foreach (cell, find_all_inheritors(relation, AccessShareLock, NULL))
		blocks += add_relation(lfirst_oid(cell), indexes);
	PG_RETURN_INT64(blocks);
}

Datum
pgflash_cache_load_cancel(PG_FUNCTION_ARGS)
{
	Oid relation = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);
	uint64 cancelled;

	load_require_cache();
	cancelled = load_cancel(MyDatabaseId, relation);
	if (!OidIsValid(relation) && load_list_cancel())
		cancelled++;
	PG_RETURN_INT64((int64) cancelled);
}

void
load_set_time(Datum *values, bool *nulls, int column, TimestampTz at)
{
	values[column] = TimestampTzGetDatum(at);
	nulls[column] = at == 0;
}

static void
put(ReturnSetInfo *result, const LoadFile *file)
{
	bool nulls[CACHE_LOAD_PROGRESS_COLUMNS] = { false };
	Datum values[CACHE_LOAD_PROGRESS_COLUMNS];
	const char *why = NULL;

	if (file->state == LOAD_FAILED)
		why = strerror(file->error);
	else if (file->state == LOAD_WAITING || file->state == LOAD_RUNNING)
		why = load_reason();
	values[CACHE_LOAD_PROGRESS_ROW_LOAD_ID] = Int64GetDatum((int64) file->id);
	values[CACHE_LOAD_PROGRESS_ROW_RELATION_OID] =
		ObjectIdGetDatum(file->relation);
	values[CACHE_LOAD_PROGRESS_ROW_TABLESPACE] =
		ObjectIdGetDatum(file->tablespace);
	values[CACHE_LOAD_PROGRESS_ROW_DATABASE] = ObjectIdGetDatum(file->database);
	values[CACHE_LOAD_PROGRESS_ROW_FILENODE] = ObjectIdGetDatum(file->filenode);
	values[CACHE_LOAD_PROGRESS_ROW_STATE] =
		CStringGetTextDatum(load_state_name(file->state));
	nulls[CACHE_LOAD_PROGRESS_ROW_STATE_REASON] = why == NULL;
	if (why != NULL)
		values[CACHE_LOAD_PROGRESS_ROW_STATE_REASON] = CStringGetTextDatum(why);
	values[CACHE_LOAD_PROGRESS_ROW_BLOCKS_TOTAL] =
		Int64GetDatum((int64) file->blocks);
	values[CACHE_LOAD_PROGRESS_ROW_BLOCKS_DONE] =
		Int64GetDatum((int64) file->done);
	values[CACHE_LOAD_PROGRESS_ROW_BLOCKS_CACHED] =
		Int64GetDatum((int64) file->cached);
	values[CACHE_LOAD_PROGRESS_ROW_BLOCKS_LOADED] =
		Int64GetDatum((int64) file->loaded);
	values[CACHE_LOAD_PROGRESS_ROW_BLOCKS_REFUSED] =
		Int64GetDatum((int64) file->refused);
	load_set_time(values, nulls, CACHE_LOAD_PROGRESS_ROW_QUEUED_AT,
	              file->queued_at);
	load_set_time(values, nulls, CACHE_LOAD_PROGRESS_ROW_STARTED_AT,
	              file->began_at);
	load_set_time(values, nulls, CACHE_LOAD_PROGRESS_ROW_ENDED_AT,
	              file->ended_at);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_cache_load_progress_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	LoadFile file;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_load_progress_columns);
	for (uint32 place = 0; load_attached() && place < LOAD_FILES_MAX; place++)
	{
		CHECK_FOR_INTERRUPTS();
		if (load_get(place, &file))
			put(result, &file);
	}
	return (Datum) 0;
}
