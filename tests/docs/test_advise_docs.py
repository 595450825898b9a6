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


def test_the_table_of_predictions_is_that_of_the_runs_that_are_kept() -> None:
    tool = ROOT / "tools" / "predictions_to_docs.py"
    done = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
