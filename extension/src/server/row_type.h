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

/*
 * The columns that a function of the library fills, and the number of its
 * arguments.
 */
typedef struct RowType
{
	int arguments;
	int count;
	const Oid *types;
} RowType;

#define ROW_TYPE(arguments_, types_)                                           \
	{ .arguments = (arguments_), .count = lengthof(types_), .types = (types_) }

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
