-- SPDX-License-Identifier: PostgreSQL
-- title: forecasting revenue change
-- What a year would have earned more without discounts in a range.

SELECT sum(l_extendedprice * l_discount) AS revenue
  FROM warehouse.lineitem
 WHERE l_shipdate >= DATE :date
   AND l_shipdate < DATE :date + INTERVAL '1 year'
   AND l_discount BETWEEN :discount - 0.01 AND :discount + 0.01
   AND l_quantity < :quantity
