/*
 * snapshot_relations.c
 *		File calls of relations since the snapshot before, with their names.
 *
 * The accounting (account_relations.c) knows files by number; what is kept is a name, as
 * it is now, since VACUUM FULL, TRUNCATE and DROP give a relation other files or none.
 * The name of a file is remembered with its numbers from one snapshot to the next, so
 * what happened to a relation before it was dropped or rewritten is still told by its name
 * when its file is gone.  A relation that was rewritten has two rows then, one for each
 * file.
 *
 * The relations of other databases are named by who is there (snapshot_names.c), which
 * the next snapshot learns; until then they are "file" and a number.
 *
 * What has no row of its own is in the row "other": all that tablespaces counted, less
 * the rows.  So the rows add up to what the tablespaces say, whatever was forgotten.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/dbcommands.h"
#include "commands/tablespace.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "snapshot.h"

#define RELATIONS_MAX 200

/* Names that are looked for ahead, lest the file be gone when it is among the first. */
#define NAMES_AHEAD_MAX 1000

enum
{
	KEY_TABLESPACE,
	KEY_DATABASE,
	KEY_FILE,
	KEY_FORK,
	KEYS
};

static const char *const keys[KEYS] = { "tablespace_oid", "database_oid",
	                                    "relfilenumber", "fork_number" };

static const DeltaValue values[] = {
	{ "reads", NULL, NULL, true },
	{ "read_bytes", NULL, NULL, false },
	{ "read_time_ms", NULL, NULL, true },
	{ "disk_reads", NULL, NULL, true },
	{ "disk_read_time_ms", NULL, NULL, false },
	{ "page_cache_reads", NULL, NULL, false },
	{ "page_cache_read_time_ms", NULL, NULL, false },
	{ "flash_reads", NULL, NULL, false },
	{ "flash_read_time_ms", NULL, NULL, false },
	{ "writes", NULL, NULL, true },
	{ "write_bytes", NULL, NULL, false },
	{ "write_time_ms", NULL, NULL, true },
	{ "extends", NULL, NULL, true },
	{ "extend_bytes", NULL, NULL, false },
	{ "extend_time_ms", NULL, NULL, false },
	{ "syncs", NULL, NULL, false },
	{ "sync_time_ms", NULL, NULL, false },
};

#define VALUES                                                                 \
	"reads, read_bytes, read_time_ms, disk_reads, disk_read_time_ms, "         \
	"page_cache_reads, page_cache_read_time_ms, flash_reads, "                 \
	"flash_read_time_ms, writes, write_bytes, write_time_ms, extends, "        \
	"extend_bytes, extend_time_ms, syncs, sync_time_ms"

/* Of all tablespaces in one row; read after the relations, so that it is not less. */
#define SUMS                                                                   \
	"sum(reads), sum(read_bytes), sum(read_time_ms), sum(disk_reads), "        \
	"sum(disk_read_time_ms), sum(page_cache_reads), "                          \
	"sum(page_cache_read_time_ms), sum(flash_reads), "                         \
	"sum(flash_read_time_ms), sum(writes), sum(write_bytes), "                 \
	"sum(write_time_ms), sum(extends), sum(extend_bytes), "                    \
	"sum(extend_time_ms), sum(syncs), sum(sync_time_ms)"

static const DeltaKind kind = {
	.section = "relations",
	.keys = keys,
	.key_count = KEYS,
	.values = values,
	.value_count = lengthof(values),
	.tag_size = sizeof(SnapshotName),
	.limit = RELATIONS_MAX,
};

/* ---- names ------------------------------------------------------------------------ */

/* Is it a file whose name can be known here? */
static bool
is_here(const DeltaRow *row)
{
	return !row->null_key && (row->key[KEY_DATABASE] == MyDatabaseId ||
	                          row->key[KEY_DATABASE] == InvalidOid);
}

static SnapshotFile
file_of(const DeltaRow *row)
{
	return (SnapshotFile){ .tablespace = (Oid) row->key[KEY_TABLESPACE],
		                   .database = (Oid) row->key[KEY_DATABASE],
		                   .number = (Oid) row->key[KEY_FILE] };
}

static void
name_row(DeltaRow *row)
{
	SnapshotName *name = (SnapshotName *) row->tag;
	SnapshotFile file = file_of(row);

	if (is_here(row))
		(void) snapshot_name_here(&file, name);
	else if (!row->null_key && name->relkind == '\0')
		snapshot_name_elsewhere(&file, name);
}

static void
name_rows(DeltaSet *chosen, uint32 chosen_count, DeltaSet *all)
{
	uint32 ahead = 0;

	/* As it is called now, though it may have been named before. */
	for (uint32 i = 0; i < chosen_count; i++)
		name_row(&chosen->rows[i]);
	for (uint32 i = 0; i < all->count && ahead < NAMES_AHEAD_MAX; i++)
	{
		DeltaRow *row = &all->rows[i];

		if (((const SnapshotName *) row->tag)->relkind != '\0' || !is_here(row))
			continue;
		name_row(row);
		ahead++;
	}
}

/* ---- the section ---------------------------------------------------------------------- */

static void
add_names(StringInfo text, const DeltaRow *row)
{
	const SnapshotName *name = (const SnapshotName *) row->tag;
	ForkNumber fork = (ForkNumber) row->key[KEY_FORK];
	bool known = name->relkind != '\0';

	/* Shared relations belong to no database. */
	section_text(text, get_database_name((Oid) row->key[KEY_DATABASE]));
	section_text(text, known ? NameStr(name->schema) : NULL);
	section_text(text,
	             known ? NameStr(name->relation)
	                   : psprintf("file " INT64_FORMAT, row->key[KEY_FILE]));
	section_text(text, known ? psprintf("%c", name->relkind) : NULL);
	section_text(text, forkNames[fork]);
	section_text(text, get_tablespace_name((Oid) row->key[KEY_TABLESPACE]));
}

static void
add_values(StringInfo text, const DeltaRow *row)
{
	for (Size v = 0; v < lengthof(values); v++)
		section_number(text, row->value[v]);
}

/* What all rows together have beyond these. */
static void
add_others(StringInfo text, const DeltaSet *set, uint32 count)
{
	DeltaRow others = { 0 };
	double value[lengthof(values)] = { 0 };

	others.value = value;
	for (uint32 i = 0; i < set->count; i++)
	{
		/* The row of the totals has a null for a key; chosen rows stand first. */
		double sign = set->rows[i].null_key ? 1 : i < count ? -1 : 0;

		for (Size v = 0; v < lengthof(values); v++)
			value[v] += sign * set->rows[i].value[v];
	}

	/* Calls go on while they are read: a little may be on one side only. */
	for (Size v = 0; v < lengthof(values); v++)
		value[v] = Max(value[v], 0);
	section_row(text);
	section_null(text);
	section_null(text);
	section_text(text, "other");
	for (int i = 0; i < 3; i++)
		section_null(text);
	add_values(text, &others);
}

static void
keep_section(const Snapshooting *now, const DeltaSet *set, uint32 count)
{
	enum
	{
		NAMES = 6
	};
	const char *columns[NAMES + lengthof(values)] = {
		"database", "schema", "relation", "relkind", "fork", "tablespace"
	};
	StringInfoData text;

	for (Size v = 0; v < lengthof(values); v++)
		columns[NAMES + v] = values[v].name;
	initStringInfo(&text);
	section_begin(&text, columns, lengthof(columns));
	for (uint32 i = 0; i < count; i++)
	{
		section_row(&text);
		add_names(&text, &set->rows[i]);
		add_values(&text, &set->rows[i]);
	}
	add_others(&text, set, count);
	section_end(&text);
	snapshot_section_keep(now, kind.section, "delta", text.data);
}

static DeltaSet *
read_counters(const Snapshooting *now)
{
	SPI_execute(
		psprintf(
			"select tablespace_oid, database_oid, relfilenumber, "
			"case fork when 'main' then 0 when 'fsm' then 1 when 'vm' then 2 "
			"else 3 end as fork_number, " VALUES
			" from %spgflash_io_relation_rows() where relfilenumber is not "
			"null "
			"union all select null, null, null, null, " SUMS
			" from %spgflash_io_tablespace_rows()",
			now->schema, now->schema),
		true, 0);
	return delta_of_result(&kind);
}

const char *
snapshot_relations(const Snapshooting *now)
{
	bool follows;
	const DeltaSet *before = delta_kept(now, &kind, &follows);
	DeltaSet *cumulative = read_counters(now);
	DeltaSet *between = delta_between(before, cumulative);
	DeltaRow others;
	uint32 count = delta_choose(between, &others);

	name_rows(between, count, cumulative);
	delta_keep(now, cumulative);
	if (!follows)
		return "nothing to subtract: it is counted from this snapshot on";
	keep_section(now, between, count);
	return NULL;
}
