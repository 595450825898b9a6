-- SPDX-License-Identifier: PostgreSQL
\set slot :client_id % :warehouses
\set w 1 + :slot + :clients * random(0, (:warehouses - 1 - :slot) / :clients)
\set d random(1, 10)
\set threshold random(10, 20)
SELECT oltp.stock_level(:w, :d, :threshold);
