-- SPDX-License-Identifier: PostgreSQL
--
-- TPC-C 5.11 clause 3.3.2, conditions 1 to 10 and 12.
--
-- Each statement returns one number: how many rows (warehouses, districts, orders
-- or customers) violate the condition.  All are set-based, and all compare with
-- full outer joins or IS DISTINCT FROM, so that a missing row is a violation too.
--
-- The lines that begin with "-- condition" are read by consistency.py.

-- condition 1: w_ytd = sum(d_ytd)
SELECT count(*)
  FROM oltp.warehouse
  FULL JOIN (SELECT d_w_id, sum(d_ytd) AS ytd
               FROM oltp.district GROUP BY d_w_id) AS d ON d_w_id = w_id
 WHERE w_ytd IS DISTINCT FROM ytd;

-- condition 2: d_next_o_id - 1 = max(o_id) = max(no_o_id)
SELECT count(*)
  FROM oltp.district
  FULL JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last
               FROM oltp.orders GROUP BY o_w_id, o_d_id) AS o
    ON o_w_id = d_w_id AND o_d_id = d_id
  LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last
               FROM oltp.new_order GROUP BY no_w_id, no_d_id) AS n
    ON no_w_id = d_w_id AND no_d_id = d_id
 WHERE d_next_o_id - 1 IS DISTINCT FROM o.last
    OR n.last <> o.last;

-- condition 3: new-order numbers of a district have no gaps
SELECT count(*)
  FROM (SELECT 1
          FROM oltp.new_order
         GROUP BY no_w_id, no_d_id
        HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS v;

-- condition 4: sum(o_ol_cnt) = count(order_line) in each district
SELECT count(*)
  FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines
          FROM oltp.orders GROUP BY o_w_id, o_d_id) AS o
  FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines
               FROM oltp.order_line GROUP BY ol_w_id, ol_d_id) AS l
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id
 WHERE o.lines IS DISTINCT FROM l.lines;

-- condition 5: o_carrier_id is null if and only if the order is in new_order
SELECT count(*)
  FROM oltp.orders
  FULL JOIN oltp.new_order
    ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
 WHERE o_id IS NULL
    OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL);

-- condition 6: o_ol_cnt = the order's number of lines
SELECT count(*)
  FROM oltp.orders
  FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines
               FROM oltp.order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l
    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
 WHERE o_ol_cnt IS DISTINCT FROM lines;

-- condition 7: ol_delivery_d is null if and only if the order has no carrier
SELECT count(*)
  FROM oltp.order_line
  LEFT JOIN oltp.orders
    ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
 WHERE o_id IS NULL
    OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL);

-- condition 8: w_ytd = sum(h_amount)
SELECT count(*)
  FROM oltp.warehouse
  FULL JOIN (SELECT h_w_id, sum(h_amount) AS paid
               FROM oltp.history GROUP BY h_w_id) AS h ON h_w_id = w_id
 WHERE w_ytd IS DISTINCT FROM paid;

-- condition 9: d_ytd = sum(h_amount)
SELECT count(*)
  FROM oltp.district
  FULL JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid
               FROM oltp.history GROUP BY h_w_id, h_d_id) AS h
    ON h_w_id = d_w_id AND h_d_id = d_id
 WHERE d_ytd IS DISTINCT FROM paid;

-- condition 10: c_balance = delivered amounts - sum(h_amount)
SELECT count(*)
  FROM oltp.customer
  LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered
               FROM oltp.orders
               JOIN oltp.order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id
                                   AND ol_o_id = o_id
              WHERE ol_delivery_d IS NOT NULL
              GROUP BY o_w_id, o_d_id, o_c_id) AS o
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
  FULL JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid
               FROM oltp.history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
    ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
 WHERE c_balance IS DISTINCT FROM coalesce(delivered, 0) - paid;

-- condition 12: c_balance + c_ytd_payment = delivered amounts
SELECT count(*)
  FROM oltp.customer
  LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered
               FROM oltp.orders
               JOIN oltp.order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id
                                   AND ol_o_id = o_id
              WHERE ol_delivery_d IS NOT NULL
              GROUP BY o_w_id, o_d_id, o_c_id) AS o
    ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
 WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0);
