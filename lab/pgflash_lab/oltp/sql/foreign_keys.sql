-- SPDX-License-Identifier: PostgreSQL
--
-- The references of clause 1.3, as constraints.  Optional: the specification
-- names them without asking the database to enforce them, and each one costs the
-- writers a look-up and a row lock.

ALTER TABLE oltp.district ADD FOREIGN KEY (d_w_id)
    REFERENCES oltp.warehouse;
ALTER TABLE oltp.customer ADD FOREIGN KEY (c_w_id, c_d_id)
    REFERENCES oltp.district;
ALTER TABLE oltp.history ADD FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id)
    REFERENCES oltp.customer;
ALTER TABLE oltp.history ADD FOREIGN KEY (h_w_id, h_d_id)
    REFERENCES oltp.district;
ALTER TABLE oltp.orders ADD FOREIGN KEY (o_w_id, o_d_id, o_c_id)
    REFERENCES oltp.customer;
ALTER TABLE oltp.new_order ADD FOREIGN KEY (no_w_id, no_d_id, no_o_id)
    REFERENCES oltp.orders;
ALTER TABLE oltp.order_line ADD FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id)
    REFERENCES oltp.orders;
ALTER TABLE oltp.order_line ADD FOREIGN KEY (ol_supply_w_id, ol_i_id)
    REFERENCES oltp.stock;
ALTER TABLE oltp.stock ADD FOREIGN KEY (s_w_id) REFERENCES oltp.warehouse;
ALTER TABLE oltp.stock ADD FOREIGN KEY (s_i_id) REFERENCES oltp.item;
