# SPDX-License-Identifier: PostgreSQL
"""The warehouse on a real server: its contents, its answers, its refreshes.

One database of a hundredth of a gigabyte serves all tests.  Tests that change it for good come last
in this file; the rest work in transactions that are rolled back.
"""

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash_lab import host
from pgflash_lab.leftovers import remove_tree
from pgflash_lab.loading import LoadError
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.warehouse import (
    DriverError,
    LoadResult,
    RunObserver,
    StepResult,
    WarehouseParameters,
    WarehouseResult,
    check_consistency,
    load,
    loader,
    run,
)
from pgflash_lab.warehouse.answers import digest_rows, plain_row
from pgflash_lab.warehouse.consistency import check_connection
from pgflash_lab.warehouse.driver import open_session, query_text
from pgflash_lab.warehouse.model import REFRESH_SETS, refresh_orders
from pgflash_lab.warehouse.parameters import QUERIES
from support.cluster import FAST_SETTINGS
from support.warehouse_answers import ANSWERS, Rows
from support.workloads import parameters_of

SCALE_FACTOR = 0.01
ALONE = parameters_of(WarehouseParameters, scale_factor=SCALE_FACTOR, clients=1)

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def server(pg_install: PgInstall) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="pgflash-warehouse-"))
    folder.chmod(0o755)
    settings = {**FAST_SETTINGS, "shared_buffers": "64MB", "work_mem": "64kB"}
    with Server.create(pg_install, folder / "server", settings=settings) as server:
        server.start()
        yield server
    remove_tree(folder)


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(SCALE_FACTOR)


@pytest.fixture(scope="module")
def loaded(server: Server) -> LoadResult:
    result = load(server.conninfo(), ALONE)
    with server.connect("template1") as connection:
        connection.execute("CREATE DATABASE unused TEMPLATE postgres STRATEGY file_copy")
    return result


@pytest.fixture
def connection(server: Server, loaded: object) -> Iterator[Connection]:
    """Return a connection in a transaction that is rolled back after the test."""
    with psycopg.connect(server.conninfo()) as connection:
        yield connection
        connection.rollback()


@pytest.fixture(scope="module")
def alone(server: Server, loaded: object) -> WarehouseResult:
    """Return the measurements of a single stream, before any refresh."""

    def cpu_s() -> float:
        assert server.postmaster_pid is not None
        used = host.server_cpu(server.postmaster_pid)
        return used.user_s + used.system_s

    return run(server.conninfo(), ALONE, cpu_s=cpu_s)


# ---- load


def test_every_row_of_the_generator_is_loaded(loaded: LoadResult, rows: Rows) -> None:
    assert loaded.rows == {name: len(table) for name, table in rows.tables.items()}
    assert loaded.rows["orders"] == 15_000
    assert loaded.size_bytes > 10_000_000


def test_a_large_warehouse_is_loaded_in_parts_and_has_keys_of_eight_bytes(
    server: Server, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is done above a gigabyte, and above 357 of them, at the size of this test.
    monkeypatch.setattr(loader, "part_count", lambda _: 3)
    monkeypatch.setattr(loader, "order_key_type", lambda _: "bigint")
    with server.connect("template1") as connection:
        connection.execute("CREATE DATABASE large")
    result = load(server.conninfo("large"), ALONE)
    assert result.rows == {name: len(table) for name, table in rows.tables.items()}
    with server.connect("large") as connection:
        types = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attname IN ('o_orderkey', 'l_orderkey')"
            " AND attrelid IN ('warehouse.orders'::regclass, 'warehouse.lineitem'::regclass)"
        ).fetchall()
    assert dict(types) == {"o_orderkey": "bigint", "l_orderkey": "bigint"}
    refreshed = run(server.conninfo("large"), replace(ALONE, queries="3,18,21", refresh=True))
    assert [step.name for step in refreshed.steps] == ["RF1", "Q18", "Q21", "Q3", "RF2"]
    assert [one for one in check_consistency(server.conninfo("large")) if not one.holds] == []


def test_a_loaded_schema_is_not_overwritten_unasked(server: Server, loaded: object) -> None:
    with pytest.raises(LoadError, match="exists already"):
        load(server.conninfo(), ALONE)


def test_a_loaded_database_is_consistent(server: Server, loaded: object) -> None:
    results = check_consistency(server.conninfo())
    assert [one.number for one in results] == [1, 2, 3, 4, 5, 6, 7]
    assert [one for one in results if not one.holds] == []


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (1, "DELETE FROM warehouse.lineitem WHERE l_orderkey = 1 AND l_linenumber = 1"),
        (1, "DELETE FROM warehouse.lineitem WHERE l_orderkey = 2"),
        (1, "DELETE FROM warehouse.orders WHERE o_orderkey = 3"),
        (2, "UPDATE warehouse.orders SET o_totalprice = o_totalprice + 1 WHERE o_orderkey = 1"),
        (3, "UPDATE warehouse.orders SET o_orderstatus = 'P' WHERE o_orderkey = 1"),
        (4, "DELETE FROM warehouse.partsupp WHERE ps_partkey = 1"),
        (5, "UPDATE warehouse.orders SET o_custkey = 3 WHERE o_orderkey = 1"),
        (6, "UPDATE warehouse.part SET p_retailprice = 1 WHERE p_partkey = 1"),
        (7, "DELETE FROM warehouse.supplier WHERE s_suppkey = 7"),
    ],
)
def test_each_condition_notices_what_breaks_it(
    connection: Connection, number: int, change: str
) -> None:
    # Foreign keys would refuse some of these; a lost block respects none.
    connection.execute("SET LOCAL session_replication_role = replica")
    assert connection.execute(change.encode()).rowcount > 0
    assert number in [one.number for one in check_connection(connection) if not one.holds]


def test_refreshes_use_free_keys_and_delete_loaded_ones(connection: Connection) -> None:
    size = refresh_orders(SCALE_FACTOR)
    row = connection.execute(
        "SELECT count(*), count(DISTINCT insert_key), count(DISTINCT delete_key),"
        " count(*) FILTER (WHERE EXISTS (SELECT FROM warehouse.orders"
        "                                 WHERE o_orderkey = insert_key)),"
        " count(*) FILTER (WHERE EXISTS (SELECT FROM warehouse.orders"
        "                                 WHERE o_orderkey = delete_key))"
        " FROM warehouse.refresh_keys"
    ).fetchone()
    count = REFRESH_SETS * size
    assert row == (count, count, count, 0, count)


# ---- answers


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_answers_what_plain_loops_find(
    connection: Connection, rows: Rows, query: int
) -> None:
    found = connection.execute(query_text(ALONE, query, 0).encode()).fetchall()
    expected = ANSWERS[query](rows)
    assert [plain_row(row) for row in found] == [plain_row(row) for row in expected]


def test_the_answers_ask_for_something(rows: Rows) -> None:
    # Empty answers are equal, whatever the query: at this size one may be, of query 18.
    empty = {query for query in QUERIES if not ANSWERS[query](rows)}
    assert empty <= {18}


def test_streams_at_once_draw_other_values(server: Server, loaded: object) -> None:
    texts = {query_text(ALONE, query, stream) for query in QUERIES for stream in (0, 1, 2)}
    assert len(texts) > 2.5 * len(QUERIES)


# ---- runs


def test_a_stream_alone_runs_in_its_order(alone: WarehouseResult) -> None:
    assert [step.name for step in alone.steps] == [f"Q{query}" for query in ALONE.order(0)]
    starts = [step.started_s for step in alone.steps]
    ends = [step.started_s + step.elapsed_s for step in alone.steps]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert ends[-1] <= alone.elapsed_s


def test_a_stream_alone_reports_the_answers_it_got(alone: WarehouseResult, rows: Rows) -> None:
    for step in alone.steps:
        expected = ANSWERS[int(step.name[1:])](rows)
        assert (step.rows, step.digest) == (len(expected), digest_rows(expected)), step.name


def test_work_and_temporary_files_are_told_by_step(alone: WarehouseResult) -> None:
    uses = {step.name: step.use for step in alone.steps if step.use is not None}
    assert len(uses) == len(QUERIES)
    work_s = sum(use.work_s or 0 for use in uses.values())
    # CPU time is reported in hundredths; the server has other processes, too.
    assert 0 < work_s < 2 * alone.elapsed_s + 1
    # Several queries sort or hash more than 64 kB; query 6 adds up one number.
    assert sum(use.temp_write_bytes for use in uses.values()) > 0
    assert uses["Q6"].temp_write_bytes == 0


def test_more_degrees_give_the_same_answers(server: Server, alone: WarehouseResult) -> None:
    result = run(server.conninfo(), replace(ALONE, degree=3))
    assert {one.name: one.digest for one in result.steps} == {
        one.name: one.digest for one in alone.steps
    }


def test_a_degree_is_one_session_and_its_workers(server: Server, loaded: object) -> None:
    for degree, workers in ((1, None), (3, 2)):
        parallel = replace(ALONE, degree=degree)
        with open_session(server.conninfo(), parallel) as session:
            plan = session.execute(
                f"EXPLAIN (ANALYZE, FORMAT json) {query_text(parallel, 1, 0)}".encode()
            ).fetchone()
        assert plan is not None
        assert _launched(plan[0][0]["Plan"]) == workers


def _launched(plan: dict[str, Any]) -> int | None:
    if "Workers Launched" in plan:
        return int(plan["Workers Launched"])
    return next((found for one in plan.get("Plans", []) if (found := _launched(one))), None)


def test_another_scale_factor_than_the_loaded_one_is_refused(
    server: Server, loaded: object
) -> None:
    with pytest.raises(DriverError, match="scale factor"):
        run(server.conninfo(), replace(ALONE, scale_factor=0.02))


def test_a_query_over_its_limit_is_an_error_that_names_it(server: Server, loaded: object) -> None:
    short = replace(ALONE, queries="1", query_timeout_s=1)
    with psycopg.connect(server.conninfo()) as other:
        other.execute("LOCK TABLE warehouse.lineitem IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DriverError, match=r"Q1 was cancelled after [\d.]+ s"):
            run(server.conninfo(), short)


def test_an_error_in_one_stream_ends_all(server: Server, loaded: object) -> None:
    class Failing(RunObserver):
        def step_ended(self, step: StepResult) -> None:
            raise RuntimeError(step.name)

    before = threading.active_count()
    with pytest.raises(RuntimeError, match="Q"):
        run(
            server.conninfo(),
            replace(ALONE, clients=3),
            Failing(),
        )
    assert threading.active_count() == before
    with server.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'pgflash warehouse run' AND state = 'active'"
        ).fetchone()
    assert row == (0,)


# ---- what changes the database


def test_refreshes_beside_streams_leave_a_consistent_database(
    server: Server, alone: WarehouseResult
) -> None:
    result = run(server.conninfo(), replace(ALONE, clients=2, refresh=True))
    names = [step.name for step in result.steps]
    assert sorted(names) == sorted([f"Q{query}" for query in QUERIES] * 2 + ["RF1", "RF2"] * 2)
    assert result.throughput == pytest.approx(2 * 22 * 3600 / result.elapsed_s * SCALE_FACTOR)
    orders = refresh_orders(SCALE_FACTOR)
    for step in result.steps:
        if step.name.startswith("RF"):
            assert 2 * orders <= step.rows <= 8 * orders  # 1 to 7 lines each
    assert [one for one in check_consistency(server.conninfo()) if not one.holds] == []
    # The rows differ: a query sees what a refresh changed.
    again = run(server.conninfo(), replace(ALONE, queries="1,4"))
    digests = {step.name: step.digest for step in alone.steps}
    assert all(step.digest != digests[step.name] for step in again.steps if step.name == "Q1")


def test_a_set_of_refreshes_can_be_used_once(server: Server, loaded: object) -> None:
    refreshing = replace(ALONE, queries="6", refresh=True)
    conninfo = server.conninfo("unused")
    first = run(conninfo, refreshing)
    assert [step.name for step in first.steps] == ["RF1", "Q6", "RF2"]
    with pytest.raises(DriverError, match="inserted before"):
        run(conninfo, refreshing)
