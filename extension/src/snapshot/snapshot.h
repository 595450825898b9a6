/*
 * snapshot.h
 *		Snapshots: what the files that take them declare for each other.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_SNAPSHOT_H
#define PGFLASH_SNAPSHOT_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"

/* ---- snapshot.c: taking one ---------------------------------------------- */

/* The snapshot being taken, and where it goes. */
typedef struct Snapshooting
{
	Oid extension;
	const char *schema; /* of the extension, quoted, followed by a dot */
	int64 id;
	int64 previous_id; /* 0 = none: there are no deltas */
	TimestampTz previous_at;
	TimestampTz taken_at;
	const char **texts_missing; /* why texts of statements are, or NULL */
} Snapshooting;

/*
 * Take a snapshot in this database; returns its id.  Call it in a transaction.
 */
extern int64 snapshot_take(const char *origin);

/* Request its memory. */
extern void snapshot_install(void);

/* ---- snapshot_json.c: a section as text ---------------------------------- */

/*
 * Read by SPI what is not one of our tables, with no more rights than
 * necessary.  The result is left in SPI's variables.
 */
extern void snapshot_read(const char *query, int count, Oid *types,
                          Datum *values);

/* {"columns": [...], "rows": [[...], ...]}, built by one call after another. */
extern void section_begin(StringInfo text, const char *const *columns,
                          int count);
extern void section_row(StringInfo text);
extern void section_null(StringInfo text);
extern void section_integer(StringInfo text, int64 value);
extern void section_number(StringInfo text, double value);
extern void section_text(StringInfo text, const char *value);
extern void section_end(StringInfo text);

/* Everything that SPI has just read. */
extern void section_of_result(StringInfo text);

/* ---- snapshot_sections.c: what a snapshot is made of --------------------- */

typedef struct SnapshotSection SnapshotSection;

/*
 * Write the section of this snapshot into the text; returns NULL, or why it is
 * not available.
 */
typedef const char *SnapshotWrite(const Snapshooting *now,
                                  const SnapshotSection *section,
                                  StringInfo text);

/* As declared in definitions/snapshot_sections.toml. */
struct SnapshotSection
{
	const char *name;
	const char *kind;
	SnapshotWrite *write;
	int major_min;     /* of the server */
	int limit;         /* of rows that are kept singly; 0 = none */
	const char *query; /* %1$s: a schema, quoted, followed by a dot; or NULL */
	/* Of what a function writes itself: */
	const char *const *columns;
	int column_count;
};

extern void snapshot_sections_write(const Snapshooting *now);

/* Something that may fail without ending the snapshot. */
typedef const char *SnapshotPart(const Snapshooting *now, const void *what);

/*
 * Do it in a subtransaction; returns what it returns, or why it failed.  Errors
 * that are not the part's fault end the snapshot.
 */
extern const char *snapshot_attempt(SnapshotPart *part, const Snapshooting *now,
                                    const void *what);

/*
 * Write the rows of the section's query.  The query of a delta gets the period
 * since the previous snapshot.
 */
extern SnapshotWrite snapshot_query;

/* ---- snapshot_host.c: the machine, from /proc ---------------------------- */

extern SnapshotWrite snapshot_host_cpu;
extern SnapshotWrite snapshot_host_memory;
extern SnapshotWrite snapshot_host_disks;
extern SnapshotWrite snapshot_host_state;

/*
 * ---- snapshot_delta.c: what happened since the previous snapshot -----------
 */

#define DELTA_KEYS_MAX 4

/* A counter of a row. */
typedef struct DeltaValue
{
	const char *name;   /* in the section */
	const char *column; /* in what is read; NULL: the same */
	const char *older;  /* its name in older versions, or NULL */
	bool ranked;        /* rows with large values of it are kept singly */
} DeltaValue;

/* Objects that are counted one by one, such as statements. */
typedef struct DeltaKind
{
	const char *section;
	const char *const
		*keys; /* columns, all of them integers; NULL unless SPI reads */
	int key_count;
	const DeltaValue *values;
	int value_count;
	/* A column that changes when the row's counters start over, or NULL. */
	const char *birth;
	Size tag_size; /* data of a row other than numbers */
	/* A row that gives up its place is added to the one without a key. */
	bool displaces;
} DeltaKind;

/* The values of one row: as read, or as differences. */
typedef struct DeltaRow
{
	int64 key[DELTA_KEYS_MAX];
	bool null_key; /* the row of all that have no row of their own */
	double birth;
	char *tag;
	double *value;
} DeltaRow;

typedef struct DeltaSet
{
	const DeltaKind *kind;
	uint32 count;
	uint32 limit; /* of rows; allocated */
	DeltaRow *rows;
	char *piece; /* used by delta_add() */
} DeltaSet;

/* Make an empty set for up to limit rows; add a row of zeros to it. */
extern DeltaSet *delta_make(const DeltaKind *kind, uint32 limit);
extern DeltaRow *delta_add(DeltaSet *set);

/* Everything that SPI has just read. */
extern DeltaSet *delta_of_result(const DeltaKind *kind);

/*
 * The set that was kept last.  Its numbers can be subtracted only if it
 * follows, that is, if it was kept at the previous snapshot and counting has
 * continued since.  Its tags can always be used.
 */
extern DeltaSet *delta_kept(const Snapshooting *now, const DeltaKind *kind,
                            bool *follows_out);

/* Keep the set for the next snapshot. */
extern void delta_keep(const Snapshooting *now, const DeltaSet *set);

/*
 * The difference between two sets, without rows in which nothing happened.
 * Copies the tags of before to the rows of now.
 */
extern DeltaSet *delta_between(const DeltaSet *before, DeltaSet *now);

/* Why a delta has no rows if nothing was kept before. */
#define DELTA_WITHOUT_PREVIOUS                                                 \
	"nothing to subtract: it is counted from this snapshot on"

/*
 * Read the rows of a query, keep them, and subtract what was kept last.
 * Returns NULL, or why there is no difference.
 */
extern const char *delta_of_query(const Snapshooting *now,
                                  const DeltaKind *kind, const char *query,
                                  DeltaSet **difference_out);

/*
 * Choose up to the limit of rows: those with the largest ranked values.  They
 * are moved to the front, and their number is returned; all others are behind
 * them, and summed up in others.
 */
extern uint32 delta_choose(DeltaSet *set, int limit, DeltaRow *others);

/* ---- snapshot_names.c: what files are called ----------------------------- */

typedef struct SnapshotName
{
	char relkind; /* 0 = not known */
	NameData schema;
	NameData relation;
} SnapshotName;

typedef struct SnapshotFile
{
	Oid tablespace;
	Oid database;
	Oid number;
} SnapshotFile;

/* The name of a relation of this database; false if there is none. */
extern bool snapshot_name_relation(Oid relation, SnapshotName *name);

/* The name of a file of this database; false if there is no such file. */
extern bool snapshot_name_here(const SnapshotFile *file, SnapshotName *name);

/*
 * The name of a catalog of any database that was never rewritten; false if it
 * is none.
 */
extern bool snapshot_name_catalog(const SnapshotFile *file, SnapshotName *name);

/*
 * The name of a file of another database, if known; otherwise it is requested.
 */
extern void snapshot_name_elsewhere(const SnapshotFile *file,
                                    SnapshotName *name);

/* The next database after this one with files to be named; InvalidOid: none. */
extern Oid snapshot_names_wanted(Oid after);

/* Name the files of this database. */
extern void snapshot_names_answer(void);

/* Drop the requests for a database to which no visitor could be sent. */
extern void snapshot_names_forget(Oid database);

/* Request its memory. */
extern void snapshot_names_install(void);

/* ---- snapshot_statements.c, snapshot_samples.c --------------------------- */

extern SnapshotWrite snapshot_statements;
extern SnapshotWrite snapshot_statement_reads;
extern SnapshotWrite snapshot_samples;

/* Keep the texts of these statements, if pg_stat_statements has them. */
extern void snapshot_texts_keep(const Snapshooting *now, const int64 *ids,
                                int count);

/* ---- snapshot_relations.c, snapshot_relation_stats.c --------------------- */

extern SnapshotWrite snapshot_relations;
extern SnapshotWrite snapshot_relation_stats;

/* ---- snapshot_worker.c: on a schedule ------------------------------------ */

extern void snapshot_worker_register(void);

#endif
