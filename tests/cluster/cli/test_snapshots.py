# SPDX-License-Identifier: PostgreSQL
"""pgflash snapshot and pgflash snapshots, against a server and against a file."""

import csv
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.store import open_store
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import ClusterFactory
from support.commands import failure, output
from support.patience import PATIENCE_S, eventually


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """A server with the extension in the database postgres."""
    factory = ClusterFactory(pgflash_install)
    server = factory(preload="pgflash", settings={"pgflash.snapshot_interval": "0"})
    with server.connect() as connection:
        connection.execute("create extension pgflash")
    yield server
    factory.close()


def test_a_snapshot_is_taken_and_listed(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    dsn = ("--dsn", server.conninfo())
    said = [output(capsys, "snapshot", *dsn) for _time in range(2)]
    taken = [re.match(r"snapshot (\d+), taken in [\d.]+ (µs|ms|s)\n", one) for one in said]
    ids = [int(match[1]) for match in taken if match]
    assert len(ids) == 2
    listed = json.loads(output(capsys, "snapshots", *dsn, "--format", "json"))
    assert [one["id"] for one in listed][-2:] == ids
    assert listed[-1]["previous_id"] == ids[0]
    rows = list(csv.DictReader(io.StringIO(output(capsys, "snapshots", *dsn, "--format", "csv"))))
    assert [row["id"] for row in rows] == [str(one["id"]) for one in listed]
    table = output(capsys, "snapshots", *dsn)
    assert len(table.splitlines()) == 1 + len(listed)
    assert f"{server.install.major}." in table


def test_old_ones_are_dropped_on_request(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    for words in (("--dsn", server.conninfo()), ("--dsn", server.conninfo(), "--store", str(path))):
        output(capsys, "snapshot", *words)
        time.sleep(1.1)
        assert "older dropped" in output(capsys, "snapshot", *words, "--keep", "1s")
    with open_store(path=path) as store:
        assert len(store.list()) == 1
    with open_store(dsn=server.conninfo()) as store:
        assert len(store.list()) == 1


def test_every_takes_one_after_the_other_until_it_is_interrupted(
    server: Server, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pgflash", "snapshot", "--dsn", server.conninfo()),
            *("--store", str(path), "--every", "1s"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def count() -> int:
        if not path.exists():
            return 0
        with open_store(path=path) as store:
            return len(store.list())

    try:
        assert eventually(lambda: count() >= 2)
    finally:
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert out.startswith("snapshot 1, ")
    assert "interrupted" in err


def test_wrong_questions_are_refused_in_a_sentence(
    server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dsn = server.conninfo()
    both = failure(capsys, 2, "snapshots", "--dsn", dsn, "--store", str(tmp_path / "s"))
    assert "exclude each other" in both
    assert "there is no file" in failure(capsys, 1, "snapshots", "--store", str(tmp_path / "s"))
    for word in ("soon", "0s", "-1h", "10 weeks"):
        assert "is not a" in failure(capsys, 2, "snapshot", "--dsn", dsn, "--every", word)
    assert "could not connect" in failure(capsys, 1, "snapshot", "--dsn", "host=/nowhere")
    assert "is not in database" in failure(
        capsys, 1, "snapshot", "--dsn", server.conninfo("template1")
    )
