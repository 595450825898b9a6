-- SPDX-License-Identifier: PostgreSQL
-- title: top supplier
-- The suppliers with the most revenue in a quarter.

WITH revenue AS MATERIALIZED (
    SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total_revenue
      FROM warehouse.lineitem
     WHERE l_shipdate >= DATE :date
       AND l_shipdate < DATE :date + INTERVAL '3 months'
     GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
  FROM warehouse.supplier
  JOIN revenue ON l_suppkey = s_suppkey
 WHERE total_revenue = (SELECT max(total_revenue) FROM revenue)
 ORDER BY s_suppkey
