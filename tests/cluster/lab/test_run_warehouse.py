# SPDX-License-Identifier: PostgreSQL
"""The scenario warehouse, tiny, from end to end: what it stores, and the page it writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from pgflash_lab.model.run import Attempt, Run
from pgflash_lab.postgres import PgInstall
from pgflash_lab.store import Store

QUERIES = ["Q18", "Q9", "Q6", "Q1"]  # in the order of a stream that is alone


@pytest.fixture(scope="module")
def folder(pgflash_install: PgInstall, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store")
    command = [sys.executable, "-m", "pgflash", "lab", "run", "warehouse", "--preset", "smoke"]
    command += ["--store", str(store)]
    done = subprocess.run(
        [*command, "--pg-config", str(pgflash_install.pg_config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next((store / "runs").iterdir())


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return Store(root=folder.parents[1]).read("latest")


@pytest.fixture(scope="module")
def attempts(run: Run) -> dict[str, Attempt]:
    return {one.approach: one for one in run.attempts if not one.superseded}


def test_every_approach_runs_the_queries_as_steps(attempts: dict[str, Attempt]) -> None:
    assert list(attempts) == ["baseline", "all-on-flash", "temp-on-flash"]
    for one in attempts.values():
        assert sorted(step.name for step in one.steps) == sorted(QUERIES)
        assert one.workload == "warehouse"
        assert one.duration_s >= sum(step.elapsed_s for step in one.steps)
        assert one.tpm == pytest.approx(60 * len(QUERIES) / one.duration_s)
        assert len(one.consistency) == 7


def test_db_time_of_a_step_is_its_work_and_wait(attempts: dict[str, Attempt]) -> None:
    for one in attempts.values():
        for step in one.steps:
            work_s, wait_s = (one.facts[f"{step.name}.{fact}"] for fact in ("work_s", "wait_s"))
            assert step.db_time_s == pytest.approx(work_s + wait_s)
        assert one.facts["wait_s"] == pytest.approx(
            sum(one.facts[f"{name}.wait_s"] for name in QUERIES)
        )


def test_temporary_files_go_where_the_approach_says(attempts: dict[str, Attempt]) -> None:
    for one in attempts.values():
        assert one.facts["temp_write_bytes"] > 0
    # Nothing but temporary files is on the other device of these two.
    assert attempts["baseline"].devices["flash"]["write_count"] == 0
    moved = attempts["temp-on-flash"].devices
    assert moved["flash"]["write_bytes"] >= attempts["temp-on-flash"].facts["temp_write_bytes"] / 2
    assert attempts["all-on-flash"].devices["array"]["read_count"] == 0


def test_the_page_of_the_paper_compares_answers(folder: Path) -> None:
    page = (folder / "paper.html").read_text()
    assert "Every approach gave the same answers." in page
    assert "DB time = work time + wait time" in page
