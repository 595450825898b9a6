/*
 * row_type.h
 *		Rows for SQL functions, whose columns are checked.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#ifndef PGFLASH_ROW_TYPE_H
#define PGFLASH_ROW_TYPE_H

#include "postgres.h"

#include "access/tupdesc.h"
#include "fmgr.h"
#include "nodes/execnodes.h"

typedef struct RowColumn
{
	const char *name;
	Oid type;
} RowColumn;

/*
 * The columns that a function of the library fills, and the number of its
 * arguments; columns.h has that of each function.
 */
typedef struct RowType
{
	int arguments;
	int count;
	const RowColumn *columns;
} RowType;

/* Start returning rows; an error unless the declaration has these columns. */
extern ReturnSetInfo *row_type_rows(FunctionCallInfo fcinfo,
                                    const RowType *expected);

/* The same for a function that returns one row. */
extern TupleDesc row_type_row(FunctionCallInfo fcinfo, const RowType *expected);

/* The row type of a function that determines its columns itself. */
extern TupleDesc row_type_any(FunctionCallInfo fcinfo);

/* Report that the SQL does not match the library. */
extern void row_type_mismatch(FunctionCallInfo fcinfo, const char *detail)
	__attribute__((noreturn));

#endif
