-- SPDX-License-Identifier: PostgreSQL
--
-- "ledger" says of each batch what it must have brought; it is written in the batch's own
-- transaction.  A row learns its batch from the session, so that the same block of rows can
-- be sent for many batches.

CREATE SCHEMA load;

CREATE TABLE load.sale
(
	id      bigint GENERATED ALWAYS AS IDENTITY (CACHE 1000),
	batch   integer NOT NULL DEFAULT current_setting('load.batch')::integer,
	account integer NOT NULL,
	amount  integer NOT NULL,
	note    text NOT NULL
)
WITH (autovacuum_enabled = off);

CREATE TABLE load.audit
(
	batch   integer NOT NULL DEFAULT current_setting('load.batch')::integer,
	amount  integer NOT NULL,
	note    text NOT NULL
)
WITH (autovacuum_enabled = off);

CREATE TABLE load.ledger
(
	batch        integer PRIMARY KEY,
	sale_rows    integer NOT NULL,
	sale_amount  bigint NOT NULL,
	audit_rows   integer NOT NULL,
	audit_amount bigint NOT NULL
)
WITH (autovacuum_enabled = off);

-- Returns the seconds that it waited.
CREATE FUNCTION load.await_archiver(unarchived_max integer) RETURNS double precision
LANGUAGE plpgsql AS
$$
DECLARE
	began timestamptz := clock_timestamp();
BEGIN
	WHILE (SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready')
		> unarchived_max
	LOOP
		PERFORM pg_sleep(0.02);
	END LOOP;
	RETURN extract(epoch FROM clock_timestamp() - began);
END
$$;
