# SPDX-License-Identifier: PostgreSQL
"""The wait classes and their rules, in C, in Python and in the guide."""

import re
import tomllib
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS, ROOT
from definitions.parts import with_parts
from definitions.text import c_string, def_file, python_head

TABLE = ROOT / "extension/src/sampler/wait_class.def"
MODULE = ROOT / "python/pgflash/model/wait_classes.py"
GUIDE = ROOT / "docs/guide/waits.md"

SUMMARY = """\
The wait classes: WAIT_CLASS(constant, name), WAIT_CLIENT(backend type) and
WAIT_RULE(processes, type, event, class)."""

PYTHON = """\
import enum


class WaitClass(enum.StrEnum):
    \"""A class of wait events, in the order in which charts stack them.\"""

{classes}

    @property
    def counts(self) -> bool:
        \"""Tell whether time in this class is DB time.\"""
        return self not in ({apart})


#: Backend types whose waits a client waits for.
FOREGROUND = frozenset({{{clients}}})

#: Processes (client, other or all), type, event and class; the first rule that fits counts.
RULES = (
{rules}
)
"""


def generated() -> dict[Path, str]:
    """Return the files that come from the wait classes."""
    found = tomllib.loads((DEFINITIONS / "wait_classes.toml").read_text())
    return {
        TABLE: _table(found),
        MODULE: _module(found),
        GUIDE: with_parts(GUIDE, {"wait-classes": _guide(found)}),
    }


def _constant(name: str) -> str:
    return re.sub(r"[^A-Z]+", "_", name.upper().replace("I/O", "IO"))


def _table(found: dict[str, Any]) -> str:
    classes = [
        f"WAIT_CLASS(WAIT_CLASS_{_constant(one['name'])}, {c_string(one['name'])})"
        for one in found["class"]
    ]
    clients = [f"WAIT_CLIENT({c_string(one)})" for one in found["clients"]]
    rules = [
        f"WAIT_RULE(WAIT_PROCESSES_{processes.upper()}, {c_string(kind)}, {c_string(event)}, "
        f"WAIT_CLASS_{_constant(of_class)})"
        for processes, kind, event, of_class in found["rules"]
    ]
    macros = ("WAIT_CLASS", "WAIT_CLIENT", "WAIT_RULE")
    return def_file(TABLE, SUMMARY, macros, [*classes, "", *clients, "", *rules])


def _module(found: dict[str, Any]) -> str:
    classes = [f'    {_constant(one["name"])} = "{one["name"]}"' for one in found["class"]]
    apart = [one["name"] for one in found["class"] if not one.get("db_time", True)]
    rules = [
        f'    ("{processes}", "{kind}", "{event}", WaitClass.{_constant(of_class)}),'
        for processes, kind, event, of_class in found["rules"]
    ]
    return python_head("The wait classes, and the rules by which wait events belong to them.") + (
        PYTHON.format(
            classes="\n".join(classes),
            apart=", ".join(f"WaitClass.{_constant(name)}" for name in apart),
            clients=", ".join(f'"{one}"' for one in found["clients"]),
            rules="\n".join(rules),
        )
    )


def _guide(found: dict[str, Any]) -> str:
    rows = [
        " ".join(f"| {one['name']} | {one['what']} | {one.get('note', '')} |".split())
        for one in found["class"]
    ]
    return "\n".join(["\n| class | what waits | |", "|---|---|---|", *rows, "\n"])
