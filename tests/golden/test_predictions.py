# SPDX-License-Identifier: PostgreSQL
"""Predictions compared with measured runs of the lab.

data/predictions holds runs on emulated devices, on a machine of two cores: what was
measured, and the report of each baseline, cut down to the tables that a prediction reads
(make predictions keeps them).  No figure of an approach enters its own prediction, except for the
CPU time of other programs.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from pgflash.model.advice import PredictionChecks
from pgflash.model.awr import AwrReport, ReportTable, Row
from pgflash_lab.analyze.check import predict_run
from pgflash_lab.analyze.papers import predict_papers
from pgflash_lab.api import read_run
from pgflash_lab.kept import keep_predictable
from pgflash_lab.model.run import Run
from pgflash_lab.model.summary import summarize
from pgflash_lab.store import RUN_FILE, periods_of

DATA = Path(__file__).parent / "data" / "predictions"
SCENARIOS = sorted(path.parent.name for path in DATA.glob("*/run.json"))
ERROR_MAX = 0.25


@cache
def stored(scenario: str) -> tuple[Run, dict[str, AwrReport]]:
    folder = DATA / scenario
    run = read_run(folder / "run.json")
    return run, periods_of(folder, run)


def checked(scenario: str) -> PredictionChecks:
    return predict_run(*stored(scenario))


def test_the_papers_scenarios_are_held() -> None:
    assert set(SCENARIOS) >= {"oltp-approaches", "write-path", "warehouse"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_run_that_is_kept_says_what_the_whole_one_does(scenario: str, tmp_path: Path) -> None:
    run, reports = stored(scenario)
    more = next(iter(reports.values())).tables[0]
    whole = {
        name: replace(report, tables=(*report.tables, replace(more, id="something-else")))
        for name, report in reports.items()
    }
    (tmp_path / "awr-99-left-over.json").write_text("{}")
    keep_predictable(tmp_path, run, whole)
    kept = read_run(tmp_path / "run.json")
    found = periods_of(tmp_path, kept)
    assert not (tmp_path / "awr-99-left-over.json").exists()
    assert {name: report.tables for name, report in found.items()} == {
        name: report.tables for name, report in reports.items()
    }
    assert predict_run(kept, found) == predict_run(run, reports)
    # In the same bytes, so that a difference between two versions is one of figures.
    assert (tmp_path / RUN_FILE).read_bytes() == (DATA / scenario / RUN_FILE).read_bytes()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_median_error_of_a_scenario_is_at_most_a_quarter(scenario: str) -> None:
    checks = checked(scenario)
    assert len(checks.errors) >= 2
    assert checks.median_error is not None
    assert checks.median_error <= ERROR_MAX


def test_the_median_over_lab_and_papers_is_at_most_a_quarter() -> None:
    rows = [row for scenario in SCENARIOS for row in checked(scenario).rows]
    together = PredictionChecks(rows=(*rows, *predict_papers().rows))
    assert len(together.errors) >= 20
    assert together.median_error is not None
    assert together.median_error <= ERROR_MAX


def test_the_order_of_the_write_path_comes_out() -> None:
    predicted = {row.case: row.predicted or 0.0 for row in checked("write-path").rows}
    order = ("redo-on-flash", "recovery-on-flash", "redo-and-recovery", "hot-tables-too")
    ratios = [1.0, *(predicted[name] for name in order)]
    assert ratios == sorted(ratios)
    assert ratios[-1] > 3


def test_another_load_is_not_predicted_and_says_why() -> None:
    run, reports = stored("warehouse")
    wider = tuple(
        replace(one, base="baseline") if one.name == "flash-4" else one for one in run.approaches
    )
    rows = {row.case: row for row in predict_run(replace(run, approaches=wider), reports).rows}
    assert rows["flash-4"].predicted is None
    assert "its load differs (degree)" in rows["flash-4"].note


def test_without_a_name_an_approach_is_compared_with_the_plain_one_of_its_load() -> None:
    run, _ = stored("write-path")
    rows = {row.case: row for row in checked("write-path").rows}
    # The scans on the SAN are what the scans on flash are compared with, and with nothing.
    assert "reads-on-san" not in rows
    tpm = {one.approach.name: one.tpm for one in summarize(run)}
    unnamed = replace(run, approaches=tuple(replace(one, base="") for one in run.approaches))
    again = {row.case: row for row in predict_run(unnamed, stored("write-path")[1]).rows}
    expected = tpm["reads-on-flash"] / tpm["reads-on-san"]
    assert again["reads-on-flash"].measured == pytest.approx(expected)


def test_without_the_baselines_report_nothing_is_predicted() -> None:
    run, _ = stored("oltp-approaches")
    checks = predict_run(run, {})
    assert checks.errors == ()
    assert checks.median_error is None
    assert all("there is no report" in row.note for row in checks.rows)
    assert checks.sentence == "Nothing could be predicted."


def test_the_table_shows_each_error_and_names_the_worst() -> None:
    checks = checked("oltp-approaches")
    table = checks.table()
    errors = [abs(float(value)) for value in table.values("error") if isinstance(value, float)]
    assert len(errors) == len(checks.errors) >= 4
    assert checks.worst is not None
    assert f"({checks.worst.title})" in table.note
    assert f"{100 * max(errors):.0f} %" in table.note


def test_an_approach_does_not_see_its_own_throughput() -> None:
    # Were it to, the prediction would follow a measurement that somebody made up.
    run, reports = stored("oltp-approaches")
    lied = replace(
        run,
        attempts=tuple(
            attempt if attempt.approach == "baseline" else replace(attempt, tpm=attempt.tpm / 3)
            for attempt in run.attempts
        ),
    )
    before = {row.case: row.predicted for row in predict_run(run, reports).rows}
    after = {row.case: row.predicted for row in predict_run(lied, reports).rows}
    assert before == after
    median = predict_run(lied, reports).median_error
    assert median is not None
    assert median > 1.5


def _with_reads_slower(report: AwrReport, times: float) -> AwrReport:
    """Return a report whose reads waited so many times as long, and DB time with them."""

    def changed(table: ReportTable) -> ReportTable:
        names = {"top-events": "event", "wait-classes": "wait_class", "db-time": "name"}
        if table.id not in names:
            return table
        key, place = table.index(names[table.id]), table.index("total_s")
        rows = []
        for row in table.rows:
            cells = list(row.cells)
            if cells[key] in ("data file read, disk", "User I/O", "DB time"):
                cells[place] = float(cells[place]) * times  # type: ignore[arg-type]
            rows.append(Row(cells=tuple(cells), source=row.source, mark=row.mark))
        return replace(table, rows=tuple(rows))

    return replace(report, tables=tuple(changed(table) for table in report.tables))


def test_a_baseline_that_is_not_what_was_measured_is_found_out() -> None:
    # The negative control: with reads ten times as slow, predictions are far off.
    run, reports = stored("oltp-approaches")
    wrong = {name: _with_reads_slower(report, 10) for name, report in reports.items()}
    median = predict_run(run, wrong).median_error
    assert median is not None
    assert median > ERROR_MAX
