-- SPDX-License-Identifier: PostgreSQL
-- title: local supplier volume
-- Revenue of a year where customer and supplier are of one nation, by nation.

SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
  FROM warehouse.region
  JOIN warehouse.nation ON n_regionkey = r_regionkey
  JOIN warehouse.customer ON c_nationkey = n_nationkey
  JOIN warehouse.orders ON o_custkey = c_custkey
  JOIN warehouse.lineitem ON l_orderkey = o_orderkey
  JOIN warehouse.supplier ON s_suppkey = l_suppkey AND s_nationkey = n_nationkey
 WHERE r_name = :region
   AND o_orderdate >= DATE :date
   AND o_orderdate < DATE :date + INTERVAL '1 year'
 GROUP BY n_name
 ORDER BY revenue DESC
