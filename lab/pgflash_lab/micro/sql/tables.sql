-- SPDX-License-Identifier: PostgreSQL
--
-- One of the two tables; {table}, {fill} and {rows} are loader.py's.
--
-- "amount" is always "number" plus "changes", and "changes" is what random-write
-- counts up: a stale or lost page of the table breaks one or the other.  The pages
-- have room for a row's next version, so an update changes one page.

CREATE TABLE {table}
(
	number  integer NOT NULL PRIMARY KEY,
	changes integer NOT NULL,
	amount  bigint NOT NULL,
	note    text NOT NULL
)
WITH (fillfactor = {fill}, autovacuum_enabled = off);

INSERT INTO {table}
SELECT n, 0, n, repeat(md5(n::text), 6) FROM generate_series(1, {rows}) AS n;
