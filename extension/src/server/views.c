/*
 * views.c
 *		The SQL functions behind the views, and those that change something.
 *
 * A column of pgflash_cache is filled by its name: core's counters are found by
 * theirs, the rest in a table here.  So the order of columns is defined in the
 * SQL file alone, and a column that cannot be filled is an error at once.
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

#include "bridge/bridge_cache_policy.h"
#include "bridge/bridge_devices.h"
#include "bridge/bridge_runtime.h"
#include "bridge/bridge_views.h"
#include "broken.h"
#include "server/compat.h"
#include "server/module.h"
#include "server/row_type.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(pgflash_cache_row);
PG_FUNCTION_INFO_V1(pgflash_cache_devices_rows);
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
	module_require_preloaded();
	if (!superuser())
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		                errmsg("only a superuser may change the flash cache")));
}

/* ---- pgflash_cache ---------------------------------------------------------- */

/* A column's value; *null_out is false beforehand. */
typedef Datum (*Column)(bool *null_out);

static Datum
column_mode(bool *null_out)
{
	const char *reason;

	(void) null_out;
	return CStringGetTextDatum(bridge_mode(&reason));
}

static Datum
column_mode_reason(bool *null_out)
{
	const char *reason;

	(void) null_out;
	(void) bridge_mode(&reason);
	return CStringGetTextDatum(reason);
}

static Datum
column_start_reason(bool *null_out)
{
	*null_out = !bridge_attached();
	return *null_out ? (Datum) 0 : CStringGetTextDatum(bridge_start_reason());
}

static Datum
column_cache_file(bool *null_out)
{
	*null_out = setting_cache_file == NULL || setting_cache_file[0] == '\0';
	return *null_out ? (Datum) 0 : CStringGetTextDatum(setting_cache_file);
}

static Datum
column_direct_io(bool *null_out)
{
	*null_out = !bridge_attached();
	return BoolGetDatum(bridge_direct_io());
}

static Datum
column_io_engine(bool *null_out)
{
	*null_out = !bridge_attached();
	return *null_out ? (Datum) 0 : CStringGetTextDatum(bridge_io_engine());
}

static Datum
column_size_bytes(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum((int64) bridge_size().slots * BLOCK_BYTES);
}

static Datum
column_slots(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum(bridge_size().slots);
}

static Datum
column_size_max_bytes(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum((int64) bridge_size().slots_max * BLOCK_BYTES);
}

static Datum
column_resize_progress(bool *null_out)
{
	BridgeSize size = bridge_size();

	*null_out = !size.changing;
	return Float8GetDatum(size.done);
}

static Datum
column_resize_reason(bool *null_out)
{
	const char *reason = bridge_size_reason();

	*null_out = reason == NULL;
	return *null_out ? (Datum) 0 : CStringGetTextDatum(reason);
}

static Datum
column_used_slots(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum(bridge_used_slots());
}

static Datum
column_used_bytes(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum((int64) bridge_used_slots() * BLOCK_BYTES);
}

static Datum
column_hit_ratio(bool *null_out)
{
	uint64 hits;
	uint64 misses;

	(void) bridge_counter("hits", &hits);
	(void) bridge_counter("misses", &misses);
	*null_out = hits + misses == 0;
	return Float8GetDatum(*null_out ? 0
	                                : (double) hits / (double) (hits + misses));
}

static Datum
mean_ms(BridgeTimer timer, bool *null_out)
{
	BridgeHistogram histogram;

	bridge_histogram(timer, &histogram);
	*null_out = histogram.count == 0;
	return Float8GetDatum(histogram.mean_ms);
}

static Datum
buckets(BridgeTimer timer)
{
	BridgeHistogram histogram;
	Datum *elements;

	bridge_histogram(timer, &histogram);
	elements = palloc(sizeof(Datum) * (size_t) histogram.bucket_count);
	for (int i = 0; i < histogram.bucket_count; i++)
		elements[i] = Int64GetDatum((int64) histogram.bucket[i]);
	return PointerGetDatum(construct_array(elements, histogram.bucket_count,
	                                       INT8OID, sizeof(int64),
	                                       FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
column_flash_read_mean_ms(bool *null_out)
{
	return mean_ms(BRIDGE_FLASH_READ, null_out);
}

static Datum
column_flash_write_mean_ms(bool *null_out)
{
	return mean_ms(BRIDGE_FLASH_WRITE, null_out);
}

static Datum
column_disk_read_mean_ms(bool *null_out)
{
	return mean_ms(BRIDGE_DISK_READ, null_out);
}

static Datum
column_flash_read_histogram(bool *null_out)
{
	(void) null_out;
	return buckets(BRIDGE_FLASH_READ);
}

static Datum
column_disk_read_histogram(bool *null_out)
{
	(void) null_out;
	return buckets(BRIDGE_DISK_READ);
}

static Datum
column_flash_write_bytes_day(bool *null_out)
{
	BridgeWrites writes = { .limited = false };

	*null_out = !bridge_writes(&writes);
	return Int64GetDatum((int64) writes.day_bytes);
}

static Datum
column_write_budget_left_bytes(bool *null_out)
{
	BridgeWrites writes = { .limited = false };

	*null_out = !bridge_writes(&writes) || !writes.limited;
	return Int64GetDatum((int64) writes.left_today_bytes);
}

static Datum
column_staging_blocks(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum(bridge_staging().blocks);
}

static Datum
column_staging_used(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum(bridge_staging().used);
}

static Datum
column_writer_running(bool *null_out)
{
	*null_out = !bridge_attached();
	return BoolGetDatum(bridge_staging().writer_running);
}

static Datum
column_metadata_bytes(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum((int64) bridge_metadata_bytes());
}

static Datum
column_metadata_bytes_per_block(bool *null_out)
{
	uint32 slots = bridge_slot_count();

	*null_out = slots == 0;
	return Float8GetDatum(
		*null_out ? 0 : (double) bridge_metadata_bytes() / (double) slots);
}

static Datum
column_keep_blocks(bool *null_out)
{
	(void) null_out;
	return Int64GetDatum((int64) bridge_cache_policy_keep_blocks());
}

static const struct
{
	const char *name;
	Oid type;
	Column value;
} columns[] = {
	{ "mode", TEXTOID, column_mode },
	{ "mode_reason", TEXTOID, column_mode_reason },
	{ "start_reason", TEXTOID, column_start_reason },
	{ "cache_file", TEXTOID, column_cache_file },
	{ "direct_io", BOOLOID, column_direct_io },
	{ "io_engine", TEXTOID, column_io_engine },
	{ "size_bytes", INT8OID, column_size_bytes },
	{ "size_max_bytes", INT8OID, column_size_max_bytes },
	{ "resize_progress", FLOAT8OID, column_resize_progress },
	{ "resize_reason", TEXTOID, column_resize_reason },
	{ "slots", INT8OID, column_slots },
	{ "used_slots", INT8OID, column_used_slots },
	{ "used_bytes", INT8OID, column_used_bytes },
	{ "keep_blocks", INT8OID, column_keep_blocks },
	{ "hit_ratio", FLOAT8OID, column_hit_ratio },
	{ "flash_read_mean_ms", FLOAT8OID, column_flash_read_mean_ms },
	{ "flash_write_mean_ms", FLOAT8OID, column_flash_write_mean_ms },
	{ "disk_read_mean_ms", FLOAT8OID, column_disk_read_mean_ms },
	{ "flash_read_histogram", INT8ARRAYOID, column_flash_read_histogram },
	{ "disk_read_histogram", INT8ARRAYOID, column_disk_read_histogram },
	{ "flash_write_bytes_day", INT8OID, column_flash_write_bytes_day },
	{ "write_budget_left_bytes", INT8OID, column_write_budget_left_bytes },
	{ "staging_blocks", INT8OID, column_staging_blocks },
	{ "staging_used", INT8OID, column_staging_used },
	{ "writer_running", BOOLOID, column_writer_running },
	{ "metadata_bytes", INT8OID, column_metadata_bytes },
	{ "metadata_bytes_per_block", FLOAT8OID, column_metadata_bytes_per_block },
};

static Datum
column_value(const char *name, Oid *type_out, bool *null_out)
{
	uint64 counter;

	*null_out = false;
	for (size_t i = 0; i < lengthof(columns); i++)
	{
		if (strcmp(columns[i].name, name) != 0)
			continue;
		*type_out = columns[i].type;
		return columns[i].value(null_out);
	}
	*type_out = INT8OID;
	if (bridge_counter(name, &counter))
		return Int64GetDatum((int64) counter);

	ereport(
		ERROR,
		(errcode(ERRCODE_UNDEFINED_COLUMN),
	     errmsg("pgflash does not know the column \"%s\"", name),
	     errhint("The extension's SQL is of another version than the library: "
	             "run ALTER EXTENSION pgflash UPDATE.")));
}

Datum
pgflash_cache_row(PG_FUNCTION_ARGS)
{
	TupleDesc row;
	Datum *values;
	bool *nulls;

	module_require_preloaded();
	row = row_type_any(fcinfo);
	values = palloc(sizeof(Datum) * (size_t) row->natts);
	nulls = palloc(sizeof(bool) * (size_t) row->natts);
	for (int i = 0; i < row->natts; i++)
	{
		const char *name = NameStr(TupleDescAttr(row, i)->attname);
		Oid type;

		values[i] = column_value(name, &type, &nulls[i]);
		if (TupleDescAttr(row, i)->atttypid != type && !FC_BROKEN(ROW_TYPE))
			row_type_mismatch(fcinfo,
			                  psprintf("Its column \"%s\" is not of type %s.",
			                           name, format_type_be(type)));
	}

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}

/* ---- pgflash_cache_devices ----------------------------------------------------- */

static Datum
mean_or_null(double mean, bool *null_out)
{
	*null_out = mean < 0;
	return Float8GetDatum(mean);
}

Datum
pgflash_cache_devices_rows(PG_FUNCTION_ARGS)
{
	static const Oid types[] = { TEXTOID,   TEXTOID,   TEXTOID, BOOLOID,
		                         INT8OID,   INT8OID,   INT8OID, INT8OID,
		                         FLOAT8OID, FLOAT8OID, INT8OID, INT8OID,
		                         INT8OID,   INT8OID,   INT8OID };
	static const RowType type = ROW_TYPE(0, types);
	ReturnSetInfo *result;

	module_require_preloaded();
	result = row_type_rows(fcinfo, &type);
	for (uint32 i = 0; i < bridge_device_count(); i++)
	{
		BridgeDevice device;
		Datum values[lengthof(types)];
		bool nulls[lengthof(types)] = { false };

		bridge_device(i, &device);
		values[0] = CStringGetTextDatum(device.cache_file);
		values[1] = CStringGetTextDatum(device.state);
		values[2] = CStringGetTextDatum(device.state_reason);
		values[3] = BoolGetDatum(device.direct_io);
		values[4] = Int64GetDatum((int64) device.reads);
		values[5] = Int64GetDatum((int64) device.writes);
		values[6] = Int64GetDatum((int64) device.read_bytes);
		values[7] = Int64GetDatum((int64) device.write_bytes);
		values[8] = mean_or_null(device.read_mean_ms, &nulls[8]);
		values[9] = mean_or_null(device.write_mean_ms, &nulls[9]);
		values[10] = Int64GetDatum((int64) device.read_errors);
		values[11] = Int64GetDatum((int64) device.write_errors);
		values[12] = Int64GetDatum((int64) device.read_timeouts);
		values[13] = Int64GetDatum((int64) device.corrupt_slots);
		values[14] = Int64GetDatum((int64) device.bypassed_reads);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* ---- pgflash_relations ----------------------------------------------------------- */

static const Oid relation_types[] = { REGCLASSOID, TEXTOID,   OIDOID,
	                                  OIDOID,      INT8OID,   INT8OID,
	                                  INT8OID,     FLOAT8OID, TEXTOID };

/* One segment file; the view adds them up. */
static void
add_relation(ReturnSetInfo *result, const BridgeFile *file)
{
	Oid relation = compat_relation_of_file(file->tablespace, file->relation);
	Datum values[lengthof(relation_types)];
	bool nulls[lengthof(relation_types)] = { false };

	/* Dropped, not yet committed, or of a relation that is being rewritten. */
	nulls[0] = !OidIsValid(relation);
	values[0] = ObjectIdGetDatum(relation);
	values[1] = CStringGetTextDatum(file->fork);
	values[2] = ObjectIdGetDatum(file->tablespace);
	values[3] = ObjectIdGetDatum(file->relation);
	values[4] = Int64GetDatum(file->cached_blocks);
	values[5] = Int64GetDatum((int64) file->hits);
	values[6] = Int64GetDatum((int64) file->misses);
	values[7] = Float8GetDatum(file->disk_read_ms);
	values[8] = CStringGetTextDatum(file->policy);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

Datum
pgflash_relations_rows(PG_FUNCTION_ARGS)
{
	static const RowType type = ROW_TYPE(0, relation_types);
	ReturnSetInfo *result;
	uint32 count = bridge_file_count();

	module_require_preloaded();
	result = row_type_rows(fcinfo, &type);
	for (uint32 i = 0; i < count; i++)
	{
		BridgeFile file;

		CHECK_FOR_INTERRUPTS();
		if (!bridge_file(i, &file))
			continue;

		/* Database 0: the catalogs shared by all databases. */
		if (file.database == MyDatabaseId || file.database == 0)
			add_relation(result, &file);
	}
	return (Datum) 0;
}

/* ---- wear ----------------------------------------------------------------------- */

/* Drives are warranted for a number of drive writes per day. */
Datum
pgflash_drive_writes_per_day(PG_FUNCTION_ARGS)
{
	int64 capacity_bytes = PG_GETARG_INT64(0);
	BridgeWrites writes;

	module_require_preloaded();
	if (capacity_bytes <= 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
		                errmsg("the capacity of the flash must be positive")));
	if (!bridge_writes(&writes) || writes.day_seconds <= 0)
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8((double) writes.day_bytes / (double) capacity_bytes *
	                 (SECONDS_OF_DAY / writes.day_seconds));
}

/* ---- what changes something -------------------------------------------------------- */

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
		         errdetail("The reason: %s.", problem)));
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
	static const Oid types[] = { INT8OID, INT8OID };
	static const RowType type = ROW_TYPE(0, types);
	TupleDesc row;
	Datum values[lengthof(types)];
	bool nulls[lengthof(types)] = { false };
	uint32 slots;
	int64 compared = 0;
	int64 mismatched = 0;

	require_superuser();
	row = row_type_row(fcinfo, &type);
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
	if (mismatched > 0)
		bridge_verify_failed();

	values[0] = Int64GetDatum(compared);
	values[1] = Int64GetDatum(mismatched);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}
