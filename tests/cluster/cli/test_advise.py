# SPDX-License-Identifier: PostgreSQL
"""pgflash advise on a live server, which supplies sizes, free space and identity."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash.model.plan import MoveKind
from pgflash.place.journal import read_plan
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory, elsewhere

ROWS = 40_000


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server whose one table does not fit into shared_buffers, scanned between snapshots."""
    factory = ClusterFactory(pgflash_install)
    settings = {"pgflash.snapshot_interval": "0", "shared_buffers": "1MB"}
    made = factory(preload="pgflash", settings=settings)
    with made.connect() as connection:
        connection.execute("create extension pgflash")
        connection.execute(
            "create table big as select i, repeat('x', 400) as text "
            f"from generate_series(1, {ROWS}) i"
        )
        connection.execute("create index big_i on big (i)")
        connection.execute("checkpoint")
    assert main(["snapshot", "--dsn", made.conninfo("postgres")]) == 0
    with made.connect() as connection:
        for i in range(20):
            connection.execute("select count(*) from big")
            connection.execute(f"update big set i = i where i = {i + 1}")
    assert main(["snapshot", "--dsn", made.conninfo("postgres")]) == 0
    yield made
    factory.close()


def advised(server: Server, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    dsn = ("--dsn", server.conninfo("postgres"))
    assert main(["advise", *dsn, "--format", "json", *words]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_objects_have_the_sizes_that_the_server_says(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    advice = advised(server, capsys, "--flash-bytes", "10GB")
    with server.connect() as connection:
        row = connection.execute(
            "select pg_table_size('big'), pg_relation_size('big_i')"
        ).fetchone()
    assert row is not None
    objects = advice["objects"]
    assert isinstance(objects, list)
    sizes = {one["name"]: one["bytes"] for one in objects}
    assert sizes["big"] == row[0]
    assert sizes.get("big_i", row[1]) == row[1]


def test_a_plan_is_for_the_server_that_was_asked(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    words = ("--approach", "all-on-flash", "--tablespace", "fast", "--plan", str(path))
    with elsewhere(server.data) as flash:
        advised(server, capsys, *words, "--flash", str(flash))
    plan = read_plan(path)
    with server.connect() as connection:
        row = connection.execute(
            "select system_identifier::text from pg_control_system()"
        ).fetchone()
    assert row is not None
    assert plan.system_identifier == row[0]
    kinds = [(move.kind, move.name) for move in plan.moves]
    assert kinds == [(MoveKind.TEMP, ""), (MoveKind.DATABASE, "postgres"), (MoveKind.WAL, "")]


def test_one_device_is_not_both_array_and_flash(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = ("--dsn", server.conninfo("postgres"), "--flash", str(server.base))
    assert main(["advise", *words]) == 2
    told = capsys.readouterr()
    assert "is on the same device as the data" in told.err
    assert not told.out


def test_a_role_with_pg_monitor_may_ask(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with server.connect() as connection:
        connection.execute("create role watcher login in role pg_monitor")
    capsys.readouterr()
    dsn = server.conninfo("postgres") + " user=watcher"
    assert main(["advise", "--dsn", dsn]) == 0, capsys.readouterr().err
    assert "Predicted throughput" in capsys.readouterr().out
