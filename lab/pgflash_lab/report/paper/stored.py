# SPDX-License-Identifier: PostgreSQL
"""A paper's page as JSON, for programs: verdicts with the underlying checks, and tables.

Keys are added, never renamed.  Tables are as in a report (docs/reference/report.md); charts are
left out, since their numbers are in the tables.
"""

import dataclasses
import math
from typing import Any

import msgspec

from pgflash.model.awr import Cell, ReportTable, plain
from pgflash.model.typed_json import indented
from pgflash_lab.model.exhibit import Exhibit, PaperPage

FORMAT = 1


def paper_to_json(page: PaperPage) -> str:
    """Return the page as indented JSON."""
    content = {
        "kind": "paper",
        "format": FORMAT,
        "pgflash_version": page.pgflash_version,
        "paper": page.paper,
        "title": page.title,
        "by": page.by,
        "run": page.run_id,
        "sentences": page.sentences,
        "cautions": page.cautions,
        "exhibits": [_exhibit(one) for one in page.exhibits],
        "predictions": _table(page.predictions),
        "errata": page.errata,
    }
    return indented(content).decode()


def _exhibit(one: Exhibit) -> dict[str, Any]:
    return {
        "id": one.id,
        "label": one.label,
        "title": one.title,
        "verdict": str(one.verdict),
        "sentence": one.sentence,
        "checks": [{"holds": check.holds, "says": check.says} for check in one.checks],
        "paper": _table(one.paper),
        "ours": _table(one.ours),
        "errata": one.errata,
    }


def _table(table: ReportTable | None) -> Any:  # noqa: ANN401 - JSON
    if table is None:
        return None
    rows = tuple(dataclasses.replace(row, cells=tuple(map(_cell, row.cells))) for row in table.rows)
    return msgspec.to_builtins(dataclasses.replace(table, rows=rows))


def _cell(cell: Cell) -> Cell:
    """Return the cell, or None for a number that is not finite: JSON has no infinity."""
    value = plain(cell)
    return None if isinstance(value, float) and not math.isfinite(value) else cell
