/*
 * blocks_view.c
 *		The SQL functions that list cached blocks.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_tablespace_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "bridge/bridge_views.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_cache_blocks);

/* Look at this many slots between two checks for interrupts. */
#define CHUNK 4096

/*
 * Find the file of a relation, without a lock on it: in any case the result may
 * be outdated when it is returned.  False: it has none, like a view.
 */
static bool
find_file(Oid relation, BridgeBlock *file)
{
	LOCAL_FCINFO(call, 1);
	Datum number;

	InitFunctionCallInfoData(*call, NULL, 1, InvalidOid, NULL, NULL);
	call->args[0].value = ObjectIdGetDatum(relation);
	call->args[0].isnull = false;
	number = pg_relation_filenode(call);
	if (call->isnull)
		return false;

	file->relation = DatumGetObjectId(number);
	file->tablespace = get_rel_tablespace(relation);
	if (!OidIsValid(file->tablespace))
		file->tablespace = MyDatabaseTableSpace;
	file->database =
		file->tablespace == GLOBALTABLESPACE_OID ? InvalidOid : MyDatabaseId;
	return true;
}

static void
put(ReturnSetInfo *result, const BridgeBlock *block)
{
	Datum values[CACHE_BLOCKS_COLUMNS];
	bool nulls[CACHE_BLOCKS_COLUMNS] = { false };

	values[CACHE_BLOCKS_ROW_TABLESPACE] = ObjectIdGetDatum(block->tablespace);
	values[CACHE_BLOCKS_ROW_DATABASE] = ObjectIdGetDatum(block->database);
	values[CACHE_BLOCKS_ROW_FILENODE] = ObjectIdGetDatum(block->relation);
	values[CACHE_BLOCKS_ROW_FORK] = CStringGetTextDatum(block->fork);
	values[CACHE_BLOCKS_ROW_BLOCK] = Int64GetDatum((int64) block->block);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[CACHE_BLOCKS_ROW_FORK]));
}

Datum
pgflash_cache_blocks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	bool all = PG_ARGISNULL(0);
	BridgeBlock wanted = { 0 };
	uint32 slots;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_blocks_columns);
	if (!all && !find_file(PG_GETARG_OID(0), &wanted))
		return (Datum) 0;

	slots = bridge_slot_count();
	for (uint32 slot = 0; slot < slots; slot++)
	{
		BridgeBlock block;

		if (slot % CHUNK == 0)
			CHECK_FOR_INTERRUPTS();
		if (bridge_slot_block(slot, &block) &&
		    (all || (block.relation == wanted.relation &&
		             block.tablespace == wanted.tablespace &&
		             block.database == wanted.database)))
			put(result, &block);
	}
	return (Datum) 0;
}
