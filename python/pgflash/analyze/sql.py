# SPDX-License-Identifier: PostgreSQL
"""SQL ordered by elapsed time, CPU, reads, buffer gets, executions, WAL and temporary files.

The source is pg_stat_statements, of which each snapshot keeps the top statements since the previous
one.  It times the executor alone: a commit that waited 50 ms for its sync is recorded with a
microsecond.  So the table by elapsed time has a row "commit and outside the executor": the DB time
of client backends in excess of their statements.  Without that row the table would not add up.

It does not know where blocks came from.  The library counts that (pgflash_statements), and orders
SQL by the time of reads from disk, and by blocks from flash.

No version of PostgreSQL counts CPU time by statement; the sampler counts how often sessions
were active in each.

pgflash's own statements are not ranked: they are among all others, and a note counts them.
"""

from collections.abc import Callable, Mapping, Sequence

from pgflash.analyze.figures import sent_by_clients
from pgflash.analyze.grid import ROWS_MAX, RowsMax, figure, missing, ratio, text
from pgflash.analyze.parts import DbTime, reads_source
from pgflash.analyze.period import Period
from pgflash.analyze.samples import SampledWait, error_s
from pgflash.model.awr import Cell, Column, ReportTable, Row, RowMark, Source, Unit
from pgflash.model.waits import WaitClass
from pgflash.model.words import duration, percent, things
from pgflash.session import SIGNATURE

OUTSIDE = "commit and outside the executor"

#: The title of the column that leads to a statement's text.
QUERY_ID = "Query id"

_HEAD = (
    text("query", "Statement"),
    text("query_id", QUERY_ID),
    text("database", "Database"),
)
_CALLS = figure("calls", "Calls", Unit.COUNT)

Sums = dict[str, float]
Key = tuple[str, str]

#: So many statements are few, and such a share is most of something.
FEW, MOST = 5, 0.75

#: What pg_stat_statements counts, and where statements' blocks came from.
COUNTS, READS = "statements", "statement_reads"


def statements(
    period: Period, *, section: str = COUNTS, toplevel_only: bool = False
) -> dict[Key, Sums]:
    """Return each statement's sums over all users; the rest is under ("", "")."""
    databases = {
        str(record.get("database_oid")): str(record.get("database"))
        for record in period.gauge("databases")
    }
    found: dict[Key, Sums] = {}
    for record in period.records(section):
        if toplevel_only and not sent_by_clients(record):
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
        figure("read_s", "Read time", Unit.SECONDS, note="Only with track_io_timing."),
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
        note="A statement is counted when it ends, including its time before the period. "
        "Statements within functions are included in those that called "
        "them." + _own_in_words(every, own),
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


def sql_disk(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements whose reads from disk took longest."""
    told = reads_source(period)
    return _ranking(
        period,
        "sql-disk",
        "SQL ordered by disk read time",
        "disk_s",
        (
            figure("disk_s", "Disk read time", Unit.SECONDS, told),
            figure("share", "% of all", Unit.SHARE, told),
            figure("disk_read_blocks", "Blocks from disk", Unit.COUNT, told),
            figure("disk_ms", "Average disk read", Unit.MILLISECONDS, told),
            _FLASH_SHARE,
            figure("flash_read_blocks", "Blocks from flash", Unit.COUNT),
            figure("flash_s", "Flash read time", Unit.SECONDS),
            figure("page_cache_read_blocks", "From the page cache", Unit.COUNT, told),
            figure("page_cache_s", "Page cache time", Unit.SECONDS, told),
            figure("shared_hit_blocks", "In shared_buffers", Unit.COUNT),
            _CALLS,
        ),
        rows_max,
        section=READS,
    )


def sql_flash(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that got the most blocks from flash."""
    told = reads_source(period)
    return _ranking(
        period,
        "sql-flash",
        "SQL ordered by blocks from flash",
        "flash_read_blocks",
        (
            figure("flash_read_blocks", "Blocks from flash", Unit.COUNT),
            figure("share", "% of all", Unit.SHARE),
            figure("flash_s", "Flash read time", Unit.SECONDS),
            figure("flash_ms", "Average flash read", Unit.MILLISECONDS),
            _FLASH_SHARE,
            figure("disk_read_blocks", "Blocks from disk", Unit.COUNT, told),
            figure("disk_s", "Disk read time", Unit.SECONDS, told),
            figure("page_cache_read_blocks", "From the page cache", Unit.COUNT, told),
            _CALLS,
        ),
        rows_max,
        section=READS,
    )


_FLASH_SHARE = figure(
    "flash_share", "Flash share", Unit.SHARE, note="Of the blocks from flash or disk."
)
_OF_READS = (
    "Blocks of data files, by where they came from. Times are added up over all processes that "
    "read for a statement, parallel workers and I/O workers included."
)


def statements_that_wait(period: Period) -> tuple[int, float] | None:
    """Return how few statements had most of the time of reads from disk, and its share.

    None if it was many, or is not known.
    """
    every, own = statements(period, section=READS), _own(period)
    whole_ms = sum(sums.get("disk_read_time_ms", 0) for sums in every.values())
    ranked, _ = _ranked(every, lambda sums: sums.get("disk_read_time_ms", 0), FEW, own)
    spent_ms = 0.0
    for place, (_, sums) in enumerate(ranked, start=1):
        spent_ms += sums["disk_read_time_ms"]
        if spent_ms >= MOST * whole_ms:
            return place, spent_ms / whole_ms
    return None


def sql_gets(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that looked up the most blocks."""
    return _ranking(
        period,
        "sql-gets",
        "SQL ordered by buffer gets",
        "gets",
        (
            figure("gets", "Blocks looked up", Unit.COUNT),
            figure("share", "% of all", Unit.SHARE),
            _CALLS,
            figure("per_call", "Blocks/call", Unit.RATIO),
            figure("rows", "Rows", Unit.COUNT),
            figure("elapsed_s", "Elapsed", Unit.SECONDS),
        ),
        rows_max,
    )


def sql_executions(period: Period, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that were executed most often."""
    return _ranking(
        period,
        "sql-executions",
        "SQL ordered by executions",
        "calls",
        (
            _CALLS,
            figure("share", "% of all", Unit.SHARE),
            figure("per_s", "Calls/s", Unit.PER_SECOND),
            figure("rows", "Rows", Unit.COUNT),
            figure("rows_per_call", "Rows/call", Unit.RATIO),
            figure("elapsed_s", "Elapsed", Unit.SECONDS),
            figure("mean_ms", "Average", Unit.MILLISECONDS),
        ),
        rows_max,
    )


def sql_cpu(period: Period, found: DbTime, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the statements that were seen at work most often."""
    columns = (
        *_HEAD,
        figure("cpu_s", "At work", Unit.SECONDS, Source.SAMPLED),
        figure("share", "% of all", Unit.SHARE, Source.SAMPLED),
        figure("error_s", "Standard error", Unit.SECONDS, Source.SAMPLED),
        _CALLS,
        figure("per_call_ms", "Per call", Unit.MILLISECONDS, Source.SAMPLED),
    )
    title = "SQL ordered by CPU"
    if found.samples is None:
        reason = period.missing_reason("samples") or "Only the extension pgflash samples this."
        return missing("sql-cpu", title, columns, reason)
    at_work: dict[int | None, list[SampledWait]] = {}
    for wait in found.samples.waits:
        if wait.foreground and wait.wait_class is WaitClass.CPU:
            at_work.setdefault(wait.query_id, []).append(wait)
    own, counted = _own(period), statements(period, toplevel_only=True)
    databases: dict[str, set[str]] = {}
    calls: dict[str, float] = {}
    for (query_id, database), sums in counted.items():
        databases.setdefault(query_id, set()).add(database)
        calls[query_id] = calls.get(query_id, 0) + sums.get("calls", 0)
    named = [(str(one), waits) for one, waits in at_work.items() if one is not None]
    ranked = sorted(
        ((query_id, waits) for query_id, waits in named if query_id not in own),
        key=lambda item: (-seconds_of(item[1]), item[0]),
    )[:rows_max]
    every = [wait for waits in at_work.values() for wait in waits]
    if not every:
        return missing("sql-cpu", title, columns, "No session was sampled at work.")
    whole = seconds_of(every)

    def row(name: str, key: Key, waits: Sequence[SampledWait], mark: RowMark) -> Row:
        spent, times = seconds_of(waits), calls.get(key[0]) if key[0] else None
        return Row(
            cells=(
                name,
                *key,
                spent,
                ratio(spent, whole),
                error_s(waits),
                None if times is None else int(times),
                ratio(1000 * spent, times),
            ),
            mark=mark,
        )

    rows = []
    for one, waits in ranked:
        key = (one, ", ".join(sorted(databases.get(one, ()))))
        rows.append(row(_text(period, key), key, waits, RowMark.PLAIN))
    shown = {query_id for query_id, _ in ranked}
    rest = [wait for wait in every if str(wait.query_id) not in shown]
    if rest:
        rows.append(row("all others, and no statement", ("", ""), rest, RowMark.REST))
    rows.append(row("all", ("", ""), every, RowMark.TOTAL))
    return ReportTable(
        id="sql-cpu",
        title=title,
        columns=columns,
        rows=tuple(rows),
        key=("query_id", "database"),
        measure="cpu_s",
        note="Sampled: sessions at work were on a processor or waited for one. PostgreSQL does not "
        "count CPU time by statement.",
    )


def seconds_of(waits: Sequence[SampledWait]) -> float:
    """Return the time that some samples represent."""
    return sum(wait.seconds for wait in waits)


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


def sql_text(period: Period, rankings: Sequence[ReportTable]) -> ReportTable:
    """Return the whole texts of the statements that rankings name, as far as they were kept."""
    columns = (text("query_id", QUERY_ID), text("query", "Statement", lines=True))
    title = "Whole statements"
    ids = [
        str(one)
        for table in rankings
        for one in (table.values("query_id") if table.rows else ())
        if one
    ]
    known = [one for one in dict.fromkeys(ids) if int(one) in period.queries]
    if not known:
        reason = "No statement is named above." if not ids else "The snapshots have no texts."
        return missing("sql-text", title, columns, reason)
    return ReportTable(
        id="sql-text",
        title=title,
        columns=columns,
        rows=tuple(Row(cells=(one, period.queries[int(one)])) for one in known),
        key=("query_id",),
        note="As pg_stat_statements shows them: mostly without their constants.",
    )


def _ranking(
    period: Period,
    table_id: str,
    title: str,
    measure: str,
    columns: tuple[Column, ...],
    rows_max: RowsMax,
    *,
    section: str = COUNTS,
) -> ReportTable:
    every = statements(period, section=section, toplevel_only=True)
    for sums in every.values():
        _add_sums(sums)
    if not every or _untracked(period, section):
        return missing(table_id, title, (*_HEAD, *columns), _why(period, section))
    total = sum(sums.get(measure, 0) for sums in every.values())

    def cells(name: str, key: Key, sums: Sums) -> tuple[Cell, ...]:
        value = sums.get(measure, 0)
        hit, read = sums.get("shared_blocks_hit", 0), sums.get("shared_blocks_read", 0)
        flash, disk = sums.get("flash_read_blocks", 0), sums.get("disk_read_blocks", 0)
        known = {
            "flash_share": ratio(flash, flash + disk),
            "flash_ms": ratio(sums.get("flash_read_time_ms"), sums.get("flash_reads")),
            "disk_ms": ratio(sums.get("disk_read_time_ms"), sums.get("disk_reads")),
            "share": ratio(value, total),
            "per_call": ratio(value, sums.get("calls")),
            "hit_share": ratio(hit, hit + read),
            "per_s": ratio(value, period.elapsed_s),
            "rows_per_call": ratio(sums.get("rows"), sums.get("calls")),
            "elapsed_s": _elapsed_s(sums),
            "mean_ms": ratio(1000 * _elapsed_s(sums), sums.get("calls")),
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
        note=_note(every, own, section),
    )


def _add_sums(sums: Sums) -> None:
    """Add what is not counted itself."""
    temp = sums.get("temp_blocks_read", 0) + sums.get("temp_blocks_written", 0)
    sums["temp_blocks"] = temp
    sums["gets"] = sums.get("shared_blocks_hit", 0) + sums.get("shared_blocks_read", 0)
    for source in ("page_cache", "flash", "disk"):
        sums[f"{source}_s"] = sums.get(f"{source}_read_time_ms", 0) / 1000


def _note(every: Mapping[Key, Sums], own: frozenset[str], section: str) -> str:
    said = [_own_in_words(every, own).lstrip()]
    if section == READS:
        said.insert(0, _OF_READS)
        if not any(query_id for query_id, _ in every):
            said.append(
                "No statement has an identifier: load pg_stat_statements, or set "
                "compute_query_id = on."
            )
    return " ".join(filter(None, said))


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
    timed = any("exec_time_ms" in sums for sums in mine)
    took = f" ({duration(sum(map(_elapsed_s, mine)))})" if timed else ""
    return (
        f" {things(len(mine), 'statement')} of pgflash's own{took} "
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


def _untracked(period: Period, section: str) -> bool:
    return section == READS and period.setting("pgflash.track_statements") == "none"


def _why(period: Period, section: str = COUNTS) -> str:
    if _untracked(period, section):
        return "The setting pgflash.track_statements is none."
    otherwise = {
        COUNTS: "pg_stat_statements is not installed.",
        READS: "The extension pgflash counts this from version 0.2 on.",
    }
    return period.missing_reason(section) or otherwise[section]
