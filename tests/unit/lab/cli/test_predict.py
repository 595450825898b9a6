# SPDX-License-Identifier: PostgreSQL
"""pgflash lab predict: stored runs, the model's predictions for them, and their errors."""

import csv
import io
import json
import shutil
import statistics
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash.model.words import percent
from pgflash_lab.api import read_run
from support.cluster import REPOSITORY

KEPT = REPOSITORY / "tests" / "golden" / "data" / "predictions"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Runs of two scenarios, of one of them two; the newest of all is not finished."""
    for name in ("oltp-approaches", "write-path"):
        run = read_run(KEPT / name / "run.json")
        shutil.copytree(KEPT / name, tmp_path / "runs" / run.id)
    old = tmp_path / "runs" / "20200101-000000-write-path"
    shutil.copytree(KEPT / "write-path", old)
    for report in old.glob("awr-*"):
        report.unlink()
    cut = json.loads((KEPT / "write-path" / "run.json").read_text()) | {"ended_at": ""}
    (tmp_path / "runs" / "20990101-000000-write-path").mkdir()
    (tmp_path / "runs" / "20990101-000000-write-path" / "run.json").write_text(json.dumps(cut))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["lab", "predict", *words]) == code
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return shown.out + shown.err


def test_the_newest_finished_run_of_each_scenario_is_compared(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(said(capsys, "--store", str(store), "--format", "json"))
    rows = found["predictions"]
    assert {row["scenario"] for row in rows} == {"oltp-approaches", "write-path"}
    # The old run has no reports, and would have no predictions.
    errors = [row["error"] for row in rows]
    assert None not in errors
    for row in rows:
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
    assert found["median_error"] == pytest.approx(statistics.median(map(abs, errors)))
    assert abs(found["worst_error"]) == max(map(abs, errors))
    assert percent(found["median_error"]) in found["sentence"]


def test_a_table_ends_with_the_median_and_the_worst(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = said(capsys, "--store", str(store), "--papers")
    assert "000, hot objects on flash" in shown
    assert "The median error of" in shown
    assert "the worst is" in shown
    assert "Medians: " in shown


def test_a_run_is_named_by_its_folder_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    words = (str(KEPT / "warehouse"), "--keep", str(kept), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(said(capsys, *words))))
    assert {row["approach"] for row in rows} >= {"all-on-flash", "temp-on-flash"}
    again = said(capsys, str(kept / "warehouse"), "--format", "csv")
    assert list(csv.DictReader(io.StringIO(again))) == rows


def test_what_was_not_predicted_is_shown_with_its_reason_and_no_error(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = ("20200101-000000-write-path", "--store", str(store))
    assert "not predicted: there is no report of" in said(capsys, *old)
    assert "Nothing could be predicted." in said(capsys, *old)
    assert json.loads(said(capsys, *old, "--format", "json"))["median_error"] is None
    assert "| 0" not in said(capsys, *old, "--format", "md")


def test_without_a_run_it_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "pgflash lab run all" in said(capsys, "--store", str(tmp_path), code=1)
    assert "there is no run" in said(capsys, "nothing", "--store", str(tmp_path), code=1)
