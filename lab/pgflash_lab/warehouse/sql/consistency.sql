-- SPDX-License-Identifier: PostgreSQL
--
-- What the specification says of the tables' contents, before and after
-- refreshes.  Each statement counts the rows that break its condition.

-- condition 1: every line belongs to an order, every order has 1 to 7 lines
SELECT count(*)
  FROM (SELECT l_orderkey, count(*) AS lines, min(l_linenumber) AS first,
               max(l_linenumber) AS last
          FROM warehouse.lineitem GROUP BY l_orderkey) AS l
  FULL JOIN warehouse.orders ON o_orderkey = l_orderkey
 WHERE o_orderkey IS NULL OR l_orderkey IS NULL OR first <> 1 OR last <> lines
    OR lines > 7;

-- condition 2: an order's total is the sum of its lines, cut to cents
SELECT count(*)
  FROM (SELECT l_orderkey,
               sum(trunc(trunc(l_extendedprice * (1 - l_discount), 2)
                         * (1 + l_tax), 2)) AS total
          FROM warehouse.lineitem GROUP BY l_orderkey) AS l
  JOIN warehouse.orders ON o_orderkey = l_orderkey
 WHERE o_totalprice <> total;

-- condition 3: an order's status is that of its lines, or P where they differ
SELECT count(*)
  FROM (SELECT l_orderkey, min(l_linestatus) AS least, max(l_linestatus) AS most
          FROM warehouse.lineitem GROUP BY l_orderkey) AS l
  JOIN warehouse.orders ON o_orderkey = l_orderkey
 WHERE o_orderstatus <> CASE WHEN least = most THEN least ELSE 'P' END;

-- condition 4: every line's part is sold by its supplier
SELECT count(*)
  FROM warehouse.lineitem
  LEFT JOIN warehouse.partsupp
    ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
 WHERE ps_partkey IS NULL;

-- condition 5: every order has a customer, and a third of them never order
SELECT count(*)
  FROM warehouse.orders
  LEFT JOIN warehouse.customer ON c_custkey = o_custkey
 WHERE c_custkey IS NULL OR o_custkey % 3 = 0;

-- condition 6: a line's price is its quantity times the part's price
SELECT count(*)
  FROM warehouse.lineitem
  JOIN warehouse.part ON p_partkey = l_partkey
 WHERE l_extendedprice <> l_quantity * p_retailprice;

-- condition 7: four suppliers a part, and as many rows as the scale factor says
SELECT count(*)
  FROM (SELECT scale_factor AS sf FROM warehouse.load) AS load,
       LATERAL (VALUES
           ('region', (SELECT count(*) FROM warehouse.region), 5),
           ('nation', (SELECT count(*) FROM warehouse.nation), 25),
           ('supplier', (SELECT count(*) FROM warehouse.supplier), 10000 * sf),
           ('part', (SELECT count(*) FROM warehouse.part), 200000 * sf),
           ('partsupp', (SELECT count(*) FROM warehouse.partsupp), 800000 * sf),
           ('customer', (SELECT count(*) FROM warehouse.customer), 150000 * sf),
           ('orders', (SELECT count(*) FROM warehouse.orders), 1500000 * sf)
       ) AS counted (name, found, wanted)
 WHERE counted.found <> trunc(counted.wanted);
