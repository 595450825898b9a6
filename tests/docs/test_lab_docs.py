# SPDX-License-Identifier: PostgreSQL
"""What the lab offers is documented: commands, parameters, results."""

import dataclasses
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from pgflash_lab.report import result
from pgflash_lab.scenario import load_scenario, scenario_names
from pgflash_lab.workloads import WORKLOADS
from support.runs import whole_run

REPOSITORY = Path(__file__).resolve().parents[2]


def named_in(page: str) -> set[str]:
    """Return the words in backquotes in a page."""
    return set(re.findall(r"`([^`\n]+)`", (REPOSITORY / "docs" / page).read_text()))


def test_the_command_reference_is_what_the_commands_say() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / "help_to_docs.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_parameter_of_a_scenario_is_documented() -> None:
    kinds = [one.parameters for one in WORKLOADS.values()]
    parameters = {one.name for kind in kinds for one in dataclasses.fields(kind)}
    assert parameters - named_in("guide/lab.md") == set()


def test_every_approach_is_documented() -> None:
    pages = (REPOSITORY / "docs" / "guide").glob("*.md")
    guide = "".join(page.read_text() for page in pages)
    for name in scenario_names():
        assert name in guide
        for approach in load_scenario(name).approaches:
            assert f"| {approach.name} |" in guide or f"`{approach.name}`" in guide


def test_each_row_of_the_papers_has_a_verdict() -> None:
    page = (REPOSITORY / "docs/reference/papers.md").read_text()
    rows = re.findall(r"^\| (\d{3})-(\d+) \| .+ \| (yes|partly|no|n/a) \|$", page, re.MULTILINE)
    numbers: dict[str, list[int]] = {}
    for paper, number, _ in rows:
        numbers.setdefault(paper, []).append(int(number))
    assert list(numbers) == ["000", "001", "002", "003", "004"]
    assert all(found == [*range(1, len(found) + 1)] for found in numbers.values())
    count = Counter(verdict for _, _, verdict in rows)
    assert (
        f"Of {len(rows)} rows, {count['yes']} are there, {count['partly']} partly, "
        f"{count['no']} not, and {count['n/a']} do not apply."
    ) in " ".join(page.split())


def test_every_key_of_a_result_is_documented() -> None:
    found = result(whole_run())
    keys = {*found, *found["approaches"]["baseline"], *found["devices"]["array"]}
    keys |= set(result(whole_run())["polluted"] or [])
    assert keys - named_in("reference/result.md") == set()
