-- SPDX-License-Identifier: PostgreSQL
\set number random(1, :rows)
\if :client_id % 2 = 0
SELECT amount FROM micro.on_array WHERE number = :number;
\else
SELECT amount FROM micro.on_flash WHERE number = :number;
\endif
