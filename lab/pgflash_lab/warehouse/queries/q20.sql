-- SPDX-License-Identifier: PostgreSQL
-- title: potential part promotion
-- A nation's suppliers who have more in stock than half of what they sold.

SELECT s_name, s_address
  FROM warehouse.supplier
  JOIN warehouse.nation ON n_nationkey = s_nationkey
 WHERE n_name = :nation
   AND s_suppkey IN (
           SELECT ps_suppkey
             FROM warehouse.partsupp
            WHERE ps_partkey IN (SELECT p_partkey
                                   FROM warehouse.part
                                  WHERE p_name LIKE :color || '%')
              AND ps_availqty > (SELECT 0.5 * sum(l_quantity)
                                   FROM warehouse.lineitem
                                  WHERE l_partkey = ps_partkey
                                    AND l_suppkey = ps_suppkey
                                    AND l_shipdate >= DATE :date
                                    AND l_shipdate < DATE :date + INTERVAL '1 year'))
 ORDER BY s_name
