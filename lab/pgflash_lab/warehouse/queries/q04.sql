-- SPDX-License-Identifier: PostgreSQL
-- title: order priority checking
-- Orders of a quarter of which a line came later than promised, by priority.

SELECT o_orderpriority, count(*) AS order_count
  FROM warehouse.orders
 WHERE o_orderdate >= DATE :date
   AND o_orderdate < DATE :date + INTERVAL '3 months'
   AND EXISTS (SELECT
                 FROM warehouse.lineitem
                WHERE l_orderkey = o_orderkey
                  AND l_commitdate < l_receiptdate)
 GROUP BY o_orderpriority
 ORDER BY o_orderpriority
