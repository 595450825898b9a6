-- SPDX-License-Identifier: PostgreSQL
--
-- Primary keys, and two indexes on references, which the specification allows
-- and without which queries 17, 20 and 22 run for hours.

ALTER TABLE warehouse.region ADD PRIMARY KEY (r_regionkey);
ALTER TABLE warehouse.nation ADD PRIMARY KEY (n_nationkey);
ALTER TABLE warehouse.supplier ADD PRIMARY KEY (s_suppkey);
ALTER TABLE warehouse.part ADD PRIMARY KEY (p_partkey);
ALTER TABLE warehouse.partsupp ADD PRIMARY KEY (ps_partkey, ps_suppkey);
ALTER TABLE warehouse.customer ADD PRIMARY KEY (c_custkey);
ALTER TABLE warehouse.orders ADD PRIMARY KEY (o_orderkey);
ALTER TABLE warehouse.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber);
CREATE INDEX lineitem_by_part ON warehouse.lineitem (l_partkey, l_suppkey);
CREATE INDEX orders_by_customer ON warehouse.orders (o_custkey);
