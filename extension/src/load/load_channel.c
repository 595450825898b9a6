/*
 * load_channel.c
 *		The stored list of cached blocks, by which servers warm one another.
 *
 * A primary stores which blocks it has cached in a table of the extension
 * (load_channel_write.c). Replication carries the table, so that a standby can
 * load the same blocks from its own disk, and so can a base backup, a rewound
 * server, or the primary itself after a crash. A server without the library has
 * a table that nothing reads.
 *
 * The launcher of the snapshots sends a visitor into their database from time
 * to time. If the list there is not the one that this server has loaded or
 * stored last, the visitor gives it to the loader (load_list.c). Otherwise, on
 * a primary, it stores what is cached now. The list of a warm cache is not
 * replaced by that of a cold one: the first visit after a start stores nothing,
 * nothing is stored while a stored list is being loaded, and a list that has
 * more than twice the blocks that are cached now is loaded once more before it
 * is replaced.  After that, the blocks that are missing are gone for good.
 *
 * Nothing in the table is trusted. A list of another cluster is ignored, and so
 * are rows that cannot be of any file. All others name files and blocks to
 * read, which is done with a query's tickets (decision 70): a list that is
 * damaged or old costs time, never a wrong block.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "bridge/bridge_runtime.h"
#include "bridge/bridge_views.h"
#include "load/load_channel.h"
#include "load/load_list.h"
#include "load/load_sql.h"
#include "server/catalog.h"
#include "server/shmem.h"
#include "settings.h"

/* How often a standby looks for a new list, at least. */
#define STANDBY_S 60

/* Rows that are fetched at once. */
#define BATCH 64

/*
 * Memory for a list: a cache of 8 TB needs no more for its hottest blocks.  A
 * table can hold any number of rows.
 */
#define LIST_BYTES_MAX (256 * 1024 * 1024)

typedef struct Shared
{
	/* The list that was loaded or stored last; 0: none. */
	pg_atomic_uint64 seen;
	/* Its blocks. */
	pg_atomic_uint64 blocks;
	/* The list that was loaded once more, since most of it was lost; or 0. */
	pg_atomic_uint64 again;
	/* There has been a visit since the server started. */
	pg_atomic_uint32 visited;
	/* Invalid rows of the last list. */
	pg_atomic_uint32 invalid;
} Shared;

static Shared *shared;

/* ---- the head ------------------------------------------------------------ */

/* The value of a column of the first row; false: it is null. */
static bool
value(int column, Datum *out)
{
	bool is_null;

	*out = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column,
	                     &is_null);
	return !is_null;
}

static StoredHead
read_head(const char *schema)
{
	static const Oid types[] = { INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID };
	StoredHead head = { 0 };
	Datum number;
	Datum system;
	Datum taken_at;
	Datum left;

	SPI_execute(psprintf("select list_number, system_identifier, taken_at, "
	                     "wal_left_bytes from %s.pgflash_stored_list_head",
	                     schema),
	            true, 1);
	load_channel_check_types(types, lengthof(types));
	if (SPI_processed == 0 || !value(1, &number) || !value(2, &system) ||
	    !value(3, &taken_at) || !value(4, &left))
		return head;
	head.number = (uint64) DatumGetInt64(number);
	head.taken_at = DatumGetTimestampTz(taken_at);
	head.wal_left_bytes = DatumGetInt64(left);
	head.is_ours = head.number != 0 && !TIMESTAMP_NOT_FINITE(head.taken_at) &&
	               (uint64) DatumGetInt64(system) == GetSystemIdentifier();
	return head;
}

/* ---- loading it ---------------------------------------------------------- */

/* Parts that have been read, in memory that outlives a batch of rows. */
typedef struct Parts
{
	LoadPartSource *parts;
	uint32 count;
	uint32 room;
	uint32 invalid; /* rows that were left out */
	uint64 blocks;
	uint64 bytes;
} Parts;

/* Copy a row of the current batch. */
static void
take(Parts *parts, HeapTuple row)
{
	Datum values[LIST_COLUMNS];
	bool nulls[LIST_COLUMNS];
	LoadPartSource *next;
	uint8 *bitmap;

	if (parts->count == parts->room)
	{
		parts->room = Max(1024, parts->room * 2);
		parts->parts =
			parts->parts == NULL
				? SPI_palloc(parts->room * sizeof(*next))
				: SPI_repalloc(parts->parts, parts->room * sizeof(*next));
	}
	next = &parts->parts[parts->count];
	for (int i = 0; i < LIST_COLUMNS; i++)
		values[i] = SPI_getbinval(row, SPI_tuptable->tupdesc, i + 1, &nulls[i]);
	if (load_list_take(values, nulls, next) != NULL)
	{
		parts->invalid++;
		return;
	}
	if (next->part.blocks == 0)
		return;
	bitmap = SPI_palloc(next->part.size);
	memcpy(bitmap, next->bitmap, next->part.size);
	next->bitmap = bitmap;
	parts->count++;
	parts->blocks += next->part.blocks;
	parts->bytes += sizeof(*next) + next->part.size;
}

static void
read_rows(const char *schema, Parts *parts)
{
	MemoryContext batch = AllocSetContextCreate(
		CurrentMemoryContext, "pgflash stored list", ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(batch);
	Oid types[LIST_COLUMNS];
	StringInfoData query;
	Portal cursor;

	initStringInfo(&query);
	appendStringInfoString(&query, "select ");
	for (int i = 0; i < LIST_COLUMNS; i++)
	{
		types[i] = load_list_columns[i].type;
		appendStringInfo(&query, "%s%s", i == 0 ? "" : ", ",
		                 load_list_columns[i].name);
	}
	appendStringInfo(&query, " from %s.pgflash_stored_list order by heat desc",
	                 schema);
	cursor = SPI_cursor_open_with_args(NULL, query.data, 0, NULL, NULL, NULL,
	                                   true, 0);
	while (parts->bytes < LIST_BYTES_MAX)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(batch);
		SPI_cursor_fetch(cursor, true, BATCH);
		MemoryContextSwitchTo(batch); /* SPI leaves its own context current */
		load_channel_check_types(types, LIST_COLUMNS);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
			take(parts, SPI_tuptable->vals[i]);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(cursor);
	MemoryContextSwitchTo(before);
	MemoryContextDelete(batch);
}

static void
load(const char *schema, const StoredHead *head)
{
	Parts parts = { 0 };

	read_rows(schema, &parts);
	if (parts.bytes >= LIST_BYTES_MAX)
		ereport(LOG, (errmsg("pgflash: the stored list of cached blocks is too "
		                     "long, loading its hottest part")));
	/* The next lists have the same rows: logged once. */
	if (pg_atomic_exchange_u32(&shared->invalid, parts.invalid) == 0 &&
	    parts.invalid > 0)
		ereport(LOG, (errmsg("pgflash: ignoring %u invalid rows of the stored "
		                     "list of cached blocks",
		                     parts.invalid)));
	load_list_replace(parts.parts, parts.count, head->taken_at, head->number);
	pg_atomic_write_u64(&shared->blocks, parts.blocks);
}

/* ---- a visit ------------------------------------------------------------- */

/* Has the loader this list already, from before a restart? */
static bool
is_loaded(uint64 number)
{
	LoadList list;

	if (!load_list_get(&list) || list.stored != number)
		return false;
	pg_atomic_write_u64(&shared->blocks, list.blocks);
	return true;
}

/* Is most of the stored list, or of the cache, not cached? */
static bool
is_cold(void)
{
	uint64 blocks = pg_atomic_read_u64(&shared->blocks);

	return bridge_used_slots() < Min(blocks, bridge_slot_count()) / 2;
}

/*
 * Is a stored list being loaded?  A load that has to wait (for a budget, or
 * with a rate of 0) may never end: it counts only where the cache is cold.
 */
static bool
is_loading(void)
{
	LoadList list;

	return load_list_get(&list) && list.stored != 0 &&
	       (list.state == LOAD_WAITING || list.state == LOAD_RUNNING) &&
	       (load_reason() == NULL || is_cold());
}

/* May what is cached now take the place of what is stored? */
static bool
may_store(void)
{
	const char *reason;

	/* A promotion leaves a transaction read-only that began before it. */
	return !RecoveryInProgress() && !XactReadOnly && !is_loading() &&
	       strcmp(bridge_mode(&reason), "offline") != 0;
}

/* Is the stored list to be loaded once more before it is replaced? */
static bool
must_load_again(const StoredHead *head)
{
	LoadList list;
	uint64 before;

	if (!head->is_ours || !is_cold())
	{
		pg_atomic_write_u64(&shared->again, 0);
		return false;
	}
	before = pg_atomic_exchange_u64(&shared->again, head->number);
	if (load_list_get(&list) && list.stored == head->number &&
	    list.state == LOAD_CANCELLED)
		return false;
	return before != head->number;
}

/* Store what is cached, or load what was lost. */
static void
store(const char *schema, const StoredHead *head)
{
	uint64 blocks = pg_atomic_read_u64(&shared->blocks);
	uint64 number;

	if (must_load_again(head))
	{
		ereport(LOG, (errmsg("pgflash: most of the stored list of cached "
		                     "blocks is not cached any more, loading it")));
		load(schema, head);
		return;
	}
	number = load_channel_store(schema, head, &blocks);
	pg_atomic_write_u64(&shared->blocks, blocks);
	if (number != 0)
	{
		pg_atomic_write_u64(&shared->seen, number);

		/* Loaded once more already, if what was stored is not complete. */
		if (pg_atomic_read_u64(&shared->again) != 0)
			pg_atomic_write_u64(&shared->again, number);
	}
	ereport(DEBUG1,
	        (errmsg_internal("pgflash: the stored list of cached blocks %s",
	                         number != 0 ? "was written" : "was not written")));
}

void
load_channel_visit(void)
{
	const char *schema;
	StoredHead head;
	bool first;

	Assert(shared != NULL);
	schema = quote_identifier(get_namespace_name(catalog_schema()));
	SPI_connect();
	head = read_head(schema);
	first = pg_atomic_exchange_u32(&shared->visited, 1) == 0;
	if (head.is_ours && head.number != pg_atomic_read_u64(&shared->seen))
	{
		if (!is_loaded(head.number))
			load(schema, &head);
		pg_atomic_write_u64(&shared->seen, head.number);
	}
	else if (!first && may_store())
		store(schema, &head);
	else
		ereport(DEBUG1, (errmsg_internal("pgflash: the stored list of cached "
		                                 "blocks stays as it is")));
	SPI_finish();
}

bool
load_channel_wanted(void)
{
	return shared != NULL && bridge_attached() &&
	       setting_cache_list_interval_s > 0;
}

int
load_channel_every_s(bool standby)
{
	return standby ? Min(setting_cache_list_interval_s, STANDBY_S)
	               : setting_cache_list_interval_s;
}

/* ---- shared memory ------------------------------------------------------- */

static size_t
size_bytes(void)
{
	return sizeof(Shared);
}

static void
start(void *memory)
{
	shared = memory;
	pg_atomic_init_u64(&shared->seen, 0);
	pg_atomic_init_u64(&shared->blocks, 0);
	pg_atomic_init_u64(&shared->again, 0);
	pg_atomic_init_u32(&shared->visited, 0);
	pg_atomic_init_u32(&shared->invalid, 0);
}

static void
end(bool for_good)
{
	(void) for_good;
	shared = NULL;
}

void
load_channel_install(void)
{
	static const SharedPart part = { .name = "pgflash load channel",
		                             .size_bytes = size_bytes,
		                             .start = start,
		                             .end = end };

	shmem_add(&part);
}
