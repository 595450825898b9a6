-- SPDX-License-Identifier: PostgreSQL
-- title: returned item reporting
-- The customers who sent back most of a quarter's orders.

SELECT c_custkey,
       c_name,
       sum(l_extendedprice * (1 - l_discount)) AS revenue,
       c_acctbal,
       n_name,
       c_address,
       c_phone,
       c_comment
  FROM warehouse.customer
  JOIN warehouse.orders ON o_custkey = c_custkey
  JOIN warehouse.lineitem ON l_orderkey = o_orderkey
  JOIN warehouse.nation ON n_nationkey = c_nationkey
 WHERE o_orderdate >= DATE :date
   AND o_orderdate < DATE :date + INTERVAL '3 months'
   AND l_returnflag = 'R'
 GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
 ORDER BY revenue DESC
 LIMIT 20
