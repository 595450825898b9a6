-- SPDX-License-Identifier: PostgreSQL
-- title: parts/supplier relationship
-- How many suppliers without complaints sell parts of some sizes, by kind.

SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt
  FROM warehouse.partsupp
  JOIN warehouse.part ON p_partkey = ps_partkey
 WHERE p_brand <> :brand
   AND p_type NOT LIKE :type || '%'
   AND p_size IN (:sizes)
   AND ps_suppkey NOT IN (SELECT s_suppkey
                            FROM warehouse.supplier
                           WHERE s_comment LIKE '%Customer%Complaints%')
 GROUP BY p_brand, p_type, p_size
 ORDER BY supplier_cnt DESC, p_brand, p_type, p_size
