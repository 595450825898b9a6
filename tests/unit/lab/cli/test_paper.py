# SPDX-License-Identifier: PostgreSQL
"""pgflash lab paper: a run beside its paper, in each form."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.cli import main
from pgflash_lab.model.exhibit import Verdict
from pgflash_lab.pages import write_products
from pgflash_lab.store import attempt_name, write_period, write_run
from support.paper_runs import run_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a run that came out as paper 000 says."""
    root = tmp_path_factory.mktemp("store")
    run, reports = run_000()
    folder = root / "runs" / run.id
    write_run(folder, run)
    for place, one in enumerate(run.attempts):
        write_period(folder, attempt_name(place, one.approach), reports[one.approach])
    write_products(folder, run)
    return root


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["lab", "paper", *words]) == 0
    return capsys.readouterr().out


def test_the_text_says_what_agrees(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    text = output(capsys, "--store", str(store))
    assert text.startswith("Paper 000: Accelerating Oracle")
    assert "AGREES: Throughput: the same order" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 100


def test_json_has_every_exhibit_with_its_checks(
    capsys: pytest.CaptureFixture[str], store: Path
) -> None:
    found = json.loads(output(capsys, "latest", "--store", str(store), "--format", "json"))
    assert (found["kind"], found["format"], found["paper"]) == ("paper", 1, "000")
    by_id = {one["id"]: one for one in found["exhibits"]}
    assert by_id["fig-12"]["verdict"] == Verdict.AGREES
    assert all(check["holds"] and check["says"] for check in by_id["fig-12"]["checks"])
    assert by_id["fig-4"]["paper"]["rows"][0]["cells"][:3] == [
        "log file sync",
        "11,236,170",
        "238.5K",
    ]
    assert by_id["fig-4"]["ours"]["rows"][0]["cells"][0] == "log file sync"
    kept = next((store / "runs").iterdir()) / "paper.json"
    assert json.loads(kept.read_text()) == found


def test_html_is_the_page_and_can_go_to_a_file(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    run = next((store / "runs").iterdir())
    said = output(capsys, str(run), "--store", str(store), "--format", "html", "-o", str(page))
    assert said == f"Page: {page}\n"
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_a_run_that_follows_no_paper_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = replace(run_000()[0], paper="")
    write_run(tmp_path / "runs" / run.id, run)
    assert main(["lab", "paper", "--store", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "follows no paper" in captured.err
