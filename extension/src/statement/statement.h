/*
 * statement.h
 *		What each statement read from shared buffers, page cache, flash and
 *		disk.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_STATEMENT_H
#define PGFLASH_STATEMENT_H

#include "postgres.h"

#include "executor/execdesc.h"
#include "utils/timestamp.h"

#include "account/account.h"

/* As in pg_stat_statements. */
typedef struct StatementKey
{
	Oid user;
	Oid database;
	int64 query_id; /* 0: it was not computed */
	bool toplevel;
} StatementKey;

typedef struct StatementSums
{
	uint64 calls;
	uint64 hits; /* blocks found in shared buffers */
	AccountReads reads;
} StatementSums;

/* statement.c */

/* Runs in the postmaster, and does nothing if no reads are seen. */
extern void statement_install(void);

/*
 * The last statement of this session that has ended, except those that asked
 * for this; NULL if there is none.
 */
extern const StatementSums *statement_last(StatementKey *key_out);

/* What a statement that is being executed has read so far; NULL: unknown. */
extern const StatementSums *statement_running(const PlannedStmt *plan);

/* statement_sums.c */

typedef struct StatementRow
{
	StatementKey key;
	StatementSums sums;
	TimestampTz since;
} StatementRow;

extern void statement_sums_install(void);

/* Is there memory for them? */
extern bool statement_sums_attached(void);
extern void statement_sums_add(const StatementKey *key,
                               const StatementSums *sums);
extern void statement_sums_reset(void);

/*
 * The row at a place, 0 ..  statement_sums_places() - 1; false: it is empty.
 * The places after them have the sums of others, that is, statements that were
 * displaced or had no identifier: nested ones, and top-level ones.
 */
#define STATEMENT_OTHERS 2

extern uint32 statement_sums_places(void);
extern bool statement_sums_row(uint32 place, StatementRow *out);

/* statement_explain.c */
extern void statement_explain_install(void);

#endif
