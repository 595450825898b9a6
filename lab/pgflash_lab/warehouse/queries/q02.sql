-- SPDX-License-Identifier: PostgreSQL
-- title: minimum cost supplier
-- Which supplier of a region sells a part of this size and kind cheapest.

SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
  FROM warehouse.part
  JOIN warehouse.partsupp ON ps_partkey = p_partkey
  JOIN warehouse.supplier ON s_suppkey = ps_suppkey
  JOIN warehouse.nation ON n_nationkey = s_nationkey
  JOIN warehouse.region ON r_regionkey = n_regionkey
 WHERE p_size = :size
   AND p_type LIKE '%' || :type
   AND r_name = :region
   AND ps_supplycost = (
           SELECT min(other.ps_supplycost)
             FROM warehouse.partsupp AS other
             JOIN warehouse.supplier AS seller ON seller.s_suppkey = other.ps_suppkey
             JOIN warehouse.nation AS home ON home.n_nationkey = seller.s_nationkey
             JOIN warehouse.region AS area ON area.r_regionkey = home.n_regionkey
            WHERE other.ps_partkey = p_partkey
              AND area.r_name = :region)
 ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
 LIMIT 100
