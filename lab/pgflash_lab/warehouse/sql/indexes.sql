-- SPDX-License-Identifier: PostgreSQL
--
-- Primary keys, two indexes on references, without which queries 17, 20 and 22
-- run for hours, and the references themselves.  The specification allows all.

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

-- The references.  The planner needs them: it takes a line's part and supplier
-- for independent otherwise, expects fifty rows of a join that has a hundred
-- thousand (query 9), and looks each of them up by an index.

ALTER TABLE warehouse.nation
    ADD FOREIGN KEY (n_regionkey) REFERENCES warehouse.region;
ALTER TABLE warehouse.supplier
    ADD FOREIGN KEY (s_nationkey) REFERENCES warehouse.nation;
ALTER TABLE warehouse.customer
    ADD FOREIGN KEY (c_nationkey) REFERENCES warehouse.nation;
ALTER TABLE warehouse.partsupp
    ADD FOREIGN KEY (ps_partkey) REFERENCES warehouse.part;
ALTER TABLE warehouse.partsupp
    ADD FOREIGN KEY (ps_suppkey) REFERENCES warehouse.supplier;
ALTER TABLE warehouse.orders
    ADD FOREIGN KEY (o_custkey) REFERENCES warehouse.customer;
ALTER TABLE warehouse.lineitem
    ADD FOREIGN KEY (l_orderkey) REFERENCES warehouse.orders;
ALTER TABLE warehouse.lineitem
    ADD FOREIGN KEY (l_partkey, l_suppkey) REFERENCES warehouse.partsupp;
