/*
 * account_view.c
 *		The SQL functions behind the views of the accounting.
 *
 * pgflash_io_relation_rows() also serves programs that take snapshots: it looks
 * up no names, so it is fast however many relations there are.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "account/account.h"
#include "server/columns.h"
#include "server/compat.h"
#include "server/shmem.h"

PG_FUNCTION_INFO_V1(pgflash_io_rows);
PG_FUNCTION_INFO_V1(pgflash_io_histogram_rows);
PG_FUNCTION_INFO_V1(pgflash_io_relation_rows);
PG_FUNCTION_INFO_V1(pgflash_io_relation_changes);
PG_FUNCTION_INFO_V1(pgflash_io_tablespace_rows);
PG_FUNCTION_INFO_V1(pgflash_wal_row);

#define NS_OF_MS 1000000.0
#define NS_OF_US 1000.0

static const char *const class_words[ACCOUNT_CLASSES] = {
	"data",     "temp relation", "temp",    "wal",
	"wal init", "slru",          "control", "other"
};

static const struct
{
	const char *operation;
	const char *source;
} kind_words[ACCOUNT_KINDS] = { { "read", "disk" },   { "read", "page cache" },
	                            { "read", "flash" },  { "write", "disk" },
	                            { "extend", "disk" }, { "sync", "disk" } };

static const char *
backend_type_word(unsigned type)
{
	Assert(type < account_backend_types());
	if (type == account_backend_types() - 1)
		return "parallel worker";
	return type == B_INVALID ? "postmaster"
	                         : GetBackendTypeDesc((BackendType) type);
}

static Datum
count(uint64 value)
{
	return Int64GetDatum((int64) value);
}

static Datum
milliseconds(uint64 ns)
{
	return Float8GetDatum((double) ns / NS_OF_MS);
}

static void
put(ReturnSetInfo *result, Datum *values, bool *nulls)
{
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* ---- pgflash_io, pgflash_io_histogram ------------------------------------ */

/* What one backend type did with one class of files by one kind of call. */
typedef struct Cell
{
	unsigned type;
	AccountClass class;
	AccountKind kind;
	AccountSum sum;
} Cell;

/* The first columns of both views. */
static void
name_cell(const Cell *cell, Datum *values)
{
	Assert(cell->class < ACCOUNT_CLASSES && cell->kind < ACCOUNT_KINDS);
	values[IO_ROW_BACKEND_TYPE] =
		CStringGetTextDatum(backend_type_word(cell->type));
	values[IO_ROW_FILE_CLASS] = CStringGetTextDatum(class_words[cell->class]);
	values[IO_ROW_OPERATION] =
		CStringGetTextDatum(kind_words[cell->kind].operation);
	values[IO_ROW_SOURCE] = CStringGetTextDatum(kind_words[cell->kind].source);
}

static void
put_cell(ReturnSetInfo *result, const Cell *cell)
{
	const AccountSum *sum = &cell->sum;
	bool nulls[IO_COLUMNS] = { false };
	Datum values[IO_COLUMNS];

	name_cell(cell, values);
	values[IO_ROW_CALLS] = count(sum->calls);
	values[IO_ROW_BYTES] = count(sum->bytes);
	values[IO_ROW_TIME_MS] = milliseconds(sum->ns);
	values[IO_ROW_TOLD_CALLS] = count(sum->told_calls);
	nulls[IO_ROW_TOLD_CALLS] = cell->kind > ACCOUNT_FLASH_READ;
	values[IO_ROW_WORKER_CALLS] = count(sum->worker_calls);
	values[IO_ROW_WORKER_TIME_MS] = milliseconds(sum->worker_ns);
	put(result, values, nulls);
}

static void
put_histogram(ReturnSetInfo *result, const Cell *cell)
{
	bool nulls[IO_HISTOGRAM_COLUMNS] = { false };
	Datum values[IO_HISTOGRAM_COLUMNS];

	name_cell(cell, values);
	for (int i = 0; i < ACCOUNT_BUCKETS; i++)
	{
		double lower_ns =
			(double) (UINT64CONST(1) << (ACCOUNT_BUCKET_FIRST + i));

		if (cell->sum.bucket[i] == 0)
			continue;
		values[IO_HISTOGRAM_ROW_LOWER_US] =
			Float8GetDatum(i == 0 ? 0 : lower_ns / NS_OF_US);
		values[IO_HISTOGRAM_ROW_UPPER_US] =
			Float8GetDatum(2 * lower_ns / NS_OF_US);
		values[IO_HISTOGRAM_ROW_CALLS] = count(cell->sum.bucket[i]);
		put(result, values, nulls);
	}
}

static void
put_cells(ReturnSetInfo *result, void (*put_one)(ReturnSetInfo *, const Cell *))
{
	Cell cell;

	if (!account_attached())
		return;
	for (cell.type = 0; cell.type < account_backend_types(); cell.type++)
	{
		for (int i = 0; i < ACCOUNT_CLASSES * ACCOUNT_KINDS; i++)
		{
			cell.class = (AccountClass) (i / ACCOUNT_KINDS);
			cell.kind = (AccountKind) (i % ACCOUNT_KINDS);
			account_sum(cell.type, cell.class, cell.kind, &cell.sum);
			if (cell.sum.calls > 0)
				put_one(result, &cell);
		}
	}
}

Datum
pgflash_io_rows(PG_FUNCTION_ARGS)
{
	shmem_require_preloaded();
	put_cells(row_type_rows(fcinfo, &io_columns), put_cell);
	return (Datum) 0;
}

Datum
pgflash_io_histogram_rows(PG_FUNCTION_ARGS)
{
	shmem_require_preloaded();
	put_cells(row_type_rows(fcinfo, &io_histogram_columns), put_histogram);
	return (Datum) 0;
}

/* ---- pgflash_io_relations, pgflash_io_tablespaces ------------------------ */

static void
set_calls(Datum *values, int calls, int time_ms, const AccountCount *kind)
{
	values[calls] = count(kind->calls);
	values[time_ms] = milliseconds(kind->ns);
}

/* Fill the columns that both views have; values points to the first of them. */
static void
fill_calls(Datum *values, uint64 read_bytes, const AccountCount *kind)
{
	AccountCount reads = { 0 };

	for (int i = ACCOUNT_DISK_READ; i <= ACCOUNT_FLASH_READ; i++)
	{
		reads.calls += kind[i].calls;
		reads.ns += kind[i].ns;
	}
	set_calls(values, FILE_CALLS_ROW_READS, FILE_CALLS_ROW_READ_TIME_MS,
	          &reads);
	set_calls(values, FILE_CALLS_ROW_DISK_READS,
	          FILE_CALLS_ROW_DISK_READ_TIME_MS, &kind[ACCOUNT_DISK_READ]);
	set_calls(values, FILE_CALLS_ROW_PAGE_CACHE_READS,
	          FILE_CALLS_ROW_PAGE_CACHE_READ_TIME_MS,
	          &kind[ACCOUNT_PAGE_CACHE_READ]);
	set_calls(values, FILE_CALLS_ROW_FLASH_READS,
	          FILE_CALLS_ROW_FLASH_READ_TIME_MS, &kind[ACCOUNT_FLASH_READ]);
	set_calls(values, FILE_CALLS_ROW_WRITES, FILE_CALLS_ROW_WRITE_TIME_MS,
	          &kind[ACCOUNT_WRITE]);
	set_calls(values, FILE_CALLS_ROW_EXTENDS, FILE_CALLS_ROW_EXTEND_TIME_MS,
	          &kind[ACCOUNT_EXTEND]);
	set_calls(values, FILE_CALLS_ROW_SYNCS, FILE_CALLS_ROW_SYNC_TIME_MS,
	          &kind[ACCOUNT_SYNC]);
	values[FILE_CALLS_ROW_READ_BYTES] = count(read_bytes);
	values[FILE_CALLS_ROW_WRITE_BYTES] = count(kind[ACCOUNT_WRITE].bytes);
	values[FILE_CALLS_ROW_EXTEND_BYTES] = count(kind[ACCOUNT_EXTEND].bytes);
}

static bool
has_calls(const AccountCount *kind)
{
	for (int i = 0; i < ACCOUNT_KINDS; i++)
	{
		if (kind[i].calls > 0)
			return true;
	}
	return false;
}

/* The fork names, made once for many rows. */
static void
make_fork_words(Datum *words)
{
	for (int fork = 0; fork <= MAX_FORKNUM; fork++)
		words[fork] = CStringGetTextDatum(forkNames[fork]);
}

/* Fill the columns for a place; the row of "other" has numbers only. */
static void
fill_relation(Datum *values, bool *nulls, const AccountRelation *of,
              bool is_other, const Datum *fork_words)
{
	memset(nulls, 0, sizeof(bool) * IO_RELATION_COLUMNS);
	nulls[IO_RELATION_ROW_TABLESPACE_OID] = is_other;
	nulls[IO_RELATION_ROW_DATABASE_OID] = is_other;
	nulls[IO_RELATION_ROW_RELFILENUMBER] = is_other;
	nulls[IO_RELATION_ROW_FORK] = is_other;
	values[IO_RELATION_ROW_TABLESPACE_OID] = ObjectIdGetDatum(of->tablespace);
	values[IO_RELATION_ROW_DATABASE_OID] = ObjectIdGetDatum(of->database);
	values[IO_RELATION_ROW_RELFILENUMBER] = ObjectIdGetDatum(of->relation);
	values[IO_RELATION_ROW_FORK] = fork_words[Min(of->fork, MAX_FORKNUM)];
	values[IO_RELATION_ROW_FILE_GONE] = BoolGetDatum(of->gone);
	fill_calls(&values[IO_RELATION_ROW_READS], of->read_bytes, of->kind);
}

Datum
pgflash_io_relation_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	Datum fork_words[MAX_FORKNUM + 1];
	uint32 places;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &io_relation_columns);
	if (!account_attached())
		return (Datum) 0;

	make_fork_words(fork_words);
	places = account_relation_places();
	for (uint32 place = 0; place <= places; place++)
	{
		bool is_other = place == places;
		bool nulls[IO_RELATION_COLUMNS];
		Datum values[IO_RELATION_COLUMNS];
		AccountRelation of;

		if (!account_relation(place, &of) || (is_other && !has_calls(of.kind)))
			continue;
		fill_relation(values, nulls, &of, is_other, fork_words);
		put(result, values, nulls);
	}
	return (Datum) 0;
}

/*
 * What this session has seen of each place, and the mark that it returned then;
 * 0: none, or the call was interrupted.
 */
static AccountSeen *seen;
static int64 seen_mark;

/*
 * From now on remember what is seen.  Forget what was seen earlier, unless
 * since is the mark of that.
 */
static void
see_since(int64 since, uint32 places)
{
	Size size = ((Size) places + 1) * sizeof(AccountSeen);

	Assert(account_attached() && places == account_relation_places());
	if (seen == NULL)
		seen = MemoryContextAllocHuge(TopMemoryContext, size);
	if (since == 0 || since != seen_mark)
		memset(seen, 0, size);
	seen_mark = 0;
}

/*
 * A mark is a time, so that it differs from other sessions' marks, and no two
 * results have the same one.
 */
static int64
next_mark(void)
{
	static int64 last;

	last = Max((int64) GetCurrentTimestamp(), last + 1);
	return last;
}

/*
 * Examining places is cheap, but returning them is not: ten thousand rows take
 * tens of milliseconds, and a regular reader has seen most of them before.
 */
Datum
pgflash_io_relation_changes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;
	int64 since;
	int64 mark = next_mark();
	Datum fork_words[MAX_FORKNUM + 1];
	uint32 places;
	bool told = false;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &io_relation_changes_columns);
	since = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT64(0);
	if (!account_attached())
		return (Datum) 0;

	make_fork_words(fork_words);
	places = account_relation_places();
	see_since(since, places);
	for (uint32 place = 0; place <= places; place++)
	{
		bool nulls[IO_RELATION_CHANGES_COLUMNS] = { false };
		Datum values[IO_RELATION_CHANGES_COLUMNS];
		AccountRelation of;

		if (!account_relation_changed(place, &seen[place], &of))
			continue;
		values[IO_RELATION_CHANGES_ROW_MARK] = Int64GetDatum(mark);
		values[IO_RELATION_CHANGES_ROW_PLACE] = Int32GetDatum((int32) place);
		fill_relation(&values[IO_RELATION_CHANGES_ROW_TABLESPACE_OID],
		              &nulls[IO_RELATION_CHANGES_ROW_TABLESPACE_OID], &of,
		              place == places, fork_words);
		put(result, values, nulls);
		told = true;
	}

	/* A caller that gets no rows gets no new mark. */
	seen_mark = told ? mark : since;
	return (Datum) 0;
}

Datum
pgflash_io_tablespace_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result;

	shmem_require_preloaded();
	result = row_type_rows(fcinfo, &io_tablespace_columns);
	for (unsigned number = 0;
	     account_attached() && number < ACCOUNT_TABLESPACES; number++)
	{
		bool nulls[IO_TABLESPACE_COLUMNS] = { false };
		Datum values[IO_TABLESPACE_COLUMNS];
		AccountRelation of;

		if (!account_tablespace(number, &of) || !has_calls(of.kind))
			continue;
		nulls[IO_TABLESPACE_ROW_TABLESPACE_OID] = !OidIsValid(of.tablespace);
		values[IO_TABLESPACE_ROW_TABLESPACE_OID] =
			ObjectIdGetDatum(of.tablespace);
		fill_calls(&values[IO_TABLESPACE_ROW_READS], of.read_bytes, of.kind);
		put(result, values, nulls);
	}
	return (Datum) 0;
}

/* ---- pgflash_wal --------------------------------------------------------- */

Datum
pgflash_wal_row(PG_FUNCTION_ARGS)
{
	TupleDesc row;
	Datum values[WAL_COLUMNS];
	bool nulls[WAL_COLUMNS] = { false };
	AccountWal wal;

	shmem_require_preloaded();
	row = row_type_row(fcinfo, &wal_columns);
	if (!account_attached())
		PG_RETURN_NULL();

	account_wal(&wal);
	values[WAL_ROW_WRITES] = count(wal.write.calls);
	values[WAL_ROW_WRITE_BYTES] = count(wal.write.bytes);
	values[WAL_ROW_WRITE_TIME_MS] = milliseconds(wal.write.ns);
	values[WAL_ROW_SYNCS] = count(wal.sync.calls);
	values[WAL_ROW_SYNC_TIME_MS] = milliseconds(wal.sync.ns);
	values[WAL_ROW_WASTAGE_BYTES] = count(wal.rewritten_bytes);
	values[WAL_ROW_STATS_SINCE] = TimestampTzGetDatum(account_since());
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}
