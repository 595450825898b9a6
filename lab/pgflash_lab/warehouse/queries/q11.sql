-- SPDX-License-Identifier: PostgreSQL
-- title: important stock identification
-- Parts that are a notable share of what a nation's suppliers have in stock.

SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
  FROM warehouse.partsupp
  JOIN warehouse.supplier ON s_suppkey = ps_suppkey
  JOIN warehouse.nation ON n_nationkey = s_nationkey
 WHERE n_name = :nation
 GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
           SELECT sum(ps_supplycost * ps_availqty) * :fraction
             FROM warehouse.partsupp
             JOIN warehouse.supplier ON s_suppkey = ps_suppkey
             JOIN warehouse.nation ON n_nationkey = s_nationkey
            WHERE n_name = :nation)
 ORDER BY value DESC
