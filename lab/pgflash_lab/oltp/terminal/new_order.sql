-- SPDX-License-Identifier: PostgreSQL
\set slot :client_id % :warehouses
\set w 1 + :slot + :clients * random(0, (:warehouses - 1 - :slot) / :clients)
\set d random(1, 10)
\set c ((random(0, :customer_a) | random(1, 3000)) + :customer_c) % 3000 + 1
CALL oltp.enter_new_order(:w, :d, :c, :warehouses, :item_a, :item_c, false);
