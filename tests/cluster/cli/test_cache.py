# SPDX-License-Identifier: PostgreSQL
"""pgflash cache and pgflash check, as a DBA types them, with options as psql has them."""

import json
import re
from collections.abc import Iterator

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.commands import failure, output
from support.patience import PATIENCE_S, eventually


@pytest.fixture(scope="module")
def shared_server(pgflash_install: PgInstall) -> Iterator[CachedServer]:
    factory = ClusterFactory(pgflash_install)
    yield create_cached(factory, pgflash_install, settings={"pgflash.cache_size_max": "128MB"})
    factory.close()


@pytest.fixture
def cached(shared_server: CachedServer) -> CachedServer:
    if shared_server.view()["mode"] == "offline":
        shared_server.server.stop()
        shared_server.start()
        shared_server.await_serving()
    with shared_server.server.connect() as connection:
        connection.execute("select pgflash_cache_set_mode('serve')")
    return shared_server


def options(cached: CachedServer) -> tuple[str, ...]:
    """Name the server as psql's users do."""
    parts = conninfo_to_dict(cached.server.conninfo())
    return (
        *("-h", str(parts["host"]), "-p", str(parts["port"])),
        *("-U", str(parts["user"]), "-d", str(parts["dbname"])),
    )


def test_the_status_says_what_the_cache_does_and_saved(
    cached: CachedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = output(capsys, "cache", *options(cached)).splitlines()
    shown = dict(line.split(":", 1) for line in lines)
    assert shown["mode"].split() == ["serve:", "working"]
    assert shown["size"].strip().startswith("64.0 MB, ")
    assert {"last hour", "last day", "since the start"} <= shown.keys()
    told = json.loads(output(capsys, "cache", "--format", "json", *options(cached)))
    assert told["cache"]["mode"] == "serve"
    assert [row["period"] for row in told["benefit"]] == ["hour", "day", "start"]


def test_the_mode_is_set_and_offline_asks_first(
    cached: CachedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("cache", *options(cached), "mode")
    output(capsys, *command, "passthrough")
    assert cached.view()["mode"] == "passthrough"
    # The server may also be named after the subcommand, and that name takes precedence.
    output(capsys, "cache", "-d", "nowhere", "mode", "serve", *options(cached))
    assert cached.view()["mode"] == "serve"
    output(capsys, *command, "passthrough")
    assert "confirm with --yes" in failure(capsys, 1, *command, "offline")
    assert cached.view()["mode"] == "passthrough"
    output(capsys, *command, "offline", "--yes")
    assert cached.view()["mode"] == "offline"
    assert "stays offline" in failure(capsys, 1, *command, "serve")
    assert "Invalid value" in failure(capsys, 2, *command, "on")


def test_options_around_a_subcommand_name_one_server(
    cached: CachedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "/nowhere")
    named = options(cached)
    output(capsys, "cache", *named[:4], "mode", "passthrough", *named[4:])
    assert cached.view()["mode"] == "passthrough"
    output(capsys, "cache", *named[4:], "mode", "serve", "--yes", *named[:4])
    assert cached.view()["mode"] == "serve"
    assert "/nowhere" in failure(capsys, 1, "cache", "clear", "--yes", *named[4:])


def test_the_cache_is_cleared_after_a_question(
    cached: CachedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with cached.server.connect() as connection:
        connection.execute("create table if not exists item as select generate_series(1, 100000) n")

    def filled() -> bool:
        with cached.server.connect() as connection:
            connection.execute("select count(*) from item")
        return bool(cached.view()["used_slots"] > 100)

    assert eventually(filled)
    clears = cached.view()["clears"]
    assert "confirm with --yes" in failure(capsys, 1, "cache", *options(cached), "clear")
    assert cached.view()["clears"] == clears
    output(capsys, "cache", *options(cached), "clear", "--yes")
    assert cached.view()["clears"] == clears + 1


def test_the_size_changes_while_the_server_runs_or_the_reason_is_said(
    cached: CachedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.api.caching._PATIENCE_S", PATIENCE_S)
    command = ("cache", *options(cached), "resize")
    output(capsys, *command, "96MB")
    assert cached.view()["size_bytes"] == 96 * 2**20
    assert "the cache keeps its size: " in failure(capsys, 1, *command, "1GB")
    assert cached.view()["size_bytes"] == 96 * 2**20
    output(capsys, *command, "64MB")
    assert cached.view()["size_bytes"] == 64 * 2**20
    # A second time, too, after a size that was accepted.
    assert "the cache keeps its size: " in failure(capsys, 1, *command, "1GB")
    # The reason is not that of the request before.
    output(capsys, *command, "96MB")
    assert cached.view()["size_bytes"] == 96 * 2**20
    assert "write it as" in failure(capsys, 2, *command, "much")


def test_check_fails_when_the_cache_does_not_serve(
    cached: CachedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", "--format", "json", *options(cached)])
    outcomes = {one["rule"]: one["outcome"] for one in json.loads(capsys.readouterr().out)}
    assert outcomes["cache-mode"] == outcomes["cache-faults"] == outcomes["cache-file"] == "good"
    # Here the cache may be on the data's device, and flash no faster than the disk.
    assert code == int(not {"warning", "critical"}.isdisjoint(outcomes.values()))

    with cached.server.connect() as connection:
        connection.execute("select pgflash_cache_set_mode('passthrough')")
    assert main(["check", *options(cached)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("warning cache-mode, flash cache: The cache is in mode passthrough")


def workers_found(server: Server, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    main(["check", "--format", "json", "-d", server.conninfo()])
    found = json.loads(capsys.readouterr().out)
    (one,) = [one for one in found if one["rule"] == "cache-workers"]
    return one["outcome"], one["sentence"]


def named(text: str) -> set[str]:
    return set(re.findall('"(.*?)"', text))


#: In the order in which they get a place.
WORKERS = (
    "pgflash",
    "pgflash writer",
    "pgflash policies",
    "pgflash snapshots",
    "pgflash sampler",
)


@pytest.mark.parametrize("places", [1, 2, 4])
def test_check_and_the_view_name_each_worker_for_which_there_is_no_place(
    cached: CachedServer, capsys: pytest.CaptureFixture[str], places: int
) -> None:
    def restart(places: int) -> None:
        cached.server.stop()
        cached.server.configure({"max_worker_processes": str(places)})
        cached.start()

    restart(places)
    try:
        # The launcher of logical replication has the first place.
        missing = set(WORKERS[places - 1 :])
        assert eventually(lambda: named(workers_found(cached.server, capsys)[1]) == missing)
        outcome, told = workers_found(cached.server, capsys)
        assert outcome == "warning"
        assert re.fullmatch(r'The background workers? .*"pgflash.*" (is|are) not running.', told)
        assert named(cached.view()["missing_workers"]) == missing
        # What a person who looks at the cache alone reads.
        reason = cached.view()["mode_reason"]
        assert named(reason) == missing
        assert reason.endswith(": raise max_worker_processes")
        assert reason in output(capsys, "cache", *options(cached))
    finally:
        restart(16)
        cached.await_serving()
    assert eventually(lambda: workers_found(cached.server, capsys)[0] == "good")
    assert cached.view()["missing_workers"] is None


def test_check_names_the_workers_of_a_server_without_a_cache(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    server = cluster(
        preload="pgflash", settings={"max_worker_processes": "2"}, install=pgflash_install
    )
    with server.connect() as connection:
        connection.execute("create extension pgflash")
    assert eventually(lambda: named(workers_found(server, capsys)[1]) == {"pgflash sampler"})


def test_a_server_without_pgflash_is_told_from_one_that_is_ill(
    cluster: ClusterFactory, pgflash_install: PgInstall, capsys: pytest.CaptureFixture[str]
) -> None:
    server = cluster(install=pgflash_install)
    assert "has not loaded pgflash" in failure(capsys, 1, "check", "-d", server.conninfo())
    assert "not in this database" in failure(capsys, 1, "cache", "-d", server.conninfo())


def test_who_is_no_superuser_may_look_and_not_change(
    cached: CachedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with cached.server.connect() as connection:
        connection.execute("drop role if exists watcher")
        connection.execute("create role watcher login in role pg_monitor")
    dsn = cached.server.conninfo()
    output(capsys, "cache", "-d", dsn, "-U", "watcher")
    assert "superuser" in failure(capsys, 1, "cache", "-d", dsn, "-U", "watcher", "clear", "--yes")
    assert "superuser" in failure(capsys, 1, "cache", "-d", dsn, "-U", "watcher", "resize", "96MB")
