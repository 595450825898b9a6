# SPDX-License-Identifier: PostgreSQL
"""The functions that the library replaces in the server's import table, in C and in Python."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS, ROOT
from definitions.text import c_string, def_file, python_head

TABLE = ROOT / "extension/src/hooks/imports.def"
MODULE = ROOT / "python/pgflash/model/server_imports.py"

SUMMARY = """\
What the server imports: IMPORT(name, function), and with io_uring also
URING_IMPORT(name, function); REQUIRED(names) and URING_REQUIRED(names), of
which one has to be imported; FOREIGN(name), which must not be."""

#: The tables of the module: name, comment, key, and whether only those that io_uring adds.
_TABLES = (
    ("REPLACED", "The names that the library replaces.", "replaced", False),
    ("URING_REPLACED", "The same, if the server reads by io_uring.", "replaced", True),
    ("REQUIRED", "Groups of names; of each, one has to be imported.", "required", False),
    ("URING_REQUIRED", "The same, if the server reads by io_uring.", "required", True),
)


def generated() -> dict[Path, str]:
    """Return the files that come from the list of imports."""
    found = tomllib.loads((DEFINITIONS / "imports.toml").read_text())
    return {TABLE: _table(found), MODULE: _module(found)}


def _table(found: dict[str, Any]) -> str:
    lines = []
    for prefix, uring in (("", False), ("URING_", True)):
        for one in _part(found, "replaced", uring=uring):
            lines += [f"{prefix}IMPORT({c_string(name)}, {one['by']})" for name in one["names"]]
        lines.append("")
    for prefix, uring in (("", False), ("URING_", True)):
        for one in _part(found, "required", uring=uring):
            lines.append(f"{prefix}REQUIRED({c_string('|'.join(one['names']))})")
    lines.append("")
    lines += [f"FOREIGN({c_string(name)})" for name in found["foreign"]]
    macros = ("IMPORT", "URING_IMPORT", "REQUIRED", "URING_REQUIRED", "FOREIGN")
    return def_file(TABLE, SUMMARY, macros, lines)


def _part(found: dict[str, Any], key: str, *, uring: bool) -> list[dict[str, Any]]:
    return [one for one in found[key] if one.get("with_uring", False) == uring]


def _module(found: dict[str, Any]) -> str:
    text = python_head("What the library looks for in the import table of a server's executable.")
    for name, comment, key, uring in _TABLES:
        groups = [one["names"] for one in _part(found, key, uring=uring)]
        rows = [_quoted(one) for one in groups]
        if key == "replaced":
            rows = [f'"{one}"' for names in groups for one in names]
        text += _tuple(name, comment, rows)
    foreign = [f'"{one}"' for one in found["foreign"]]
    text += _tuple("FOREIGN", "A server that imports one of these is refused.", foreign)
    return text.rstrip("\n") + "\n"


def _quoted(names: Sequence[str]) -> str:
    end = "," if len(names) == 1 else ""
    return "(" + ", ".join(f'"{one}"' for one in names) + end + ")"


def _tuple(name: str, comment: str, rows: Sequence[str]) -> str:
    return f"#: {comment}\n{name} = (\n" + "".join(f"    {row},\n" for row in rows) + ")\n\n"
