# SPDX-License-Identifier: PostgreSQL
"""Which run a request continues."""

import dataclasses
from pathlib import Path

import pytest

from pgflash_lab.asked import UNFINISHED, Asked, order_one
from pgflash_lab.model.run import Run
from pgflash_lab.postgres import PgInstall
from pgflash_lab.store import Store, write_run
from support.runs import BASELINE, attempt, run_of

FINISHED = run_of(attempt(BASELINE, tpm=100), id="20261120-200000-oltp-approaches")
STOPPED = run_of(
    attempt(BASELINE, tpm=100), id="20261121-200000-oltp-approaches", stopped="interrupted"
)
KILLED = dataclasses.replace(STOPPED, stopped="", ended_at="")


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    """Return a request for a scenario's unfinished run."""
    install = PgInstall(
        bindir=tmp_path,
        libdir=tmp_path,
        pkglibdir=tmp_path,
        sharedir=tmp_path,
        includedir_server=tmp_path,
        version="18.6",
        major=18,
    )
    return Asked(
        scenario="oltp-approaches",
        preset="demo",
        changes={},
        resume=UNFINISHED,
        install=install,
        store=Store(root=tmp_path),
        out=None,
        real=None,
    )


def keep(asked: Asked, *runs: Run) -> None:
    for run in runs:
        write_run(asked.store.folder(run.id), run)


def test_without_any_run_a_new_one_begins(asked: Asked) -> None:
    assert order_one(asked).resumed is None


@pytest.mark.parametrize("run", [STOPPED, KILLED], ids=["stopped", "killed"])
def test_the_latest_run_is_resumed_if_it_is_unfinished(asked: Asked, run: Run) -> None:
    keep(asked, FINISHED, run)
    order = order_one(asked)
    assert order.resumed == run
    assert order.or_new


def test_after_a_finished_run_a_new_one_begins(asked: Asked) -> None:
    keep(asked, dataclasses.replace(STOPPED, id="20261119-200000-oltp-approaches"), FINISHED)
    assert order_one(asked).resumed is None


def test_the_folder_that_is_named_counts(asked: Asked, tmp_path: Path) -> None:
    keep(asked, FINISHED)
    write_run(tmp_path / "own", STOPPED)
    assert order_one(dataclasses.replace(asked, out=tmp_path / "own")).resumed == STOPPED


def test_a_run_that_is_named_is_resumed_or_refused(asked: Asked) -> None:
    keep(asked, STOPPED)
    order = order_one(dataclasses.replace(asked, resume=STOPPED.id))
    assert order.resumed == STOPPED
    assert not order.or_new
