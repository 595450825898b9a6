# SPDX-License-Identifier: PostgreSQL
"""The metrics of pgflash serve: their list in Python, and the table of the reference."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from definitions import DEFINITIONS, ROOT
from definitions.parts import with_parts
from definitions.text import python_string
from definitions.views import views

MODULE = ROOT / "python/pgflash/web/metrics.py"
REFERENCE = ROOT / "docs/reference/metrics.md"


def generated() -> dict[Path, str]:
    """Return the module and the page with their lists of metrics."""
    return {
        MODULE: with_parts(MODULE, {"metrics": "".join(_in_python(metrics()))}),
        REFERENCE: with_parts(REFERENCE, {"metrics": "".join(_in_markdown(metrics()))}),
    }


def metrics() -> Mapping[str, Mapping[str, Any]]:
    """Return the declarations of the metrics by their names."""
    return dict(_metrics())


def _metrics() -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from tomllib.loads((DEFINITIONS / "metrics.toml").read_text()).items()
    for column in views()["pgflash_cache"].columns:
        if column.metric:
            yield (
                f"pgflash_cache_{column.name}",
                {
                    "kind": "counter" if column.counter else "gauge",
                    "unit": "bytes" if column.unit == "bytes" else "",
                    "help": column.meaning,
                    "column": column.name,
                },
            )


def _in_python(declared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "METRICS = (\n"
    for name, facts in declared.items():
        yield f'    Metric(\n        name="{name}",\n        kind=Kind.{facts["kind"].upper()},\n'
        if unit := facts.get("unit"):
            yield f'        unit="{unit}",\n'
        if labels := facts.get("labels"):
            quoted = ", ".join(f'"{label}"' for label in labels)
            yield f"        labels=({quoted}{',' if len(labels) == 1 else ''}),\n"
        if column := facts.get("column"):
            yield f'        column="{column}",\n'
        if prefix := facts.get("columns"):
            yield f'        columns="{prefix}",\n'
        if facts.get("shared"):
            yield "        shared=True,\n"
        text = python_string(facts["help"], indent=8, before=len("help="))
        yield f"        help={text},\n    ),\n"
    yield ")\n"


def _in_markdown(declared: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "\n| metric | kind | labels | what it is |\n|---|---|---|---|\n"
    for name, facts in declared.items():
        labels = ", ".join(f"`{label}`" for label in facts.get("labels", ()))
        yield f"| `{name}` | {facts['kind']} | {labels} | {facts['help']} |\n"
    yield "\n"
