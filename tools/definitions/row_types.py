# SPDX-License-Identifier: PostgreSQL
"""The columns of the functions that return rows, for the C code that fills them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from definitions import DEFINITIONS, NOTICE, ROOT
from definitions.views import Column, Function, columns_of, views

#: The constants of catalog/pg_type.h.
_OIDS = {
    "bigint": "INT8OID",
    "bigint[]": "INT8ARRAYOID",
    "boolean": "BOOLOID",
    "bytea": "BYTEAOID",
    "double precision": "FLOAT8OID",
    "integer": "INT4OID",
    "oid": "OIDOID",
    "regclass": "REGCLASSOID",
    "text": "TEXTOID",
    "timestamptz": "TIMESTAMPTZOID",
}

_HEAD = """\
/*
 * {name}
 *		{what}
 *
 * {notice}
 *
 * SPDX-License-Identifier: PostgreSQL
 */
"""


def generated() -> dict[Path, str]:
    """Return the header and the tables."""
    room = ROOT / "extension/src/server"
    return {room / "columns.h": _header(), room / "columns.c": _tables()}


def _functions() -> Iterator[tuple[Function, Sequence[Column]]]:
    for view in views().values():
        if view.function is not None:
            yield view.function, view.filled


def _stem(function: Function) -> str:
    return function.name.removeprefix("pgflash_").removesuffix("_rows").removesuffix("_row")


def _head(name: str, what: str) -> str:
    return _HEAD.format(name=name, what=what, notice=NOTICE)


def _enum(of: str, columns: Sequence[Column]) -> str:
    """Return the numbers of the columns, and finally their count."""
    names = [f"\t{of}_ROW_{column.name}".upper() for column in columns]
    return "enum\n{\n" + ",\n".join([*names, f"\t{of}_COLUMNS".upper()]) + "\n};\n"


def _header() -> str:
    parts = [
        _head("columns.h", "The columns of each function that returns rows, and their numbers.")
        + '#ifndef PGFLASH_COLUMNS_H\n#define PGFLASH_COLUMNS_H\n\n#include "server/row_type.h"\n',
        "/* clang-format off */\n",
    ]
    for path in sorted((DEFINITIONS / "columns").glob("*.toml")):
        parts.append("/* Columns that several functions have, counted from the first of them. */")
        parts.append(_enum(path.stem, columns_of(path.stem)))
    for function, columns in _functions():
        parts.append(f"/* {function.name}() */")
        parts.append(_enum(_stem(function), columns))
        parts.append(f"extern const RowType {_stem(function)}_columns;\n")
    parts.append("#endif\n")
    return "\n".join(parts)


def _tables() -> str:
    parts = [
        _head("columns.c", "The columns of each function that returns rows, and their types.")
        + '#include "postgres.h"\n\n#include "catalog/pg_type.h"\n\n#include "server/columns.h"\n',
        "/* clang-format off */\n",
    ]
    parts.extend(_table(function, columns) for function, columns in _functions())
    return "\n".join(parts)


def _table(function: Function, columns: Sequence[Column]) -> str:
    arguments = len(function.arguments.split(", ")) if function.arguments else 0
    rows = "".join(f'\t\t{{ "{column.name}", {_OIDS[column.type]} }},\n' for column in columns)
    return f"""\
const RowType {_stem(function)}_columns = {{
	.arguments = {arguments},
	.count = {f"{_stem(function)}_columns".upper()},
	.columns = (const RowColumn[]){{
{rows}\t}}
}};
"""
