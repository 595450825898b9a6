# SPDX-License-Identifier: PostgreSQL
"""The order of a report's tables, and their headings.

Tables are ordered by their ids.  A table that is not named here gets its own heading at the end, so
that a new table is seen before it has found its place.
"""

from collections.abc import Sequence

from pgflash.model.awr import ReportTable, Unit

RANKING_ROWS_MAX = 40

_REST = "More"
_TIME = "Over time"
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Where the time went", ("summary", "db-time", "top-events", "wait-classes", "load-profile")),
    (
        _TIME,
        ("aas-over-time", "throughput-over-time", "latency-over-time", "cpu-over-time"),
    ),
    (
        "Reads, writes and WAL",
        ("read-latency", "io-tablespaces", "io-function-filetype", "wal"),
    ),
    ("Flash cache and buffers", ("flash-cache", "flash-cache-advice", "buffer-advice")),
    (
        "Tables and indexes",
        ("segments-reads", "segments-read-time", "segments-writes", "segments-cached"),
    ),
    ("Statements", ("sql-elapsed", "sql-reads", "sql-wal", "sql-temp")),
    ("Host", ("host-vmstat", "host-iostat")),
    ("Settings, and what is missing", ("settings-changed", "settings", "missing")),
)


def is_over_time(table: ReportTable) -> bool:
    """Tell whether a table's rows are moments of the period, drawn as a chart."""
    return table.id.endswith("-over-time")


def rows_for_people(table: ReportTable) -> int | None:
    """Return how many rows of a table people read: of a ranking, the first ones.

    For a later comparison, a report is kept with every row (JSON), which are too many to read.
    """
    ranked = table.measure != "" and table.columns[:1] and table.columns[0].unit is not Unit.TIME
    return RANKING_ROWS_MAX if ranked else None


def grouped(
    tables: Sequence[ReportTable], *, time_last: bool = False
) -> list[tuple[str, list[ReportTable]]]:
    """Return the tables under their headings; a heading without a table is left out.

    In a form without charts, the long tables over time come last.
    """
    by_id = {table.id: table for table in tables}
    groups = [(title, [by_id[one] for one in ids if one in by_id]) for title, ids in _GROUPS]
    named = {one for _, ids in _GROUPS for one in ids}
    groups.append((_REST, [table for table in tables if table.id not in named]))
    groups = [(title, found) for title, found in groups if found]
    return sorted(groups, key=lambda group: time_last and group[0] == _TIME)
