# SPDX-License-Identifier: PostgreSQL
"""Two periods side by side: the largest changes first, and what is new or gone.

Periods differ in length and in load, so totals are compared as rates and shares; times per call and
per transaction are compared as they are.  Rows of one unit are ranked by the amount of change, rows
of different units by its factor.

A report shows the first rows of a ranking, and the rest in one row.  A row that only one period
shows may be part of the other's rest: the other cell is then empty, and the row is called new or
gone only if the other period's table was complete.  So reports for a comparison are best made with
every row (make_report(period, rows_max=None)).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pgflash
from pgflash.analyze.compare_findings import find_changes
from pgflash.analyze.grid import ratio, weaker
from pgflash.model.awr import (
    AwrReport,
    Cell,
    Column,
    CompareReport,
    Number,
    ReportTable,
    Row,
    RowMark,
    Unit,
    plain,
)

#: Rows of a table of the comparison; those that changed least are left out.
ROWS_MAX = 30

#: The unit of a total after division by its period's length.
_RATE = {
    Unit.COUNT: Unit.PER_SECOND,
    Unit.BYTES: Unit.BYTES_PER_SECOND,
    Unit.SECONDS: Unit.SESSIONS,
    Unit.MILLISECONDS: Unit.SESSIONS,
}

#: Units whose totals depend on the length of a period.
_TOTALS = frozenset({Unit.COUNT, Unit.BYTES, Unit.SECONDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a table is compared: by which columns; the first one ranks."""

    columns: tuple[str, ...]
    #: The columns among them that are totals, to be divided by the period's length.
    rates: frozenset[str] = frozenset()
    #: Cells are words, which are either equal or not.
    words: bool = False
    #: Keep the order of the rows.
    ordered: bool = False


COMPARED: Mapping[str, Compared] = {
    "summary": Compared(columns=("value",)),
    "load-profile": Compared(columns=("per_s", "per_transaction")),
    "top-events": Compared(columns=("sessions", "share", "mean_ms")),
    "wait-classes": Compared(columns=("sessions", "share", "mean_ms")),
    "read-latency": Compared(
        columns=("disk_share", "flash_share", "page_cache_share"), ordered=True
    ),
    "io-tablespaces": Compared(columns=("reads_per_s", "read_ms", "writes_per_s", "write_ms")),
    "io-function-filetype": Compared(
        columns=("read_bytes_per_s", "read_ms", "write_bytes_per_s", "write_ms", "sync_ms")
    ),
    "wal": Compared(columns=("per_s", "per_transaction")),
    "checkpoints": Compared(columns=("per_s", "share")),
    "flash-cache": Compared(columns=("per_s", "share")),
    "segments-reads": Compared(columns=("per_s", "read_ms")),
    "segments-read-time": Compared(
        columns=("read_time_ms", "share", "read_ms"), rates=frozenset({"read_time_ms"})
    ),
    "segments-writes": Compared(columns=("per_s", "write_ms")),
    "segments-logical-reads": Compared(columns=("per_s", "share", "hit_share")),
    "segments-row-locks": Compared(columns=("seconds", "share"), rates=frozenset({"seconds"})),
    "locks": Compared(columns=("seconds", "share"), rates=frozenset({"seconds"})),
    "locks-long": Compared(columns=("sessions", "mean_ms", "slow_per_s")),
    "segments-cached": Compared(columns=("cached_blocks", "share")),
    "sql-elapsed": Compared(
        columns=("total_s", "calls", "mean_ms"), rates=frozenset({"total_s", "calls"})
    ),
    "sql-reads": Compared(
        columns=("shared_blocks_read", "per_call"), rates=frozenset({"shared_blocks_read"})
    ),
    "sql-disk": Compared(columns=("disk_s", "disk_ms", "flash_share"), rates=frozenset({"disk_s"})),
    "sql-flash": Compared(
        columns=("flash_read_blocks", "flash_ms", "flash_share"),
        rates=frozenset({"flash_read_blocks"}),
    ),
    "sql-cpu": Compared(columns=("cpu_s", "share"), rates=frozenset({"cpu_s"})),
    "sql-gets": Compared(columns=("gets", "per_call"), rates=frozenset({"gets"})),
    "sql-executions": Compared(columns=("per_s", "mean_ms")),
    "sql-wal": Compared(columns=("wal_bytes", "per_call"), rates=frozenset({"wal_bytes"})),
    "sql-temp": Compared(columns=("temp_blocks", "per_call"), rates=frozenset({"temp_blocks"})),
    "host-iostat": Compared(columns=("util", "await_ms", "r_per_s", "w_per_s")),
    "settings": Compared(columns=("setting",), words=True),
}

Key = tuple[str | int | float | None, ...]


def compare(first: AwrReport, second: AwrReport) -> CompareReport:
    """Return two reports side by side."""
    ids = [table.id for table in first.tables if table.id in COMPARED]
    tables = tuple(
        _compared(first, second, table_id)
        for table_id in ids
        if any(table.id == table_id for table in second.tables)
    )
    return CompareReport(
        pgflash_version=pgflash.__version__,
        first=first.head,
        second=second.head,
        findings=find_changes(first, second),
        tables=tables,
    )


def _compared(first: AwrReport, second: AwrReport, table_id: str) -> ReportTable:
    one, other = first.table(table_id), second.table(table_id)
    how = _shared(COMPARED[table_id], one, other)
    keys = tuple(c for c in one.columns if c.name in {*one.key, "query"} and c.is_text) or (
        one.columns[0],
    )
    columns = _columns(one, how, keys)
    empty = [word for t, word in ((one, "first"), (other, "second")) if not t.rows]
    reason = ""
    if empty:
        why = one.missing_reason or other.missing_reason
        reason = f"Not in the {' and the '.join(empty)} period: {why}"
    elif how.columns[:1] != COMPARED[table_id].columns[:1]:
        reason = "The two periods were measured by different means."
    if reason:
        return ReportTable(id=table_id, title=one.title, columns=columns, missing_reason=reason)
    rows = _rows(one, other, how, (first.head.elapsed_s, second.head.elapsed_s), keys)
    return ReportTable(
        id=table_id,
        title=one.title,
        columns=columns,
        rows=tuple(rows),
        key=tuple(column.name for column in keys),
        measure="" if how.words else "change",
        note=" ".join(_notes(how, rows)),
        missing_reason="" if rows else "Nothing differs.",
    )


def _notes(how: Compared, rows: Sequence[Row]) -> list[str]:
    notes = ["Totals are shown per second of their period."] if how.rates else []
    shares = how.columns[:1] in (("disk_share",), ("util",)) or any(
        isinstance(cell, Number) and cell.unit is Unit.SHARE for row in rows for cell in row.cells
    )
    return [*notes, "Shares change by percentage points."] if shares else notes


def _shared(how: Compared, one: ReportTable, other: ReportTable) -> Compared:
    """Return how to compare two tables by the columns that both have.

    A server without the extension has other columns, since PostgreSQL itself counts.
    """
    names = {column.name for column in one.columns} & {column.name for column in other.columns}
    return replace(how, columns=tuple(name for name in how.columns if name in names))


def _columns(table: ReportTable, how: Compared, keys: Sequence[Column]) -> tuple[Column, ...]:
    made = list(keys)
    for name in how.columns:
        column = table.columns[table.index(name)]
        unit = _RATE[column.unit] if name in how.rates else column.unit
        made += [
            Column(
                name=f"{name}_{which}",
                title=f"{column.title}, {which}",
                unit=unit,
                source=None,
                note=column.note,
            )
            for which in ("first", "second")
        ]
        if name == how.columns[0] and not how.words:
            made += [
                Column(name="change", title="Change", unit=unit, source=None),
                Column(name="times", title="Times", unit=Unit.RATIO, source=None),
            ]
    return tuple(made)


def _rows(
    one: ReportTable,
    other: ReportTable,
    how: Compared,
    elapsed_s: tuple[float, float],
    keys: Sequence[Column],
) -> list[Row]:
    sides = (_by_key(one, keys), _by_key(other, keys))
    complete = tuple(not any(r.mark is RowMark.REST for r in t.rows) for t in (one, other))
    ranked: list[tuple[float, Row]] = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        rows = (sides[0].get(key), sides[1].get(key))
        if any(row is not None and row.mark is RowMark.REST for row in rows):
            continue
        mark = next(row.mark for row in rows if row is not None)
        if rows[0] is None and complete[0]:
            mark = RowMark.NEW
        if rows[1] is None and complete[1]:
            mark = RowMark.GONE
        made = _row(key, rows, (one, other), how, elapsed_s, mark)
        if made is not None:
            ranked.append(made)
    if how.ordered:
        return [row for _, row in ranked]
    ranked.sort(key=lambda pair: (pair[1].mark is not RowMark.TOTAL, -pair[0]))
    return [row for _, row in ranked[:ROWS_MAX]]


def _row(
    key: Key,
    rows: tuple[Row | None, Row | None],
    tables: tuple[ReportTable, ReportTable],
    how: Compared,
    elapsed_s: tuple[float, float],
    mark: RowMark,
) -> tuple[float, Row] | None:
    """Return a row and the size of its change; None if it has nothing to compare."""
    cells: list[Cell] = list(key)
    weight = 0.0
    for name in how.columns:
        pair = [
            None if row is None else _cell(row, table, name, how, seconds)
            for row, table, seconds in zip(rows, tables, elapsed_s, strict=True)
        ]
        if how.words:
            if pair[0] == pair[1]:
                return None
            cells += pair
            continue
        # A new row did not exist before: its earlier value is zero, not unknown.
        for side, absent in ((0, RowMark.NEW), (1, RowMark.GONE)):
            if mark is absent and pair[1 - side] is not None:
                pair[side] = _like(pair[1 - side], 0)
        cells += pair
        if name == how.columns[0]:
            if pair == [None, None] or _is_total(pair):
                return None
            change, times, weight = _change(pair)
            cells += [change, times]
    source = weaker(row.source for row in rows if row is not None)
    return weight, Row(cells=tuple(cells), source=source, mark=mark)


def _change(pair: Sequence[Cell]) -> tuple[Cell, float | None, float]:
    """Return the change, its factor, and the value that ranks it."""
    before, after = (_number(cell) for cell in pair)
    if before is None or after is None:
        known = abs((before if after is None else after) or 0.0)
        return None, None, 0.0 if _mixed(pair) else known
    change = after - before
    # The residual of a total may be negative: then there is no factor.
    times = ratio(after, before) if before >= 0 and after >= 0 else None
    if not _mixed(pair):
        return change, times, abs(change)
    if before > 0 and after > 0:
        return _like(pair[1], change), times, abs(math.log(after / before))
    return _like(pair[1], change), times, math.inf if change else 0.0


def _cell(row: Row, table: ReportTable, name: str, how: Compared, elapsed_s: float) -> Cell:
    cell = row.cells[table.index(name)]
    if name not in how.rates or cell is None:
        return cell
    value = _number(cell) or 0.0
    per_s = ratio(value, elapsed_s)
    # Milliseconds per second are thousandths of a session.
    milli = table.columns[table.index(name)].unit is Unit.MILLISECONDS
    return None if per_s is None else per_s / 1000 if milli else per_s


def _by_key(table: ReportTable, keys: Sequence[Column]) -> dict[Key, Row]:
    """Return the rows by their keys; a row of the total comes before one of its key apart from it.

    Of one event, some calls may be waits and others not.
    """
    places = [table.index(column.name) for column in keys]
    found: dict[Key, Row] = {}
    for row in table.rows:
        key = tuple(plain(row.cells[place]) for place in places)
        if key not in found or row.mark is not RowMark.APART:
            found[key] = row
    return found


def _is_total(pair: Sequence[Cell]) -> bool:
    """Tell whether a number is a total of the period, so that it depends on the period's length."""
    return any(isinstance(cell, Number) and cell.unit in _TOTALS for cell in pair)


def _mixed(pair: Sequence[Cell]) -> bool:
    return any(isinstance(cell, Number) for cell in pair)


def _like(cell: Cell, value: float) -> Cell:
    """Return a value with the unit and source of a cell."""
    if isinstance(cell, Number):
        return Number(value=value, unit=cell.unit, source=cell.source)
    return value if isinstance(cell, (int, float)) else None


def _number(cell: Cell) -> float | None:
    value = plain(cell)
    return float(value) if isinstance(value, (int, float)) else None
