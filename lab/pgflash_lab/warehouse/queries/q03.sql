-- SPDX-License-Identifier: PostgreSQL
-- title: shipping priority
-- The orders of highest value that were not shipped by a day.

SELECT l_orderkey,
       sum(l_extendedprice * (1 - l_discount)) AS revenue,
       o_orderdate,
       o_shippriority
  FROM warehouse.customer
  JOIN warehouse.orders ON o_custkey = c_custkey
  JOIN warehouse.lineitem ON l_orderkey = o_orderkey
 WHERE c_mktsegment = :segment
   AND o_orderdate < DATE :date
   AND l_shipdate > DATE :date
 GROUP BY l_orderkey, o_orderdate, o_shippriority
 ORDER BY revenue DESC, o_orderdate
 LIMIT 10
