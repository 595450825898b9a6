-- SPDX-License-Identifier: PostgreSQL
--
-- Two tables of TPC-H, with the batch that brought a row.  "ledger" says of each batch what it
-- must have brought; it is written in the batch's own transaction.  A row learns its batch from
-- the session, so that the same block of rows can be sent for many batches.

CREATE SCHEMA load;

CREATE TABLE load.lineitem
(
	batch           integer        NOT NULL DEFAULT current_setting('load.batch')::integer,
	l_orderkey      bigint         NOT NULL,
	l_partkey       integer        NOT NULL,
	l_suppkey       integer        NOT NULL,
	l_linenumber    integer        NOT NULL,
	l_quantity      numeric(15, 2) NOT NULL,
	l_extendedprice numeric(15, 2) NOT NULL,
	l_discount      numeric(15, 2) NOT NULL,
	l_tax           numeric(15, 2) NOT NULL,
	l_returnflag    char(1)        NOT NULL,
	l_linestatus    char(1)        NOT NULL,
	l_shipdate      date           NOT NULL,
	l_commitdate    date           NOT NULL,
	l_receiptdate   date           NOT NULL,
	l_shipinstruct  char(25)       NOT NULL,
	l_shipmode      char(10)       NOT NULL,
	l_comment       varchar(44)    NOT NULL
)
WITH (autovacuum_enabled = off);

CREATE TABLE load.orders
(
	batch           integer        NOT NULL DEFAULT current_setting('load.batch')::integer,
	o_orderkey      bigint         NOT NULL,
	o_custkey       integer        NOT NULL,
	o_orderstatus   char(1)        NOT NULL,
	o_totalprice    numeric(15, 2) NOT NULL,
	o_orderdate     date           NOT NULL,
	o_orderpriority char(15)       NOT NULL,
	o_clerk         char(15)       NOT NULL,
	o_shippriority  integer        NOT NULL,
	o_comment       varchar(79)    NOT NULL
)
WITH (autovacuum_enabled = off);

CREATE TABLE load.ledger
(
	batch        integer PRIMARY KEY,
	line_rows    integer        NOT NULL,
	line_amount  numeric(20, 2) NOT NULL,
	order_rows   integer        NOT NULL,
	order_amount numeric(20, 2) NOT NULL
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
