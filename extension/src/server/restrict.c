/*
 * restrict.c
 *		What the statements of pgflash may use.
 *
 * Workers, pgflash_snapshot() and the sessions of the command name the
 * extension's objects with its schema.  But the owner of the schema may rename
 * it at any time, even between two of our statements, and give its name to
 * another one, which has a view or a function of the same name: that would be
 * run with our rights.
 *
 * So while pgflash.restrict_objects is on, every statement is checked when its
 * names have been looked up.  It may use only what is in pg_catalog, and the
 * members of the extensions pgflash and pg_stat_statements.  What it uses is
 * held by OID from then on.  If its plan must be made again, so are look-up and
 * check.
 *
 * Rules, defaults and constraints of these objects are not checked: only their
 * owner can change them.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "broken.h"
#include "server/compat.h"
#include "server/restrict.h"
#include "settings.h"

static post_parse_analyze_hook_type previous_hook;

/* Is it one of those whose objects are used, and a superuser's? */
static bool
is_known_extension(Oid extension)
{
	Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
	bool known = false;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple tuple;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
	            ObjectIdGetDatum(extension));
	scan = systable_beginscan(extensions, ExtensionOidIndexId, true, NULL, 1,
	                          &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		known = strcmp(NameStr(form->extname), "pgflash") == 0 ||
		        (strcmp(NameStr(form->extname), "pg_stat_statements") == 0 &&
		         superuser_arg(form->extowner));
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return known;
}

static void
check(Oid class, Oid object, Oid schema, const char *name)
{
	Oid extension;

	Assert(OidIsValid(object));
	if (schema == PG_CATALOG_NAMESPACE || FC_BROKEN(MEMBER))
		return;
	extension = getExtensionOfObject(class, object);
	if (!OidIsValid(extension) || !is_known_extension(extension))
		ereport(
			ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
		     errmsg("\"%s\" belongs neither to PostgreSQL nor to pgflash or "
		            "pg_stat_statements",
		            name != NULL ? name : "?"),
		     errdetail("The setting pgflash.restrict_objects is on."),
		     errhint("Somebody may have renamed the schema of the "
		             "extension, and given its name to another one.")));
}

static void
check_relation(Oid relation)
{
	check(RelationRelationId, relation, get_rel_namespace(relation),
	      get_rel_name(relation));
}

static bool
check_function(Oid function, void *context)
{
	(void) context;
	check(ProcedureRelationId, function, get_func_namespace(function),
	      get_func_name(function));
	return false;
}

static bool
check_node(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		ListCell *cell;

		foreach (cell, ((Query *) node)->rtable)
		{
			RangeTblEntry *entry = lfirst_node(RangeTblEntry, cell);

			if (entry->rtekind == RTE_RELATION)
				check_relation(entry->relid);
		}
		return query_tree_walker((Query *) node, check_node, context, 0);
	}
	/* A domain has constraints; none is in pg_catalog. */
	if (IsA(node, CoerceToDomain))
		check(TypeRelationId, ((CoerceToDomain *) node)->resulttype, InvalidOid,
		      format_type_be(((CoerceToDomain *) node)->resulttype));
	(void) check_functions_in_node(node, check_function, context);
	return expression_tree_walker(node, check_node, context);
}

static void
check_statement(ParseState *state, Query *query, COMPAT_JUMBLE *jumble)
{
	if (previous_hook)
		previous_hook(state, query, jumble);
	if (setting_restrict_objects)
		(void) check_node((Node *) query, NULL);
}

void
restrict_install(void)
{
	Assert(process_shared_preload_libraries_in_progress);
	previous_hook = post_parse_analyze_hook;
	post_parse_analyze_hook = check_statement;
}
