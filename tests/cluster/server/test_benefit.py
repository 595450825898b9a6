# SPDX-License-Identifier: PostgreSQL
"""What the cache saved: exact where it is counted, and explained in words if it is nothing."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from psycopg.rows import dict_row

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, create_cached
from support.clock import Clock
from support.cluster import ClusterFactory
from support.patience import until

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "flash-cache.md"

#: More than shared_buffers, and 200 blocks at least.
ROWS = 4000

SOURCES = ("flash", "disk", "page cache")


@pytest.fixture
def cached(cluster: ClusterFactory, pgflash_install: PgInstall) -> CachedServer:
    """A server that does not verify hits: verifying takes a read from disk for each."""
    cached = create_cached(cluster, pgflash_install, settings={"pgflash.verify": "off"})
    with cached.server.connect() as connection:
        connection.execute(
            "create table item as select n as id, repeat('x', 500) as pad"
            f" from generate_series(1, {ROWS}) n"
        )
        connection.execute("alter table item add primary key (id)")
    return cached


def read(server: Server, times: int) -> None:
    """Read single rows all over the table, the same ones in every call."""
    with server.connect() as connection:
        connection.execute("set enable_seqscan = off")
        connection.execute("set enable_bitmapscan = off")
        connection.execute(
            f"do $$ begin for i in 1..{times} loop"
            f" perform pad from item where id = i * 1231 % {ROWS} + 1; end loop; end $$"
        )


def ask(server: Server, query: str) -> list[dict[str, Any]]:
    with server.connect() as connection:
        return connection.cursor(row_factory=dict_row).execute(query).fetchall()


def benefit(server: Server) -> dict[str, dict[str, Any]]:
    """Return the rows by period, after checking what holds in all of them."""
    rows = ask(server, "select *, clock_timestamp() as now from pgflash_cache_benefit")
    assert [row["period"] for row in rows] == ["hour", "day", "start"]
    for row in rows:
        assert row["since"] <= row["now"]
        if row["saved_ms"] is None:
            continue
        took = sum(row[f"{source.replace(' ', '_')}_read_ms"] for source in SOURCES)
        assert row["saved_share"] == pytest.approx(row["saved_ms"] / (row["saved_ms"] + took))
        assert row["saved_share"] < 1
    return {row["period"]: row for row in rows}


def counted(server: Server) -> dict[str, dict[str, Any]]:
    rows = ask(
        server,
        "select source, sum(calls)::bigint as calls, sum(time_ms) as ms from pgflash_io"
        " where file_class = 'data' and operation = 'read'"
        " and backend_type in ('client backend', 'parallel worker') group by source",
    )
    return {row["source"]: row for row in rows}


def test_counts_are_those_of_the_accounting(cached: CachedServer) -> None:
    read(cached.server, 500)
    before, found, after = (
        counted(cached.server),
        benefit(cached.server)["start"],
        counted(cached.server),
    )
    for source in before:
        name = source.replace(" ", "_")
        assert before[source]["calls"] <= found[f"{name}_reads"] <= after[source]["calls"]
        assert before[source]["ms"] <= found[f"{name}_read_ms"] <= after[source]["ms"]


def test_a_disk_that_is_slower_than_flash_is_read_time_saved(cached: CachedServer) -> None:
    read(cached.server, 3 * ROWS)  # blocks that are read again are on flash now
    cached.emulator.on()
    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_set_mode('passthrough')")
    read(cached.server, 300)  # from a slow disk
    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_set_mode('serve')")
    # The disk answered without delay at first, which is part of its mean.
    read(cached.server, 3 * ROWS)
    found = benefit(cached.server)
    cached.emulator.off()
    for row in found.values():
        assert row["flash_reads"] > 1000
        mean_ms = row["disk_read_ms"] / row["disk_reads"]
        assert row["saved_ms"] == pytest.approx(row["flash_reads"] * mean_ms - row["flash_read_ms"])
        faster = mean_ms >= 1.1 * row["flash_read_ms"] / row["flash_reads"]
        assert row["finding"].startswith("Reads took ") == faster


def test_flash_that_is_no_faster_than_the_disk_is_not_praised(cached: CachedServer) -> None:
    cached.server.stop()
    cached.server.configure({"pgflash.verify": "all"})
    cached.start()
    cached.await_serving()
    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_clear()")
    read(cached.server, 300)
    # The disk is memory here, and every hit reads it as well, to be compared with it.
    read(cached.server, 300)
    read(cached.server, 300)
    row = benefit(cached.server)["start"]
    assert row["flash_reads"] > 0
    flash_ms, disk_ms = (row[f"{one}_read_ms"] / row[f"{one}_reads"] for one in ("flash", "disk"))
    # As a rule it is; a busy machine may have held up a read from disk.
    no_faster = disk_ms < 1.1 * flash_ms
    assert row["finding"].startswith("Flash is no faster than the disk here: ") == no_faster, row


def test_a_mode_that_does_not_serve_is_the_reason(cached: CachedServer) -> None:
    cached.server.stop()
    cached.start()
    cached.await_serving()
    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_clear()")
        connection.execute("select pgflash_cache_set_mode('passthrough')")
    for row in benefit(cached.server).values():
        if row["flash_reads"] == 0 and row["disk_reads"] > 0:
            assert row["finding"].startswith(
                "The cache served nothing; it is in mode passthrough: "
            )


def test_the_page_cache_served_all(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    """As on a large machine with a small database."""
    server = cluster(install=pgflash_install, start=False)
    server.configure(
        {
            "shared_preload_libraries": "pgflash",
            "pgflash.cache_file": str(server.base / "cache"),
            "pgflash.cache_size": "64MB",
            "shared_buffers": "1MB",
        }
    )
    server.start()
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute(
            f"create table item as select repeat('x', 500) from generate_series(1, {ROWS})"
        )
        for _ in range(50):
            connection.execute("select count(*) from item")
    found = benefit(server)["start"]
    assert found["finding"].startswith("The page cache served ")


def test_without_a_cache_there_are_no_rows(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(install=pgflash_install, start=False)
    server.configure({"shared_preload_libraries": "pgflash"})
    server.start()
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        assert connection.execute("select * from pgflash_cache_benefit").fetchall() == []


def test_a_clock_that_was_never_set_is_no_harm(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Before 2000, timestamps are negative; the build of tests asserts that notes have a place."""
    cached = create_cached(cluster, pgflash_install, start=False)
    clock = Clock.build(cached.server.base)
    cached.preloads, cached.preload_env = (clock.library,), clock.env
    cached.start()
    cached.create_extension()
    cached.await_serving()
    clock.set(ahead_s=-(datetime.now(UTC) - datetime(1999, 1, 1, tzinfo=UTC)).days * 86_400)
    until(
        lambda: any(
            row["period"] == "hour" and row["since"].year < 2000
            for row in ask(cached.server, "select * from pgflash_cache_benefit")
        )
    )
    cached.assert_serving()
    clock.set(ahead_s=0)
    assert "terminated by signal" not in cached.server.log_text()


@contextmanager
def busy(server: Server) -> Iterator[None]:
    """Read the table again and again."""
    end = Event()

    def work() -> None:
        while not end.wait(0.02):
            read(server, 200)

    reader = Thread(target=work)
    reader.start()
    try:
        yield
    finally:
        end.set()
        reader.join()


def test_the_comparison_of_the_guide_shows_reads_from_flash(
    cached: CachedServer, pgflash_install: PgInstall
) -> None:
    """Its commands as they are written there, for two seconds instead of ten minutes.

    In the middle there is a snapshot, as the server takes one by itself every ten minutes.  How
    long ago a period of two seconds began cannot be said on a busy machine: its first snapshot is
    named instead.
    """
    cached.server.stop()
    cached.start()
    cached.await_serving()
    block = re.search(r"```\n(export PGDATABASE=app\n.*?)```", GUIDE.read_text(), re.DOTALL)
    assert block is not None
    commands, seconds = re.subn(
        r"\bsleep 600\b", "sleep 1; pgflash snapshot >&2; sleep 1", block[1]
    )
    assert seconds == 2
    commands, periods = re.subn(r"\"10min ago\"", "last-2", commands)
    assert periods == 2
    commands = commands.replace("=app", "=postgres")
    commands = commands.replace("compare without with", "compare without with --format json")
    env = os.environ | {"PGHOST": str(cached.server.socket_dir), "PGUSER": "postgres"}
    script = f'set -e; pgflash() {{ "{sys.executable}" -m pgflash "$@"; }}\n{commands}'
    with busy(cached.server):
        done = subprocess.run(
            ["bash", "-c", script], env=env, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout[done.stdout.index("\n{") :])
    for period in ("first", "second"):
        assert compared[period]["end_id"] - compared[period]["begin_id"] == 2
    (table,) = (one for one in compared["tables"] if one["id"] == "flash-cache")
    names = [column["name"] for column in table["columns"]]
    cells = [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]
    (hits,) = (one for one in cells if one["name"] == "hits")
    assert hits["per_s_first"] == 0
    assert hits["per_s_second"] > 0
    (blocks,) = (one for one in cells if one["name"] == "blocks read")
    assert hits["per_s_second"] <= blocks["per_s_second"]
