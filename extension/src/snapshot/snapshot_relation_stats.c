/*
 * snapshot_relation_stats.c
 *		What PostgreSQL has counted for tables and indexes since the previous
 *		snapshot.
 *
 * Blocks looked up, scans, changed rows, vacuums: PostgreSQL's statistics,
 * which it shows for the current database only.  Columns are found by name,
 * since later versions have more.  Relations are identified by their OIDs, and
 * named when the section is written; one that was dropped since is not in it.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/dbcommands.h" /* get_database_name() until 18 */
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "snapshot/snapshot.h"

static const char *const keys[] = {
#define RELATION_STATS_KEY(name) name,
#include "snapshot/snapshot_sections.def"
};

static const DeltaValue values[] = {
#define RELATION_STATS_COUNT(...) { __VA_ARGS__ },
#include "snapshot/snapshot_sections.def"
};

static const DeltaKind kind = {
	.section = "relation_stats",
	.keys = keys,
	.key_count = lengthof(keys),
	.values = values,
	.value_count = lengthof(values),
};

static void
add_values(StringInfo text, const DeltaRow *row)
{
	for (Size v = 0; v < lengthof(values); v++)
		section_number(text, row->value[v]);
}

static void
add_row(StringInfo text, const DeltaRow *row, const char *database)
{
	SnapshotName name = { 0 };

	Assert(!row->null_key);
	section_row(text);
	section_text(text, database);
	if (snapshot_name_relation((Oid) row->key[0], &name))
	{
		section_text(text, NameStr(name.schema));
		section_text(text, NameStr(name.relation));
		section_text(text, psprintf("%c", name.relkind));
	}
	else /* dropped at this moment */
	{
		section_null(text);
		section_text(text, psprintf("relation " INT64_FORMAT, row->key[0]));
		section_null(text);
	}
	add_values(text, row);
}

static void
add_others(StringInfo text, const DeltaRow *others)
{
	section_row(text);
	section_null(text);
	section_null(text);
	section_text(text, "other");
	section_null(text);
	add_values(text, others);
}

const char *
snapshot_relation_stats(const Snapshooting *now, const SnapshotSection *section,
                        StringInfo text)
{
	const char *database = get_database_name(MyDatabaseId);
	const char *missing;
	DeltaSet *between;
	DeltaRow others;
	uint32 count;

	Assert(section->column_count == 4 + (int) lengthof(values));
	missing = delta_of_query(now, &kind, psprintf(section->query, now->schema),
	                         &between);
	if (missing != NULL)
		return missing;

	count = delta_choose(between, section->limit, &others);
	section_begin(text, section->columns, section->column_count);
	for (uint32 i = 0; i < count; i++)
		add_row(text, &between->rows[i], database);
	add_others(text, &others);
	section_end(text);
	return NULL;
}
