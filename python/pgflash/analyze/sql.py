# SPDX-License-Identifier: PostgreSQL
"""SQL ordered by elapsed time, reads, WAL and temporary files.

The source is pg_stat_statements, of which each snapshot keeps the top statements since the previous
one.  It times the executor alone: a commit that waited 50 ms for its sync is recorded with a
microsecond.  So the table by elapsed time has a row "commit and outside the executor": the DB time
of client backends in excess of their statements.  Without that row the table would not add up.

pgflash's own statements are not ranked: they are among all others, and a note counts them.
"""

from collections.abc import Callable, Mapping

from pgflash.analyze.grid import ROWS_MAX, RowsMax, figure, missing, ratio, text
from pgflash.analyze.parts import DbTime
from pgflash.analyze.period import Period
from pgflash.model.awr import Cell, Column, ReportTable, Row, RowMark, Unit
from pgflash.model.words import duration, percent, things
from pgflash.session import SIGNATURE

OUTSIDE = "commit and outside the executor"

_HEAD = (
    text("query", "Statement"),
    text("query_id", "Query id"),
    text("database", "Database"),
)
_CALLS = figure("calls", "Calls", Unit.COUNT)

Sums = dict[str, float]
Key = tuple[str, str]


def statements(period: Period, *, toplevel_only: bool = False) -> dict[Key, Sums]:
    """Return each statement's sums over all users; the rest is under ("", "")."""
    databases = {
        str(record.get("database_oid")): str(record.get("database"))
        for record in period.gauge("databases")
    }
    found: dict[Key, Sums] = {}
    for record in period.records("statements"):
        if toplevel_only and record.get("toplevel") is False:
            continue
        query_id, oid = record.get("query_id"), str(record.get("database_oid"))
        key = ("", "") if query_id is None else (str(query_id), databases.get(oid, oid))
        sums = found.setdefault(key, {})
        for column, value in record.items():
            if column.endswith("_oid") or column == "query_id":
                continue
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                sums[column] = sums.get(column, 0) + value
    return found


def sql_elapsed(period: Period, found: DbTime, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that took longest, and the DB time of no statement."""
    columns = (
        *_HEAD,
        figure("total_s", "Elapsed", Unit.SECONDS),
        figure("share", "% DB time", Unit.SHARE),
        _CALLS,
        figure("mean_ms", "Average", Unit.MILLISECONDS),
        figure("rows", "Rows", Unit.COUNT),
        figure("read_s", "Read time", Unit.SECONDS, note="With track_io_timing only."),
        text("top_event", "Most sampled"),
    )
    events, own = _top_events(found), _own(period)
    db_time_s = found.client_s

    def cells(name: str, key: Key, sums: Sums) -> tuple[Cell, ...]:
        total_s = _elapsed_s(sums)
        return (
            name,
            *key,
            total_s,
            ratio(total_s, db_time_s),
            int(sums.get("calls", 0)),
            ratio(1000 * total_s, sums.get("calls")),
            int(sums.get("rows", 0)),
            sums["read_time_ms"] / 1000 if sums.get("read_time_ms") else None,
            events.get(key[0], ""),
        )

    title = "SQL ordered by elapsed time"
    every = statements(period, toplevel_only=True)
    if not every:
        return missing("sql-elapsed", title, columns, _why(period))
    ranked, rest = _ranked(every, _elapsed_s, rows_max, own)
    rows = [Row(cells=cells(_text(period, key), key, sums)) for key, sums in ranked]
    if rest:
        rows.append(Row(cells=cells("all other statements", ("", ""), rest), mark=RowMark.REST))
    inside_s = sum(_elapsed_s(sums) for sums in every.values())
    outside_s = db_time_s - inside_s
    blank = (None,) * 4
    whole = ratio(db_time_s, db_time_s)
    rows.append(
        Row(
            cells=(OUTSIDE, "", "", outside_s, ratio(outside_s, db_time_s), *blank, ""),
            mark=RowMark.RESIDUAL,
        )
    )
    rows.append(
        Row(
            cells=("DB time of client backends", "", "", db_time_s, whole, *blank, ""),
            mark=RowMark.TOTAL,
        )
    )
    return ReportTable(
        id="sql-elapsed",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("query_id", "database"),
        measure="total_s",
        note="Statements are booked when they end, with what they took before the period, too. "
        "Statements within functions are in those that called them." + _own_in_words(every, own),
    )


def sql_reads(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that read the most blocks from outside shared_buffers."""
    return _ranking(
        period,
        "sql-reads",
        "SQL ordered by reads",
        "shared_blocks_read",
        (
            figure("shared_blocks_read", "Blocks read", Unit.COUNT),
            figure("share", "% of all", Unit.SHARE),
            _CALLS,
            figure("per_call", "Blocks/call", Unit.RATIO),
            figure("hit_share", "Found in shared_buffers", Unit.SHARE),
        ),
        rows_max,
    )


def sql_wal(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that generated the most WAL."""
    return _ranking(
        period,
        "sql-wal",
        "SQL ordered by WAL",
        "wal_bytes",
        (
            figure("wal_bytes", "WAL", Unit.BYTES),
            figure("share", "% of all", Unit.SHARE),
            _CALLS,
            figure("per_call", "WAL/call", Unit.BYTES),
            figure("wal_records", "Records", Unit.COUNT),
            figure("wal_fpi", "Full-page images", Unit.COUNT),
        ),
        rows_max,
    )


def sql_temp(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that used temporary files most."""
    return _ranking(
        period,
        "sql-temp",
        "SQL ordered by temporary files",
        "temp_blocks",
        (
            figure("temp_blocks", "Blocks read and written", Unit.COUNT),
            figure("share", "% of all", Unit.SHARE),
            _CALLS,
            figure("per_call", "Blocks/call", Unit.RATIO),
            figure("temp_blocks_written", "Written", Unit.COUNT),
        ),
        rows_max,
    )


def _ranking(
    period: Period,
    table_id: str,
    title: str,
    measure: str,
    columns: tuple[Column, ...],
    rows_max: RowsMax,
) -> ReportTable:
    every = statements(period, toplevel_only=True)
    for sums in every.values():
        temp = sums.get("temp_blocks_read", 0) + sums.get("temp_blocks_written", 0)
        sums["temp_blocks"] = temp
    if not every:
        return missing(table_id, title, (*_HEAD, *columns), _why(period))
    total = sum(sums.get(measure, 0) for sums in every.values())

    def cells(name: str, key: Key, sums: Sums) -> tuple[Cell, ...]:
        value = sums.get(measure, 0)
        hit, read = sums.get("shared_blocks_hit", 0), sums.get("shared_blocks_read", 0)
        known = {
            "share": ratio(value, total),
            "per_call": ratio(value, sums.get("calls")),
            "hit_share": ratio(hit, hit + read),
        }
        figures = (known[c.name] if c.name in known else sums.get(c.name, 0) for c in columns)
        return (name, *key, *figures)

    own = _own(period)
    ranked, rest = _ranked(every, lambda sums: sums.get(measure, 0), rows_max, own)
    rows = [Row(cells=cells(_text(period, key), key, sums)) for key, sums in ranked]
    if not rows and not rest.get(measure):
        return missing(table_id, title, (*_HEAD, *columns), "There were none.")
    if rest:
        rows.append(Row(cells=cells("all other statements", ("", ""), rest), mark=RowMark.REST))
    everything: Sums = {}
    for sums in every.values():
        _add(everything, sums)
    rows.append(Row(cells=cells("all statements", ("", ""), everything), mark=RowMark.TOTAL))
    return ReportTable(
        id=table_id,
        title=title,
        columns=(*_HEAD, *columns),
        rows=tuple(rows),
        key=("query_id", "database"),
        measure=measure,
        note=_own_in_words(every, own).lstrip(),
    )


def _own(period: Period) -> frozenset[str]:
    """Return the ids of pgflash's own statements; pg_stat_statements may cut what is signed."""
    return frozenset(
        str(query_id)
        for query_id, words in period.queries.items()
        if words.rstrip().endswith(SIGNATURE) or "pgflash_snapshot" in words
    )


def _own_in_words(every: Mapping[Key, Sums], own: frozenset[str]) -> str:
    """Say how many statements of pgflash's own are not ranked, and how long they took."""
    mine = [sums for key, sums in every.items() if key[0] in own]
    if not mine:
        return ""
    seconds = sum(_elapsed_s(sums) for sums in mine)
    return (
        f" {things(len(mine), 'statement')} of pgflash's own ({duration(seconds)}) "
        f"{'is' if len(mine) == 1 else 'are'} among all others."
    )


def _ranked(
    every: Mapping[Key, Sums],
    value: Callable[[Sums], float],
    rows_max: RowsMax,
    own: frozenset[str],
) -> tuple[list[tuple[Key, Sums]], Sums]:
    """Return the top statements that are not pgflash's own, and the sums of all others."""
    named = sorted(
        (
            (key, sums)
            for key, sums in every.items()
            if key[0] and key[0] not in own and value(sums) > 0
        ),
        key=lambda item: (-value(item[1]), item[0]),
    )
    top = named[:rows_max]
    shown = {key for key, _ in top}
    rest: Sums = {}
    for key, sums in every.items():
        if key not in shown:
            _add(rest, sums)
    return top, rest


def _add(into: Sums, sums: Sums) -> None:
    for column, value in sums.items():
        into[column] = into.get(column, 0) + value


def _elapsed_s(sums: Sums) -> float:
    return (sums.get("exec_time_ms", 0) + sums.get("plan_time_ms", 0)) / 1000


def _text(period: Period, key: Key) -> str:
    found = period.queries.get(int(key[0]))
    return " ".join(found.split()) if found else f"(text of {key[0]} not known)"


def _top_events(found: DbTime) -> dict[str, str]:
    """Return for each statement the event it was seen in most often, and its share."""
    if found.samples is None:
        return {}
    seconds: dict[str, dict[str, float]] = {}
    for wait in found.samples.waits:
        if wait.query_id is None or not (wait.foreground and wait.wait_class.counts):
            continue
        events = seconds.setdefault(str(wait.query_id), {})
        events[wait.event] = events.get(wait.event, 0) + wait.seconds
    said = {}
    for query_id, events in seconds.items():
        top = max(sorted(events), key=events.__getitem__)
        whole = sum(events.values())
        if whole > 0:
            said[query_id] = f"{top} {percent(events[top] / whole)}"
    return said


def _why(period: Period) -> str:
    return period.missing_reason("statements") or "pg_stat_statements is not installed."
