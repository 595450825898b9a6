-- SPDX-License-Identifier: PostgreSQL
\set number random(1, :rows)
\if :client_id % 2 = 0
UPDATE micro.on_array SET amount = amount + 1, changes = changes + 1 WHERE number = :number;
\else
UPDATE micro.on_flash SET amount = amount + 1, changes = changes + 1 WHERE number = :number;
\endif
