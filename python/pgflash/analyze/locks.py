# SPDX-License-Identifier: PostgreSQL
"""Waits for locks, by what is locked: as the sampler saw them.

PostgreSQL counts no waits for locks by object, nor row locks by table, so neither can be exact.
From 19 on it counts waits longer than deadlock_timeout, by the type of lock.
The sampler adds up its samples from the server's start on, so that a period is a difference of two
sums, and no sample is lost.
"""

from collections.abc import Mapping
from math import sqrt

from pgflash.analyze.grid import ROWS_MAX, RowsMax, figure, missing, ratio, text
from pgflash.analyze.period import Period
from pgflash.analyze.sections import number
from pgflash.analyze.segments import relation_name
from pgflash.model.awr import Column, ReportTable, Row, RowMark, Source, Unit
from pgflash.model.snapshot import Value

#: Locks of rows: a session waits for the transaction that changed the row, or for its turn.
ROW_LOCKS = frozenset({"transactionid", "tuple"})

NOT_KNOWN = "not known"

_FIGURES = (
    figure("seconds", "Waited", Unit.SECONDS, Source.SAMPLED),
    figure("share", "% of all", Unit.SHARE, Source.SAMPLED),
    figure("error_s", "Standard error", Unit.SECONDS, Source.SAMPLED),
    figure("samples", "Samples", Unit.COUNT, Source.SAMPLED),
)

_NOTE = (
    "Sampled: PostgreSQL counts no waits for locks by object. A session that waits for another "
    "transaction wants a row of the relation whose tuple lock it holds meanwhile. If it holds "
    "none, as for a unique key that another transaction has just inserted, the relation is not "
    "known."
)

_LONG = (
    text("locktype", "Lock"),
    figure("waits", "Waits", Unit.COUNT),
    figure("total_s", "Total wait", Unit.SECONDS),
    figure("mean_ms", "Average wait", Unit.MILLISECONDS),
    figure("sessions", "Average waiting sessions", Unit.SESSIONS),
    figure(
        "slow_per_s",
        "Beyond the fast path",
        Unit.PER_SECOND,
        note="Weak relation locks that did not fit into the session's own memory; "
        "max_locks_per_transaction limits how many fit.",
    ),
)

Key = tuple[str, ...]
#: Seconds, and how often.
_Sums = tuple[float, int]


def locks(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the objects whose locks were waited for longest."""
    columns = (
        text("relation", "Relation"),
        text("database", "Database"),
        text("lock_type", "Lock"),
        text("lock_mode", "Mode"),
        *_FIGURES,
    )
    found: dict[Key, _Sums] = {}
    for record in period.records("lock_waits"):
        key = (
            _relation(record),
            _database(record),
            str(record.get("lock_type") or ""),
            str(record.get("lock_mode") or ""),
        )
        _add(found, key, record)
    return _table(period, "locks", "Waits for locks by object", columns, found, rows_max)


def segments_row_locks(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the tables whose rows were waited for longest."""
    columns = (text("relation", "Relation"), text("database", "Database"), *_FIGURES)
    found: dict[Key, _Sums] = {}
    for record in period.records("lock_waits"):
        if record.get("lock_type") in ROW_LOCKS:
            _add(found, (_relation(record), _database(record)), record)
    title = "Segments by row lock waits"
    return _table(period, "segments-row-locks", title, columns, found, rows_max)


def _relation(record: Mapping[str, Value]) -> str:
    if record.get("relation") is not None:
        return relation_name(record)
    if record.get("relation_oid") is not None:
        return f"relation {record.get('relation_oid')}"
    return NOT_KNOWN if record.get("lock_type") in ROW_LOCKS else "(none)"


def _database(record: Mapping[str, Value]) -> str:
    return str(record.get("database") or record.get("database_oid") or "")


def _add(found: dict[Key, _Sums], key: Key, record: Mapping[str, Value]) -> None:
    seconds, samples = found.get(key, (0.0, 0))
    found[key] = (
        seconds + number(record.get("seconds")),
        samples + int(number(record.get("samples"))),
    )


def _table(
    period: Period,
    table_id: str,
    title: str,
    columns: tuple[Column, ...],
    found: Mapping[Key, _Sums],
    rows_max: RowsMax,
) -> ReportTable:
    ranked = sorted(
        ((key, sums) for key, sums in found.items() if sums[1] > 0),
        key=lambda item: (-item[1][0], item[0]),
    )
    if not ranked:
        reason = period.missing_reason("lock_waits") or (
            "No session was sampled while waiting for one."
            if "lock_waits" in period.totals
            else "Only the extension pgflash samples this."
        )
        return missing(table_id, title, columns, reason)
    whole = sum(seconds for _, (seconds, _) in ranked)

    def row(key: Key, several: list[_Sums], mark: RowMark = RowMark.PLAIN) -> Row:
        seconds, samples = (sum(part) for part in zip(*several, strict=True))
        error = seconds / sqrt(samples)
        return Row(cells=(*key, seconds, ratio(seconds, whole), error, samples), mark=mark)

    blank = ("",) * (len(columns) - len(_FIGURES) - 1)
    rows = [row(key, [sums]) for key, sums in ranked[:rows_max]]
    rest = [sums for _, sums in ranked[len(rows) :]]
    if rest:
        rows.append(row((f"{len(rest)} others", *blank), rest, RowMark.REST))
    rows.append(row(("all", *blank), [sums for _, sums in ranked], RowMark.TOTAL))
    return ReportTable(
        id=table_id,
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=tuple(column.name for column in columns[: len(columns) - len(_FIGURES)]),
        measure="seconds",
        note=_NOTE,
    )


def long_locks(period: Period) -> ReportTable:
    """Return the waits for locks that were longer than deadlock_timeout."""
    title = "Lock waits longer than deadlock_timeout"
    records = period.records("stat_lock")
    if not records:
        reason = period.missing_reason("stat_lock") or ("Counted by PostgreSQL 19 and newer.")
        return missing("locks-long", title, _LONG, reason)
    records = [one for one in records if number(one["waits"]) or number(one["fastpath_exceeded"])]
    if not records:
        return missing("locks-long", title, _LONG, "There were none.")
    records.sort(key=lambda one: (-number(one["wait_time"]), str(one["locktype"])))
    rows = []
    for one in records:
        waits, total_s = number(one["waits"]), number(one["wait_time"]) / 1000
        cells = (
            str(one["locktype"]),
            waits,
            total_s,
            ratio(1000 * total_s, waits),
            ratio(total_s, period.elapsed_s),
            ratio(number(one["fastpath_exceeded"]), period.elapsed_s),
        )
        rows.append(Row(cells=cells))
    return ReportTable(
        id="locks-long",
        title=title,
        columns=_LONG,
        rows=tuple(rows),
        key=("locktype",),
        measure="total_s",
        note="A wait is counted when the lock is granted; a cancelled wait is not.",
    )
