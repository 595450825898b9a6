# SPDX-License-Identifier: PostgreSQL
"""The head of a report: its title, its period and its server."""

from pgflash.model.awr import (
    HEADLINE,
    AwrReport,
    CompareReport,
    Finding,
    Number,
    PeriodHead,
    Source,
    Unit,
)
from pgflash.model.words import duration, print_number
from pgflash.report.printed import print_time, visible


def title_of(report: AwrReport | CompareReport) -> str:
    """Return the report's title."""
    if isinstance(report, AwrReport):
        return f"PostgreSQL report: snapshots {_ids(report.head)}"
    first, second = _ids(report.first), _ids(report.second)
    if first != second:
        return f"PostgreSQL comparison: snapshots {first} and {second}"
    # Different servers, or one that was made again: snapshot numbers do not tell the periods apart.
    first, second = (
        f"{print_time(head.begin_at)} {visible(head.time_zone)}"
        for head in (report.first, report.second)
    )
    return f"PostgreSQL comparison: periods from {first} and from {second}"


def facts(report: AwrReport | CompareReport) -> list[tuple[str, str]]:
    """Return names and values that identify the period, or both periods."""
    if isinstance(report, AwrReport):
        return [("Period", _period(report.head)), *_server(report.head)]
    both = [("First period", _period(report.first)), ("Second period", _period(report.second))]
    first, second = dict(_server(report.first)), dict(_server(report.second))
    for name in dict.fromkeys((*first, *second)):
        one, two = first.get(name, "not known"), second.get(name, "not known")
        both.append((name, one if one == two else f"{one}; then {two}"))
    return both


def lead_of(report: AwrReport | CompareReport) -> Finding | None:
    """Return what sums up the period."""
    return next((one for one in report.findings if one.rule == HEADLINE), None)


def findings_of(report: AwrReport | CompareReport) -> list[Finding]:
    """Return the findings that are numbered: all but the one that sums up the period."""
    return [one for one in report.findings if one.rule != HEADLINE]


def zones_of(report: AwrReport | CompareReport) -> str:
    """Return the time zone of the report's times; of a comparison, of both."""
    heads = [report.head] if isinstance(report, AwrReport) else [report.first, report.second]
    return ", then ".join(dict.fromkeys(visible(head.time_zone) for head in heads))


def _ids(head: PeriodHead) -> str:
    return f"{head.begin_id} to {head.end_id}"


def _period(head: PeriodHead) -> str:
    return (
        f"{print_time(head.begin_at)} to {print_time(head.end_at)} {head.time_zone}, "
        f"{duration(head.elapsed_s)} (snapshots {_ids(head)}, {head.snapshots} in all)"
        + (f"; requested: {head.asked}" if head.asked else "")
    )


def _server(head: PeriodHead) -> list[tuple[str, str]]:
    # The compiler does not matter here; the JSON form names it.
    version = head.server_version.removeprefix("PostgreSQL ").partition(", compiled")[0]
    found = [("Server", f"PostgreSQL {version}")]
    if head.server_started_at:
        found.append(("Running since", f"{print_time(head.server_started_at)} {head.time_zone}"))
    found.append(("Extension", head.extension_version or "not installed"))
    if head.cores is not None:
        found.append(("Processors", str(head.cores)))
    if head.memory_bytes is not None:
        memory = Number(value=head.memory_bytes, unit=Unit.BYTES, source=Source.EXACT)
        found.append(("Memory", print_number(memory)))
    return found
