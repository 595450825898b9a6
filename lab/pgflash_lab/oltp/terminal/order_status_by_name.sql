-- SPDX-License-Identifier: PostgreSQL
\set slot :client_id % :warehouses
\set w 1 + :slot + :clients * random(0, (:warehouses - 1 - :slot) / :clients)
\set d random(1, 10)
\set n ((random(0, :name_a) | random(0, 999)) + :name_c) % 1000
SELECT * FROM oltp.order_status(:w, :d, NULL, oltp.last_name(:n));
