-- SPDX-License-Identifier: PostgreSQL
--
-- The five transactions of TPC-C 5.11 clause 2: a procedure for each that writes, a
-- function for each that only reads.
--
-- A terminal sends one statement a transaction, so that the workload spends its time
-- in the database and not on round trips.  Statements are set-based where that is
-- cheaper; what is read, written and returned is what the specification asks.
--
-- Locks.  READ COMMITTED, and a fixed order, so that deadlocks are the exception:
--   new_order     district, then stock in the order (warehouse, item)
--   payment       customer, then district, then warehouse (the hottest row last:
--                 it is held for the commit only)
--   delivery      districts in order, in each one the oldest new order first
-- A transaction that loses all the same is retried by the terminal (pgbench --max-tries).
--
-- Errors.  The only one a terminal causes on purpose is an unused item number.
-- It ends in a ROLLBACK inside the procedure and a row that says so: an error
-- would end the client.

-- Number 0..999 to one of the thousand last names (clause 4.3.2.3).
-- PL/pgSQL, since an SQL function would be inlined, and so parsed, at each CALL.
CREATE FUNCTION oltp.last_name(p_number integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    syllables CONSTANT text[] := '{BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING}';
BEGIN
    RETURN syllables[p_number / 100 + 1] || syllables[p_number / 10 % 10 + 1]
        || syllables[p_number % 10 + 1];
END
$$;

-- The customer in the middle of those with one last name, ordered by first name:
-- row n/2 rounded up (clause 2.5.2.2).
CREATE FUNCTION oltp.customer_in_the_middle(
    p_w_id integer, p_d_id smallint, p_last text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_ids integer[];
BEGIN
    v_ids := ARRAY(SELECT c_id FROM oltp.customer
                    WHERE c_w_id = p_w_id AND c_d_id = p_d_id
                      AND c_last = p_last
                    ORDER BY c_first, c_id);
    RETURN v_ids[(cardinality(v_ids) + 1) / 2];
END
$$;

-- New-Order (clause 2.4).  The lines come as three arrays of equal length, in the
-- order (supplying warehouse, item).  o_id is null when an item number is unused:
-- then everything has been done and undone.
CREATE PROCEDURE oltp.new_order(
    IN p_w_id integer, IN p_d_id smallint, IN p_c_id integer,
    IN p_items integer[], IN p_supplies integer[], IN p_quantities smallint[],
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
#variable_conflict use_column
DECLARE
    v_count   smallint := cardinality(p_items);
    v_done    bigint[] := '{}';
    v_pass    record;
BEGIN
    SELECT w.w_tax, c.c_discount, c.c_last, c.c_credit
      INTO STRICT w_tax, c_discount, c_last, c_credit
      FROM oltp.warehouse w, oltp.customer c
     WHERE w.w_id = p_w_id
       AND c.c_w_id = p_w_id AND c.c_d_id = p_d_id AND c.c_id = p_c_id;

    UPDATE oltp.district SET d_next_o_id = d_next_o_id + 1
     WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING d_next_o_id - 1, district.d_tax INTO STRICT o_id, d_tax;

    entered := now();
    INSERT INTO oltp.orders
    VALUES (p_w_id, p_d_id, new_order.o_id, p_c_id, new_order.entered, NULL,
            v_count, (p_w_id = ALL (p_supplies))::integer);
    INSERT INTO oltp.new_order VALUES (p_w_id, p_d_id, new_order.o_id);

    -- One pass does every line, unless an item is in the order twice: an
    -- UPDATE changes a row once, so each pass takes the next one of its kind.  A
    -- pass that does nothing has met an unused item number.
    total := 0;
    LOOP
        WITH changed AS (
            UPDATE oltp.stock
               SET s_quantity = s_quantity - l.quantity
                       + CASE WHEN s_quantity - l.quantity >= 10 THEN 0 ELSE 91 END,
                   s_ytd = s_ytd + l.quantity,
                   s_order_cnt = s_order_cnt + 1,
                   s_remote_cnt = s_remote_cnt + (l.supply <> p_w_id)::integer
              FROM unnest(p_items, p_supplies, p_quantities) WITH ORDINALITY
                       AS l(item, supply, quantity, number)
              JOIN oltp.item ON i_id = l.item
             WHERE s_w_id = l.supply AND s_i_id = l.item
               AND l.number <> ALL (v_done)
            RETURNING l.number, l.item, l.supply, l.quantity,
                i_name, i_price, i_price * l.quantity AS amount, s_quantity,
                CASE WHEN strpos(i_data, 'ORIGINAL') > 0
                      AND strpos(s_data, 'ORIGINAL') > 0
                     THEN 'B' ELSE 'G' END AS brand,
                CASE p_d_id
                    WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02
                    WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
                    WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
                    WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
                    WHEN 9 THEN s_dist_09 WHEN 10 THEN s_dist_10
                END AS dist_info
        ), lines AS (
            INSERT INTO oltp.order_line
            SELECT p_w_id, p_d_id, number, new_order.o_id, item, supply, NULL,
                   quantity, amount, dist_info
              FROM changed
        )
        SELECT sum(amount) AS amount, array_agg(number) AS numbers,
               array_agg(i_name) AS names, array_agg(s_quantity) AS stocks,
               array_agg(brand) AS brands, array_agg(i_price) AS prices,
               array_agg(amount) AS amounts
          INTO v_pass
          FROM changed;

        IF v_pass.numbers IS NULL THEN
            ROLLBACK;
            o_id := NULL;
            total := NULL;
            RETURN;
        END IF;

        v_done := v_done || v_pass.numbers;
        total := total + v_pass.amount;
        names := names || v_pass.names;
        stocks := stocks || v_pass.stocks;
        brands := brands || v_pass.brands;
        prices := prices || v_pass.prices;
        amounts := amounts || v_pass.amounts;
        EXIT WHEN cardinality(v_done) = v_count;
    END LOOP;

    total := round(total * (1 - c_discount) * (1 + w_tax + d_tax), 2);
END
$$;

-- Payment (clause 2.5).  p_c_id or, when that is null, p_last names the customer.
CREATE PROCEDURE oltp.payment(
    IN p_w_id integer, IN p_d_id smallint,
    IN p_c_w_id integer, IN p_c_d_id smallint,
    IN p_c_id integer, IN p_last text, IN p_amount numeric,
    INOUT paid timestamptz DEFAULT NULL,
    INOUT w oltp.warehouse DEFAULT NULL,
    INOUT d oltp.district DEFAULT NULL,
    INOUT c oltp.customer DEFAULT NULL)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_c_id IS NULL THEN
        p_c_id := oltp.customer_in_the_middle(p_c_w_id, p_c_d_id, p_last);
    END IF;

    UPDATE oltp.customer
       SET c_balance = c_balance - p_amount,
           c_ytd_payment = c_ytd_payment + p_amount,
           c_payment_cnt = c_payment_cnt + 1,
           c_data = CASE WHEN c_credit = 'BC'
               THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id,
                                   p_amount, c_data), 500)
               ELSE c_data END
     WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id
    RETURNING * INTO STRICT c;

    UPDATE oltp.district SET d_ytd = d_ytd + p_amount
     WHERE d_w_id = p_w_id AND d_id = p_d_id
    RETURNING * INTO STRICT d;

    UPDATE oltp.warehouse SET w_ytd = w_ytd + p_amount
     WHERE w_id = p_w_id
    RETURNING * INTO STRICT w;

    paid := now();
    INSERT INTO oltp.history
    VALUES (p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, payment.paid, p_amount,
            w.w_name || '    ' || d.d_name);

    -- The terminal shows 200 characters, and those of bad credit only.
    c.c_data := CASE WHEN c.c_credit = 'BC' THEN left(c.c_data, 200) ELSE '' END;
END
$$;

-- Order-Status (clause 2.6): a customer and the lines of the latest order.  STABLE,
-- so that all three statements see one snapshot: the order as it was at one moment.
CREATE FUNCTION oltp.order_status(
    p_w_id integer, p_d_id smallint, p_c_id integer, p_last text,
    OUT c_id integer, OUT c_first text, OUT c_middle text, OUT c_last text,
    OUT c_balance numeric, OUT o_id integer, OUT entered timestamptz,
    OUT carrier smallint, OUT lines oltp.order_line[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF p_c_id IS NULL THEN
        p_c_id := oltp.customer_in_the_middle(p_w_id, p_d_id, p_last);
    END IF;

    SELECT t.c_id, t.c_first, t.c_middle, t.c_last, t.c_balance
      INTO STRICT c_id, c_first, c_middle, c_last, c_balance
      FROM oltp.customer t
     WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND t.c_id = p_c_id;

    SELECT t.o_id, t.o_entry_d, t.o_carrier_id
      INTO STRICT o_id, entered, carrier
      FROM oltp.orders t
     WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = p_c_id
     ORDER BY t.o_id DESC LIMIT 1;

    lines := ARRAY(SELECT l FROM oltp.order_line l
                    WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id
                      AND ol_o_id = order_status.o_id);
END
$$;

-- Delivery (clause 2.7), done at once rather than queued.  delivered counts the
-- districts that had a new order; a district without one is skipped.
--
-- Two deliveries of one warehouse wait for each other at the first district's
-- oldest new order; the loser goes on to the next oldest (FOR UPDATE ... LIMIT 1
-- skips a row that was deleted meanwhile), so none is delivered twice.
CREATE PROCEDURE oltp.delivery(
    IN p_w_id integer, IN p_carrier smallint,
    INOUT delivered integer DEFAULT NULL)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_o_id   integer;
    v_c_id   integer;
    v_amount numeric;
BEGIN
    delivered := 0;
    FOR v_d_id IN 1 .. 10 LOOP
        DELETE FROM oltp.new_order
         WHERE no_w_id = p_w_id AND no_d_id = v_d_id
           AND no_o_id = (SELECT t.no_o_id FROM oltp.new_order t
                           WHERE t.no_w_id = p_w_id AND t.no_d_id = v_d_id
                           ORDER BY t.no_o_id LIMIT 1 FOR UPDATE)
        RETURNING no_o_id INTO v_o_id;
        CONTINUE WHEN NOT FOUND;

        UPDATE oltp.orders SET o_carrier_id = p_carrier
         WHERE o_w_id = p_w_id AND o_d_id = v_d_id AND o_id = v_o_id
        RETURNING o_c_id INTO STRICT v_c_id;

        WITH line AS (
            UPDATE oltp.order_line SET ol_delivery_d = now()
             WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = v_o_id
            RETURNING ol_amount)
        SELECT sum(ol_amount) INTO STRICT v_amount FROM line;

        UPDATE oltp.customer
           SET c_balance = c_balance + v_amount,
               c_delivery_cnt = c_delivery_cnt + 1
         WHERE c_w_id = p_w_id AND c_d_id = v_d_id AND c_id = v_c_id;

        delivered := delivered + 1;
    END LOOP;
END
$$;

-- Stock-Level (clause 2.8): how many items of the last twenty orders run low.
CREATE FUNCTION oltp.stock_level(
    p_w_id integer, p_d_id smallint, p_threshold smallint) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_next_o_id integer;
    v_low_stock integer;
BEGIN
    SELECT d_next_o_id INTO STRICT v_next_o_id
      FROM oltp.district WHERE d_w_id = p_w_id AND d_id = p_d_id;

    SELECT count(DISTINCT s_i_id) INTO STRICT v_low_stock
      FROM oltp.order_line
      JOIN oltp.stock ON s_w_id = p_w_id AND s_i_id = ol_i_id
     WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id
       AND ol_o_id >= v_next_o_id - 20 AND ol_o_id < v_next_o_id
       AND s_quantity < p_threshold;
    RETURN v_low_stock;
END
$$;
