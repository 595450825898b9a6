/*
 * row_type.c
 *		Rows for SQL functions, whose columns are checked.
 *
 * A function of the library fills the columns that it knows.  The SQL that
 * declares it may be of another version: the library was replaced but ALTER
 * EXTENSION UPDATE was not run, or the update came from a newer primary, or was
 * run before the restart.  PostgreSQL reads as many values as the declaration
 * has columns, and where that says text, it uses a number as an address.  So a
 * different declaration raises an error.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "broken.h"
#include "server/catalog.h"
#include "server/row_type.h"

void
row_type_mismatch(FunctionCallInfo fcinfo, const char *detail)
{
	Assert(detail != NULL);
	ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
	                errmsg("function \"%s\" is not declared as the library of "
	                       "pgflash defines it",
	                       get_func_name(fcinfo->flinfo->fn_oid)),
	                errdetail_internal("%s", detail),
	                errhint("%s", catalog_remedy(catalog_look()))));
}

static void
check(FunctionCallInfo fcinfo, TupleDesc row, const RowType *expected)
{
	Assert(expected->count > 0 && expected->columns != NULL);
	if (FC_BROKEN(ROW_TYPE))
		return;
	if (fcinfo->nargs != expected->arguments)
		row_type_mismatch(fcinfo, psprintf("It has %d arguments instead of %d.",
		                                   fcinfo->nargs, expected->arguments));
	if (row->natts != expected->count)
		row_type_mismatch(fcinfo,
		                  psprintf("It returns %d columns instead of %d.",
		                           row->natts, expected->count));
	for (int i = 0; i < row->natts; i++)
	{
		const FormData_pg_attribute *column = TupleDescAttr(row, i);

		if (column->atttypid != expected->columns[i].type)
			row_type_mismatch(
				fcinfo,
				psprintf("Its column \"%s\" is of type %s instead of %s.",
			             NameStr(column->attname),
			             format_type_be(column->atttypid),
			             format_type_be(expected->columns[i].type)));
	}
}

ReturnSetInfo *
row_type_rows(FunctionCallInfo fcinfo, const RowType *expected)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	check(fcinfo, result->setDesc, expected);
	return result;
}

TupleDesc
row_type_any(FunctionCallInfo fcinfo)
{
	TupleDesc row;

	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
		row_type_mismatch(fcinfo, "It does not return a row.");
	return row;
}

TupleDesc
row_type_row(FunctionCallInfo fcinfo, const RowType *expected)
{
	TupleDesc row = row_type_any(fcinfo);

	check(fcinfo, row, expected);
	return row;
}
