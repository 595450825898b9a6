# SPDX-License-Identifier: PostgreSQL
"""The tables of columns in docs/reference/views.md."""

from pathlib import Path

from definitions import ROOT
from definitions.parts import with_parts
from definitions.views import View, views


def generated() -> dict[Path, str]:
    """Return the page with what each view shows and its columns."""
    page = ROOT / "docs/reference/views.md"
    return {page: with_parts(page, {one.name: _part(one) for one in views().values() if one.own})}


def _part(view: View) -> str:
    rows = (
        f"| `{column.name}` | {column.type} | {column.comment} |\n"
        for column in (view.own if view.kind == "function" else view.shown)
    )
    return f"\n{view.meaning}\n\n| column | type | meaning |\n|---|---|---|\n{''.join(rows)}\n"
