# SPDX-License-Identifier: PostgreSQL
"""The SQL of the views: functions, comments and rights; and the comments of other functions."""

import re
from collections.abc import Iterator
from pathlib import Path

from definitions import NOTICE, ROOT
from definitions.parts import with_parts
from definitions.views import FUNCTIONS, Column, Function, View, functions, views

_HEAD = f"""\
-- pgflash's views and the functions that return rows, with their comments and rights.
-- SPDX-License-Identifier: PostgreSQL
--
-- {NOTICE}
"""


def generated() -> dict[Path, str]:
    """Return the script of the views, and that of the other functions with their comments."""
    parts = [_HEAD, *("".join(_statements(view)) for view in views().values())]
    comments = (
        _comment(f"FUNCTION {_signature(one)}", one.meaning) for one in functions().values()
    )
    return {
        ROOT / "extension/sql/views.sql": "\n".join(parts),
        FUNCTIONS: with_parts(FUNCTIONS, {"comments": "".join(comments)}),
    }


def _statements(view: View) -> Iterator[str]:
    if view.function is not None:
        yield _create_function(view.function, view.filled)
        if view.kind == "view":
            yield _create_view(view, view.function)
        yield _comment(f"FUNCTION {_signature(view.function)}", view.function.meaning)
    if view.kind != "function":
        yield _comment(f"{view.kind.upper()} {view.name}", view.meaning)
        for column in view.shown:
            yield _comment(f"COLUMN {view.name}.{column.name}", column.comment)
    if view.function is not None:
        yield from _rights(view, view.function)


def _create_function(function: Function, columns: tuple[Column, ...]) -> str:
    arguments = function.arguments.split(", ") if function.arguments else []
    outs = [f"OUT {column.name} {column.type}" for column in columns]
    lines = [f"CREATE FUNCTION {function.name}("]
    lines.append(",\n".join(f"\t{one}" for one in [*arguments, *outs]))
    lines.append(")")
    if not function.one_row:
        lines.append("RETURNS SETOF record")
    lines.append(f"AS 'MODULE_PATHNAME', '{function.symbol or function.name}'")
    lines.append(f"LANGUAGE C {function.attributes};")
    return "\n".join(lines) + "\n\n"


def _create_view(view: View, function: Function) -> str:
    call = f"{function.name}({function.called_with})"
    if not view.joined and not any(column.sql for column in view.columns):
        return f"CREATE VIEW {view.name} AS SELECT * FROM {call};\n\n"
    shown = [
        f"{column.sql} AS {column.name}" if column.sql else f"r.{column.name}"
        for column in view.shown
    ]
    columns = ",\n".join(f"\t{one}" for one in shown)
    joined = f"\n{view.joined.rstrip()}" if view.joined else ""
    return f"CREATE VIEW {view.name} AS\nSELECT\n{columns}\nFROM {call} r{joined};\n\n"


def _comment(what: str, text: str) -> str:
    quoted = text.replace("'", "''")
    return f"COMMENT ON {what} IS\n\t'{quoted}';\n"


def _signature(function: Function) -> str:
    types = re.findall(r"\w+ (\w+(?:\[\])?)(?: DEFAULT \w+)?(?:, |$)", function.arguments)
    return f"{function.name}({', '.join(types)})"


def _rights(view: View, function: Function) -> Iterator[str]:
    """Yield the rights; by default everybody may call a function, and nobody may read a view."""
    signature = _signature(function)
    is_view = view.kind == "view"
    if view.readers == "everybody":
        if is_view:
            yield f"GRANT SELECT ON {view.name} TO PUBLIC;\n"
        return
    yield f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC;\n"
    if is_view:
        yield f"REVOKE ALL ON {view.name} FROM PUBLIC;\n"
    if view.readers == "pg_monitor":
        yield f"GRANT EXECUTE ON FUNCTION {signature} TO pg_monitor;\n"
        if is_view:
            yield f"GRANT SELECT ON {view.name} TO pg_monitor;\n"
