/*
 * relation_name.c
 *		The type pgflash_relation_name: a relation in a row that outlives dump
 *		and restore.
 *
 * A policy belongs to a relation even if that is renamed, so a row holds the
 * relation's OID.  A dump holds rows as text, and an OID is valid only in its
 * own database, so the type's text is the relation's current qualified name.
 * regclass does that, too.  But a restore loads rows before it creates indexes,
 * and regclass raises an error for an index that does not exist yet.  This type
 * keeps such a name, and a later reader of the row finds the relation by it.
 * The next visit (policy_worker.c) writes its OID into the row.
 *
 *	OID, no name	the relation of this database
 *	no OID, name	the relation of this name, once there is one
 *	neither			a relation that was dropped; written "-"
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "policy/relation_policy.h"

PG_FUNCTION_INFO_V1(pgflash_relation_name_in);
PG_FUNCTION_INFO_V1(pgflash_relation_name_out);

#define GONE "-"

/* A varlena, stored in rows like this. */
typedef struct RelationName
{
	int32 length; /* varlena header */
	Oid relation;
	char name[FLEXIBLE_ARRAY_MEMBER]; /* with a zero byte at the end */
} RelationName;

static Datum
make_value(Oid relation, const char *name)
{
	Size size = offsetof(RelationName, name) + strlen(name) + 1;
	RelationName *value = palloc0(size);

	Assert(!OidIsValid(relation) || name[0] == '\0');
	SET_VARSIZE(value, size);
	value->relation = relation;
	strcpy(value->name, name);
	return PointerGetDatum(value);
}

static RelationName *
value_of(Datum datum)
{
	return (RelationName *) PG_DETOAST_DATUM(datum);
}

Datum
relation_name_of(Oid relation)
{
	Assert(OidIsValid(relation));
	return make_value(relation, "");
}

Oid
relation_name_number(Datum value)
{
	return value_of(value)->relation;
}

/*
 * Find the relation with a qualified name, if it exists now.  A reader of the
 * rows may lack rights on some of the schemas in them, so the name is not
 * looked up as a query would.
 */
static Oid
find_by_name(const char *name)
{
	RangeVar *parts = makeRangeVarFromNameList(
		textToQualifiedNameList(cstring_to_text(name)));
	Oid schema;

	if (parts->schemaname == NULL)
		ereport(ERROR,
		        (errcode(ERRCODE_INVALID_NAME),
		         errmsg("the name of relation \"%s\" has no schema", name)));
	schema = get_namespace_oid(parts->schemaname, true);
	return OidIsValid(schema) ? get_relname_relid(parts->relname, schema)
	                          : InvalidOid;
}

NameState
relation_name_look(Datum datum, Oid *relation_out)
{
	RelationName *value = value_of(datum);

	*relation_out = value->relation;
	if (OidIsValid(value->relation) &&
	    SearchSysCacheExists1(RELOID, ObjectIdGetDatum(value->relation)))
		return NAME_HOLDS;

	*relation_out = InvalidOid;
	if (OidIsValid(value->relation) || value->name[0] == '\0')
		return NAME_GONE;

	*relation_out = find_by_name(value->name);
	return OidIsValid(*relation_out) ? NAME_FOUND : NAME_PENDING;
}

Datum
pgflash_relation_name_in(PG_FUNCTION_ARGS)
{
	const char *name = PG_GETARG_CSTRING(0);
	Oid relation;

	/*
	 * A row is being loaded: a later command may create the relation that it
	 * names.
	 */
	policy_need();

	if (strcmp(name, GONE) == 0)
		return make_value(InvalidOid, "");
	relation = find_by_name(name);
	return OidIsValid(relation) ? make_value(relation, "")
	                            : make_value(InvalidOid, name);
}

char *
relation_name_text(Oid relation)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Form_pg_class form;
	char *name;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	form = (Form_pg_class) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->relnamespace),
	                                  NameStr(form->relname));
	ReleaseSysCache(tuple);
	return name;
}

Datum
pgflash_relation_name_out(PG_FUNCTION_ARGS)
{
	RelationName *value = value_of(PG_GETARG_DATUM(0));
	char *name = OidIsValid(value->relation)
	                 ? relation_name_text(value->relation)
	                 : pstrdup(value->name);

	PG_RETURN_CSTRING(name == NULL || name[0] == '\0' ? pstrdup(GONE) : name);
}
