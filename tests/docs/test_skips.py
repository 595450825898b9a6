# SPDX-License-Identifier: PostgreSQL
"""CI installs every package that a skipped test asks for: there it is not skipped."""

import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

#: Asks for packages, to the end of a string.
ASKS = re.compile(r"apt-get install ((?:[a-z0-9][a-z0-9.+-]* ?)+)\"")
#: tools/pg.py unpacks it beside PostgreSQL 15, and installs nothing.
UNPACKED = {"postgresql-15-repack"}


def asked_for(text: str) -> set[str]:
    """Return the packages that a test's skips name."""
    return {package for words in ASKS.findall(text) for package in words.split()}


def files_that_skip() -> Iterator[Path]:
    """Yield every file of tests in which something may be skipped."""
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        if path != Path(__file__) and re.search(r"\bskip(if)?\(", path.read_text()):
            yield path


def installed_by(script: str) -> set[str]:
    """Return the packages that CI's script installs."""
    (listed,) = re.findall(r"^\tfor package in (.*?); do$", script, re.M | re.S)
    return set(listed.replace("\\\n", " ").split())


def test_what_skips_ask_for_is_installed_by_ci() -> None:
    asked = {path: asked_for(path.read_text()) for path in files_that_skip()}
    installed = installed_by((REPOSITORY / ".ci" / "run").read_text()) | UNPACKED
    missing = {
        str(path.relative_to(REPOSITORY)): sorted(packages - installed)
        for path, packages in asked.items()
        if packages - installed
    }
    assert missing == {}
    # The names are found: in a literal, in a table, and two in one.
    assert {"fish", "xfsprogs", "libc6-dev-arm64-cross", "chromium"} <= set().union(*asked.values())
