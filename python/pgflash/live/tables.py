# SPDX-License-Identifier: PostgreSQL
"""A sample as tables, for the page without scripts and for `pgflash top`."""

from pgflash.analyze.grid import figure, row, text
from pgflash.model.awr import Column, ReportTable, Unit
from pgflash.model.live import FLOWS, TIMED, LiveServer, Sample
from pgflash.model.waits import WaitClass
from pgflash.model.words import figure as shown
from pgflash.model.words import percent

NOTHING_YET = "There are no measurements yet."


def headline(sample: Sample, server: LiveServer | None) -> str:
    """Return the first sentence of a page."""
    if sample.aas is None:
        return NOTHING_YET
    total = sum(sample.aas.values())
    if total < 0.05:
        return "The database is idle."
    name, most = max(sample.aas.items(), key=lambda one: one[1])
    cores = f" on {server.cores} cores" if server is not None and server.cores else ""
    doing = "work" if name == WaitClass.CPU else f"wait in class {name}"
    return f"{shown(total)} sessions are active{cores}; {percent(most / total)} of them {doing}."


def tables(sample: Sample) -> tuple[ReportTable, ...]:
    """Return the tables of a sample."""
    found = [_transactions(sample)]
    if sample.aas is not None:
        found.append(_sessions(sample))
    found.append(_requests(sample))
    if sample.latency:
        found.append(_latency(sample))
    if sample.cache is not None:
        found.append(_cache(sample))
    return tuple(found)


def _transactions(sample: Sample) -> ReportTable:
    return ReportTable(
        id="transactions-now",
        title="Transactions",
        columns=(
            number("commits", "Commits/s", Unit.PER_SECOND),
            number("rollbacks", "Rollbacks/s", Unit.PER_SECOND),
            number("commit_ms", "Commit wait", Unit.MILLISECONDS),
            number("sessions", "Sessions", Unit.COUNT),
            number("active", "Active", Unit.COUNT),
        ),
        rows=(
            row(
                sample.commits_s,
                sample.rollbacks_s,
                sample.commit_ms,
                sample.sessions,
                sample.active,
            ),
        ),
    )


def _sessions(sample: Sample) -> ReportTable:
    aas = sample.aas or {}
    return ReportTable(
        id="sessions-now",
        title="Average active sessions by wait class",
        columns=(text("class", "Wait class"), number("sessions", "Sessions", Unit.SESSIONS)),
        rows=tuple(row(str(name), aas[name]) for name in WaitClass if aas.get(name)),
    )


def _requests(sample: Sample) -> ReportTable:
    return ReportTable(
        id="requests-now",
        title="Requests",
        columns=(
            text("flow", "Flow"),
            number("requests", "Requests/s", Unit.PER_SECOND),
            number("bytes", "Throughput", Unit.BYTES_PER_SECOND),
        ),
        rows=tuple(
            row(name, sample.requests_s.get(name, 0.0), sample.bytes_s[name])
            for name in FLOWS
            if name in sample.bytes_s
        ),
    )


def _latency(sample: Sample) -> ReportTable:
    return ReportTable(
        id="latency-now",
        title="Latency in ms",
        columns=(
            text("of", "Of"),
            # The table's title names the unit, to save columns on narrow terminals.
            *(number(name, name, Unit.COUNT) for name in ("p50", "p95", "p99")),
        ),
        rows=tuple(
            row(name, one.p50, one.p95, one.p99)
            for name in TIMED
            if (one := sample.latency.get(name)) is not None
        ),
    )


def _cache(sample: Sample) -> ReportTable:
    cache = sample.cache
    assert cache is not None
    return ReportTable(
        id="cache-now",
        title="Flash cache",
        columns=(
            text("mode", "Mode"),
            number("hit_ratio", "Hit ratio", Unit.SHARE),
            number("hits", "Hits/s", Unit.PER_SECOND),
            number("inserts", "Inserts/s", Unit.PER_SECOND),
            number("evictions", "Evictions/s", Unit.PER_SECOND),
            number("used", "Used", Unit.BYTES),
            number("saved", "Saved", Unit.SHARE),
        ),
        rows=(
            row(
                cache.mode,
                cache.hit_ratio,
                cache.hits_s,
                cache.inserts_s,
                cache.evictions_s,
                cache.used_bytes,
                cache.saved_share,
            ),
        ),
    )


def number(name: str, title: str, unit: Unit) -> Column:
    """Return a column of numbers without a sign of their source, which the page names."""
    return figure(name, title, unit, None)
