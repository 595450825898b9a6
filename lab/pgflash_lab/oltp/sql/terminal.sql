-- SPDX-License-Identifier: PostgreSQL
--
-- What pgbench cannot draw itself: the lines of a new order.
--
-- A terminal's other input comes from pgbench variables.  An order has 5 to 15
-- lines of three numbers; drawing them here costs a few microseconds, sending
-- them would cost more on both sides.  It is generation only: new_order() gets
-- them as a terminal would have sent them.
--
-- p_rollback asks for an unused item number as the last item.  p_item_a and
-- p_item_c are NURand's A and C for items.

CREATE PROCEDURE oltp.enter_new_order(
    IN p_w_id integer, IN p_d_id smallint, IN p_c_id integer,
    IN p_warehouses integer, IN p_item_a integer, IN p_item_c integer,
    IN p_rollback boolean,
    INOUT o_id integer DEFAULT NULL,
    INOUT entered timestamptz DEFAULT NULL,
    INOUT c_last text DEFAULT NULL,
    INOUT c_credit text DEFAULT NULL,
    INOUT c_discount numeric DEFAULT NULL,
    INOUT w_tax numeric DEFAULT NULL,
    INOUT d_tax numeric DEFAULT NULL,
    INOUT total numeric DEFAULT NULL,
    INOUT names text[] DEFAULT NULL,
    INOUT stocks smallint[] DEFAULT NULL,
    INOUT brands text[] DEFAULT NULL,
    INOUT prices numeric[] DEFAULT NULL,
    INOUT amounts numeric[] DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    v_count      integer := 5 + floor(random() * 11);
    v_items      integer[];
    v_supplies   integer[];
    v_quantities smallint[];
BEGIN
    SELECT array_agg(item), array_agg(supply), array_agg(quantity)
      INTO v_items, v_supplies, v_quantities
      FROM (SELECT CASE WHEN p_rollback AND n = v_count THEN 100001
                   ELSE ((floor(random() * (p_item_a + 1))::integer
                          | (1 + floor(random() * 100000)::integer))
                         + p_item_c) % 100000 + 1 END AS item,
                   CASE WHEN p_warehouses > 1 AND random() < 0.01
                   THEN (p_w_id + floor(random() * (p_warehouses - 1))::integer)
                        % p_warehouses + 1
                   ELSE p_w_id END AS supply,
                   (1 + floor(random() * 10))::smallint AS quantity
              -- Fifteen and not v_count: a constant lets one plan serve every call.
              FROM generate_series(1, 15) AS n
             WHERE n <= v_count
             ORDER BY supply, item) AS line;

    CALL oltp.new_order(p_w_id, p_d_id, p_c_id, v_items, v_supplies,
                        v_quantities, o_id, entered, c_last, c_credit,
                        c_discount, w_tax, d_tax, total, names, stocks, brands,
                        prices, amounts);
END
$$;
