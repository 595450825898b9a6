/*
 * snapshot_statements.c
 *		Statements since the previous snapshot, from pg_stat_statements and
 *		from pgflash_statements.
 *
 * These are two sections, since their counters start over at different times,
 * and either may be missing.
 *
 * Columns are found by name, since that extension renames them and may be older
 * than the server.  Texts are kept once per query id, in
 * pgflash_snapshot_queries.  pg_stat_statements reads a file to return them, so
 * they are requested only if there is a statement whose text is unknown.  It
 * converts all of them to the encoding of this database.  If it cannot convert
 * one, it returns none, and the snapshot has the counts without new texts.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "snapshot/snapshot.h"
#include "statement/statement.h"

/* A statement may be megabytes long, so only its beginning is kept. */
enum
{
	TEXT_CHARACTERS_MAX =
#define STATEMENTS_TEXT_MAX(characters) characters
#include "snapshot/snapshot_sections.def"
};

enum
{
	KEY_DATABASE,
	KEY_USER,
	KEY_QUERY,
	KEY_TOPLEVEL,
	KEYS
};

static const char *const keys[] = {
#define STATEMENTS_KEY(name) name,
#include "snapshot/snapshot_sections.def"
};

/* The same, but for the last: all of them were sent by clients. */
static const char *const read_keys[] = {
#define STATEMENT_READS_KEY(name) name,
#include "snapshot/snapshot_sections.def"
};

StaticAssertDecl(lengthof(keys) == KEYS, "the keys are those declared");
StaticAssertDecl(lengthof(read_keys) == KEY_TOPLEVEL,
                 "the keys of reads are those declared");

static const DeltaValue values[] = {
#define STATEMENTS_COUNT(...) { __VA_ARGS__ },
#include "snapshot/snapshot_sections.def"
};

static const DeltaKind kind = {
	.section = "statements",
	.keys = keys,
	.key_count = KEYS,
	.values = values,
	.value_count = lengthof(values),
	.birth = "stats_since",
};

static const DeltaValue read_values[] = {
#define STATEMENT_READS_COUNT(...) { __VA_ARGS__ },
#include "snapshot/snapshot_sections.def"
};

static const DeltaKind reads_kind = {
	.section = "statement_reads",
	.keys = read_keys,
	.key_count = lengthof(read_keys),
	.values = read_values,
	.value_count = lengthof(read_values),
	.birth = "stats_since",
	.displaces = true,
};

/*
 * The schema of pg_stat_statements, quoted, with a dot; NULL if not installed.
 */
static const char *
statements_schema(void)
{
	SPI_execute("select pg_catalog.quote_ident(n.nspname) || '.' "
	            "from pg_catalog.pg_extension e "
	            "join pg_catalog.pg_namespace n on n.oid = e.extnamespace "
	            "where e.extname = 'pg_stat_statements' /* pgflash */",
	            true, 1);
	return SPI_processed == 0
	           ? NULL
	           : SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

static void
add_row(StringInfo text, const DeltaKind *of, const DeltaRow *row)
{
	section_row(text);
	for (int k = 0; k < of->key_count; k++)
	{
		if (row->null_key && (of != &kind || k != KEY_TOPLEVEL))
			section_null(text);
		else
			section_integer(text, row->key[k]);
	}
	for (int v = 0; v < of->value_count; v++)
		section_number(text, row->value[v]);
}

/*
 * The sum of the rows from this one on that were sent by clients, or of those
 * that ran inside others; false: there are none.
 */
static bool
sum_others(const DeltaSet *set, uint32 from, bool toplevel, DeltaRow *sum_out)
{
	bool any = false;

	memset(sum_out, 0, sizeof(DeltaRow));
	sum_out->null_key = true;
	sum_out->key[KEY_TOPLEVEL] = toplevel;
	sum_out->value = palloc0(lengthof(values) * sizeof(double));
	for (uint32 i = from; i < set->count; i++)
	{
		if ((set->rows[i].key[KEY_TOPLEVEL] != 0) != toplevel)
			continue;
		any = true;
		for (int v = 0; v < (int) lengthof(values); v++)
			sum_out->value[v] += set->rows[i].value[v];
	}
	return any;
}

/*
 * What ran inside other statements is included in them, so its sum is not
 * added to that of the others.
 */
static void
add_others(StringInfo text, const DeltaSet *set, uint32 from,
           const DeltaRow *others)
{
	DeltaRow sum;

	if (set->kind != &kind)
	{
		add_row(text, set->kind, others);
		return;
	}
	(void) sum_others(set, from, true, &sum);
	add_row(text, &kind, &sum);
	if (sum_others(set, from, false, &sum))
		add_row(text, &kind, &sum);
}

static void
write_section(const SnapshotSection *section, StringInfo text,
              const DeltaSet *set, uint32 count, const DeltaRow *others)
{
	const DeltaKind *of = set->kind;

	Assert(section->column_count == of->key_count + of->value_count);
	section_begin(text, section->columns, section->column_count);
	for (uint32 i = 0; i < count; i++)
		add_row(text, of, &set->rows[i]);
	add_others(text, set, count, others);
	section_end(text);
}

/* Which texts are read. */
typedef struct Unknown
{
	const char *schema; /* of pg_stat_statements */
	Datum ids;
} Unknown;

static const char *
read_texts(const Snapshooting *now, const void *what)
{
	const Unknown *unknown = what;
	Oid types[] = { INT8ARRAYOID };
	Datum arguments[] = { unknown->ids };

	(void) now; /* is what every part gets */
	Assert(unknown->schema != NULL);
	snapshot_read(psprintf("select jsonb_object_agg(queryid, left(query, %d)) "
	                       "from %spg_stat_statements(true) "
	                       "where queryid = any($1) and query is not null",
	                       TEXT_CHARACTERS_MAX, unknown->schema),
	              1, types, arguments);
	return NULL;
}

/* Everything that SPI has just read, as an object of texts by id. */
static void
insert_texts(const Snapshooting *now)
{
	bool is_null;
	Oid types[] = { JSONBOID };
	Datum texts[] = { SPI_getbinval(SPI_tuptable->vals[0],
		                            SPI_tuptable->tupdesc, 1, &is_null) };

	if (!is_null)
		SPI_execute_with_args(
			psprintf("insert into %spgflash_snapshot_queries "
		             "(query_id, query) "
		             "select key::bigint, value from jsonb_each_text($1) "
		             "on conflict do nothing",
		             now->schema),
			1, types, texts, NULL, false, 0);
}

/* Known texts are marked as used once a day. */
void
snapshot_texts_keep(const Snapshooting *now, const int64 *ids, int count)
{
	const char *from = statements_schema();
	Datum *numbers = palloc(Max(count, 1) * sizeof(Datum));
	Oid types[] = { INT8ARRAYOID };
	Datum arguments[1];
	const char *reason;

	Assert(count >= 0 && (ids != NULL || count == 0));
	if (from == NULL)
		return;
	for (int i = 0; i < count; i++)
		numbers[i] = Int64GetDatum(ids[i]);
	arguments[0] =
		PointerGetDatum(construct_array(numbers, count, INT8OID, sizeof(int64),
	                                    FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));

	SPI_execute_with_args(
		psprintf("update %spgflash_snapshot_queries set used_at = now() "
	             "where query_id = any($1) "
	             "and used_at < now() - interval '1 day'",
	             now->schema),
		1, types, arguments, NULL, false, 0);
	SPI_execute_with_args(
		psprintf("select from unnest($1) as id where not exists "
	             "(select from %spgflash_snapshot_queries where query_id = id)",
	             now->schema),
		1, types, arguments, NULL, false, 1);
	if (SPI_processed == 0)
		return;
	reason =
		snapshot_attempt(read_texts, now, &(Unknown){ from, arguments[0] });
	if (reason == NULL)
		insert_texts(now);
	else
		*now->texts_missing = reason;
}

static void
keep_texts(const Snapshooting *now, const DeltaSet *set, uint32 count)
{
	int64 *ids = palloc(Max(count, 1) * sizeof(int64));

	for (uint32 i = 0; i < count; i++)
		ids[i] = set->rows[i].key[KEY_QUERY];
	snapshot_texts_keep(now, ids, (int) count);
}

/* Write what has been counted since the previous snapshot. */
static const char *
write_since(const Snapshooting *now, const SnapshotSection *section,
            const DeltaKind *of, const char *schema, StringInfo text)
{
	const char *missing;
	DeltaSet *between;
	DeltaRow others;
	uint32 count;

	missing =
		delta_of_query(now, of, psprintf(section->query, schema), &between);
	if (missing != NULL)
		return missing;

	count = delta_choose(between, section->limit, &others);
	write_section(section, text, between, count, &others);
	keep_texts(now, between, count);
	return NULL;
}

const char *
snapshot_statements(const Snapshooting *now, const SnapshotSection *section,
                    StringInfo text)
{
	const char *from = statements_schema();

	if (from == NULL)
		return "the extension pg_stat_statements is not in this database";
	return write_since(now, section, &kind, from, text);
}

const char *
snapshot_statement_reads(const Snapshooting *now,
                         const SnapshotSection *section, StringInfo text)
{
	if (!statement_sums_attached())
		return "this server's file calls cannot be counted";
	return write_since(now, section, &reads_kind, now->schema, text);
}
