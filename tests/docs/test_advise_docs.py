# SPDX-License-Identifier: PostgreSQL
"""The JSON form of advice is documented, key by key."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pgflash.advise.approaches import advise
from pgflash.advise.work import work_of_report
from pgflash.model.advice import Advice, ApproachAdvice, Bottleneck, HotObject
from support.few import few

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "advise.md"


@pytest.mark.parametrize("kind", [Advice, ApproachAdvice, Bottleneck, HotObject])
def test_every_key_is_documented(kind: type) -> None:
    named = set(re.findall(r"`([^`\n]+)`", GUIDE.read_text().partition("## As JSON")[2]))
    assert {one.name for one in dataclasses.fields(kind)} - named == set()


def test_the_parts_of_an_approach_come_to_its_db_time() -> None:
    for way in advise(work_of_report(few(lock_s=30.0, other_s=10.0))).approaches:
        parts = way.cpu_ms + way.disk_ms + way.flash_ms + way.commit_ms + way.other_ms
        assert way.db_time_ms == pytest.approx(parts)


def test_what_the_lab_would_measure_differently_today_is_in_no_median() -> None:
    written = GUIDE.read_text().partition("<!-- written by")[2].partition("<!-- end -->")[0]
    present, older = written.split("| Scenario |")[1:]
    names = [re.findall(r"^\|[^|]*\| ([^|]+) \| +-?\d", part, re.M) for part in (present, older)]
    # Kept before scans were shared: two or more workers, or clients, that scan one table.
    scans = (
        "Everything on flash",
        "Temporary files on flash",
        "Flash, other queries",
        "Flash, 4 processes",
        "Flash, scale factor 0.1",
        "Scans, everything on flash",
    )
    # Kept before the load was replaced.
    loads = (
        "Redo on flash",
        "Recovery area on flash",
        "Redo and recovery area on flash",
        "Redo, recovery area and hot tables on flash",
    )
    assert sorted(names[1]) == sorted([*scans, *loads])
    assert "Flash, 1 process" in names[0]
    assert f"The median error of {len(names[0])} predictions" in present


def test_the_table_of_predictions_is_that_of_the_runs_that_are_kept() -> None:
    tool = ROOT / "tools" / "predictions_to_docs.py"
    done = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
