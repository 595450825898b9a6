# SPDX-License-Identifier: PostgreSQL
"""The queries' texts, and how their parameters are filled in.

A parameter is written as :name and becomes a literal.  So the server plans each query for its
values, as it does for a report that somebody has written, and the executed text can be read, logged
and explained.
"""

import re
from datetime import date
from functools import cache
from importlib import resources

from pgflash.errors import PgflashError
from pgflash_lab.warehouse.parameters import Value, Values

#: :name, but neither ::type nor a time of day.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z][a-z0-9_]*)")


class TextError(PgflashError):
    """A query's text and its parameters do not match."""


@cache
def read_sql(name: str) -> str:
    """Return the text of sql/NAME."""
    return resources.files(__package__).joinpath("sql", name).read_text(encoding="utf-8")


@cache
def read_query(query: int) -> str:
    """Return the text of a query, with its parameters unfilled."""
    name = f"q{query:02}.sql"
    return resources.files(__package__).joinpath("queries", name).read_text(encoding="utf-8")


def parameter_names(text: str) -> set[str]:
    """Return the parameters of a text."""
    return set(_PARAMETER.findall(text))


def fill_in(text: str, values: Values) -> str:
    """Return a text with its parameters' values as literals; every value must be used."""
    wanted = parameter_names(text)
    if wanted != set(values):
        raise TextError(f"a query has the parameters {sorted(wanted)}, not {sorted(values)}")
    return _PARAMETER.sub(lambda found: literal(values[found[1]]), text)


def literal(value: Value) -> str:
    """Return a value as an SQL literal."""
    if isinstance(value, tuple):
        return ", ".join(literal(one) for one in value)
    if isinstance(value, str | date):
        return "'" + str(value).replace("'", "''") + "'"
    if isinstance(value, float):
        return format(value, ".12f").rstrip("0")
    return str(value)
