-- SPDX-License-Identifier: PostgreSQL
-- title: shipping modes and order priority
-- Lines that came late though sent in time, by the way they were shipped.

SELECT l_shipmode,
       count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH'))
           AS high_line_count,
       count(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
           AS low_line_count
  FROM warehouse.orders
  JOIN warehouse.lineitem ON l_orderkey = o_orderkey
 WHERE l_shipmode IN (:shipmode1, :shipmode2)
   AND l_commitdate < l_receiptdate
   AND l_shipdate < l_commitdate
   AND l_receiptdate >= DATE :date
   AND l_receiptdate < DATE :date + INTERVAL '1 year'
 GROUP BY l_shipmode
 ORDER BY l_shipmode
