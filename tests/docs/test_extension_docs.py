# SPDX-License-Identifier: PostgreSQL
"""What the reference says of the extension is complete, and the same as SQL says."""

import re

import pytest

import pgflash
from support.cluster import REPOSITORY
from support.script import RELEASED, SOURCES, SQL_VERSION

SQL = (REPOSITORY / "extension/sql/views.sql").read_text()
VIEWS = (REPOSITORY / "docs/reference/views.md").read_text()

COLUMNS = [
    (view, column, text.replace("''", "'"))
    for view, column, text in re.findall(
        r"COMMENT ON COLUMN (\w+)\.(\w+) IS\s+'((?:[^']|'')*)'", SQL
    )
]


#: By what a column's name ends with: how its comment says the unit.
UNITS = {
    "_ms(_per_s)?$": "millisecond",
    "_us$": "microsecond",
    r"(^|_)seconds$|(?<!per)_s$": "second",
    "bytes": "byte|memory",
}


def section(view: str) -> str:
    """Return what stands under the heading of a view."""
    return VIEWS.split(f"\n## {view}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(("view", "column", "text"), COLUMNS)
def test_every_column_is_documented_with_the_words_of_its_comment(
    view: str, column: str, text: str
) -> None:
    assert re.search(rf"^\| `{column}` \| [^|]+ \| {re.escape(text)} \|$", section(view), re.M)


@pytest.mark.parametrize(("view", "column", "text"), COLUMNS)
def test_a_comment_says_the_unit(view: str, column: str, text: str) -> None:
    for name, words in UNITS.items():
        if re.search(name, column):
            assert re.search(words, text, re.I), f"{view}.{column} does not say its unit"


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
    script = "".join((SOURCES / name).read_text() for name in ("tables.sql", "views.sql"))
    assert not RELEASED.exists() or RELEASED.read_text() == script
