-- SPDX-License-Identifier: PostgreSQL
-- title: suppliers who kept orders waiting
-- Suppliers that alone were late with an order of several suppliers, by nation.

SELECT s_name, count(*) AS numwait
  FROM warehouse.supplier
  JOIN warehouse.nation ON n_nationkey = s_nationkey
  JOIN warehouse.lineitem AS late ON late.l_suppkey = s_suppkey
  JOIN warehouse.orders ON o_orderkey = late.l_orderkey
 WHERE n_name = :nation
   AND o_orderstatus = 'F'
   AND late.l_receiptdate > late.l_commitdate
   AND EXISTS (SELECT
                 FROM warehouse.lineitem AS other
                WHERE other.l_orderkey = late.l_orderkey
                  AND other.l_suppkey <> late.l_suppkey)
   AND NOT EXISTS (SELECT
                     FROM warehouse.lineitem AS guilty
                    WHERE guilty.l_orderkey = late.l_orderkey
                      AND guilty.l_suppkey <> late.l_suppkey
                      AND guilty.l_receiptdate > guilty.l_commitdate)
 GROUP BY s_name
 ORDER BY numwait DESC, s_name
 LIMIT 100
