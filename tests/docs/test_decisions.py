# SPDX-License-Identifier: PostgreSQL
"""docs/decisions: the list is complete, and each heading agrees with its file's name."""

import re

from support.cluster import REPOSITORY

DECISIONS = REPOSITORY / "docs" / "decisions"


def test_the_list_names_each_decision_by_its_heading() -> None:
    expected = []
    for path in sorted(DECISIONS.glob("0*.md")):
        number = int(path.name[:4])
        heading = path.read_text().splitlines()[0]
        title = heading.removeprefix(f"# {number}. ")
        assert title != heading, f"{path.name} begins with {heading!r}"
        words = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("'", "")).strip("-")
        assert path.name == f"{number:04d}-{words}.md"
        expected.append(f"{number}. [{title}]({path.name})")
    listed = re.findall(r"^\d+\. .*$", (DECISIONS / "README.md").read_text(), re.M)
    assert listed == expected
    numbers = [one.split(".")[0] for one in listed]
    assert len({*numbers}) == len(numbers)
