# SPDX-License-Identifier: PostgreSQL
"""Transactions of the oltp database called directly, and ways to make it inconsistent."""

from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

#: Statements that corrupt the database, with the numbers of exactly the conditions that each
#: violates.
CORRUPTIONS: list[tuple[str, set[int]]] = [
    ("UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 2", {1, 8}),
    ("UPDATE district SET d_ytd = d_ytd - 0.01 WHERE d_w_id = 1 AND d_id = 2", {1, 9}),
    ("DELETE FROM district WHERE d_w_id = 1 AND d_id = 2", {1, 2, 9}),
    ("UPDATE district SET d_next_o_id = 3002 WHERE d_w_id = 1 AND d_id = 2", {2}),
    ("DELETE FROM new_order WHERE no_w_id = 2 AND no_d_id = 2 AND no_o_id = 3000", {2, 5}),
    ("DELETE FROM new_order WHERE no_w_id = 2 AND no_d_id = 2 AND no_o_id = 2500", {3, 5}),
    (
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
        {4, 6},
    ),
    (
        "DELETE FROM order_line"
        " WHERE ol_w_id = 2 AND ol_d_id = 2 AND ol_o_id = 3000 AND ol_number = 5",
        {4, 6},
    ),
    (
        "UPDATE orders SET o_carrier_id = 5 WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 3000",
        {5, 7},
    ),
    (
        "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 2 AND o_id = 2100",
        {5, 7},
    ),
    (
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + CASE o_id WHEN 1 THEN 1 ELSE -1 END"
        " WHERE o_w_id = 1 AND o_d_id = 1 AND o_id IN (1, 2)",
        {6},
    ),
    (
        "UPDATE order_line SET ol_delivery_d = NULL"
        " WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
        {7},
    ),
    (
        "UPDATE order_line SET ol_delivery_d = now(), ol_amount = 1"
        " WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 3000 AND ol_number = 1",
        {7, 10, 12},
    ),
    (
        "UPDATE history SET h_amount = 10.01 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 1",
        {8, 9, 10},
    ),
    ("UPDATE history SET h_d_id = 2 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 7", {9}),
    (
        "UPDATE history SET h_c_id = 8 WHERE h_w_id = 1 AND h_d_id = 1 AND h_c_id = 7",
        {10},
    ),
    (
        "UPDATE customer SET c_balance = c_balance + 0.01"
        " WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 3000",
        {10, 12},
    ),
    (
        "UPDATE customer SET c_ytd_payment = c_ytd_payment + 0.01"
        " WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 3000",
        {12},
    ),
]


def value(connection: Connection, query: str, *parameters: object) -> Any:  # noqa: ANN401
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row[0]


def new_order(
    connection: Connection, *lines: tuple[int, int, int], w_id: int = 1, d_id: int = 3
) -> Any:  # noqa: ANN401
    """Enter an order of (item, supplying warehouse, quantity) for customer 42."""
    items, supplies, quantities = zip(*lines, strict=True)
    return connection.execute(
        "CALL oltp.new_order(%s, %s::smallint, 42, %s::int[], %s::int[], %s::smallint[])",
        (w_id, d_id, list(items), list(supplies), list(quantities)),
    ).fetchone()


def stock(connection: Connection, w_id: int, i_id: int) -> Any:  # noqa: ANN401
    return connection.execute(
        "SELECT * FROM oltp.stock WHERE s_w_id = %s AND s_i_id = %s", (w_id, i_id)
    ).fetchone()


def set_stock(connection: Connection, w_id: int, i_id: int, quantity: int) -> None:
    connection.execute(
        "UPDATE oltp.stock SET s_quantity = %s WHERE s_w_id = %s AND s_i_id = %s",
        (quantity, w_id, i_id),
    )


def pay(
    connection: Connection,
    *,
    c_id: int | None = None,
    last: str | None = None,
    amount: str = "12.34",
    customer_at: tuple[int, int] = (1, 3),
) -> Any:  # noqa: ANN401
    """Pay at warehouse 1, district 3."""
    return connection.execute(
        "CALL oltp.payment(1, 3::smallint, %s, %s::smallint, %s, %s, %s::numeric)",
        (*customer_at, c_id, last, amount),
    ).fetchone()


def customer(connection: Connection, w_id: int, d_id: int, c_id: int) -> Any:  # noqa: ANN401
    return connection.execute(
        "SELECT * FROM oltp.customer WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s",
        (w_id, d_id, c_id),
    ).fetchone()


def customer_of_credit(connection: Connection, credit: str) -> int:
    return int(
        value(
            connection,
            "SELECT min(c_id) FROM oltp.customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_credit = %s",
            credit,
        )
    )


def oldest_new_orders(connection: Connection, w_id: int) -> dict[int, int]:
    rows = connection.execute(
        "SELECT no_d_id, min(no_o_id) AS o_id FROM oltp.new_order WHERE no_w_id = %s GROUP BY 1",
        (w_id,),
    ).fetchall()
    return {row.no_d_id: row.o_id for row in rows}
