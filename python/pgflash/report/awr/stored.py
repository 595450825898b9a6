# SPDX-License-Identifier: PostgreSQL
"""Convert a report to JSON and back: for programs, and for a later comparison.

The key `kind` tells a report from a comparison; `format` is its version.  The type of every field
is checked when it is read, and the first error is named with its place.
"""

import dataclasses
import math
from pathlib import Path

import msgspec

from pgflash.errors import PgflashError
from pgflash.model.awr import FORMAT, AwrReport, Cell, CompareReport, plain
from pgflash.model.typed_json import indented

_KINDS: dict[str, type[AwrReport] | type[CompareReport]] = {
    "report": AwrReport,
    "comparison": CompareReport,
}
#: Tables that every report has, and that a comparison reads.
_NEEDED = ("load-profile", "wait-classes", "top-events")


class StoredReportError(PgflashError):
    """A stored report cannot be read."""


def report_to_json(report: AwrReport | CompareReport) -> str:
    """Return the whole report as indented JSON."""
    kind = next(name for name, one in _KINDS.items() if isinstance(report, one))
    tables = tuple(
        dataclasses.replace(
            table,
            rows=tuple(
                dataclasses.replace(row, cells=tuple(map(_json_cell, row.cells)))
                for row in table.rows
            ),
        )
        for table in report.tables
    )
    content = {"kind": kind, **msgspec.to_builtins(dataclasses.replace(report, tables=tables))}
    return indented(content).decode()


def report_from_json(text: bytes, *, name: str) -> AwrReport:
    """Parse a report; NAME is the file's name in errors."""
    try:
        content = msgspec.json.decode(text, type=dict[str, object])
        kind, found = content.pop("kind", None), content.get("format")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(name, str(error)) from error
    if kind != "report":
        raise _refused(name, "it is a comparison" if kind == "comparison" else "it says no kind")
    if found != FORMAT:
        raise StoredReportError(
            f'"{name}" has format {found}; this version reads format {FORMAT}.',
            hint="Use the version of pgflash that made it.",
        )
    try:
        report = msgspec.convert(content, AwrReport)
    except msgspec.ValidationError as error:
        raise _refused(name, str(error)) from error
    if why := _why_unfit(report):
        raise _refused(name, why)
    return report


def _why_unfit(report: AwrReport) -> str:
    """Return which table is missing or has a row that does not fit its columns; "" if none."""
    found = {table.id for table in report.tables}
    for needed in _NEEDED:
        if needed not in found:
            return f"it has no table {needed}"
    for table in report.tables:
        for number, row in enumerate(table.rows, start=1):
            if len(row.cells) != len(table.columns):
                cells, columns = len(row.cells), len(table.columns)
                return f"row {number} of {table.id} has {cells} cells for {columns} columns"
    return ""


def _json_cell(cell: Cell) -> Cell:
    """Return the cell, or None for a number that is not finite: JSON has no infinity."""
    value = plain(cell)
    return None if isinstance(value, float) and not math.isfinite(value) else cell


def _refused(name: str, why: str) -> StoredReportError:
    return StoredReportError(
        f'"{name}" is not a report of pgflash: {why}',
        hint="Name a file that 'pgflash report --format json' wrote.",
    )


def read_period(path: Path) -> AwrReport:
    """Read a report that was written to a file as JSON."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoredReportError(
            f'could not read "{path}": {error.strerror}',
            hint="Name a file that 'pgflash report --format json' wrote.",
        ) from error
    return report_from_json(text, name=str(path))
