-- SPDX-License-Identifier: PostgreSQL
-- Without a log, so that it is the table's device that is waited for.  "new_rows" of them
-- are more than the ring of buffers that such a statement writes through.
BEGIN;
\if :client_id % 2 = 0
CREATE UNLOGGED TABLE micro.new_:client_id TABLESPACE :array AS
SELECT n AS number, repeat('x', 960) AS note FROM generate_series(1, :new_rows) AS n;
\else
CREATE UNLOGGED TABLE micro.new_:client_id TABLESPACE :flash AS
SELECT n AS number, repeat('x', 960) AS note FROM generate_series(1, :new_rows) AS n;
\endif
DROP TABLE micro.new_:client_id;
COMMIT;
