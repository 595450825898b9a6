# SPDX-License-Identifier: PostgreSQL
"""pgflash devices, against a server whose parts lie on two file systems of this machine."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgflash.cli import main
from pgflash.lab.postgres import PgInstall
from pgflash.lab.server import Server, make_server_dir
from support.cluster import ClusterFactory

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Path]:
    """A folder of the server's on another file system than its data."""
    if not MEMORY.is_dir():
        pytest.skip("this machine has no file system in memory")
    folder = Path(tempfile.mkdtemp(prefix="pgflash-test-", dir=MEMORY))
    folder.chmod(0o755)
    yield make_server_dir(folder / "of-server")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(pg_install: PgInstall, in_memory: Path) -> Iterator[Server]:
    """A server with WAL, a tablespace and its archive in memory."""
    factory = ClusterFactory(pg_install)
    server = factory(
        settings={"archive_mode": "on", "archive_command": f"cp %p {in_memory}/%f"}, start=False
    )
    wal = server.data / "pg_wal"
    shutil.copytree(wal, make_server_dir(in_memory / "wal"), dirs_exist_ok=True)
    owner = server.data.stat()
    for path in [in_memory / "wal", *(in_memory / "wal").rglob("*")]:
        shutil.chown(path, owner.st_uid, owner.st_gid)
        path.chmod(0o700 if path.is_dir() else 0o600)
    shutil.rmtree(wal)
    wal.symlink_to(in_memory / "wal")
    server.start()
    with server.connect() as connection:
        connection.execute(f"create tablespace fast location '{make_server_dir(in_memory / 'ts')}'")
        connection.execute("alter system set temp_tablespaces = fast")
        connection.execute("select pg_reload_conf()")
        connection.execute("create role nobody login")
    yield server
    factory.close()


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["devices", *words, "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_every_part_is_on_the_device_that_it_is_on(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {
        part: one for one in listed(capsys, "--dsn", server.conninfo()) for part in one["parts"]
    }
    assert set(found) == {"data", "wal", "tablespace fast", "archive", "temp"}
    assert {found[part]["media"] for part in ("wal", "tablespace fast", "archive", "temp")} == {
        "memory"
    }
    assert found["data"]["mount_point"] != found["wal"]["mount_point"]
    usage = shutil.disk_usage(server.data)
    assert found["data"]["size_bytes"] == usage.total


def test_prices_and_probes_are_shown_beside_their_devices(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (data,) = [one for one in listed(capsys, "--dsn", server.conninfo()) if "data" in one["parts"]]
    prices = tmp_path / "prices.toml"
    prices.write_text(
        f"[[device]]\nmount = '{data['mount_point']}'\ndrives = 2\nraid = 'raid10'\n"
        "unit_price = 99.5\n"
    )
    kept = tmp_path / "probe.json"
    words = ["devices", "probe", str(tmp_path), "--size", "17MB", "--seconds", "0.1"]
    assert main([*words, "--without-fio", "-o", str(kept)]) == 0
    captured = capsys.readouterr()
    assert "A write of 8 kB with its sync" in captured.out
    assert captured.err == ""  # no terminal, no bar
    words = ["--dsn", server.conninfo(), "--prices", str(prices), "--probe", str(kept)]
    (data,) = [one for one in listed(capsys, *words) if "data" in one["parts"]]
    assert data["price"]["unit_price"] == 99.5
    assert data["probe"] == json.loads(kept.read_text())["probe"]
    assert main(["devices", *words]) == 0
    table = capsys.readouterr().out
    assert "99.50 USD" in table
    assert "ms a sync (by pgflash" in table


def test_the_list_as_csv_and_all_devices_of_the_machine(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", "--dsn", server.conninfo(), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {part for row in rows for part in row["parts"].split("; ")} >= {"data", "wal"}
    every = listed(capsys, "--dsn", server.conninfo(), "--all")
    assert {one["mount_point"] for one in every} >= {row["mount_point"] for row in rows}


def test_a_role_that_may_not_see_the_settings_is_told_what_it_lacks(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {
        part: one
        for one in listed(capsys, "--dsn", f"{server.conninfo()} user=nobody")
        for part in one["parts"]
    }
    assert "GRANT pg_monitor" in found["data"]["unknown"]["mount_point"]
    assert found["data"]["media"] == "unknown"
    assert found["tablespace fast"]["media"] == "memory"


def test_a_server_of_another_machine_is_refused_in_a_sentence(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.api.why_not_local", lambda _connection: "it is elsewhere")
    assert main(["devices", "--dsn", server.conninfo()]) == 1
    captured = capsys.readouterr()
    assert "cannot be seen from here: it is elsewhere" in captured.err
    assert "where the server runs" in captured.err
