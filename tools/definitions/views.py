# SPDX-License-Identifier: PostgreSQL
"""The views' declarations, definitions/views/*.toml: read and checked."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from definitions import DEFINITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a view."""

    name: str
    meaning: str
    #: The SQL type; a counter's is bigint.
    type: str = "bigint"
    unit: str = ""
    #: Whether core counts it.
    counter: bool = False
    #: Whether it is a metric of its own.
    metric: bool = False
    #: Oracle's name of the statistic.
    oracle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A view, and the C function that returns its rows."""

    name: str
    meaning: str
    function: Mapping[str, str]
    columns: tuple[Column, ...]


def _view(name: str, declared: Mapping[str, Any]) -> View:
    columns = tuple(Column(name=one, **facts) for one, facts in declared["columns"].items())
    return View(name=name, **{**declared, "columns": columns})


@functools.cache
def views() -> Mapping[str, View]:
    """Return all views by name."""
    return {
        path.stem: _view(path.stem, tomllib.loads(path.read_text()))
        for path in sorted((DEFINITIONS / "views").glob("*.toml"))
    }
