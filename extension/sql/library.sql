-- pgflash, how each script begins: is the library that the server has loaded old?
-- SPDX-License-Identifier: PostgreSQL
--
-- The files are replaced before the server is restarted.  Until then it has the library of before,
-- which lacks functions of this version, and would say so in PostgreSQL's words: a symbol is
-- missing.  The library of 0.1 does not tell its version.

\echo Use "CREATE EXTENSION pgflash" or "ALTER EXTENSION pgflash UPDATE" to load this file. \quit

DO LANGUAGE plpgsql $$
DECLARE
	loaded text := pg_catalog.current_setting('pgflash.version'::text, true);
BEGIN
	IF loaded IS NULL AND EXISTS (SELECT FROM pg_catalog.pg_settings s
		WHERE s.name OPERATOR(pg_catalog.=) 'pgflash.snapshot_interval'::text)
	THEN
		loaded := '0.1'::text;
	END IF;
	IF pg_catalog.string_to_array(loaded, '.'::text)::integer[]
		OPERATOR(pg_catalog.<) pg_catalog.string_to_array('@VERSION@'::text, '.'::text)::integer[]
	THEN
		RAISE EXCEPTION USING
			ERRCODE := 'object_not_in_prerequisite_state'::text,
			MESSAGE := pg_catalog.format('the server has loaded the library of pgflash %s, and this SQL is of %s'::text,
				loaded, '@VERSION@'::text),
			HINT := 'Restart the server, and repeat the command.'::text;
	END IF;
END
$$;

