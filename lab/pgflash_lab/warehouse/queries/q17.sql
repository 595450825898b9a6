-- SPDX-License-Identifier: PostgreSQL
-- title: small-quantity-order revenue
-- What would be lost a year if small orders of some parts were refused.

SELECT sum(l_extendedprice) / 7.0 AS avg_yearly
  FROM warehouse.lineitem
  JOIN warehouse.part ON p_partkey = l_partkey
 WHERE p_brand = :brand
   AND p_container = :container
   AND l_quantity < (SELECT 0.2 * avg(same.l_quantity)
                       FROM warehouse.lineitem AS same
                      WHERE same.l_partkey = p_partkey)
