# SPDX-License-Identifier: PostgreSQL
"""Whether the numbers of a table of events or classes agree with each other.

A row states the same thing several times: waits, total time and average wait; total time and share
of DB time; total time and average sessions.  Any two printed values bound the third, as tightly as
their digits allow.  So numbers are spans: a printed 54.0 may have been anything from 53.95 to
54.05.

All rows share one DB time and one elapsed time.  If their spans have no value in common, a number
is wrong, and its row is named.  Each of our own reports is checked this way, and a contradiction is
its first finding; any other report can be checked if its rows are put into EventSpans.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pgflash.model.awr import Cell, ReportTable, Row, RowMark, plain
from pgflash.model.waits import WaitClass
from pgflash.model.words import precisely

#: Tolerance for floating-point rounding.
_TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A number known to lie between two others."""

    low: float
    high: float

    def __truediv__(self, other: "Span") -> "Span":
        """Return the span of the quotients of two spans that are not negative."""
        return Span(
            low=self.low / other.high if other.high > 0 else 0.0,
            high=self.high / other.low if other.low > 0 else float("inf"),
        )

    def __mul__(self, factor: float) -> "Span":
        """Return the span times a number."""
        return Span(low=self.low * factor, high=self.high * factor)

    def meets(self, other: "Span") -> bool:
        """Tell whether both may stand for the same number."""
        slack = _TINY * max(abs(self.low), abs(other.low), 1.0)
        return self.low <= other.high + slack and other.low <= self.high + slack

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"at least {precisely(self.low)}"
        return precisely((self.low + self.high) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSpans:
    """A row as printed; None: the value was not printed."""

    name: str
    total_s: Span
    waits: Span | None = None
    mean_ms: Span | None = None
    share: Span | None = None
    sessions: Span | None = None
    #: Waits and their mean are of a part of the total: of the events that were counted.
    partly: bool = False
    #: As printed; a wait class, or nothing.
    wait_class: str = ""


def common(spans: Iterable[Span]) -> Span | None:
    """Return what all spans have in common; None if there is nothing."""
    every = list(spans)
    if not every:
        return None
    low, high = max(span.low for span in every), min(span.high for span in every)
    if low > high + _TINY * max(abs(high), 1.0):
        return None
    return Span(low=low, high=max(low, high))


def db_time_of(rows: Sequence[EventSpans]) -> Span | None:
    """Return the DB time that all rows agree on; None if they do not."""
    return common(row.total_s / row.share for row in rows if row.share is not None)


def elapsed_of(rows: Sequence[EventSpans]) -> Span | None:
    """Return the elapsed time that all rows agree on; None if they do not."""
    return common(row.total_s / row.sessions for row in rows if row.sessions is not None)


def contradictions(rows: Sequence[EventSpans]) -> tuple[str, ...]:
    """Return each contradiction as a sentence; nothing if all rows agree."""
    found = []
    for row in rows:
        if row.waits is not None and row.mean_ms is not None and row.waits.high > 0:
            mean = (row.total_s / row.waits) * 1000
            possible = Span(low=0.0, high=mean.high) if row.partly else mean
            if not possible.meets(row.mean_ms):
                found.append(
                    f"{row.name}: {row.total_s} s in {row.waits} waits are {mean} ms each, not "
                    f"{row.mean_ms} ms"
                )
        if row.wait_class and row.wait_class not in set(WaitClass):
            found.append(f"{row.name}: {row.wait_class} is no wait class")
    found += _disagreements(
        [row for row in rows if row.share is not None],
        lambda row: row.total_s / (row.share or Span(low=0, high=0)),
        "DB time",
    )
    found += _disagreements(
        [row for row in rows if row.sessions is not None],
        lambda row: row.total_s / (row.sessions or Span(low=0, high=0)),
        "elapsed time",
    )
    return tuple(found)


def contradictions_of(table: ReportTable) -> tuple[str, ...]:
    """Return contradictions in a table of our own, which must also add up."""
    rows = [row for row in table.rows if row.mark is not RowMark.RESIDUAL]
    found = list(contradictions([_spans(table, row) for row in rows]))
    place = table.index("total_s")
    added = sum(
        _number(row.cells[place])
        for row in table.rows
        if row.mark in (RowMark.PLAIN, RowMark.REST, RowMark.RESIDUAL)
    )
    for row in table.rows:
        if row.mark is RowMark.TOTAL:
            total = _number(row.cells[place])
            if abs(added - total) > 1e-6 * max(abs(total), 1.0):
                sums = (precisely(added), precisely(total))
                found.append(f"the rows add up to {sums[0]} s, the total says {sums[1]} s")
        elif row.mark is not RowMark.RESIDUAL and _number(row.cells[place]) < 0:
            least = precisely(_number(row.cells[place]))
            found.append(f"{row.cells[0]}: {least} s, less than nothing")
    return tuple(found)


def _disagreements(
    rows: Sequence[EventSpans], implied: Callable[[EventSpans], Span], what: str
) -> list[str]:
    """Name the rows that contradict the value on which most of the time agrees."""
    found: list[str] = []
    agreed: Span | None = None
    # Long waits are printed with more significant digits than short ones: they fix the value.
    for row in sorted(rows, key=lambda row: -row.total_s.low):
        span = implied(row)
        if agreed is None:
            agreed = span
        elif span.meets(agreed):
            agreed = common((agreed, span)) or agreed
        else:
            found.append(f"{row.name} implies a {what} of {span} s, the rows above {agreed} s")
    return found


def _spans(table: ReportTable, row: Row) -> EventSpans:
    cells = row.cells
    known = {column.name: plain(cell) for column, cell in zip(table.columns, cells, strict=True)}

    def span(name: str) -> Span | None:
        value = known.get(name)
        if not isinstance(value, (int, float)):
            return None
        width = _TINY * max(abs(value), 1e-12)
        return Span(low=value - width, high=value + width)

    return EventSpans(
        name=str(cells[0]),
        total_s=span("total_s") or Span(low=0.0, high=0.0),
        waits=span("waits"),
        mean_ms=span("mean_ms"),
        share=span("share") if known.get("share") else None,
        sessions=span("sessions") if known.get("sessions") else None,
        partly="event" not in known or row.mark is RowMark.REST,
        wait_class=str(known.get("wait_class") or "") if "event" in known else "",
    )


def _number(cell: Cell) -> float:
    value = plain(cell)
    return float(value) if isinstance(value, (int, float)) else 0.0
