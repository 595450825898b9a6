# SPDX-License-Identifier: PostgreSQL
"""The role of docs/guide/roles.md: the rights that commands need, and their words about others."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgflash.cli import main
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import REPOSITORY, ClusterFactory
from support.commands import output
from support.patience import PATIENCE_S

TOLD = 'pgflash: role "postgres" is a superuser; a role with pg_monitor is enough'
GUIDE = REPOSITORY / "docs" / "guide" / "roles.md"
SNAPSHOTS = "watching.pgflash_snapshots, watching.pgflash_snapshot_sections, "
READER = f"grant select on {SNAPSHOTS} watching.pgflash_snapshot_queries to {{role}}"
SNAPSHOTS_READER = f"{READER}; grant select on watching.pgflash_baselines to {{role}}"
KEEPER = (
    f"{SNAPSHOTS_READER}; grant execute on function "
    "watching.pgflash_baseline_keep(text, bigint, bigint), "
    "watching.pgflash_baseline_drop(text) to {role}"
)

#: Commands by the least rights with which they work.
LEAST = {
    "report": READER,
    "snapshots": SNAPSHOTS_READER,
    "baseline": "grant select on watching.pgflash_baselines to {role}",
    "baseline keep NAME": KEEPER,
    "compare last-1..last last-1..last": READER,
    "advise --from first --flash-bytes 8GB": f"{READER}; grant pg_read_all_settings to {{role}}",
    "snapshot": "grant select on watching.pgflash_snapshots to {role};"
    "grant execute on function watching.pgflash_snapshot() to {role}",
    "snapshot --keep 8d": "grant select on watching.pgflash_snapshots to {role};"
    "grant execute on function watching.pgflash_snapshot(), "
    "watching.pgflash_snapshot_drop(timestamptz) to {role}",
    "snapshot --store FILE": "grant pg_read_all_stats to {role}",
    "top --seconds 1 --every 0.2": "grant pg_monitor to {role}",
    "cache": "grant pg_monitor to {role}",
    "check": "grant pg_monitor to {role}",
    "devices": "",
    "doctor": "",
}
NEEDS_NOTHING = {"devices", "doctor"}


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server with the extension in a schema of its own, two snapshots, and the guide's role."""
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with server.connect() as connection:
        connection.execute("create schema watching")
        connection.execute("create extension pgflash schema watching")
        connection.execute("select watching.pgflash_snapshot()")
        connection.execute("create table work as select generate_series(1, 1000)")
        connection.execute("select pg_stat_force_next_flush()")
        connection.execute("select watching.pgflash_snapshot()")
        for statement in re.findall(r"^```sql\n(.*?)^```", GUIDE.read_text(), re.M | re.S):
            connection.execute(statement)
        connection.execute("grant usage on schema watching to watcher")
    yield server
    factory.close()


def words(line: str, server: Server, role: str, folder: Path) -> list[str]:
    """Return a command line for a role."""
    dsn = psycopg.conninfo.make_conninfo(server.conninfo(), user=role)
    filled = line.replace("FILE", str(folder / "file")).replace("NAME", f"of-{role}")
    command, *others = filled.split()
    return [command, "--dsn", dsn, *others]


@pytest.mark.parametrize("line", [line for line in LEAST if "keep" not in line])
def test_the_guides_role_is_enough(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    assert main(words(line, server, "watcher", tmp_path)) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", LEAST)
def test_the_least_that_the_guide_names_is_enough_and_nothing_is_not(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    role = f"role_{[*LEAST].index(line)}"
    with server.connect() as connection:
        connection.execute(f"create role {role} login")
        connection.execute(f"grant usage on schema watching to {role}")
        failed = main(words(line, server, role, tmp_path))
        assert failed == (0 if line in NEEDS_NOTHING else 1)
        capsys.readouterr()
        connection.execute(LEAST[line].format(role=role).encode() or b"select")
    output(capsys, *words(line, server, role, tmp_path))


@pytest.mark.parametrize("line", [*LEAST, "top --seconds 1 --every 0.2 --format json"])
def test_a_superuser_is_told_so_once_and_beside_the_output_where_less_is_enough(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    assert main(words(line, server, "postgres", tmp_path)) == 0
    captured = capsys.readouterr()
    assert captured.err == ("" if "keep" in line else f"{TOLD}\n")
    assert "superuser" not in captured.out


def test_a_superuser_who_changes_the_cache_is_not_told(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(words("cache clear --yes", server, "postgres", tmp_path))
    assert TOLD not in capsys.readouterr().err


def test_who_may_not_drop_snapshots_or_keep_a_baseline_is_told_what_to_grant(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(words("snapshot --keep 8d", server, "watcher", tmp_path)) == 1
    told = capsys.readouterr().err
    assert "could not drop snapshots" in told
    grant = re.findall("GRANT .*;", told)
    assert len(grant) == 1
    assert main(words("baseline keep NAME", server, "watcher", tmp_path)) == 1
    grant += re.findall("GRANT .*;", capsys.readouterr().err)
    with server.connect() as connection:
        connection.execute("create role granted login in role pg_monitor")
        connection.execute("grant usage on schema watching to granted")
        connection.execute("set search_path = watching")
        for one in grant:
            connection.execute(one.replace("role_name", "granted").encode())
    output(capsys, *words("snapshot --keep 8d", server, "granted", tmp_path))
    output(capsys, *words("baseline keep NAME", server, "granted", tmp_path))


def test_the_live_page_says_it_once_its_session_begins(server: Server) -> None:
    words = ("serve", "--listen", "127.0.0.1:0", "--dsn", server.conninfo())
    process = subprocess.Popen(
        [sys.executable, "-m", "pgflash", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PGFLASH_TOKEN": "long enough for a token"},
    )
    try:
        assert process.stderr is not None
        # A line that never comes ends with the test.
        assert any(TOLD in line for line in process.stderr)
    finally:
        process.send_signal(signal.SIGINT)
        _out, more = process.communicate(timeout=PATIENCE_S)
    assert "superuser" not in more


def test_what_changes_a_server_does_not_warn_of_a_superuser(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn = ("--dsn", server.conninfo())
    assert main(["place", "temp", "--on", "pg_default", "--dry-run", *dsn]) == 0
    assert "superuser" not in capsys.readouterr().err
