# SPDX-License-Identifier: PostgreSQL
"""pgflash devices and pgflash doctor, against a server whose parts are on two devices."""

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
from pgflash.collect.host_settings import read_host
from pgflash.collect.server_settings import read_server
from pgflash.local import postmaster_pid
from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.patience import until

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def in_memory() -> Iterator[Path]:
    """A folder of the server on another file system than its data."""
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
        settings={"archive_mode": "on", "archive_command": f"cp %p {in_memory}/%f"},
        start=False,
        on_disk=True,
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
    words = ["devices", "probe", str(tmp_path), "--size", "17MB", "--seconds", "0.5"]
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
    assert "s a sync (by pgflash" in table


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
    monkeypatch.setattr("pgflash.api.machines.why_not_local", lambda _connection: "it is elsewhere")
    assert main(["devices", "--dsn", server.conninfo()]) == 1
    captured = capsys.readouterr()
    assert "not visible from here: it is elsewhere" in captured.err
    assert "on the server's machine" in captured.err


# ---- doctor


def examined(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[dict[str, Any]]]:
    assert main(["doctor", *words, "--format", "json"]) == 0
    found: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(capsys.readouterr().out):
        found.setdefault(one["rule"], []).append(one)
    return found


def test_the_doctor_finds_what_is_wrong_with_a_server_and_changes_nothing(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with server.connect() as connection:
        before = connection.execute("select name, setting from pg_settings").fetchall()
    found = examined(capsys, "--dsn", server.conninfo())
    (lost,) = [one for one in found["lasting"] if one["outcome"] == "critical"]
    assert "wal" in lost["sentence"]
    assert "tablespace fast" in lost["sentence"]
    # The default is for disks, and the tablespace is memory: for reads, memory counts as flash.
    (cost,) = [one for one in found["random-page-cost"] if one["subject"] == "fast"]
    assert cost["outcome"] == "warning"
    with server.connect() as connection:
        connection.execute(cost["commands"][0])
        (cost,) = [
            one
            for one in examined(capsys, "--dsn", server.conninfo())["random-page-cost"]
            if one["subject"] == "fast"
        ]
        assert cost["outcome"] == "good"
        connection.execute("alter tablespace fast reset (random_page_cost)")
        assert connection.execute("select name, setting from pg_settings").fetchall() == before
    # The command reported what this machine is really set to.
    swappiness = Path("/proc/sys/vm/swappiness").read_text().strip()
    (said,) = found["swappiness"]
    assert swappiness in said["sentence"] or "no swap" in said["sentence"]
    assert found["open-files"][0]["outcome"] != "unknown"


@pytest.mark.extension
def test_checkpoints_clients_and_programs_are_those_of_the_server(server: Server) -> None:
    with server.connect() as connection:
        before = read_server(connection).checkpoints
        assert before is not None
        requested_before = before.requested
        # A new WAL file each time: without WAL there is no checkpoint.
        for _number in range(3):
            connection.execute("select pg_switch_wal()")
            connection.execute("checkpoint")

        # The checkpointer answers first and adds to its statistics afterwards.
        def counted() -> bool:
            now = read_server(connection).checkpoints
            assert now is not None
            return now.requested - requested_before >= 3

        until(counted)
        after = read_server(connection)
        assert after.checkpoints is not None
        assert after.checkpoints.wal_bytes_s > 0
        assert after.remote_sessions == 0
        host = read_host(postmaster_pid(connection))
        assert (Path(host.programs) / "pg_checksums").exists()
        assert host.limits["Max stack size"] > 0


def test_a_build_can_be_made_to_fail_by_what_is_found(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--dsn", server.conninfo()]
    assert main([*words, "--fail-on", "critical"]) == 1  # its WAL is in memory
    text = capsys.readouterr().out
    assert "critical lasting, " in text
    assert "Source: " in text
    assert "Not checked:" in text
    assert "All well:" not in text
    assert main([*words, "--all"]) == 0
    assert "All well:" in capsys.readouterr().out
    assert main([*words, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["outcome"] for row in rows} >= {"critical", "good", "unknown"}


def test_of_a_server_elsewhere_only_its_settings_are_checked(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgflash.api.machines.why_not_local", lambda _connection: "it is elsewhere")
    found = examined(capsys, "--dsn", server.conninfo())
    assert "it is elsewhere" in found["machine"][0]["sentence"]
    assert "swappiness" not in found
    assert found["checksums"][0]["outcome"] in ("good", "warning")


def test_a_role_without_rights_gets_what_it_may_see(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    found = examined(capsys, "--dsn", f"{server.conninfo()} user=nobody")
    assert found["wal-init-zero"][0]["outcome"] == "unknown"
