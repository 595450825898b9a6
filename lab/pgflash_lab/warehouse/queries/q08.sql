-- SPDX-License-Identifier: PostgreSQL
-- title: national market share
-- A nation's share of what a region bought of a type of part, by year.

SELECT extract(year FROM o_orderdate)::integer AS o_year,
       coalesce(sum(l_extendedprice * (1 - l_discount))
                    FILTER (WHERE seller.n_name = :nation), 0)
           / sum(l_extendedprice * (1 - l_discount)) AS mkt_share
  FROM warehouse.part
  JOIN warehouse.lineitem ON l_partkey = p_partkey
  JOIN warehouse.supplier ON s_suppkey = l_suppkey
  JOIN warehouse.nation AS seller ON seller.n_nationkey = s_nationkey
  JOIN warehouse.orders ON o_orderkey = l_orderkey
  JOIN warehouse.customer ON c_custkey = o_custkey
  JOIN warehouse.nation AS buyer ON buyer.n_nationkey = c_nationkey
  JOIN warehouse.region ON r_regionkey = buyer.n_regionkey
 WHERE p_type = :type
   AND r_name = :region
   AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
 GROUP BY o_year
 ORDER BY o_year
