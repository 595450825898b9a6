# SPDX-License-Identifier: PostgreSQL
"""Numbers as a paper prints them, as spans: 238.5K is anything from 238,450 to 238,550."""

from pgflash.analyze.consistency import EventSpans, Span


def span(text: str, *, factor: float = 1.0) -> Span:
    """Return what a printed number may have been before it was rounded."""
    digits = text.replace(",", "").rstrip("%")
    scale = 1.0
    for suffix, times in (("K", 1e3), ("M", 1e6), ("G", 1e9)):
        if digits.endswith(suffix):
            digits, scale = digits.removesuffix(suffix), times
    decimals = len(digits.partition(".")[2])
    half = 0.5 * 10.0**-decimals
    value = float(digits)
    return Span(low=max(value - half, 0.0) * scale * factor, high=(value + half) * scale * factor)


def whole(text: str) -> Span:
    """Return a number that was counted, and is therefore exact."""
    value = float(text.replace(",", ""))
    return Span(low=value, high=value)


def middle(found: Span) -> float:
    """Return the number as printed."""
    return (found.low + found.high) / 2


def printed_row(
    name: str, waits: str, total: str, mean: str, share: str, last: str = "", sessions: str = ""
) -> EventSpans:
    """Return a row of a table of events or classes; "" where the paper's cell is empty."""
    return EventSpans(
        name=name,
        waits=whole(waits) if waits else None,
        total_s=span(total),
        mean_ms=span(mean) if mean else None,
        share=span(share, factor=0.01) if share else None,
        sessions=span(sessions) if sessions else None,
        wait_class=last,
    )
