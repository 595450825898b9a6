# SPDX-License-Identifier: PostgreSQL
"""Three real members, whose leader is killed and loses its flash with its WAL, from end to end.

The scenario ephemeral-wal is failover with that and an emulated network, so both are tried at once.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from pgflash_lab.model.run import Attempt
from pgflash_lab.model.summary import summarize
from pgflash_lab.postgres import PgInstall
from pgflash_lab.report.failover import marks
from pgflash_lab.store import Store
from support.page import Page

# Its fixture makes a whole run.
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def folder(pgflash_install: PgInstall, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("patroni", reason="make venv-dev")
    store = tmp_path_factory.mktemp("store")
    command = [sys.executable, "-m", "pgflash", "lab", "run", "ephemeral-wal", "--preset", "smoke"]
    command += ["--store", str(store), "--pg-config", str(pgflash_install.pg_config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((store / "runs").iterdir())


@pytest.fixture(scope="module")
def measured(folder: Path) -> Attempt:
    (attempt,) = Store(root=folder.parents[1]).read("latest").attempts
    return attempt


def test_nothing_that_was_acknowledged_is_lost_with_its_leader(measured: Attempt) -> None:
    orders = round(measured.facts["acknowledged_orders"])
    assert f"{orders:,} acknowledged orders are all on the new leader" in measured.consistency
    # Conditions of TPC-C hold as well, and at most one order a client was in progress.
    assert len(measured.consistency) == 12
    assert measured.facts["unacknowledged_orders"] <= 2 * measured.clients


def test_every_hit_of_the_new_leader_was_compared_with_its_file(measured: Attempt) -> None:
    assert measured.cache is not None
    assert measured.facts["verify_mismatches"] == 0
    assert measured.cache.counters["verify_compared"] > 0


def test_the_standby_was_warm_before_its_leader_ended(measured: Attempt) -> None:
    assert measured.facts["warmth"] > 0
    for name in ("list_wal_bytes", "list_wal_share"):
        assert measured.facts[name] > 0
    # On a busy machine the process that stores the list may end before it is seen.
    cpu = [measured.facts[one] for one in ("list_cpu_s", "list_cpu_share") if one in measured.facts]
    assert len(cpu) in (0, 2)
    assert all(one > 0 for one in cpu)


def test_the_moments_of_the_failover_are_in_their_order(measured: Attempt) -> None:
    facts = measured.facts
    assert 3 <= facts["fault_s"] < facts["promoted_s"]
    assert 0 < facts["without_commit_s"] < facts["promoted_s"] + facts["watched_s"]
    assert facts["watched_s"] == 5
    assert measured.measured_s == pytest.approx(facts["promoted_s"] + facts["watched_s"])


def test_the_page_marks_the_failover(folder: Path) -> None:
    run = Store(root=folder.parents[1]).read("latest")
    assert [text for _, text in marks(summarize(run))] == [
        "the leader ends",
        "promoted: wal-on-flash",
    ]
    page = Page((folder / "report.html").read_text())
    assert "the new leader reached 90 % of the throughput before" in page.text


def test_a_leader_that_lost_its_wal_with_its_flash_follows_the_new_one(measured: Attempt) -> None:
    assert measured.facts["returned_s"] > 0


def test_clients_wait_for_commits_no_longer_than_they_run(measured: Attempt) -> None:
    """On a busy machine none of the few samples may meet one, or one may stand for a second."""
    transactions_a_client = measured.facts["before_tps"] / measured.clients
    assert 0 <= measured.facts["before_commit_ms"] <= 3 * 1000 / transactions_a_client
