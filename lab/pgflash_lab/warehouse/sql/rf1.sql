-- SPDX-License-Identifier: PostgreSQL
--
-- New sales (RF1): insert the orders of one set, and their lines.

INSERT INTO warehouse.orders
SELECT o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate,
       o_orderpriority, o_clerk, o_shippriority, o_comment
  FROM warehouse.refresh_orders
 WHERE refresh_set = :set;

INSERT INTO warehouse.lineitem
SELECT l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity,
       l_extendedprice, l_discount, l_tax, l_returnflag, l_linestatus,
       l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct, l_shipmode,
       l_comment
  FROM warehouse.refresh_lineitem
 WHERE refresh_set = :set;
