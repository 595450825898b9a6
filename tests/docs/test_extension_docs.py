# SPDX-License-Identifier: PostgreSQL
"""What the reference says of the extension is complete."""

import re

import pgflash
from support.cluster import REPOSITORY
from support.script import RELEASED, SOURCES, SQL_VERSION

#: What CREATE EXTENSION runs.
SCRIPTS = ("tables.sql", "views.sql", "functions.sql")
SQL = "".join((SOURCES / name).read_text() for name in SCRIPTS[1:])
VIEWS = (REPOSITORY / "docs/reference/views.md").read_text()


def test_every_function_for_people_is_documented() -> None:
    functions = re.findall(r"CREATE FUNCTION (\w+)\(", SQL)
    for name in functions:
        if not name.endswith(("_row", "_rows", "_in", "_out")):
            assert f"### {name}(" in VIEWS


def test_a_release_has_one_version() -> None:
    (heading,) = re.findall(r"\A# Changelog\n\n## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text())
    assert heading.rstrip(",") == pgflash.__version__
    assert pgflash.__version__.rsplit(".", 1)[0] == SQL_VERSION


def test_the_sql_of_a_release_is_not_changed() -> None:
    script = "".join((SOURCES / name).read_text() for name in SCRIPTS)
    assert not RELEASED.exists() or RELEASED.read_text() == script
