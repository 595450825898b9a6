-- SPDX-License-Identifier: PostgreSQL
--
-- Primary keys and the two secondary indexes that the transactions need: a
-- customer by last name, and a customer's latest order.  history has no key, as
-- in the specification.

ALTER TABLE oltp.warehouse ADD PRIMARY KEY (w_id);
ALTER TABLE oltp.district ADD PRIMARY KEY (d_w_id, d_id);
ALTER TABLE oltp.item ADD PRIMARY KEY (i_id);
ALTER TABLE oltp.stock ADD PRIMARY KEY (s_w_id, s_i_id);
ALTER TABLE oltp.customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id);
CREATE INDEX customer_by_name ON oltp.customer
    (c_w_id, c_d_id, c_last, c_first);
ALTER TABLE oltp.orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id);
CREATE UNIQUE INDEX orders_by_customer ON oltp.orders
    (o_w_id, o_d_id, o_c_id, o_id);
ALTER TABLE oltp.new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id);
ALTER TABLE oltp.order_line ADD PRIMARY KEY
    (ol_w_id, ol_d_id, ol_o_id, ol_number);
