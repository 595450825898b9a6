/*
 * views.c
 *		The SQL functions behind the views, and those that change the cache.
 *
 * A column of pgflash_cache is found by its name, since an extension that was
 * not updated yet may have fewer columns, in another order.  A column without a
 * value is an error.
 *
 * Rights are granted in SQL; superuser is checked here as well, so that a
 * careless GRANT does not let everyone change the cache.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "bridge/bridge_cache_policy.h"
#include "bridge/bridge_devices.h"
#include "bridge/bridge_runtime.h"
#include "bridge/bridge_views.h"
#include "broken.h"
#include "server/background.h"
#include "server/catalog.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(pgflash_cache_row);
PG_FUNCTION_INFO_V1(pgflash_cache_devices_rows);
PG_FUNCTION_INFO_V1(pgflash_relations_by_file);
PG_FUNCTION_INFO_V1(pgflash_relations_rows);
PG_FUNCTION_INFO_V1(pgflash_drive_writes_per_day);
PG_FUNCTION_INFO_V1(pgflash_cache_set_mode);
PG_FUNCTION_INFO_V1(pgflash_cache_clear);
PG_FUNCTION_INFO_V1(pgflash_cache_verify);

#define BLOCK_BYTES    8192
#define SECONDS_OF_DAY 86400.0

/* Compare this many slots between two checks for interrupts. */
#define VERIFY_CHUNK 64

static void
require_superuser(void)
{
	shmem_require_preloaded();
	if (!superuser())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("only a superuser may change the flash cache")));
}

/* ---- pgflash_cache ------------------------------------------------------- */

/* A column of the row, by its number in columns.h. */
typedef struct Value
{
	Datum value;
	bool null;
	bool filled;
} Value;

static void
set_if(Value *row, int column, bool known, Datum value)
{
	Assert(column >= 0 && column < CACHE_COLUMNS && !row[column].filled);
	row[column] = (Value){ .value = value, .null = !known, .filled = true };
}

static void
set(Value *row, int column, Datum value)
{
	set_if(row, column, true, value);
}

static void
set_count(Value *row, int column, uint64 value)
{
	set(row, column, Int64GetDatum((int64) value));
}

static void
set_text(Value *row, int column, const char *text)
{
	set_if(row, column, text != NULL,
	       text == NULL ? (Datum) 0 : CStringGetTextDatum(text));
}

static void
fill_state(Value *row)
{
	bool attached = bridge_attached();
	bool named = setting_cache_file != NULL && setting_cache_file[0] != '\0';
	const char *reason;

	set_text(row, CACHE_ROW_MODE, bridge_mode(&reason));
	set_text(row, CACHE_ROW_MODE_REASON, reason);
	set_text(row, CACHE_ROW_START_REASON,
	         attached ? bridge_start_reason() : NULL);
	set_text(row, CACHE_ROW_CACHE_FILE, named ? setting_cache_file : NULL);
	set_if(row, CACHE_ROW_DIRECT_IO, attached,
	       BoolGetDatum(bridge_direct_io()));
	set_text(row, CACHE_ROW_IO_ENGINE, attached ? bridge_io_engine() : NULL);
	set_text(row, CACHE_ROW_PAGE_CACHE_CHECK,
	         attached ? bridge_page_cache_check() : NULL);
	set_text(row, CACHE_ROW_MISSING_WORKERS, background_missing_names());
}

static void
fill_size(Value *row)
{
	BridgeSize size = bridge_size();
	uint64 used = bridge_used_slots();
	uint32 slots = bridge_slot_count();
	uint64 metadata_bytes = bridge_metadata_bytes();
	size_t huge_bytes;
	bool huge_known = bridge_metadata_huge_bytes(&huge_bytes);

	set_count(row, CACHE_ROW_SIZE_BYTES, (uint64) size.slots * BLOCK_BYTES);
	set_count(row, CACHE_ROW_SIZE_MAX_BYTES,
	          (uint64) size.slots_max * BLOCK_BYTES);
	set_if(row, CACHE_ROW_RESIZE_PROGRESS, size.changing,
	       Float8GetDatum(size.done));
	set_text(row, CACHE_ROW_RESIZE_REASON, bridge_size_reason());
	set_count(row, CACHE_ROW_SLOTS, size.slots);
	set_count(row, CACHE_ROW_USED_SLOTS, used);
	set_count(row, CACHE_ROW_USED_BYTES, used * BLOCK_BYTES);
	set_count(row, CACHE_ROW_KEEP_BLOCKS, bridge_cache_policy_keep_blocks());
	set_count(row, CACHE_ROW_METADATA_BYTES, metadata_bytes);
	set_if(row, CACHE_ROW_METADATA_HUGE_BYTES, huge_known,
	       Int64GetDatum((int64) huge_bytes));
	set_if(row, CACHE_ROW_METADATA_BYTES_PER_BLOCK, slots > 0,
	       Float8GetDatum(
			   slots == 0 ? 0 : (double) metadata_bytes / (double) slots));
}

static void
fill_counters(Value *row)
{
	uint64 hits;
	uint64 looked_up;

	for (int i = 0; i < CACHE_COLUMNS; i++)
	{
		uint64 value;

		if (bridge_counter(cache_columns.columns[i].name, &value))
			set_count(row, i, value);
	}
	Assert(row[CACHE_ROW_HITS].filled && row[CACHE_ROW_MISSES].filled);
	hits = (uint64) DatumGetInt64(row[CACHE_ROW_HITS].value);
	looked_up = hits + (uint64) DatumGetInt64(row[CACHE_ROW_MISSES].value);
	set_if(row, CACHE_ROW_HIT_RATIO, looked_up > 0,
	       Float8GetDatum(looked_up == 0 ? 0
	                                     : (double) hits / (double) looked_up));
}

static void
fill_times(Value *row, BridgeTimer timer, int mean_ms, int buckets)
{
	BridgeHistogram histogram;
	Datum *elements;

	bridge_histogram(timer, &histogram);
	Assert(histogram.bucket != NULL && histogram.bucket_count > 0);
	elements = palloc(sizeof(Datum) * (size_t) histogram.bucket_count);
	for (int i = 0; i < histogram.bucket_count; i++)
		elements[i] = Int64GetDatum((int64) histogram.bucket[i]);
	set_if(row, mean_ms, histogram.count > 0,
	       Float8GetDatum(histogram.mean_ms));
	set(row, buckets,
	    PointerGetDatum(construct_array(elements, histogram.bucket_count,
	                                    INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
	                                    TYPALIGN_DOUBLE)));
}

static void
fill_writes(Value *row)
{
	BridgeWrites writes = { .limited = false };
	bool known = bridge_writes(&writes);

	set_if(row, CACHE_ROW_FLASH_WRITE_BYTES_DAY, known,
	       Int64GetDatum((int64) writes.day_bytes));
	set_if(row, CACHE_ROW_WRITE_BUDGET_LEFT_BYTES, known && writes.limited,
	       Int64GetDatum((int64) writes.left_today_bytes));
	set_count(row, CACHE_ROW_STAGING_BLOCKS, bridge_staging().blocks);
	set_count(row, CACHE_ROW_STAGING_USED, bridge_staging().used);
	set_if(row, CACHE_ROW_WRITER_RUNNING, bridge_attached(),
	       BoolGetDatum(bridge_staging().writer_running));
}

/*
 * The number of a column of SQL, which may have other columns in another order.
 */
static int
column_number(const char *name)
{
	for (int i = 0; i < CACHE_COLUMNS; i++)
	{
		if (strcmp(cache_columns.columns[i].name, name) == 0)
			return i;
	}
	ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
	                errmsg("pgflash does not know the column \"%s\"", name),
	                errhint("%s", catalog_remedy(catalog_look()))));
}

Datum
pgflash_cache_row(PG_FUNCTION_ARGS)
{
	Value row[CACHE_COLUMNS] = { 0 };
	TupleDesc type;
	Datum *values;
	bool *nulls;

	shmem_require_preloaded();
	type = row_type_any(fcinfo);
	fill_state(row);
	fill_size(row);
	fill_counters(row);
	fill_times(row, BRIDGE_FLASH_READ, CACHE_ROW_FLASH_READ_MEAN_MS,
	           CACHE_ROW_FLASH_READ_HISTOGRAM);
	fill_times(row, BRIDGE_DISK_READ, CACHE_ROW_DISK_READ_MEAN_MS,
	           CACHE_ROW_DISK_READ_HISTOGRAM);
	fill_writes(row);

	values = palloc(sizeof(Datum) * (size_t) type->natts);
	nulls = palloc(sizeof(bool) * (size_t) type->natts);
	for (int i = 0; i < type->natts; i++)
	{
		const char *name = NameStr(TupleDescAttr(type, i)->attname);
		int column = column_number(name);
		Oid expected = cache_columns.columns[column].type;

		if (TupleDescAttr(type, i)->atttypid != expected &&
		    !FC_BROKEN(ROW_TYPE))
			row_type_mismatch(fcinfo,
			                  psprintf("Its column \"%s\" is not of type %s.",
			                           name, format_type_be(expected)));
		if (!row[column].filled)
			elog(ERROR, "nothing fills the column \"%s\"", name);
		values[i] = row[column].value;
		nulls[i] = row[column].null;
	}

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(type, values, nulls)));
}

/* ---- pgflash_cache_devices ----------------------------------------------- */

static Datum
mean_or_null(double mean, bool *null_out)
{
	*null_out = mean < 0;
	return Float8GetDatum(mean);
}

Datum
pgflash_cache_devices_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &cache_devices_columns);
	for (uint32 i = 0; i < bridge_device_count(); i++)
	{
		BridgeDevice device;
		Datum values[CACHE_DEVICES_COLUMNS];
		bool nulls[CACHE_DEVICES_COLUMNS] = { false };

		bridge_device(i, &device);
		values[CACHE_DEVICES_ROW_CACHE_FILE] =
			CStringGetTextDatum(device.cache_file);
		values[CACHE_DEVICES_ROW_STATE] = CStringGetTextDatum(device.state);
		values[CACHE_DEVICES_ROW_STATE_REASON] =
			CStringGetTextDatum(device.state_reason);
		values[CACHE_DEVICES_ROW_DIRECT_IO] = BoolGetDatum(device.direct_io);
		values[CACHE_DEVICES_ROW_READS] = Int64GetDatum((int64) device.reads);
		values[CACHE_DEVICES_ROW_WRITES] = Int64GetDatum((int64) device.writes);
		values[CACHE_DEVICES_ROW_READ_BYTES] =
			Int64GetDatum((int64) device.read_bytes);
		values[CACHE_DEVICES_ROW_WRITE_BYTES] =
			Int64GetDatum((int64) device.write_bytes);
		values[CACHE_DEVICES_ROW_READ_MEAN_MS] = mean_or_null(
			device.read_mean_ms, &nulls[CACHE_DEVICES_ROW_READ_MEAN_MS]);
		values[CACHE_DEVICES_ROW_WRITE_MEAN_MS] = mean_or_null(
			device.write_mean_ms, &nulls[CACHE_DEVICES_ROW_WRITE_MEAN_MS]);
		values[CACHE_DEVICES_ROW_READ_ERRORS] =
			Int64GetDatum((int64) device.read_errors);
		values[CACHE_DEVICES_ROW_WRITE_ERRORS] =
			Int64GetDatum((int64) device.write_errors);
		values[CACHE_DEVICES_ROW_READ_TIMEOUTS] =
			Int64GetDatum((int64) device.read_timeouts);
		values[CACHE_DEVICES_ROW_CORRUPT_SLOTS] =
			Int64GetDatum((int64) device.corrupt_slots);
		values[CACHE_DEVICES_ROW_BYPASSED_READS] =
			Int64GetDatum((int64) device.bypassed_reads);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ---- pgflash_relations --------------------------------------------------- */

/* A fork; the row of each of its segments shows its size. */
typedef struct Fork
{
	uint32 key[4]; /* tablespace, database, relation, fork */
	uint64 blocks;
} Fork;

static HTAB *
make_forks(void)
{
	HASHCTL control = { .keysize = sizeof(((Fork *) NULL)->key),
		                .entrysize = sizeof(Fork),
		                .hcxt = CurrentMemoryContext };

	return hash_create("pgflash forks", 256, &control,
	                   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* The file system is asked once for each fork. */
static uint64
fork_blocks(HTAB *forks, const BridgeFile *file)
{
	uint32 key[4] = { file->tablespace, file->database, file->relation,
		              file->fork_number };
	bool found;
	Fork *fork = hash_search(forks, key, HASH_ENTER, &found);

	if (!found)
		fork->blocks = bridge_fork_blocks(file);
	return fork->blocks;
}

/* One segment file; the view adds them up. */
static void
add_relation(ReturnSetInfo *result, HTAB *forks, const BridgeFile *file)
{
	uint64 blocks = fork_blocks(forks, file);
	Oid relation = compat_relation_of_file(file->tablespace, file->relation);
	Datum values[RELATIONS_COLUMNS];
	bool nulls[RELATIONS_COLUMNS] = { false };

	Assert(file->fork != NULL && file->policy != NULL);

	/*
	 * NULL if it was dropped, is not yet committed, or its relation is being
	 * rewritten.
	 */
	nulls[RELATIONS_ROW_RELATION] = !OidIsValid(relation);
	values[RELATIONS_ROW_RELATION] = ObjectIdGetDatum(relation);
	values[RELATIONS_ROW_FORK] = CStringGetTextDatum(file->fork);
	values[RELATIONS_ROW_TABLESPACE] = ObjectIdGetDatum(file->tablespace);
	values[RELATIONS_ROW_FILENODE] = ObjectIdGetDatum(file->relation);
	values[RELATIONS_ROW_CACHED_BLOCKS] = Int64GetDatum(file->cached_blocks);
	nulls[RELATIONS_ROW_FILE_BLOCKS] = blocks == 0;
	values[RELATIONS_ROW_FILE_BLOCKS] = Int64GetDatum((int64) blocks);
	values[RELATIONS_ROW_HITS] = Int64GetDatum((int64) file->hits);
	values[RELATIONS_ROW_MISSES] = Int64GetDatum((int64) file->misses);
	values[RELATIONS_ROW_DISK_READ_TIME_MS] =
		Float8GetDatum(file->disk_read_ms);
	values[RELATIONS_ROW_POLICY] = CStringGetTextDatum(file->policy);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_relations_by_file(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	HTAB *forks;
	uint32 count = bridge_file_count();

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &relations_columns);
	forks = make_forks();
	for (uint32 i = 0; i < count; i++)
	{
		BridgeFile file;

		CHECK_FOR_INTERRUPTS();
		if (!bridge_file(i, &file))
			continue;

		/* Database 0: the catalogs shared by all databases. */
		if (file.database == MyDatabaseId || file.database == 0)
			add_relation(result, forks, &file);
	}
	return (Datum) 0;
}

/*
 * What the SQL of 0.1 calls: its columns differ, and the error says which
 * command helps.
 */
Datum
pgflash_relations_rows(PG_FUNCTION_ARGS)
{
	return pgflash_relations_by_file(fcinfo);
}

/* ---- wear ---------------------------------------------------------------- */

/* Drives are warranted for a number of drive writes per day. */
Datum
pgflash_drive_writes_per_day(PG_FUNCTION_ARGS)
{
	int64 capacity_bytes = PG_GETARG_INT64(0);
	BridgeWrites writes;

	shmem_require_preloaded();
	if (capacity_bytes <= 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("the capacity of the flash must be positive")));
	if (!bridge_writes(&writes) || writes.day_seconds <= 0)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8((double) writes.day_bytes / (double) capacity_bytes *
	                 (SECONDS_OF_DAY / writes.day_seconds));
}

/* ---- changes of the cache ------------------------------------------------ */

Datum
pgflash_cache_set_mode(PG_FUNCTION_ARGS)
{
	char *mode = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *problem;

	require_superuser();
	problem = bridge_set_mode(mode);
	if (problem != NULL)
		ereport(ERROR,
		        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		         errmsg("could not set the flash cache to mode \"%s\"", mode),
		         errdetail("%c%s.", pg_toupper((unsigned char) problem[0]),
		                   problem + 1)));
	PG_RETURN_VOID();
}

Datum
pgflash_cache_clear(PG_FUNCTION_ARGS)
{
	(void) fcinfo;
	require_superuser();
	bridge_clear();
	PG_RETURN_VOID();
}

Datum
pgflash_cache_verify(PG_FUNCTION_ARGS)
{
	TupleDesc row;
	Datum values[CACHE_VERIFY_COLUMNS];
	bool nulls[CACHE_VERIFY_COLUMNS] = { false };
	uint32 slots;
	int64 compared = 0;
	int64 mismatched = 0;

	require_superuser();
	row = row_type_row(fcinfo, &cache_verify_columns);
	slots = bridge_slot_count();
	for (uint32 slot = 0; slot < slots; slot++)
	{
		BridgeVerdict verdict;

		if (slot % VERIFY_CHUNK == 0)
			CHECK_FOR_INTERRUPTS();
		verdict = bridge_verify_slot(slot);
		compared += verdict != BRIDGE_NOTHING;
		mismatched += verdict == BRIDGE_DIFFERENT;
	}
	Assert(mismatched <= compared && compared <= slots);
	if (mismatched > 0)
		bridge_verify_failed();

	values[CACHE_VERIFY_ROW_COMPARED] = Int64GetDatum(compared);
	values[CACHE_VERIFY_ROW_MISMATCHED] = Int64GetDatum(mismatched);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}
