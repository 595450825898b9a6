-- SPDX-License-Identifier: PostgreSQL
--
-- What the refresh functions will insert (RF1) and delete (RF2), in sets of one
-- order in a thousand, as the specification asks.
--
-- The generator uses 8 order keys of every 32: the n-th order has the key
-- (n / 8) * 32 + n % 8.  Set k inserts orders with the key of orders
-- number (k-1) * size + 1 to k * size, plus 8, which is free, and deletes those
-- orders themselves; so all sets can be used in any order, each once.  The
-- contents of a new order and its lines are those of an order at the other end of
-- the table, which no set deletes.
--
-- Parameters: sets, and size in orders.

CREATE TABLE warehouse.refresh_keys AS
    SELECT (n - 1) / :size + 1 AS refresh_set,
           (n / 8) * 32 + n % 8 AS delete_key,
           (n / 8) * 32 + n % 8 + 8 AS insert_key,
           n
      FROM generate_series(1, :sets * :size) AS n;

CREATE TABLE warehouse.refresh_orders AS
    SELECT k.refresh_set, k.insert_key AS o_orderkey,
           o.o_custkey, o.o_orderstatus, o.o_totalprice, o.o_orderdate,
           o.o_orderpriority, o.o_clerk, o.o_shippriority, o.o_comment,
           o.o_orderkey AS source_key
      FROM warehouse.refresh_keys AS k
      JOIN (SELECT row_number() OVER (ORDER BY o_orderkey DESC) AS n, *
              FROM (SELECT * FROM warehouse.orders
                     ORDER BY o_orderkey DESC LIMIT :sets * :size) AS last
           ) AS o USING (n);

CREATE TABLE warehouse.refresh_lineitem AS
    SELECT r.refresh_set, r.o_orderkey AS l_orderkey,
           l.l_partkey, l.l_suppkey, l.l_linenumber, l.l_quantity,
           l.l_extendedprice, l.l_discount, l.l_tax, l.l_returnflag,
           l.l_linestatus, l.l_shipdate, l.l_commitdate, l.l_receiptdate,
           l.l_shipinstruct, l.l_shipmode, l.l_comment
      FROM warehouse.refresh_orders AS r
      JOIN warehouse.lineitem AS l ON l.l_orderkey = r.source_key;
