-- pgflash, how an update begins: it drops every view and function of the extension.
-- SPDX-License-Identifier: PostgreSQL
--
-- For each earlier version the Makefile makes a script of ALTER EXTENSION UPDATE: library.sql, this file,
-- from-VERSION.sql if there is one, and views.sql and functions.sql, which create views and
-- functions again.  So a view that somebody had subverted is as clean afterwards as on the
-- first day, and this file need not know what a version lacked.  The tables stay, and so
-- does what the type of one of them and their triggers need.

DO LANGUAGE plpgsql $$
DECLARE
	views text;
	functions text;
BEGIN
	SELECT
		pg_catalog.string_agg(c.oid::pg_catalog.regclass::text, ', '::text),
		pg_catalog.string_agg(p.oid::pg_catalog.regprocedure::text, ', '::text)
	INTO views, functions
	FROM pg_catalog.pg_extension e
	JOIN pg_catalog.pg_depend d
		ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
		AND d.refobjid OPERATOR(pg_catalog.=) e.oid
		AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char"
	LEFT JOIN pg_catalog.pg_class c
		ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
		AND c.oid OPERATOR(pg_catalog.=) d.objid
		AND c.relkind OPERATOR(pg_catalog.=) 'v'::pg_catalog."char"
	LEFT JOIN pg_catalog.pg_proc p
		ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
		AND p.oid OPERATOR(pg_catalog.=) d.objid
		AND p.proname OPERATOR(pg_catalog.<>) 'pgflash_relation_name_in'::pg_catalog.name
		AND p.proname OPERATOR(pg_catalog.<>) 'pgflash_relation_name_out'::pg_catalog.name
		AND p.proname OPERATOR(pg_catalog.<>) 'pgflash_ignore_replicated'::pg_catalog.name
	WHERE e.extname OPERATOR(pg_catalog.=) 'pgflash'::pg_catalog.name;

	EXECUTE pg_catalog.format('DROP VIEW %s'::text, views);
	EXECUTE pg_catalog.format('DROP FUNCTION %s'::text, functions);
END
$$;

