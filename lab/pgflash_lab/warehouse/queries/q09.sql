-- SPDX-License-Identifier: PostgreSQL
-- title: product type profit measure
-- The profit on parts with a colour in their name, by nation and year.

SELECT n_name AS nation,
       extract(year FROM o_orderdate)::integer AS o_year,
       sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
           AS sum_profit
  FROM warehouse.part
  JOIN warehouse.lineitem ON l_partkey = p_partkey
  JOIN warehouse.partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
  JOIN warehouse.supplier ON s_suppkey = l_suppkey
  JOIN warehouse.orders ON o_orderkey = l_orderkey
  JOIN warehouse.nation ON n_nationkey = s_nationkey
 WHERE p_name LIKE '%' || :color || '%'
 GROUP BY nation, o_year
 ORDER BY nation, o_year DESC
