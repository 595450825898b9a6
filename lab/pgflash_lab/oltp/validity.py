# SPDX-License-Identifier: PostgreSQL
"""Judge whether the load was the one that the specification describes.

The terminals' own choices are counted from pgbench's log (rollbacks, choices by name).  What only
the database knows is counted from the rows that the run added: orders beyond each district's mark,
and payments since the mark's time.  The mark is taken before the run, so nothing has to be counted
during the run.

New rows are at the ends of their tables, so only the pages after the mark are read.  A few rows
that found room before it are missed, whatever their content: the sample gets a little smaller, but
not biased.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import sqrt

import psycopg

from pgflash_lab.oltp.measure import judge_mean, judge_share
from pgflash_lab.oltp.model import ValidityFigure
from pgflash_lab.oltp.scripts import script_number

#: Standard deviation of a uniform draw from 5 to 15.
LINES_DEVIATION = sqrt((11 * 11 - 1) / 12)


#: Relations are extended by up to 64 pages at once, so that this many may be empty at the end.
PAGES_BEFORE_END = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The state of a database before a run."""

    warehouses: int
    seed: int
    c_last_constant: int
    #: The server's time; transactions of the run begin later.
    at: datetime
    next_order_sum: int
    #: (warehouse, district, d_next_o_id) of every district.
    next_orders: tuple[tuple[int, int, int], ...]
    #: Where the tables ended, as row addresses (tid).
    ends: Mapping[str, str]
    commits: int
    rollbacks: int


def take_mark(connection: psycopg.Connection) -> Mark:
    """Read the state from which the run's own work is distinguished."""
    load = connection.execute("SELECT warehouses, seed, c_last_constant FROM oltp.load").fetchone()
    assert load is not None
    at = connection.execute("SELECT clock_timestamp()").fetchone()
    assert at is not None
    districts = connection.execute(
        "SELECT d_w_id, d_id, d_next_o_id FROM oltp.district ORDER BY 1, 2"
    ).fetchall()
    commits, rollbacks = count_database_transactions(connection)
    return Mark(
        warehouses=int(load[0]),
        seed=int(load[1]),
        c_last_constant=int(load[2]),
        at=at[0],
        next_order_sum=sum(int(row[2]) for row in districts),
        next_orders=tuple((int(w), int(d), int(o)) for w, d, o in districts),
        ends={table: _end(connection, table) for table in ("orders", "order_line", "history")},
        commits=commits,
        rollbacks=rollbacks,
    )


def _end(connection: psycopg.Connection, table: str) -> str:
    """Return the address of a table's end, less the pages that a load left half empty."""
    row = connection.execute(
        "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int",
        (f"oltp.{table}",),
    ).fetchone()
    assert row is not None
    return f"({max(0, int(row[0]) - PAGES_BEFORE_END)},1)"


def count_database_transactions(connection: psycopg.Connection) -> tuple[int, int]:
    """Return (commits, rollbacks) of the connection's database, this session's included."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    row = connection.execute(
        "SELECT xact_commit, xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def sum_next_orders(connection: psycopg.Connection) -> int:
    """Return sum(d_next_o_id)."""
    row = connection.execute("SELECT sum(d_next_o_id) FROM oltp.district").fetchone()
    assert row is not None
    return int(row[0])


def judge_run(
    connection: psycopg.Connection, mark: Mark, script_counts: Sequence[int]
) -> tuple[ValidityFigure, ...]:
    """Return the figures that clause 5.5.1.5 limits; SCRIPT_COUNTS are the log's, by script."""
    entered = script_counts[script_number("new_order")]
    rolled_back = script_counts[script_number("new_order_rollback")]
    paid_by_name = script_counts[script_number("payment_by_name")]
    paid_by_id = script_counts[script_number("payment_by_id")]
    asked_by_name = script_counts[script_number("order_status_by_name")]
    asked_by_id = script_counts[script_number("order_status_by_id")]
    orders, mean_lines = _count_orders(connection, mark)
    lines, remote_lines = _count_lines(connection, mark)
    payments, remote_payments = _count_payments(connection, mark)
    one_warehouse = mark.warehouses == 1
    return (
        judge_share(
            "rolled back new orders",
            hits=rolled_back,
            sample=entered + rolled_back,
            least=0.009,
            most=0.011,
        ),
        judge_mean(
            "lines of a new order",
            mean=mean_lines,
            deviation=LINES_DEVIATION,
            sample=orders,
            least=9.5,
            most=10.5,
        ),
        judge_share(
            "lines from a remote warehouse",
            hits=remote_lines,
            sample=0 if one_warehouse else lines,
            least=0.0095,
            most=0.0105,
        ),
        judge_share(
            "payments of a remote customer",
            hits=remote_payments,
            sample=0 if one_warehouse else payments,
            least=0.14,
            most=0.16,
        ),
        judge_share(
            "payments by last name",
            hits=paid_by_name,
            sample=paid_by_name + paid_by_id,
            least=0.57,
            most=0.63,
        ),
        judge_share(
            "order status by last name",
            hits=asked_by_name,
            sample=asked_by_name + asked_by_id,
            least=0.57,
            most=0.63,
        ),
    )


def _count_orders(connection: psycopg.Connection, mark: Mark) -> tuple[int, float]:
    """Return (orders, mean lines of an order) of the orders entered since the mark."""
    row = connection.execute(
        "SELECT count(*), coalesce(avg(o_ol_cnt), 0)"
        "  FROM oltp.orders"
        "  JOIN unnest(%s::int[], %s::int[], %s::int[]) AS mark (w_id, d_id, next)"
        "    ON o_w_id = w_id AND o_d_id = d_id AND o_id >= next"
        " WHERE orders.ctid >= %s::tid",
        (*_district_columns(mark), mark.ends["orders"]),
    ).fetchone()
    assert row is not None
    return int(row[0]), float(row[1])


def _count_lines(connection: psycopg.Connection, mark: Mark) -> tuple[int, int]:
    """Return (lines, remote lines) of the orders entered since the mark."""
    row = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE ol_supply_w_id <> ol_w_id)"
        "  FROM oltp.order_line"
        "  JOIN unnest(%s::int[], %s::int[], %s::int[]) AS mark (w_id, d_id, next)"
        "    ON ol_w_id = w_id AND ol_d_id = d_id AND ol_o_id >= next"
        " WHERE order_line.ctid >= %s::tid",
        (*_district_columns(mark), mark.ends["order_line"]),
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _count_payments(connection: psycopg.Connection, mark: Mark) -> tuple[int, int]:
    """Return (payments, payments of remote customers) since the mark."""
    row = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE h_w_id <> h_c_w_id)"
        " FROM oltp.history WHERE h_date >= %s AND ctid >= %s::tid",
        (mark.at, mark.ends["history"]),
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _district_columns(mark: Mark) -> tuple[list[int], list[int], list[int]]:
    """Return the mark's districts as columns: warehouse, district, next order."""
    return (
        [w_id for w_id, _, _ in mark.next_orders],
        [d_id for _, d_id, _ in mark.next_orders],
        [next_o_id for _, _, next_o_id in mark.next_orders],
    )
