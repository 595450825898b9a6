# SPDX-License-Identifier: PostgreSQL
"""The tables of DB time: its total, its events, its classes.

Each is made from a Composition alone, so it works for the rows of any report that names events,
waits and times.  Shares are of DB time; with the residual row, the rows that count add up to it.
Other rows are shown for comparison and do not count.
"""

from collections.abc import Sequence

from pgflash.analyze.dbtime import (
    Composition,
    TimePart,
    counted_of,
    source_of,
    total_of,
)
from pgflash.analyze.grid import ROWS_MAX, RowsMax, figure, text
from pgflash.analyze.parts import DbTime
from pgflash.model.awr import Cell, ReportTable, Row, RowMark, Source, Unit
from pgflash.model.waits import WaitClass

_FIGURES = (
    figure(
        "waits",
        "Waits",
        Unit.COUNT,
        None,
        note="Counted ones only; samples show how long, not how many.",
    ),
    figure("total_s", "Total wait", Unit.SECONDS, None),
    figure("mean_ms", "Average wait", Unit.MILLISECONDS, None, note="Of counted waits."),
    figure("share", "% DB time", Unit.SHARE, None),
    figure("sessions", "Average active sessions", Unit.SESSIONS, None),
)
_EVENT_COLUMNS = (text("event", "Event"), *_FIGURES, text("wait_class", "Wait class"))
_CLASS_COLUMNS = (text("wait_class", "Wait class"), *_FIGURES)

#: Classes with too many parts for the table of a client's events.
_BACKGROUND = frozenset({WaitClass.SYSTEM_IO, WaitClass.IDLE})

RESIDUAL = "not explained by the rows above"


def top_events(composition: Composition, *, rows_max: RowsMax = ROWS_MAX) -> ReportTable:
    """Return the events that took most of DB time, and the remainder."""
    counted = composition.counted
    rows = [_event_row(composition, part, RowMark.PLAIN) for part in counted[:rows_max]]
    rest = counted[len(rows) :]
    if rest:
        cells = _figures(composition, total_of(rest), *counted_of(rest))
        rows.append(
            Row(
                cells=(f"{len(rest)} other events", *cells, ""),
                source=source_of(rest),
                mark=RowMark.REST,
            )
        )
    rows += _ends(composition, ("",))
    rows += [
        _event_row(composition, part, RowMark.APART)
        for part in composition.parts
        if not part.counts and part.wait_class not in _BACKGROUND
    ][:rows_max]
    return ReportTable(
        id="top-events",
        title="Top foreground events by total wait time",
        columns=_EVENT_COLUMNS,
        rows=tuple(rows),
        key=("event",),
        measure="total_s",
        note="Rows that are not in the total are part of no sum: their time is included in another "
        "row, or no session waited for it."
        if any(row.mark is RowMark.APART for row in rows)
        else "",
    )


def wait_classes(composition: Composition) -> ReportTable:
    """Return DB time by class; system I/O and idle, which are not DB time, are apart."""
    found = [(one, composition.of_class(one)) for one in WaitClass]
    having = [(one, parts) for one, parts in found if parts]
    having.sort(key=lambda pair: (not pair[0].counts, -total_of(pair[1])))
    counted = [pair for pair in having if pair[0].counts]
    apart = [pair for pair in having if not pair[0].counts]
    rows = [_class_row(composition, one, parts, RowMark.PLAIN) for one, parts in counted]
    rows += _ends(composition, ())
    rows += [_class_row(composition, one, parts, RowMark.APART) for one, parts in apart]
    return ReportTable(
        id="wait-classes",
        title="Wait classes by total wait time",
        columns=_CLASS_COLUMNS,
        rows=tuple(rows),
        key=("wait_class",),
        measure="total_s",
        note="System I/O is the I/O of processes that serve no client; Idle is waiting for the "
        "client. Neither is part of DB time."
        if apart
        else "",
    )


def db_time_table(found: DbTime) -> ReportTable:
    """Return DB time, how much of it is known and how well, and its cross-check."""
    composition = found.composition
    rows: list[Row] = []

    def add(name: str, seconds: float | None, source: Source, mark: RowMark) -> None:
        if seconds is not None:
            cells = (name, seconds, composition.share(seconds), composition.sessions(seconds))
            rows.append(Row(cells=cells, source=source, mark=mark))

    client_source = Source.EXACT
    if composition.db_time_source is Source.SAMPLED and not found.parallel_s:
        client_source = Source.SAMPLED
    add("DB time of client backends", found.client_s, client_source, RowMark.PLAIN)
    if found.parallel_s:
        add("DB time of parallel workers", found.parallel_s, Source.SAMPLED, RowMark.PLAIN)
    add("DB time", composition.db_time_s, composition.db_time_source, RowMark.TOTAL)
    at_work = [part for part in composition.counted if part.wait_class is WaitClass.CPU]
    waits = [part for part in composition.counted if part.wait_class is not WaitClass.CPU]
    timed = [part for part in waits if part.source is not Source.SAMPLED]
    looked = [part for part in waits if part.source is Source.SAMPLED]
    for part in at_work:
        add(part.event, part.total_s, part.source, RowMark.PLAIN)
    add("waits, timed", total_of(timed), source_of(timed), RowMark.PLAIN)
    if found.samples is not None:
        add("waits, sampled", total_of(looked), Source.SAMPLED, RowMark.PLAIN)
    add(RESIDUAL, composition.residual_s, _residual_source(composition), RowMark.RESIDUAL)
    add("DB time by samples alone", found.sampled_s, Source.SAMPLED, RowMark.APART)
    spans = [("elapsed", composition.elapsed_s)]
    if found.samples is not None:
        spans.append(("covered by the sampler", found.samples.covered_s))
    rows += [
        Row(cells=(name, seconds, None, None), source=Source.EXACT, mark=RowMark.APART)
        for name, seconds in spans
    ]
    return ReportTable(
        id="db-time",
        title="DB time",
        columns=(
            text("name", "What"),
            figure("total_s", "Time", Unit.SECONDS, None),
            figure("share", "% DB time", Unit.SHARE, None),
            figure("sessions", "Average active sessions", Unit.SESSIONS, None),
        ),
        rows=tuple(rows),
        key=("name",),
        measure="total_s",
        note="DB time is the time that sessions spent working or waiting, not idle. The rows below "
        "it, with the remainder, add up to it. Sampled parts are estimates, so the remainder can "
        "be slightly negative.",
    )


def _event_row(composition: Composition, part: TimePart, mark: RowMark) -> Row:
    cells = _figures(composition, part.total_s, part.waits, part.mean_ms)
    return Row(cells=(part.event, *cells, part.wait_class.value), source=part.source, mark=mark)


def _class_row(
    composition: Composition, wait_class: WaitClass, parts: Sequence[TimePart], mark: RowMark
) -> Row:
    total_s = total_of(parts)
    waits, mean = (None, None) if wait_class is WaitClass.CPU else counted_of(parts)
    return Row(
        cells=(wait_class.value, *_figures(composition, total_s, waits, mean)),
        source=source_of(parts),
        mark=mark,
    )


def _ends(composition: Composition, after: tuple[Cell, ...]) -> list[Row]:
    """Return the residual and the total."""
    return [
        Row(
            cells=(RESIDUAL, *_figures(composition, composition.residual_s), *after),
            source=_residual_source(composition),
            mark=RowMark.RESIDUAL,
        ),
        Row(
            cells=("DB time", *_figures(composition, composition.db_time_s), *after),
            source=composition.db_time_source,
            mark=RowMark.TOTAL,
        ),
    ]


def _figures(
    composition: Composition,
    total_s: float,
    waits: int | None = None,
    mean_ms: float | None = None,
) -> tuple[Cell, ...]:
    return (
        waits,
        total_s,
        mean_ms,
        composition.share(total_s),
        composition.sessions(total_s),
    )


def _residual_source(composition: Composition) -> Source:
    """Return the source of a difference: that of the least certain value in it."""
    if composition.db_time_source is Source.SAMPLED:
        return Source.SAMPLED
    return source_of(composition.counted)
