-- SPDX-License-Identifier: PostgreSQL
--
-- Old sales (RF2): delete the orders of one set, and their lines.

DELETE FROM warehouse.lineitem
 WHERE l_orderkey IN (SELECT delete_key FROM warehouse.refresh_keys
                       WHERE refresh_set = :set);

DELETE FROM warehouse.orders
 WHERE o_orderkey IN (SELECT delete_key FROM warehouse.refresh_keys
                       WHERE refresh_set = :set);
