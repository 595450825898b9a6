-- SPDX-License-Identifier: PostgreSQL
-- title: discounted revenue
-- What three kinds of parts earned that went by air and were handed over.

SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
  FROM warehouse.lineitem
  JOIN warehouse.part ON p_partkey = l_partkey
 WHERE l_shipmode IN ('AIR', 'AIR REG')
   AND l_shipinstruct = 'DELIVER IN PERSON'
   AND ((p_brand = :brand1
         AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
         AND l_quantity BETWEEN :quantity1 AND :quantity1 + 10
         AND p_size BETWEEN 1 AND 5)
     OR (p_brand = :brand2
         AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
         AND l_quantity BETWEEN :quantity2 AND :quantity2 + 10
         AND p_size BETWEEN 1 AND 10)
     OR (p_brand = :brand3
         AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
         AND l_quantity BETWEEN :quantity3 AND :quantity3 + 10
         AND p_size BETWEEN 1 AND 15))
