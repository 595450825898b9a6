/*
 * account_view.c
 *		The SQL functions behind the views of the accounting.
 *
 * pgflash_io_relation_rows() also serves programs that take snapshots: it looks
 * nothing up, so it is fast however many relations there are.
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
#include "server/compat.h"
#include "server/module.h"
#include "server/row_type.h"

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

/* ---- pgflash_io, pgflash_io_histogram ------------------------------------------ */

/* What one backend type did with one class of files by one kind of call. */
typedef struct Cell
{
	unsigned type;
	AccountClass class;
	AccountKind kind;
	AccountSum sum;
} Cell;

static const Oid cell_types[] = { TEXTOID, TEXTOID,  TEXTOID,   TEXTOID,
	                              INT8OID, INT8OID,  FLOAT8OID, INT8OID,
	                              INT8OID, FLOAT8OID };
static const Oid histogram_types[] = { TEXTOID,   TEXTOID,   TEXTOID, TEXTOID,
	                                   FLOAT8OID, FLOAT8OID, INT8OID };

static void
name_cell(const Cell *cell, Datum *values)
{
	values[0] = CStringGetTextDatum(backend_type_word(cell->type));
	values[1] = CStringGetTextDatum(class_words[cell->class]);
	values[2] = CStringGetTextDatum(kind_words[cell->kind].operation);
	values[3] = CStringGetTextDatum(kind_words[cell->kind].source);
}

static void
put_cell(ReturnSetInfo *result, const Cell *cell)
{
	const AccountSum *sum = &cell->sum;
	bool nulls[lengthof(cell_types)] = { false };
	Datum values[lengthof(cell_types)];

	name_cell(cell, values);
	values[4] = count(sum->calls);
	values[5] = count(sum->bytes);
	values[6] = milliseconds(sum->ns);
	values[7] = count(sum->told_calls);
	nulls[7] = cell->kind > ACCOUNT_FLASH_READ;
	values[8] = count(sum->worker_calls);
	values[9] = milliseconds(sum->worker_ns);
	put(result, values, nulls);
}

static void
put_histogram(ReturnSetInfo *result, const Cell *cell)
{
	bool nulls[lengthof(histogram_types)] = { false };
	Datum values[lengthof(histogram_types)];

	name_cell(cell, values);
	for (int i = 0; i < ACCOUNT_BUCKETS; i++)
	{
		double lower_ns =
			(double) (UINT64CONST(1) << (ACCOUNT_BUCKET_FIRST + i));

		if (cell->sum.bucket[i] == 0)
			continue;
		values[4] = Float8GetDatum(i == 0 ? 0 : lower_ns / NS_OF_US);
		values[5] = Float8GetDatum(2 * lower_ns / NS_OF_US);
		values[6] = count(cell->sum.bucket[i]);
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
	static const RowType type = ROW_TYPE(0, cell_types);

	module_require_preloaded();
	put_cells(row_type_rows(fcinfo, &type), put_cell);
	return (Datum) 0;
}

Datum
pgflash_io_histogram_rows(PG_FUNCTION_ARGS)
{
	static const RowType type = ROW_TYPE(0, histogram_types);

	module_require_preloaded();
	put_cells(row_type_rows(fcinfo, &type), put_histogram);
	return (Datum) 0;
}

/* ---- pgflash_io_relations, pgflash_io_tablespaces -------------------------------- */

#define NUMBERS 17
#define NUMBER_TYPES                                                           \
	INT8OID, INT8OID, FLOAT8OID, INT8OID, FLOAT8OID, INT8OID, FLOAT8OID,       \
		INT8OID, FLOAT8OID, INT8OID, INT8OID, FLOAT8OID, INT8OID, INT8OID,     \
		FLOAT8OID, INT8OID, FLOAT8OID

/* The numbers that both views have, in column order. */
static void
fill_numbers(Datum *values, uint64 read_bytes, const AccountCount *kind)
{
	uint64 reads = 0;
	uint64 read_ns = 0;
	int column = 0;

	for (int i = ACCOUNT_DISK_READ; i <= ACCOUNT_FLASH_READ; i++)
	{
		reads += kind[i].calls;
		read_ns += kind[i].ns;
	}
	values[column++] = count(reads);
	values[column++] = count(read_bytes);
	values[column++] = milliseconds(read_ns);
	for (int i = ACCOUNT_DISK_READ; i <= ACCOUNT_FLASH_READ; i++)
	{
		values[column++] = count(kind[i].calls);
		values[column++] = milliseconds(kind[i].ns);
	}
	for (int i = ACCOUNT_WRITE; i <= ACCOUNT_EXTEND; i++)
	{
		values[column++] = count(kind[i].calls);
		values[column++] = count(kind[i].bytes);
		values[column++] = milliseconds(kind[i].ns);
	}
	values[column++] = count(kind[ACCOUNT_SYNC].calls);
	values[column++] = milliseconds(kind[ACCOUNT_SYNC].ns);
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

#define RELATION_COLUMNS (5 + NUMBERS)
#define RELATION_TYPES   OIDOID, OIDOID, OIDOID, TEXTOID, BOOLOID, NUMBER_TYPES

/* The fork names, made once for many rows. */
static void
make_fork_words(Datum *words)
{
	for (int fork = 0; fork <= MAX_FORKNUM; fork++)
		words[fork] = CStringGetTextDatum(forkNames[fork]);
}

/* The columns for a place; the row of "other" has numbers only. */
static void
fill_relation(Datum *values, bool *nulls, const AccountRelation *of,
              bool is_other, const Datum *fork_words)
{
	memset(nulls, 0, sizeof(bool) * RELATION_COLUMNS);
	memset(nulls, is_other, sizeof(bool) * 4);
	values[0] = ObjectIdGetDatum(of->tablespace);
	values[1] = ObjectIdGetDatum(of->database);
	values[2] = ObjectIdGetDatum(of->relation);
	values[3] = fork_words[Min(of->fork, MAX_FORKNUM)];
	values[4] = BoolGetDatum(of->gone);
	fill_numbers(&values[5], of->read_bytes, of->kind);
}

Datum
pgflash_io_relation_rows(PG_FUNCTION_ARGS)
{
	static const Oid types[] = { RELATION_TYPES };
	static const RowType type = ROW_TYPE(0, types);
	ReturnSetInfo *result;
	Datum fork_words[MAX_FORKNUM + 1];
	uint32 places;

	StaticAssertStmt(lengthof(types) == RELATION_COLUMNS, "a type is missing");
	module_require_preloaded();
	result = row_type_rows(fcinfo, &type);
	if (!account_attached())
		return (Datum) 0;

	make_fork_words(fork_words);
	places = account_relation_places();
	for (uint32 place = 0; place <= places; place++)
	{
		bool is_other = place == places;
		bool nulls[RELATION_COLUMNS];
		Datum values[RELATION_COLUMNS];
		AccountRelation of;

		if (!account_relation(place, &of) || (is_other && !has_calls(of.kind)))
			continue;
		fill_relation(values, nulls, &of, is_other, fork_words);
		put(result, values, nulls);
	}
	return (Datum) 0;
}

/*
 * What this session has seen of each place, and the mark that it returned for
 * that; 0: none, or the call was interrupted.
 */
static AccountSeen *seen;
static int64 seen_mark;

/*
 * From now on remember what is seen; forget earlier observations unless since
 * refers to them.
 */
static void
see_since(int64 since, uint32 places)
{
	Size size = ((Size) places + 1) * sizeof(AccountSeen);

	if (seen == NULL)
		seen = MemoryContextAllocHuge(TopMemoryContext, size);
	if (since == 0 || since != seen_mark)
		memset(seen, 0, size);
	seen_mark = 0;
}

/*
 * A time, so that it differs from any other session's; no two answers have the
 * same mark.
 */
static int64
next_mark(void)
{
	static int64 last;

	last = Max((int64) GetCurrentTimestamp(), last + 1);
	return last;
}

/*
 * Looking at places is cheap, returning them is not: ten thousand rows take
 * tens of milliseconds, and a regular reader has seen most of them before.
 */
Datum
pgflash_io_relation_changes(PG_FUNCTION_ARGS)
{
	static const Oid types[] = { INT8OID, INT4OID, RELATION_TYPES };
	static const RowType type = ROW_TYPE(1, types);
	ReturnSetInfo *result;
	int64 since;
	int64 mark = next_mark();
	Datum fork_words[MAX_FORKNUM + 1];
	uint32 places;
	bool told = false;

	module_require_preloaded();
	result = row_type_rows(fcinfo, &type);
	since = PG_ARGISNULL(0) ? 0 : PG_GETARG_INT64(0);
	if (!account_attached())
		return (Datum) 0;

	make_fork_words(fork_words);
	places = account_relation_places();
	see_since(since, places);
	for (uint32 place = 0; place <= places; place++)
	{
		bool nulls[2 + RELATION_COLUMNS] = { false };
		Datum values[2 + RELATION_COLUMNS];
		AccountRelation of;

		if (!account_relation_changed(place, &seen[place], &of))
			continue;
		values[0] = Int64GetDatum(mark);
		values[1] = Int32GetDatum((int32) place);
		fill_relation(&values[2], &nulls[2], &of, place == places, fork_words);
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
	static const Oid types[] = { OIDOID, NUMBER_TYPES };
	static const RowType type = ROW_TYPE(0, types);
	ReturnSetInfo *result;

	module_require_preloaded();
	result = row_type_rows(fcinfo, &type);
	for (unsigned number = 0;
	     account_attached() && number < ACCOUNT_TABLESPACES; number++)
	{
		bool nulls[1 + NUMBERS] = { false };
		Datum values[1 + NUMBERS];
		AccountRelation of;

		if (!account_tablespace(number, &of) || !has_calls(of.kind))
			continue;
		nulls[0] = !OidIsValid(of.tablespace);
		values[0] = ObjectIdGetDatum(of.tablespace);
		fill_numbers(&values[1], of.read_bytes, of.kind);
		put(result, values, nulls);
	}
	return (Datum) 0;
}

/* ---- pgflash_wal ------------------------------------------------------------------ */

Datum
pgflash_wal_row(PG_FUNCTION_ARGS)
{
	static const Oid types[] = { INT8OID,   INT8OID, FLOAT8OID,     INT8OID,
		                         FLOAT8OID, INT8OID, TIMESTAMPTZOID };
	static const RowType type = ROW_TYPE(0, types);
	TupleDesc row;
	Datum values[lengthof(types)];
	bool nulls[lengthof(types)] = { false };
	AccountWal wal;

	module_require_preloaded();
	row = row_type_row(fcinfo, &type);
	if (!account_attached())
		PG_RETURN_NULL();

	account_wal(&wal);
	values[0] = count(wal.write.calls);
	values[1] = count(wal.write.bytes);
	values[2] = milliseconds(wal.write.ns);
	values[3] = count(wal.sync.calls);
	values[4] = milliseconds(wal.sync.ns);
	values[5] = count(wal.rewritten_bytes);
	values[6] = TimestampTzGetDatum(account_since());
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}
