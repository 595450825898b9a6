-- SPDX-License-Identifier: PostgreSQL
\if :client_id % 2 = 0
SELECT sum(changes) FROM micro.on_array;
\else
SELECT sum(changes) FROM micro.on_flash;
\endif
