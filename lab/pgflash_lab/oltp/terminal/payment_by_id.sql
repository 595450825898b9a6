-- SPDX-License-Identifier: PostgreSQL
\set slot :client_id % :warehouses
\set w 1 + :slot + :clients * random(0, (:warehouses - 1 - :slot) / :clients)
\set d random(1, 10)
\set amount random(100, 500000) / 100.0
\set c_w :w
\set c_d :d
\if :warehouses > 1 and random(1, 100) <= 15
	\set c_w (:w + random(0, :warehouses - 2)) % :warehouses + 1
	\set c_d random(1, 10)
\endif
\set c ((random(0, :customer_a) | random(1, 3000)) + :customer_c) % 3000 + 1
CALL oltp.payment(:w, :d, :c_w, :c_d, :c, NULL, :amount);
