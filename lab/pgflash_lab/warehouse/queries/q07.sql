-- SPDX-License-Identifier: PostgreSQL
-- title: volume shipping
-- What two nations shipped each other, by year.

SELECT seller.n_name AS supp_nation,
       buyer.n_name AS cust_nation,
       extract(year FROM l_shipdate)::integer AS l_year,
       sum(l_extendedprice * (1 - l_discount)) AS revenue
  FROM warehouse.lineitem
  JOIN warehouse.orders ON o_orderkey = l_orderkey
  JOIN warehouse.customer ON c_custkey = o_custkey
  JOIN warehouse.supplier ON s_suppkey = l_suppkey
  JOIN warehouse.nation AS seller ON seller.n_nationkey = s_nationkey
  JOIN warehouse.nation AS buyer ON buyer.n_nationkey = c_nationkey
 WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
   AND ((seller.n_name = :nation1 AND buyer.n_name = :nation2)
     OR (seller.n_name = :nation2 AND buyer.n_name = :nation1))
 GROUP BY supp_nation, cust_nation, l_year
 ORDER BY supp_nation, cust_nation, l_year
