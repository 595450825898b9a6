# SPDX-License-Identifier: PostgreSQL
"""Miniatures of write-path and media-matrix: the devices saw the moves that were ordered."""

import subprocess
import sys
from pathlib import Path

import pytest

from pgflash_lab.model.run import Attempt, Run
from pgflash_lab.postgres import PgInstall
from pgflash_lab.store import Store

SEGMENT_BYTES = 16 * 2**20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


def run(install: PgInstall, store: Path, scenario: str, *changes: str) -> Run:
    words = [word for change in changes for word in ("--set", change)]
    command = [sys.executable, "-m", "pgflash", "lab", "run", scenario, "--preset", "smoke"]
    places = ["--pg-config", str(install.pg_config), "--store", str(store)]
    done = subprocess.run([*command, *places, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Store(root=store).read("latest")


def attempts_of(run: Run) -> dict[str, Attempt]:
    return {attempt.approach: attempt for attempt in run.attempts}


def test_archived_copies_and_hot_tables_pass_the_device_that_they_were_moved_to(
    pg_install: PgInstall, store: Path
) -> None:
    found = attempts_of(
        run(
            pg_install,
            store,
            "write-path",
            "approaches=recovery-on-flash,hot-tables-too,reads-on-flash",
            "load_mb=64",
            "shared_buffers=32MB",
            "unarchived_max=1",
        )
    )
    # Two segments may be left when the load ends, and a third is being written.
    copied = {
        name: 2 * SEGMENT_BYTES * (found[name].facts["archived_segments"] - 3)
        for name in ("recovery-on-flash", "hot-tables-too")
    }
    assert min(copied.values()) > 0
    recovery, hot = (found[name].devices for name in copied)
    # The first copy reads the segment, and the second the first copy.
    assert recovery["array"]["read_bytes"] >= copied["recovery-on-flash"] / 2
    assert recovery["flash"]["read_bytes"] >= copied["recovery-on-flash"] / 2
    assert recovery["flash"]["write_bytes"] >= copied["recovery-on-flash"]
    # Nothing else is on flash: the copies have the names of segments, and are none.
    assert recovery["flash"]["log_write_count"] == recovery["flash"]["log_sync_count"] == 0
    assert recovery["array"]["log_sync_count"] > 0
    # Apart from the log and the archive, only the table that is not hot is left.
    assert hot["array"]["log_sync_count"] == 0
    assert hot["array"]["write_bytes"] < recovery["array"]["write_bytes"] / 2
    for name in copied:
        assert found[name].duration_s == found[name].measured_s > 0
        assert found[name].workload == "load"
        assert sum(step.rows for step in found[name].steps) == found[name].facts["rows"]
        assert len(found[name].consistency) == 6
    scans = found["reads-on-flash"]
    assert scans.duration_s == 0.0
    assert scans.devices["flash"]["read_bytes"] > 4 * 2**20
    assert scans.devices["array"]["read_count"] == 0


def test_each_table_s_operations_wait_for_their_own_device(
    pg_install: PgInstall, store: Path
) -> None:
    (attempt,) = run(pg_install, store, "media-matrix", "approaches=redo-on-flash").attempts
    times = {one.transaction: one.mean_ms for one in attempt.by_transaction}
    # A disk's read takes 10 ms and an SSD's a tenth of that: no noise reverses their order.
    assert times["array"] > times["flash"]
    assert attempt.devices["array"]["read_count"] > 0
    assert attempt.devices["flash"]["read_count"] > 0
    assert attempt.devices["flash"]["log_sync_count"] > 0
    assert attempt.devices["array"]["log_sync_count"] == 0
    assert len(attempt.consistency) == 8
