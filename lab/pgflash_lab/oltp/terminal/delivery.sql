-- SPDX-License-Identifier: PostgreSQL
\set slot :client_id % :warehouses
\set w 1 + :slot + :clients * random(0, (:warehouses - 1 - :slot) / :clients)
\set carrier random(1, 10)
CALL oltp.delivery(:w, :carrier);
