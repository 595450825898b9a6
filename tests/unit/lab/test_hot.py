# SPDX-License-Identifier: PostgreSQL
"""An approach moves the tables that the advice selects from the baseline's own report."""

import dataclasses
from pathlib import Path

import pytest

from pgflash.analyze import make_report
from pgflash.model.awr import AwrReport
from pgflash_lab.hot import ADVISED, with_advised_objects
from pgflash_lab.store import attempt_name, write_period
from pgflash_lab.workload import MeasureError
from support.busy import busy_period
from support.runs import BASELINE, WAL, attempt, run_of

HOT = dataclasses.replace(WAL, objects=ADVISED)
RUN = run_of(attempt(WAL, tpm=120), attempt(BASELINE, tpm=100))


def test_tables_that_are_named_are_left_as_they_are(tmp_path: Path) -> None:
    named = dataclasses.replace(WAL, objects=("stock",))
    assert with_advised_objects(named, run_of(), folder=tmp_path, schema="oltp") is named


def test_the_baseline_s_own_report_is_asked_for_tables_of_the_workload(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = make_report(busy_period())
    write_period(tmp_path, attempt_name(1, "baseline"), report)
    asked: list[AwrReport] = []

    def ranked(one: AwrReport) -> tuple[str, ...]:
        asked.append(one)
        return ("oltp.stock", "public.pgflash_snapshots", "oltp.customer")

    monkeypatch.setattr("pgflash_lab.hot._ranked", ranked)
    placed = with_advised_objects(HOT, RUN, folder=tmp_path, schema="oltp")
    assert placed == dataclasses.replace(HOT, objects=("stock", "customer"))
    assert [one.head for one in asked] == [report.head]


def test_without_that_report_nothing_is_guessed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for run in (run_of(), RUN):
        with pytest.raises(MeasureError, match="no report of the approach"):
            with_advised_objects(HOT, run, folder=tmp_path, schema="oltp")
    write_period(tmp_path, attempt_name(1, "baseline"), make_report(busy_period()))
    monkeypatch.setattr("pgflash_lab.hot._ranked", lambda _report: ("public.other",))
    with pytest.raises(MeasureError, match="no table of the workload"):
        with_advised_objects(HOT, RUN, folder=tmp_path, schema="oltp")
