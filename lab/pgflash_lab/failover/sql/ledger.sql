-- SPDX-License-Identifier: PostgreSQL
--
-- What the clients are promised: a row for each new order, written in the order's own
-- transaction and named by who entered it: the run of pgbench, its client, and that
-- client's count of tries.

CREATE SCHEMA failover;

CREATE TABLE failover.ledger (
    run    integer  NOT NULL,
    client integer  NOT NULL,
    try    bigint   NOT NULL,
    w_id   integer  NOT NULL,
    d_id   smallint NOT NULL,
    o_id   integer  NOT NULL,
    PRIMARY KEY (run, client, try)
);

-- oltp.enter_new_order(), and its row in the ledger.
CREATE PROCEDURE failover.enter_new_order(
    IN p_run integer, IN p_client integer, IN p_try bigint,
    IN p_w_id integer, IN p_d_id smallint, IN p_c_id integer,
    IN p_warehouses integer, IN p_item_a integer, IN p_item_c integer,
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
BEGIN
    CALL oltp.enter_new_order(p_w_id, p_d_id, p_c_id, p_warehouses, p_item_a,
                              p_item_c, false, o_id, entered, c_last, c_credit,
                              c_discount, w_tax, d_tax, total, names, stocks,
                              brands, prices, amounts);
    INSERT INTO failover.ledger VALUES (p_run, p_client, p_try, p_w_id, p_d_id, o_id);
END
$$;
