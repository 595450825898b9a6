# SPDX-License-Identifier: PostgreSQL
"""The meanings of views and functions in docs/reference/views.md, and their tables of columns."""

from pathlib import Path

from definitions import ROOT
from definitions.parts import with_parts
from definitions.views import View, functions, views


def generated() -> dict[Path, str]:
    """Return the page with what each view shows, its columns, and what each function does."""
    page = ROOT / "docs/reference/views.md"
    parts = {one.name: _part(one) for one in views().values() if one.own}
    parts |= {one.name: f"\n{one.meaning}\n\n" for one in functions().values()}
    return {page: with_parts(page, parts)}


def _part(view: View) -> str:
    rows = (
        f"| `{column.name}` | {column.type} | {column.comment} |\n"
        for column in (view.own if view.kind == "function" else view.shown)
    )
    return f"\n{view.meaning}\n\n| column | type | meaning |\n|---|---|---|\n{''.join(rows)}\n"
