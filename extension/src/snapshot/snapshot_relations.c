/*
 * snapshot_relations.c
 *		File calls of relations since the previous snapshot, with their names.
 *
 * The accounting (account_relations.c) knows files by number.  A snapshot keeps
 * the current name, since VACUUM FULL, TRUNCATE and DROP give a relation other
 * files or none.  The name of a file is kept with its numbers from one snapshot
 * to the next.  So what happened to a relation before it was dropped or
 * rewritten is reported under its name even when its file is gone.  A relation
 * that was rewritten then has two rows, one for each file.
 *
 * Relations of other databases are named by visitors (snapshot_names.c), and
 * the next snapshot learns the names; until then they are "file" and a number.
 *
 * The row "other" has everything without a row of its own: the totals of all
 * tablespaces minus the other rows.  So the rows always add up to the
 * tablespaces' totals.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "commands/dbcommands.h" /* get_database_name() until 18 */
#include "commands/tablespace.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "account/account.h"
#include "snapshot/snapshot.h"

/*
 * This many names are looked up early, in case a file is gone by the time it
 * ranks high.
 */
#define NAMES_AHEAD_MAX 1000

enum
{
	KEY_TABLESPACE,
	KEY_DATABASE,
	KEY_FILE,
	KEY_FORK,
	KEYS
};

StaticAssertDecl(KEYS <= DELTA_KEYS_MAX, "a row has room for the keys");

static const DeltaValue values[] = {
#define RELATIONS_COUNT(...) { __VA_ARGS__ },
#include "snapshot/snapshot_sections.def"
};

static const DeltaKind kind = {
	.section = "relations",
	.key_count = KEYS,
	.values = values,
	.value_count = lengthof(values),
	.tag_size = sizeof(SnapshotName),
};

/* ---- names --------------------------------------------------------------- */

/* Can the file's name be found in this database? */
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
	else if (!row->null_key && !snapshot_name_catalog(&file, name) &&
	         name->relkind == '\0')
		snapshot_name_elsewhere(&file, name);
}

static void
name_rows(DeltaSet *chosen, uint32 chosen_count, DeltaSet *all)
{
	uint32 ahead = 0;

	/* Use the current name, even if there is an earlier one. */
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

/* ---- the section --------------------------------------------------------- */

static void
add_names(StringInfo text, const DeltaRow *row)
{
	const SnapshotName *name = (const SnapshotName *) row->tag;
	ForkNumber fork = (ForkNumber) row->key[KEY_FORK];
	bool known = name->relkind != '\0';

	Assert(!row->null_key && fork >= 0 && fork <= MAX_FORKNUM);
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

/* Add the difference between all rows and these. */
static void
add_others(StringInfo text, const DeltaSet *set, uint32 count)
{
	DeltaRow others = { 0 };
	double value[lengthof(values)] = { 0 };

	others.value = value;
	for (uint32 i = 0; i < set->count; i++)
	{
		/* The row of totals has a null key; chosen rows come first. */
		double sign = set->rows[i].null_key ? 1 : i < count ? -1 : 0;

		for (Size v = 0; v < lengthof(values); v++)
			value[v] += sign * set->rows[i].value[v];
	}

	/*
	 * Counting continues during the read, so one side may have a little more.
	 */
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
write_section(const SnapshotSection *section, StringInfo text,
              const DeltaSet *set, uint32 count)
{
	Assert(section->column_count == 6 + (int) lengthof(values));
	section_begin(text, section->columns, section->column_count);
	for (uint32 i = 0; i < count; i++)
	{
		section_row(text);
		add_names(text, &set->rows[i]);
		add_values(text, &set->rows[i]);
	}
	add_others(text, set, count);
	section_end(text);
}

/* ---- the counters -------------------------------------------------------- */

#define NS_OF_MS 1000000.0

/* Add counts to the values, in column order. */
static void
add_counts(double *value, uint64 read_bytes, const AccountCount *count)
{
	double *next = value + 3;

	value[1] += (double) read_bytes;
	for (int i = ACCOUNT_DISK_READ; i <= ACCOUNT_FLASH_READ; i++)
	{
		value[0] += (double) count[i].calls;
		value[2] += (double) count[i].ns / NS_OF_MS;
		*next++ += (double) count[i].calls;
		*next++ += (double) count[i].ns / NS_OF_MS;
	}
	for (int i = ACCOUNT_WRITE; i <= ACCOUNT_EXTEND; i++)
	{
		*next++ += (double) count[i].calls;
		*next++ += (double) count[i].bytes;
		*next++ += (double) count[i].ns / NS_OF_MS;
	}
	*next++ += (double) count[ACCOUNT_SYNC].calls;
	*next++ += (double) count[ACCOUNT_SYNC].ns / NS_OF_MS;
	Assert(next == value + lengthof(values));
}

/* Sum all tablespaces into one row, whose key is null. */
static void
read_totals(DeltaRow *row)
{
	row->null_key = true;
	for (unsigned number = 0; number < ACCOUNT_TABLESPACES; number++)
	{
		AccountRelation of;

		if (account_tablespace(number, &of))
			add_counts(row->value, of.read_bytes, of.kind);
	}
}

/*
 * Read directly from the accounting: ten thousand rows of SQL would take most
 * of the time.
 */
static DeltaSet *
read_counters(void)
{
	uint32 places = account_relation_places();
	DeltaSet *set = delta_make(&kind, places + 1);

	for (uint32 place = 0; place < places; place++)
	{
		AccountRelation of;
		DeltaRow *row;

		if (!account_relation(place, &of))
			continue;
		row = delta_add(set);
		row->key[KEY_TABLESPACE] = of.tablespace;
		row->key[KEY_DATABASE] = of.database;
		row->key[KEY_FILE] = of.relation;
		row->key[KEY_FORK] = Min(of.fork, MAX_FORKNUM);
		add_counts(row->value, of.read_bytes, of.kind);
	}

	/*
	 * Read after the relations, so that the totals are not less than their sum.
	 */
	read_totals(delta_add(set));
	return set;
}

const char *
snapshot_relations(const Snapshooting *now, const SnapshotSection *section,
                   StringInfo text)
{
	bool follows;
	const DeltaSet *before;
	DeltaSet *cumulative;
	DeltaSet *between;
	DeltaRow others;
	uint32 count;

	if (!account_attached())
		return "file calls are not counted (pgflash.account)";
	before = delta_kept(now, &kind, &follows);
	cumulative = read_counters();
	between = delta_between(before, cumulative);
	count = delta_choose(between, section->limit, &others);
	name_rows(between, count, cumulative);
	delta_keep(now, cumulative);
	if (!follows)
		return DELTA_WITHOUT_PREVIOUS;
	write_section(section, text, between, count);
	return NULL;
}
