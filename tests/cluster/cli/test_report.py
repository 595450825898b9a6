# SPDX-License-Identifier: PostgreSQL
"""A report on a live server, by the command line: every form, from the database and from a file."""

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import has_contrib
from support.cluster import ClusterFactory
from support.page import Page

pytestmark = pytest.mark.extension

HOSTILE = "<script>alert(1)</script>"
TRANSACTIONS = 60
ROWS = 40_000


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server with two snapshots, and TRANSACTIONS between them: scans and updates in turn."""
    factory = ClusterFactory(pgflash_install)
    contrib = ", pg_stat_statements" if has_contrib(pgflash_install, "pg_stat_statements") else ""
    settings = {"pgflash.snapshot_interval": "0", "track_io_timing": "on", "shared_buffers": "1MB"}
    made = factory(preload=f"pgflash{contrib}", settings=settings)
    with made.connect() as connection:
        connection.execute("create extension pgflash")
        if contrib:
            connection.execute("create extension pg_stat_statements")
        connection.execute(f"create table \"{HOSTILE}\" as select i, repeat('x', 400) as text "
                           f"from generate_series(1, {ROWS}) i")  # fmt: skip
        connection.execute("checkpoint")
    command(made, "snapshot")
    with made.connect() as connection:
        for i in range(TRANSACTIONS // 2):
            connection.execute(f'select count(*) from "{HOSTILE}"')
            connection.execute(f'update "{HOSTILE}" set i = i where i = {i + 1}')
        connection.execute("select pg_stat_force_next_flush()")
    command(made, "snapshot")
    yield made
    factory.close()


def command(server: Server, *words: str, dsn: bool = True) -> str:
    """Run a command line on the server, and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*words, *(("--dsn", server.conninfo("postgres")) if dsn else ())]) == 0
    return printed.getvalue()


def table(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a table's rows as dictionaries; none if it is missing."""
    (found,) = [one for one in report["tables"] if one["id"] == name]
    names = [column["name"] for column in found["columns"]]
    return [
        {
            key: cell["value"] if isinstance(cell, dict) else cell
            for key, cell in zip(names, row["cells"], strict=True)
        }
        for row in found["rows"]
    ]


def row(report: dict[str, Any], name: str, first: str) -> dict[str, Any]:
    """Return the row of a table with this first cell."""
    for one in table(report, name):
        if next(iter(one.values())) == first:
            return one
    raise AssertionError(f"{name} has no row {first}: {table(report, name)}")


@pytest.fixture(scope="module")
def report(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command(server, "report", "--format", "json"))
    return found


def test_it_counts_what_was_done(report: dict[str, Any]) -> None:
    # Background workers have transactions of their own, and catalogs have rows.
    assert row(report, "load-profile", "transactions")["total"] >= TRANSACTIONS
    updated = row(report, "load-profile", "rows updated")["total"]
    assert TRANSACTIONS // 2 <= updated <= TRANSACTIONS // 2 + 20


def test_the_table_that_was_read_leads_the_ranking(server: Server, report: dict[str, Any]) -> None:
    first = table(report, "segments-reads")[0]
    assert HOSTILE in first["relation"]
    with server.connect() as connection:
        found = connection.execute(
            "select pg_relation_size(%s) / 8192", (f'"{HOSTILE}"',)
        ).fetchone()
    assert found is not None
    # Each scan reads the table, since shared_buffers holds only a part of it; a call may read
    # several blocks.
    read_bytes = row(report, "load-profile", "data read")["total"]
    assert read_bytes > 0.8 * 8192 * int(found[0]) * TRANSACTIONS / 2


def test_db_time_comes_to_its_total(report: dict[str, Any]) -> None:
    (events,) = [one for one in report["tables"] if one["id"] == "top-events"]
    place = [column["name"] for column in events["columns"]].index("total_s")
    parts = [
        cell["value"] if isinstance(cell, dict) else cell
        for one in events["rows"]
        if one["mark"] in ("", "rest", "residual") and (cell := one["cells"][place]) is not None
    ]
    total = row(report, "top-events", "DB time")["total_s"]
    assert total > 0
    assert sum(parts) == pytest.approx(total, rel=1e-6)


def test_statements_of_our_own_are_not_ranked(
    pgflash_install: PgInstall, report: dict[str, Any]
) -> None:
    for one in table(report, "sql-elapsed"):
        assert "pgflash" not in one["query"]
        assert "pg_catalog" not in one["query"]
    (found,) = [one for one in report["tables"] if one["id"] == "sql-elapsed"]
    if has_contrib(pgflash_install, "pg_stat_statements"):
        assert " of pgflash's own (" in found["note"]


def test_text_fits_and_the_page_is_safe(server: Server, tmp_path: Path) -> None:
    text = command(server, "report")
    assert max(cell_len(line) for line in text.split("\n")) <= 100
    assert "<script>" in text
    path = tmp_path / "report.html"
    command(server, "report", "-o", str(path))
    page = Page(path.read_text())
    assert HOSTILE in page.text
    # Only the page's own script, which is not a file, and not the table that is named like one.
    assert [attributes for tag, attributes in page.tags if tag == "script"] == [{}]
    (script,) = page.scripts
    assert "alert" not in script
    assert path.stat().st_size < 2**20
    assert "<script" not in command(server, "report", "--format", "md")


def test_the_period_with_itself_shows_no_change(server: Server) -> None:
    found = json.loads(command(server, "compare", "1..2", "1..2", "--format", "json"))
    assert found["kind"] == "comparison"
    assert {one["times"] for one in table(found, "load-profile")} <= {1, None}


def test_without_the_extension_s_help_the_report_says_what_is_missing(
    server: Server, tmp_path: Path
) -> None:
    store = tmp_path / "app.snapshots"
    command(server, "snapshot", "--store", str(store))
    with server.connect() as connection:
        connection.execute(f'select count(*) from "{HOSTILE}"')
    command(server, "snapshot", "--store", str(store))
    found = json.loads(
        command(server, "report", "--store", str(store), "--format", "json", dsn=False)
    )
    assert row(found, "load-profile", "transactions")["total"] > 0
    reasons = {one["id"]: one["missing_reason"] for one in found["tables"]}
    assert reasons["read-latency"]
    assert reasons["flash-cache"]
    assert table(found, "missing")
    assert "No rows. " in command(server, "report", "--store", str(store), dsn=False)
