-- SPDX-License-Identifier: PostgreSQL
-- title: customer distribution
-- How many customers have how many orders, special ones not counted.

SELECT c_count, count(*) AS custdist
  FROM (SELECT c_custkey, count(o_orderkey) AS c_count
          FROM warehouse.customer
          LEFT JOIN warehouse.orders
            ON o_custkey = c_custkey
           AND o_comment NOT LIKE '%' || :word1 || '%' || :word2 || '%'
         GROUP BY c_custkey) AS counted
 GROUP BY c_count
 ORDER BY custdist DESC, c_count DESC
