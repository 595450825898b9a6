-- SPDX-License-Identifier: PostgreSQL
-- title: promotion effect
-- The percentage of a month's revenue that came from promoted parts.

SELECT 100.00 * coalesce(sum(l_extendedprice * (1 - l_discount))
                             FILTER (WHERE p_type LIKE 'PROMO%'), 0)
           / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
  FROM warehouse.lineitem
  JOIN warehouse.part ON p_partkey = l_partkey
 WHERE l_shipdate >= DATE :date
   AND l_shipdate < DATE :date + INTERVAL '1 month'
