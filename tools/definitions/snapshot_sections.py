# SPDX-License-Identifier: PostgreSQL
"""The sections of a snapshot: the extension's list, Python's, and the reference's table."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS, ROOT
from definitions.parts import with_parts
from definitions.text import c_string, def_file, python_head, python_tuple
from definitions.views import views

TABLE = ROOT / "extension/src/snapshot/snapshot_sections.def"
MODULE = ROOT / "python/pgflash/model/snapshot_sections.py"
REFERENCE = ROOT / "docs/reference/snapshots.md"

Declared = dict[str, Any]

HEAD = """
| section | kind | rows and columns | extension | client |
|---|---|---|---|---|"""

SUMMARY = """\
The sections of a snapshot: SNAPSHOT_SECTION(members of SnapshotSection ...),
SECTION_KEY(column that identifies a row), SECTION_COUNT(members of
DeltaValue ...) and SECTION_TEXT_MAX(characters), where SECTION is the name of
one whose rows are counted one by one."""

PYTHON = """\
from collections.abc import Mapping

from pgflash.model.snapshot import DeltaCount, Falls, SectionDefinition, SectionKind

_DEFINITIONS = (
{definitions}
)

SECTIONS: Mapping[str, SectionDefinition] = {{one.name: one for one in _DEFINITIONS}}
"""


def generated() -> dict[Path, str]:
    """Return the files that come from the sections."""
    found = tomllib.loads((DEFINITIONS / "snapshot_sections.toml").read_text())["section"]
    for one in found:
        check(one)
    (relations,) = (one for one in found if one["name"] == "relations")
    parts = {
        "sections": "\n".join([HEAD, *map(_row, found), "\n"]),
        "relations": f"\n{_listed(relations)}.\n\n",
    }
    return {
        TABLE: _table(found),
        MODULE: _module(found),
        REFERENCE: with_parts(REFERENCE, parts),
    }


def check(one: Declared) -> None:
    """Refuse a key, a gauge or another role of a column that the section does not have."""
    roles = {*one.get("key", ()), *one.get("gauges", ()), *one.get("ranked", ())}
    roles |= {*one.get("notes", ()), *one.get("sources", ()), *one.get("wraps", ())}
    columns = {*one.get("columns", ()), *one.get("counts", ())}
    view = re.search(r"^select \* from \{schema\}(\w+)$", one.get("query", ""))
    if view:
        columns = {column.name for column in views()[view[1]].columns}
        roles |= {one.get("reset", "")} - {""}
    if columns and roles - columns:
        raise ValueError(f"{one['name']} has no {', '.join(sorted(roles - columns))}")


# ---- C


def _table(sections: list[Declared]) -> str:
    lines, macros = [], ["SNAPSHOT_SECTION"]
    for one in sections:
        if "query" in one or "function" in one:
            lines.append(_c_section(one))
        if "limit" in one:
            name = one["name"].upper()
            macros += [f"{name}_KEY", f"{name}_COUNT"]
            lines += [f"{name}_KEY({c_string(key)})" for key in one.get("read_key", ())]
            lines += [f"{name}_COUNT({_c_count(one, count)})" for count in one["counts"]]
            if "text_max" in one:
                macros.append(f"{name}_TEXT_MAX")
                lines.append(f"{name}_TEXT_MAX({one['text_max']})")
    return def_file(TABLE, SUMMARY, macros, lines)


def _c_section(one: Declared) -> str:
    members = [f".name = {c_string(one['name'])}", f".kind = {c_string(one['kind'])}"]
    members += [f".write = {one.get('function', 'snapshot_query')}"]
    members += [f".{name} = {one[name]}" for name in ("major_min", "limit") if name in one]
    if "query" in one:
        template = one["query"].strip().replace("%", "%%").replace("{schema}", "%1$s")
        lines = [_c_line(f"{line}\n") for line in template.splitlines()]
        lines[-1] = lines[-1].replace('\\n"', '"')
        members.append(".query =\n\t\t" + "\n\t\t".join(lines))
    if "query" not in one or "counts" in one:
        columns = [c_string(column) for column in (*one["columns"], *one.get("counts", ()))]
        members.append(
            f".columns = (const char *const[]){{\n\t\t{', '.join(columns)}\n\t}},\n"
            f"\t.column_count = {len(columns)}"
        )
    return "SNAPSHOT_SECTION(\n\t" + ",\n\t".join(members) + ")"


def _c_line(line: str) -> str:
    """Return a line of a query, for the versions that it is for."""
    _, since, text = line.partition("-- since 18: ")
    return f"COMPAT_SINCE_18({c_string(text)})" if since else c_string(line)


def _c_count(one: Declared, name: str) -> str:
    members = [f".name = {c_string(name)}"]
    sources = one.get("sources", {}).get(name, ())
    members += [
        f".{member} = {c_string(source)}"
        for member, source in zip(("column", "older"), sources, strict=False)
    ]
    members += [".ranked = true"] if name in one["ranked"] else []
    return ", ".join(members)


# ---- Python


def _module(sections: list[Declared]) -> str:
    definitions = "\n".join(map(_definition, sections))
    head = python_head("The sections of a snapshot.")
    return head + PYTHON.format(definitions=definitions)


def _definition(one: Declared) -> str:
    client, _, about = one["client"].partition(": ")
    fields = {
        "name": f'"{one["name"]}"',
        "kind": f"SectionKind.{one['kind'].upper()}",
        "client": f'"{client}"' if client != "no" else "",
        "about": f'"{about}"' if about else "",
        "major_min": str(one["major_min"]) if "major_min" in one else "",
        "columns": _python(one.get("columns", ())),
        "key": _python(one.get("key", ())),
        "gauges": _python(_gauges(one)),
        "reset": f'"{one["reset"]}"' if "reset" in one else "",
        "wraps": _python(one.get("wraps", ())),
        "of_parts": "True" if one.get("of_parts") else "",
        "falls": f"Falls.{one['falls'].upper()}" if "falls" in one else "",
        "ends": "True" if one.get("ends") else "",
        "every": "True" if one.get("every") else "",
    }
    if client == "yes":
        fields |= _of_client(one)
    said = "".join(f"        {name}={value},\n" for name, value in fields.items() if value)
    return f"    SectionDefinition(\n{said}    ),"


def _of_client(one: Declared) -> dict[str, str]:
    """Return what a client needs to read the section."""
    mine = one | {
        name.removeprefix("client_"): value
        for name, value in one.items()
        if name.startswith("client_")
    }
    query = mine.get("query", "").strip()
    counts = [
        f"            DeltaCount(name={_quoted(name)}, "
        f"sources={python_tuple(mine.get('sources', {}).get(name, (name,)))}"
        + (", ranked=True" if name in mine["ranked"] else "")
        + "),\n"
        for name in mine.get("counts", ())
    ]
    return {
        "query": f'"""\n{query}\n"""' if len(query) > 80 else _quoted(query) if query else "",
        "counts": f"(\n{''.join(counts)}        )" if counts else "",
        "read_key": _python(mine.get("read_key", ())),
        "birth": f'"{mine["birth"]}"' if "birth" in mine else "",
        "limit": str(mine["limit"]) if "limit" in mine else "",
        "text_max": str(mine["text_max"]) if "text_max" in mine else "",
    }


def _gauges(one: Declared) -> Sequence[str]:
    if "view" not in one:
        return list(one.get("gauges", ()))
    numbers = {"bigint", "integer", "double precision", "numeric"}
    columns = views()[one["view"]].columns
    return [column.name for column in columns if column.type in numbers and not column.counter]


def _quoted(text: str) -> str:
    return f'"{text}"'


def _python(names: Sequence[str]) -> str:
    return python_tuple(names, indent=8) if names else ""


# ---- the reference


def _row(one: Declared) -> str:
    client = one["client"].partition(":")[0].replace("no", "")
    text = one["text"].replace("{columns}", _listed(one)).replace("{limit}", str(one.get("limit")))
    if "major_min" in one:
        text += f" ({one['major_min']} and later)"
    return " ".join(f"| `{one['name']}` | {one['kind']} | {text} | yes | {client} |".split())


def _listed(one: Declared) -> str:
    notes = one.get("notes", {})
    return ", ".join(
        f"`{name}` ({notes[name]})" if name in notes else f"`{name}`"
        for name in (*one.get("columns", ()), *one.get("counts", ()))
    )
