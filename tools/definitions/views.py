# SPDX-License-Identifier: PostgreSQL
"""The declarations of views, tables and functions, read and checked."""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from definitions import DEFINITIONS, ROOT

SQL = ROOT / "extension/sql"
#: The functions that return no rows.
FUNCTIONS = ROOT / "extension/sql/functions.sql"

#: The endings of names of columns in these units.
_SUFFIXES = {
    "milliseconds": r"_ms(_per_s)?$",
    "microseconds": r"_us$",
    "seconds": r"(^|_)seconds$|(?<!_per)_s$",
    "bytes": r"_?bytes(_day)?$",
}
#: Units of counts, which no name has to say.
_COUNTS = {"", "blocks", "calls"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a view, a table or a function."""

    name: str
    meaning: str
    #: In SQL. A table's columns have theirs in the script that creates it.
    type: str = "bigint"
    unit: str = ""
    #: Whether core counts it.
    counter: bool = False
    #: Whether reports leave the counter out.
    detail: bool = False
    #: Whether it is also a metric.
    metric: bool = False
    #: Oracle's name of the statistic.
    oracle: str = ""
    #: The expression that the view shows, of its function's columns (r).
    sql: str = ""
    #: Where it is, if not in both.
    only: Literal["", "view", "function"] = ""

    def __post_init__(self) -> None:
        """Refuse a name that does not say the unit."""
        ends = [unit for unit, suffix in _SUFFIXES.items() if re.search(suffix, self.name)]
        if self.unit not in {*_COUNTS, *ends} or (ends and not self.unit):
            raise ValueError(f"the name {self.name} does not say its unit, {self.unit!r}")

    @property
    def comment(self) -> str:
        """The meaning with its additions."""
        text = self.meaning
        if self.unit and self.unit not in text.lower():
            one_clause = re.fullmatch(r"[^;:.]+\.", text)
            text = f"{text[:-1]}, in {self.unit}." if one_clause else f"{text} In {self.unit}."
        return f"{text} Oracle: {self.oracle}." if self.oracle else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function; one that returns no rows has its attributes in functions.sql."""

    name: str
    meaning: str
    attributes: str = ""
    #: Whether it returns one row and no set.
    one_row: bool = False
    arguments: str = ""
    #: The arguments with which a view calls it.
    called_with: str = ""
    #: Its name in the library, if that is another one.
    symbol: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view with its function, or a table, or a function alone."""

    name: str
    kind: Literal["view", "table", "function"]
    meaning: str
    columns: tuple[Column, ...]
    #: Those that are declared here.
    own: tuple[Column, ...]
    function: Function | None = None
    readers: Literal["", "superuser", "pg_monitor", "everybody"] = ""
    #: The text after the view's function in its FROM clause.
    joined: str = ""

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of the view."""
        return tuple(one for one in self.columns if one.only != "function")

    @property
    def filled(self) -> tuple[Column, ...]:
        """The columns of the function."""
        return tuple(one for one in self.columns if one.only != "view")


def _declared(path: Path) -> dict[str, Any]:
    declared = tomllib.loads(path.read_text())
    columns = (Column(name=name, **facts) for name, facts in declared.pop("columns", {}).items())
    return {**declared, "own": tuple(columns)}


def _with_those_after(declared: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns, and those of the view or group that come after them."""
    own: tuple[Column, ...] = declared["own"]
    if "columns_after" not in declared:
        return own
    return own + columns_of(declared["columns_after"])


def columns_of(name: str) -> tuple[Column, ...]:
    """Return the columns of a view, or of a group that several views have."""
    (path,) = DEFINITIONS.glob(f"*/{name}.toml")
    return _with_those_after(_declared(path))


def _table(name: str, declared: Mapping[str, Any]) -> View:
    """Return a table, with its columns' types, which are in the script that creates it."""
    scripts = "".join(path.read_text() for path in SQL.glob("*.sql"))
    (body,) = re.findall(rf"TABLE {name} \((.*?)\n\)", scripts, re.DOTALL)
    types = dict(re.findall(r"^\t(\w+) (\w+)", body, re.MULTILINE))
    own = tuple(replace(column, type=types[column.name]) for column in declared["own"])
    return View(name=name, kind="table", meaning=declared["meaning"], columns=own, own=own)


def _view(path: Path) -> View:
    declared = _declared(path)
    if "function" not in declared:
        return _table(path.stem, declared)
    function = Function(**{"meaning": f"What the view {path.stem} shows.", **declared["function"]})
    return View(
        name=path.stem,
        kind="function" if function.name == path.stem else "view",
        meaning=declared.get("meaning", function.meaning),
        columns=_with_those_after(declared),
        own=declared["own"],
        function=function,
        readers=declared["readers"],
        joined=declared.get("joined", ""),
    )


@functools.cache
def views() -> Mapping[str, View]:
    """Return all by name."""
    return {path.stem: _view(path) for path in sorted((DEFINITIONS / "views").glob("*.toml"))}


def functions() -> Mapping[str, Function]:
    """Return those that return no rows, with their arguments, which are in their script."""
    meanings = tomllib.loads((DEFINITIONS / "functions.toml").read_text())
    created = dict(
        re.findall(r"^CREATE FUNCTION (\w+)\((.*?)\)", FUNCTIONS.read_text(), re.MULTILINE)
    )
    if created.keys() != meanings.keys():
        raise ValueError(f"{FUNCTIONS.name} and functions.toml have other functions")
    return {
        name: Function(name=name, meaning=meanings[name], arguments=created[name])
        for name in created
    }
