# SPDX-License-Identifier: PostgreSQL
"""The oltp database on a real server: its contents, its conditions, its transactions.

One database of two warehouses serves all tests; each works in a transaction that is
rolled back, or says why it cannot.
"""

import tempfile
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from pgflash_lab.leftovers import remove_tree
from pgflash_lab.loading import LoadError
from pgflash_lab.oltp import LoadResult, OltpParameters, check_consistency, load
from pgflash_lab.oltp.consistency import check_connection
from pgflash_lab.oltp.loader import TABLES
from pgflash_lab.oltp.rows import last_name
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import FAST_SETTINGS
from support.oltp import (
    CORRUPTIONS,
    Connection,
    customer,
    customer_of_credit,
    new_order,
    oldest_new_orders,
    pay,
    set_stock,
    stock,
    value,
)
from support.patience import PATIENCE_S, eventually
from support.workloads import parameters_of

WAREHOUSES = 2


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="pgflash-oltp-"))
    folder.chmod(0o755)
    settings = {**FAST_SETTINGS, "shared_buffers": "128MB", "max_wal_size": "1GB"}
    with Server.create(pg_install, folder / "server", settings=settings) as server:
        server.start()
        yield server
    remove_tree(folder)


@pytest.fixture(scope="module")
def loaded(server: Server) -> tuple[LoadResult, list[tuple[str, float]]]:
    reports: list[tuple[str, float]] = []
    result = load(
        server.conninfo(),
        parameters_of(OltpParameters, warehouses=WAREHOUSES, seed=11),
        lambda stage, fraction: reports.append((stage, fraction)),
    )
    return result, reports


@pytest.fixture
def connection(server: Server, loaded: object) -> Iterator[Connection]:
    """Return a connection in a transaction that is rolled back after the test."""
    with psycopg.connect(server.conninfo(), row_factory=namedtuple_row) as connection:
        yield connection
        connection.rollback()


@pytest.fixture
def committing(server: Server, loaded: object) -> Iterator[Connection]:
    """Return a connection whose statements commit themselves."""
    with psycopg.connect(
        server.conninfo(), row_factory=namedtuple_row, autocommit=True
    ) as connection:
        yield connection


@pytest.fixture(scope="module")
def small_database(server: Server, loaded: object) -> str:
    """Return the name of a consistent database with two districts a warehouse.

    All conditions are checked once for each corruption, and they read every row.
    """
    with server.connect() as connection:
        connection.execute("CREATE DATABASE small TEMPLATE postgres STRATEGY file_copy")
    with server.connect("small") as connection:
        for prefix, table in (
            ("d", "district"),
            ("c_d", "customer"),
            ("h_d", "history"),
            ("o_d", "orders"),
            ("no_d", "new_order"),
            ("ol_d", "order_line"),
        ):
            connection.execute(f"DELETE FROM oltp.{table} WHERE {prefix}_id > 2".encode())
        connection.execute("UPDATE oltp.warehouse SET w_ytd = 60000")
        connection.execute("VACUUM ANALYZE")
    return "small"


# ---- load


@pytest.mark.parametrize(
    ("table", "least", "most"),
    [
        ("warehouse", 1, 1),
        ("district", 10, 10),
        ("customer", 30_000, 30_000),
        ("history", 30_000, 30_000),
        ("orders", 30_000, 30_000),
        ("new_order", 9_000, 9_000),
        ("stock", 100_000, 100_000),
        ("order_line", 298_000, 302_000),
    ],
)
def test_each_table_has_its_rows(connection: Connection, table: str, least: int, most: int) -> None:
    count = value(connection, f"SELECT count(*) FROM oltp.{table}")
    assert least * WAREHOUSES <= count <= most * WAREHOUSES


def test_items_do_not_grow_with_warehouses(connection: Connection) -> None:
    assert value(connection, "SELECT count(*) FROM oltp.item") == 100_000


def test_the_load_reports_rows_size_and_progress(
    connection: Connection, loaded: tuple[LoadResult, list[tuple[str, float]]]
) -> None:
    result, reports = loaded
    rows = sum(
        value(connection, f"SELECT count(*) FROM oltp.{table}") for table in ("item", *TABLES)
    )
    assert result.rows == rows
    assert result.warehouses == WAREHOUSES
    assert 90e6 < result.size_bytes / WAREHOUSES < 130e6
    for stage in ("load rows", "create indexes", "vacuum"):
        fractions = [fraction for name, fraction in reports if name == stage]
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0


def test_names_money_and_texts_reach_the_tables(connection: Connection) -> None:
    assert value(
        connection,
        "SELECT bool_and(c_last = oltp.last_name(c_id - 1)) FROM oltp.customer WHERE c_id <= 1000",
    )
    assert (
        value(
            connection,
            "SELECT count(*) FROM oltp.customer WHERE c_credit = 'BC'",
        )
        == 3_000 * WAREHOUSES
    )
    originals = value(
        connection, "SELECT count(*) FROM oltp.stock WHERE strpos(s_data, 'ORIGINAL') > 0"
    )
    assert 10_000 * WAREHOUSES <= originals <= 10_005 * WAREHOUSES
    assert value(connection, "SELECT sum(c_balance) FROM oltp.customer") == -300_000 * WAREHOUSES
    assert value(connection, "SELECT max(char_length(c_data)) FROM oltp.customer") == 500
    assert value(connection, "SELECT max(char_length(s_dist_10)) FROM oltp.stock") == 24


def test_loaded_pages_are_frozen_and_all_visible(connection: Connection) -> None:
    assert value(
        connection,
        "SELECT bool_and(relallvisible = relpages) FROM pg_class"
        " WHERE relnamespace = 'oltp'::regnamespace AND relkind = 'r' AND relname <> 'load'",
    )


def test_last_names_are_the_same_in_sql_and_in_python(connection: Connection) -> None:
    names = connection.execute(
        "SELECT oltp.last_name(number) FROM generate_series(0, 999) AS number ORDER BY number"
    ).fetchall()
    assert [name for (name,) in names] == [last_name(number) for number in range(1_000)]


def test_a_second_load_is_refused_and_changes_nothing(
    server: Server, connection: Connection
) -> None:
    with pytest.raises(LoadError, match="exists already"):
        load(server.conninfo(), parameters_of(OltpParameters, warehouses=1))
    assert value(connection, "SELECT count(*) FROM oltp.warehouse") == WAREHOUSES


@pytest.fixture
def other_database(server: Server) -> Iterator[str]:
    """Return the name of an empty database that goes away with the test."""
    with server.connect() as connection:
        connection.execute("CREATE DATABASE other TEMPLATE template0")
    yield "other"
    with server.connect() as connection:
        connection.execute("DROP DATABASE other WITH (FORCE)")


def test_an_interrupted_load_leaves_nothing(server: Server, other_database: str) -> None:
    def interrupt(_stage: str, fraction: float) -> None:
        if fraction > 0.1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(
            server.conninfo(other_database), parameters_of(OltpParameters, warehouses=1), interrupt
        )
    with server.connect(other_database) as connection:
        assert value(connection, "SELECT to_regnamespace('oltp')") is None


def test_a_load_that_replaces_takes_the_old_schema_away(
    server: Server, other_database: str
) -> None:
    with server.connect(other_database) as connection:
        connection.execute("CREATE SCHEMA oltp")
        connection.execute("CREATE TABLE oltp.left_over ()")
    load(server.conninfo(other_database), parameters_of(OltpParameters, warehouses=1), replace=True)
    with server.connect(other_database) as connection:
        assert value(connection, "SELECT to_regclass('oltp.left_over')") is None


# ---- consistency


def test_every_condition_holds_after_the_load(server: Server, loaded: object) -> None:
    results = check_consistency(server.conninfo())
    assert [result.number for result in results] == [*range(1, 11), 12]
    assert [result for result in results if not result.holds] == []


def test_the_small_database_is_consistent_before_it_is_corrupted(
    server: Server, small_database: str
) -> None:
    results = check_consistency(server.conninfo(small_database))
    assert [result for result in results if not result.holds] == []


@pytest.mark.parametrize(("corruption", "violated"), CORRUPTIONS)
def test_a_corruption_violates_just_the_conditions_that_speak_of_it(
    server: Server, small_database: str, corruption: str, violated: set[int]
) -> None:
    with psycopg.connect(server.conninfo(small_database)) as connection:
        connection.execute("SET LOCAL search_path = oltp")
        changed = connection.execute(corruption.encode()).rowcount
        results = check_connection(connection)
        connection.rollback()
    assert changed in (1, 2)
    assert {result.number for result in results if not result.holds} == violated


def test_the_corruptions_leave_no_condition_unproven() -> None:
    violated: set[int] = set().union(*(conditions for _, conditions in CORRUPTIONS))
    assert violated == {*range(1, 11), 12}


# ---- New-Order


def test_a_new_order_takes_the_next_number_and_writes_its_rows(connection: Connection) -> None:
    answer = new_order(connection, (10, 1, 5), (11, 1, 1), (500, 1, 10))
    assert answer.o_id == 3_001
    assert (
        value(connection, "SELECT d_next_o_id FROM oltp.district WHERE d_w_id = 1 AND d_id = 3")
        == 3_002
    )
    order = connection.execute(
        "SELECT * FROM oltp.orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 3001"
    ).fetchone()
    assert order is not None
    assert (order.o_c_id, order.o_carrier_id, order.o_ol_cnt, order.o_all_local) == (42, None, 3, 1)
    assert order.o_entry_d == answer.entered
    assert (
        value(
            connection,
            "SELECT count(*) FROM oltp.new_order"
            " WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 3001",
        )
        == 1
    )
    lines = connection.execute(
        "SELECT order_line.*, i_price, s_dist_03 FROM oltp.order_line"
        " JOIN oltp.item ON i_id = ol_i_id"
        " JOIN oltp.stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id"
        " WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 3001 ORDER BY ol_number"
    ).fetchall()
    assert [(line.ol_number, line.ol_i_id, line.ol_quantity) for line in lines] == [
        (1, 10, 5),
        (2, 11, 1),
        (3, 500, 10),
    ]
    for line in lines:
        assert line.ol_amount == line.i_price * line.ol_quantity
        assert line.ol_dist_info == line.s_dist_03
        assert line.ol_delivery_d is None


def test_a_new_order_answers_with_what_the_terminal_shows(connection: Connection) -> None:
    answer = new_order(connection, (10, 1, 5), (11, 2, 1))
    customer = connection.execute(
        "SELECT * FROM oltp.customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 42"
    ).fetchone()
    items = connection.execute(
        "SELECT * FROM oltp.item WHERE i_id IN (10, 11) ORDER BY i_id"
    ).fetchall()
    assert customer is not None
    amounts = [items[0].i_price * 5, items[1].i_price * 1]
    tax = value(connection, "SELECT w_tax FROM oltp.warehouse WHERE w_id = 1")
    tax += value(connection, "SELECT d_tax FROM oltp.district WHERE d_w_id = 1 AND d_id = 3")
    total = sum(amounts) * (1 - customer.c_discount) * (1 + tax)
    assert (answer.c_last, answer.c_credit) == (customer.c_last, customer.c_credit)
    assert answer.total == total.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")
    assert answer.names == [item.i_name for item in items]
    assert answer.prices == [item.i_price for item in items]
    assert answer.amounts == amounts
    assert answer.stocks == [stock(connection, w, i).s_quantity for w, i in ((1, 10), (2, 11))]


@pytest.mark.parametrize(
    ("before", "quantity", "after"),
    [(30, 5, 25), (16, 5, 11), (15, 5, 10), (14, 5, 100), (10, 10, 91), (20, 10, 10)],
)
def test_stock_falls_by_the_quantity_or_is_refilled_by_91(
    connection: Connection, before: int, quantity: int, after: int
) -> None:
    set_stock(connection, 1, 77, before)
    new_order(connection, (77, 1, quantity))
    row = stock(connection, 1, 77)
    assert row.s_quantity == after
    assert (row.s_ytd, row.s_order_cnt, row.s_remote_cnt) == (quantity, 1, 0)


def test_a_remote_line_is_marked_in_stock_and_order(connection: Connection) -> None:
    new_order(connection, (77, 1, 2), (77, 2, 3))
    assert stock(connection, 1, 77).s_remote_cnt == 0
    assert stock(connection, 2, 77).s_remote_cnt == 1
    assert (
        value(
            connection,
            "SELECT o_all_local FROM oltp.orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 3001",
        )
        == 0
    )


def test_an_item_that_stands_twice_in_an_order_is_taken_twice(connection: Connection) -> None:
    set_stock(connection, 1, 77, 18)
    answer = new_order(connection, (5, 1, 1), (77, 1, 8), (77, 1, 4), (77, 1, 1), (90, 1, 2))
    row = stock(connection, 1, 77)
    # 18 - 8 = 10; 10 - 4 + 91 = 97; 97 - 1 = 96.
    assert row.s_quantity == 96
    assert (row.s_ytd, row.s_order_cnt) == (13, 3)
    assert len(answer.names) == 5
    assert answer.total > 0
    numbers = connection.execute(
        "SELECT ol_number, ol_i_id, ol_quantity FROM oltp.order_line"
        " WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 3001 ORDER BY 1"
    ).fetchall()
    assert [tuple(row) for row in numbers] == [
        (1, 5, 1),
        (2, 77, 8),
        (3, 77, 4),
        (4, 77, 1),
        (5, 90, 2),
    ]


@pytest.mark.parametrize(
    ("item_data", "stock_data", "brand"),
    [
        ("has ORIGINAL in it", "ORIGINAL", "B"),
        ("has ORIGINAL in it", "nothing", "G"),
        ("nothing", "ORIGINAL", "G"),
    ],
)
def test_a_brand_is_original_only_if_item_and_stock_say_so(
    connection: Connection, item_data: str, stock_data: str, brand: str
) -> None:
    connection.execute("UPDATE oltp.item SET i_data = %s WHERE i_id = 9", (item_data,))
    connection.execute(
        "UPDATE oltp.stock SET s_data = %s WHERE s_w_id = 1 AND s_i_id = 9", (stock_data,)
    )
    assert new_order(connection, (9, 1, 1)).brands == [brand]


@pytest.mark.parametrize("d_id", range(1, 11))
def test_dist_info_is_that_of_the_district(connection: Connection, d_id: int) -> None:
    new_order(connection, (9, 1, 1), d_id=d_id)
    info = value(
        connection,
        "SELECT ol_dist_info FROM oltp.order_line"
        " WHERE ol_w_id = 1 AND ol_d_id = %s AND ol_o_id = 3001",
        d_id,
    )
    assert info == getattr(stock(connection, 1, 9), f"s_dist_{d_id:02d}")


def test_an_unused_item_undoes_the_order_and_is_not_an_error(committing: Connection) -> None:
    where = {
        "orders": "o_w_id = 1 AND o_d_id = 3",
        "new_order": "no_w_id = 1 AND no_d_id = 3",
        "order_line": "ol_w_id = 1 AND ol_d_id = 3",
        "district": "true",
        "stock": "s_i_id IN (10, 11)",
    }

    def state() -> list[object]:
        return [
            value(
                committing,
                f"SELECT md5(string_agg(t::text, '' ORDER BY t)) FROM oltp.{table} AS t"
                f" WHERE {condition}",
            )
            for table, condition in where.items()
        ]

    before = state()
    answer = new_order(committing, (10, 1, 5), (11, 2, 1), (100_001, 1, 1))
    assert answer.o_id is None
    assert answer.total is None
    assert answer.c_last is not None
    assert state() == before


def test_an_unused_item_inside_a_callers_transaction_is_an_error(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidTransactionTermination):
        new_order(connection, (10, 1, 5), (100_001, 1, 1))


@pytest.mark.parametrize("warehouses", [1, 2])
def test_a_terminal_draws_five_to_fifteen_lines_in_lock_order(
    connection: Connection, warehouses: int
) -> None:
    for _ in range(300):
        connection.execute(
            "CALL oltp.enter_new_order(2, 4::smallint, 7, %s, 8191, 77, false)", (warehouses,)
        )
    orders = connection.execute(
        "SELECT ol_o_id, array_agg(ARRAY[ol_supply_w_id, ol_i_id] ORDER BY ol_number) AS lines,"
        " array_agg(ol_quantity) AS quantities, count(*) AS count"
        " FROM oltp.order_line WHERE ol_w_id = 2 AND ol_d_id = 4 AND ol_o_id > 3000 GROUP BY 1"
    ).fetchall()
    assert {order.count for order in orders} == set(range(5, 16))
    assert {quantity for order in orders for quantity in order.quantities} == set(range(1, 11))
    for order in orders:
        assert order.lines == sorted(order.lines)
    supplies = {supply for order in orders for supply, _ in order.lines}
    assert supplies == ({2} if warehouses == 1 else {1, 2})


# ---- Payment


def test_a_payment_moves_money_in_three_tables_and_leaves_a_record(
    connection: Connection,
) -> None:
    c_id = customer_of_credit(connection, "GC")
    before = customer(connection, 1, 3, c_id)
    pay(connection, c_id=c_id)
    after = customer(connection, 1, 3, c_id)
    assert after.c_balance == Decimal("-22.34")
    assert after.c_ytd_payment == Decimal("22.34")
    assert after.c_payment_cnt == 2
    assert after.c_data == before.c_data
    assert value(connection, "SELECT w_ytd FROM oltp.warehouse WHERE w_id = 1") == Decimal(
        "300012.34"
    )
    assert value(
        connection, "SELECT d_ytd FROM oltp.district WHERE d_w_id = 1 AND d_id = 3"
    ) == Decimal("30012.34")
    history = connection.execute(
        "SELECT history.*, w_name, d_name FROM oltp.history"
        " JOIN oltp.warehouse ON w_id = h_w_id"
        " JOIN oltp.district ON d_w_id = h_w_id AND d_id = h_d_id WHERE h_amount = 12.34"
    ).fetchone()
    assert history is not None
    assert (history.h_w_id, history.h_d_id) == (1, 3)
    assert (history.h_c_w_id, history.h_c_d_id, history.h_c_id) == (1, 3, c_id)
    assert history.h_data == f"{history.w_name}    {history.d_name}"


def test_a_remote_customer_pays_into_the_home_district(connection: Connection) -> None:
    pay(connection, c_id=5, customer_at=(2, 9))
    assert customer(connection, 2, 9, 5).c_balance == Decimal("-22.34")
    assert value(connection, "SELECT w_ytd FROM oltp.warehouse WHERE w_id = 1") == Decimal(
        "300012.34"
    )
    assert value(connection, "SELECT w_ytd FROM oltp.warehouse WHERE w_id = 2") == 300_000


def test_bad_credit_is_written_down_in_front_of_the_customers_data(
    connection: Connection,
) -> None:
    c_id = customer_of_credit(connection, "BC")
    before = customer(connection, 1, 3, c_id).c_data
    pay(connection, c_id=c_id)
    pay(connection, c_id=c_id, amount="5000.00")
    after = customer(connection, 1, 3, c_id).c_data
    notes = f"{c_id} 3 1 3 1 5000.00 {c_id} 3 1 3 1 12.34 "
    assert after == (notes + before)[:500]


@pytest.mark.parametrize(("credit", "length"), [("BC", 200), ("GC", 0)])
def test_a_payment_shows_two_hundred_characters_of_bad_credit_only(
    connection: Connection, credit: str, length: int
) -> None:
    answer = pay(connection, c_id=customer_of_credit(connection, credit))
    assert value(connection, "SELECT length((%s::oltp.customer).c_data)", answer.c) == length


@pytest.mark.parametrize("number", [0, 42, 500, 777, 999])
def test_a_last_name_means_the_customer_in_the_middle_by_first_name(
    connection: Connection, number: int
) -> None:
    name = last_name(number)
    namesakes = connection.execute(
        "SELECT c_id, c_first FROM oltp.customer WHERE c_w_id = 1 AND c_d_id = 3 AND c_last = %s",
        (name,),
    ).fetchall()
    ordered = sorted(namesakes, key=lambda row: (row.c_first, row.c_id))
    middle = ordered[-(-len(ordered) // 2) - 1].c_id
    pay(connection, last=name)
    paid = value(connection, "SELECT h_c_id FROM oltp.history WHERE h_amount = 12.34")
    assert paid == middle
    asked = connection.execute(
        "SELECT * FROM oltp.order_status(1, 3::smallint, NULL, %s)", (name,)
    ).fetchone()
    assert asked is not None
    assert asked.c_id == middle


@pytest.mark.parametrize(("namesakes", "middle"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_the_middle_of_an_even_number_is_the_lower_one(
    connection: Connection, namesakes: int, middle: int
) -> None:
    connection.execute(
        "UPDATE oltp.customer SET c_last = 'SMITH', c_first = 'F' || c_id"
        " WHERE c_w_id = 1 AND c_d_id = 3 AND c_id <= %s",
        (namesakes,),
    )
    assert (
        value(connection, "SELECT oltp.customer_in_the_middle(1, 3::smallint, 'SMITH')") == middle
    )


# ---- Order-Status, Delivery, Stock-Level


def test_order_status_shows_the_latest_order_with_its_lines(connection: Connection) -> None:
    answer = new_order(connection, (10, 1, 5), (11, 2, 1))
    status = connection.execute(
        "SELECT o_id, carrier, c_id, c_balance, c_middle,"
        " ARRAY(SELECT ol_i_id FROM unnest(lines)) AS items"
        " FROM oltp.order_status(1, 3::smallint, 42, NULL)"
    ).fetchone()
    assert status is not None
    assert status.o_id == answer.o_id
    assert status.carrier is None
    assert status.items == [10, 11]
    assert (status.c_id, status.c_balance, status.c_middle) == (42, Decimal("-10.00"), "OE")


def test_a_delivery_takes_the_oldest_order_of_each_district(connection: Connection) -> None:
    assert oldest_new_orders(connection, 2) == dict.fromkeys(range(1, 11), 2_101)
    buyers = connection.execute(
        "SELECT o_d_id, o_c_id, (SELECT sum(ol_amount) FROM oltp.order_line"
        "   WHERE ol_w_id = 2 AND ol_d_id = o_d_id AND ol_o_id = o_id) AS amount"
        " FROM oltp.orders WHERE o_w_id = 2 AND o_id = 2101"
    ).fetchall()
    assert value(connection, "CALL oltp.delivery(2, 7::smallint)") == 10
    assert oldest_new_orders(connection, 2) == dict.fromkeys(range(1, 11), 2_102)
    for buyer in buyers:
        row = customer(connection, 2, buyer.o_d_id, buyer.o_c_id)
        assert row.c_balance == buyer.amount - 10
        assert row.c_delivery_cnt == 1
    assert (
        value(
            connection,
            "SELECT count(*) FROM oltp.orders"
            " WHERE o_w_id = 2 AND o_id = 2101 AND o_carrier_id = 7",
        )
        == 10
    )
    assert [result for result in check_connection(connection) if not result.holds] == []


def test_a_district_without_a_new_order_is_skipped(connection: Connection) -> None:
    connection.execute("DELETE FROM oltp.new_order WHERE no_w_id = 2 AND no_d_id IN (4, 9)")
    assert value(connection, "CALL oltp.delivery(2, 7::smallint)") == 8


@pytest.mark.parametrize(("first_commits", "second_delivers"), [(True, 2_102), (False, 2_101)])
def test_two_deliveries_at_once_never_deliver_the_same_order(
    server: Server, loaded: object, *, first_commits: bool, second_delivers: int
) -> None:
    # Both must be able to commit, so they work in a separate database.
    with server.connect() as admin:
        admin.execute("CREATE DATABASE deliveries TEMPLATE postgres STRATEGY file_copy")
    try:
        with (
            psycopg.connect(server.conninfo("deliveries"), row_factory=namedtuple_row) as first,
            psycopg.connect(server.conninfo("deliveries"), row_factory=namedtuple_row) as second,
        ):
            first.execute("CALL oltp.delivery(1, 1::smallint)")
            waiting = threading.Thread(
                target=second.execute, args=("CALL oltp.delivery(1, 2::smallint)",)
            )
            waiting.start()
            with server.connect() as admin:
                assert eventually(
                    lambda: (
                        value(
                            admin,
                            "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s",
                            second.info.backend_pid,
                        )
                        == "Lock"
                    )
                )
            if first_commits:
                first.commit()
            else:
                first.rollback()
            waiting.join(timeout=PATIENCE_S)
            assert not waiting.is_alive()
            second.commit()
            delivered = second.execute(
                "SELECT DISTINCT o_id FROM oltp.orders WHERE o_w_id = 1 AND o_carrier_id = 2"
                " AND o_id > 2100"
            ).fetchall()
            assert [tuple(row) for row in delivered] == [(second_delivers,)]
            second.rollback()
        assert all(result.holds for result in check_consistency(server.conninfo("deliveries")))
    finally:
        with server.connect() as admin:
            admin.execute("DROP DATABASE deliveries WITH (FORCE)")


@pytest.mark.parametrize("threshold", [10, 15, 20])
def test_stock_level_counts_each_low_item_once(connection: Connection, threshold: int) -> None:
    # Two orders of the same low items, on top of the loaded ones.
    for item in (21, 22):
        set_stock(connection, 1, item, 30)
    for _ in range(2):
        new_order(connection, (21, 1, 1), (22, 1, 1))
    set_stock(connection, 1, 21, 5)
    set_stock(connection, 1, 22, 50)
    items = connection.execute(
        "SELECT ol_i_id, s_quantity FROM oltp.order_line"
        " JOIN oltp.stock ON s_w_id = 1 AND s_i_id = ol_i_id"
        " WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id BETWEEN 2983 AND 3002"
    ).fetchall()
    low = {row.ol_i_id for row in items if row.s_quantity < threshold}
    assert 21 in low
    assert 22 not in low
    assert value(
        connection, "SELECT oltp.stock_level(1, 3::smallint, %s::smallint)", threshold
    ) == len(low)
