# SPDX-License-Identifier: PostgreSQL
"""The order of a report's tables, and their headings.

Tables are ordered by their ids.  A table that is not named here gets its own heading at the end, so
that a new table is seen before it has found its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pgflash.model.awr import ReportTable, Unit

RANKING_ROWS_MAX = 40

_SUMMARY = "Summary"
_REST = "More"
_TIME = "Over time"
#: Long lists that few read to their end.
FOLDED = frozenset({"settings"})
#: Opens a report that has charts.
_FIRST_CHART = "aas-over-time"
_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_SUMMARY, ("summary",)),
    ("Where the time went", ("db-time", "top-events", "wait-classes", "load-profile")),
    (_TIME, (_FIRST_CHART, "throughput-over-time", "latency-over-time", "cpu-over-time")),
    (
        "Reads, writes and WAL",
        ("read-latency", "io-tablespaces", "io-function-filetype", "wal"),
    ),
    (
        "Checkpoints, vacuum and replication",
        ("checkpoints", "vacuum", "replication", "replication-slots"),
    ),
    ("Flash cache and buffers", ("flash-cache", "flash-cache-advice", "buffer-advice")),
    (
        "Tables and indexes",
        (
            "segments-reads",
            "segments-read-time",
            "segments-writes",
            "segments-logical-reads",
            "segments-row-locks",
            "locks",
            "locks-long",
            "segments-cached",
        ),
    ),
    (
        "Statements",
        (
            "sql-elapsed",
            "sql-cpu",
            "sql-reads",
            "sql-disk",
            "sql-flash",
            "sql-gets",
            "sql-executions",
            "sql-wal",
            "sql-temp",
            "sql-text",
        ),
    ),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tables under a heading."""

    title: str
    tables: tuple[ReportTable, ...]

    @property
    def opens(self) -> bool:
        """Tell whether it comes before the findings."""
        return self.title == _SUMMARY


def grouped(tables: Sequence[ReportTable], *, charts: bool) -> list[Group]:
    """Return the tables under their headings; a heading without a table is left out.

    With charts, the first of them opens the report; without, the long tables over time come last.
    """
    by_id = {table.id: table for table in tables}
    ids_of = {title: list(ids) for title, ids in _GROUPS}
    if charts:
        ids_of[_TIME].remove(_FIRST_CHART)
        ids_of[_SUMMARY].append(_FIRST_CHART)
    else:
        ids_of[_TIME] = ids_of.pop(_TIME)
    named = {one for ids in ids_of.values() for one in ids}
    ids_of[_REST] = [table.id for table in tables if table.id not in named]
    found = (
        Group(title=title, tables=tuple(by_id[one] for one in ids if one in by_id))
        for title, ids in ids_of.items()
    )
    return [group for group in found if group.tables]
