# SPDX-License-Identifier: PostgreSQL
"""Each message that the library logs by itself stands in the guide, and nothing else does."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

#: A report up to its end, and the literals of its message.
REPORT = re.compile(r"ereport\(\s*(?:[\w? ]*: )?(LOG|WARNING),(.*?)\)\);", re.DOTALL)
MESSAGE = re.compile(r'errmsg(?:_plural)?\(((?:\s*"(?:[^"\\]|\\.)*")+)')
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
ROW = re.compile(r"^\| (LOG|WARNING): `(.*?)` \|", re.MULTILINE)


def logged() -> set[tuple[str, str]]:
    """Return level and message of each report in the source, with dots for what differs."""
    found = set()
    for path in sorted((REPOSITORY / "extension" / "src").rglob("*.c")):
        for level, report in REPORT.findall(path.read_text()):
            for literals in MESSAGE.findall(report):
                message = "".join(LITERAL.findall(literals)).replace('\\"', '"')
                found.add((level, re.sub(r"%(?:z?[dus]|m)", "…", message)))
    return found


def test_the_guide_has_each_message_and_no_other() -> None:
    guide = (REPOSITORY / "docs" / "guide" / "messages.md").read_text()
    assert set(ROW.findall(guide)) == logged()
    assert len(logged()) > 40
