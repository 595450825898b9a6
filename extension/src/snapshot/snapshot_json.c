/*
 * snapshot_json.c
 *		A section as text: {"columns": [...], "rows": [[...], ...]}.
 *
 * Column names are listed once, not in each row, so a section of a thousand
 * rows has a third of the size of a list of objects.  Numbers are written as
 * PostgreSQL writes them, times in ISO 8601, and values that JSON cannot
 * express (NaN, Infinity) as null.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/lsyscache.h"

#include "server/rights.h"
#include "snapshot/snapshot.h"

/*
 * Appended to each query, so that reports do not rank it among the server's
 * statements (Python's session.py marks its queries in the same way).
 */
#define SIGNATURE "/* pgflash */"

/*
 * Names are looked up with the current rights, since pg_monitor may lack rights
 * on the schema; the plan is then executed with pg_monitor's rights.
 */
void
snapshot_read(const char *query, int count, Oid *types, Datum *values)
{
	SPIPlanPtr plan =
		SPI_prepare(psprintf("%s " SIGNATURE, query), count, types);
	Rights before = rights_as_monitor();
	int done PG_USED_FOR_ASSERTS_ONLY;

	Assert(plan != NULL && (count == 0 || (types != NULL && values != NULL)));
	done = SPI_execute_plan(plan, values, NULL, true, 0);
	Assert(done == SPI_OK_SELECT);
	rights_back(before);
	SPI_freeplan(plan);
}

void
section_begin(StringInfo text, const char *const *columns, int count)
{
	Assert(text->len == 0 && count > 0);
	appendStringInfoString(text, "{\"columns\":[");
	for (int i = 0; i < count; i++)
	{
		if (i > 0)
			appendStringInfoChar(text, ',');
		escape_json(text, columns[i]);
	}
	appendStringInfoString(text, "],\"rows\":[");
}

/* Add a comma, unless this is the first of its list. */
static void
next(StringInfo text)
{
	Assert(text->len > 0);
	if (text->data[text->len - 1] != '[')
		appendStringInfoChar(text, ',');
}

/* Close the previous row, if there is one, and open the next. */
void
section_row(StringInfo text)
{
	Assert(text->len >= 2);
	if (!(text->data[text->len - 1] == '[' && text->data[text->len - 2] == ':'))
		appendStringInfoString(text, "],");
	appendStringInfoChar(text, '[');
}

void
section_end(StringInfo text)
{
	Assert(text->len >= 2);
	if (!(text->data[text->len - 1] == '[' && text->data[text->len - 2] == ':'))
		appendStringInfoChar(text, ']');
	appendStringInfoString(text, "]}");
}

void
section_null(StringInfo text)
{
	next(text);
	appendStringInfoString(text, "null");
}

void
section_integer(StringInfo text, int64 value)
{
	next(text);
	appendStringInfo(text, INT64_FORMAT, value);
}

/*
 * Integers have no decimal point; other numbers have six decimals, which is a
 * nanosecond in values in ms.
 */
void
section_number(StringInfo text, double value)
{
	if (isnan(value) || isinf(value))
		section_null(text);
	else if (value == rint(value) && fabs(value) < 1e15)
		section_integer(text, (int64) value);
	else
	{
		next(text);
		appendStringInfo(text, "%.6f", value);
		while (text->data[text->len - 1] == '0')
			text->data[--text->len] = '\0';
		if (text->data[text->len - 1] == '.')
			text->data[--text->len] = '\0';
	}
}

/*
 * Names in other databases may be in other encodings.  Text that is invalid in
 * ours would cause an error for every reader.
 */
static const char *
readable(const char *value)
{
	char *copy;

	if (pg_verifymbstr(value, (int) strlen(value), true))
		return value;
	copy = pstrdup(value);
	for (char *c = copy; *c != '\0'; c++)
	{
		if (IS_HIGHBIT_SET(*c))
			*c = '?';
	}
	return copy;
}

void
section_text(StringInfo text, const char *value)
{
	if (value == NULL)
	{
		section_null(text);
		return;
	}
	next(text);
	escape_json(text, readable(value));
}

static void
section_integers(StringInfo text, Datum array)
{
	Datum *values;
	bool *nulls;
	int count;

	deconstruct_array(DatumGetArrayTypeP(array), INT8OID, sizeof(int64),
	                  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values, &nulls,
	                  &count);
	next(text);
	appendStringInfoChar(text, '[');
	for (int i = 0; i < count; i++)
	{
		if (nulls[i])
			section_null(text);
		else
			section_integer(text, DatumGetInt64(values[i]));
	}
	appendStringInfoChar(text, ']');
}

static void
section_datum(StringInfo text, Datum value, Oid type)
{
	char encoded[MAXDATELEN + 1];
	Oid output;
	bool is_varlena;
	char *word;

	switch (type)
	{
		case BOOLOID:
			next(text);
			appendStringInfoString(text,
			                       DatumGetBool(value) ? "true" : "false");
			return;
		case TIMESTAMPTZOID:
			next(text);
			escape_json(text, JsonEncodeDateTime(encoded, value, type, NULL));
			return;
		case INT8ARRAYOID:
			section_integers(text, value);
			return;
		default:
			break;
	}

	getTypeOutputInfo(type, &output, &is_varlena);
	word = OidOutputFunctionCall(output, value);
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case XIDOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			/* NaN, Infinity, -Infinity */
			if (strpbrk(word, "NI") != NULL)
			{
				section_null(text);
				break;
			}
			next(text);
			appendStringInfoString(text, word);
			break;
		default:
			section_text(text, word);
	}
	pfree(word);
}

void
section_of_result(StringInfo text)
{
	TupleDesc row = SPI_tuptable->tupdesc;
	const char **columns = palloc((Size) row->natts * sizeof(char *));
	Datum *values = palloc((Size) row->natts * sizeof(Datum));
	bool *nulls = palloc((Size) row->natts * sizeof(bool));

	Assert(SPI_tuptable->numvals == SPI_processed);
	for (int i = 0; i < row->natts; i++)
		columns[i] = NameStr(TupleDescAttr(row, i)->attname);
	section_begin(text, columns, row->natts);
	for (uint64 r = 0; r < SPI_processed; r++)
	{
		heap_deform_tuple(SPI_tuptable->vals[r], row, values, nulls);
		section_row(text);
		for (int i = 0; i < row->natts; i++)
		{
			if (nulls[i])
				section_null(text);
			else
				section_datum(text, values[i], TupleDescAttr(row, i)->atttypid);
		}
	}
	section_end(text);
}
