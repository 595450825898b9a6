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
\set n ((random(0, :name_a) | random(0, 999)) + :name_c) % 1000
CALL oltp.payment(:w, :d, :c_w, :c_d, NULL, oltp.last_name(:n), :amount);
