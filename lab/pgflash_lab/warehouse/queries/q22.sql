-- SPDX-License-Identifier: PostgreSQL
-- title: global sales opportunity
-- Customers of some countries who could buy, and never did.

SELECT left(c_phone, 2) AS cntrycode,
       count(*) AS numcust,
       sum(c_acctbal) AS totacctbal
  FROM warehouse.customer
 WHERE left(c_phone, 2) IN (:codes)
   AND c_acctbal > (SELECT avg(c_acctbal)
                      FROM warehouse.customer
                     WHERE c_acctbal > 0.00
                       AND left(c_phone, 2) IN (:codes))
   AND NOT EXISTS (SELECT FROM warehouse.orders WHERE o_custkey = c_custkey)
 GROUP BY cntrycode
 ORDER BY cntrycode
