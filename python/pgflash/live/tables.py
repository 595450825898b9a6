# SPDX-License-Identifier: PostgreSQL
"""The newest sample as tables, for the page without script and for `pgflash top`."""

from dataclasses import dataclass

from pgflash.analyze.words import percent
from pgflash.model.live import FLOWS, TIMED, LiveServer, Sample
from pgflash.model.sizes import size
from pgflash.model.waits import WaitClass


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTable:
    """A table of words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    #: How many columns, from the left, hold words instead of numbers.
    words: int = 1


NOTHING_YET = "Nothing was measured yet."


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
    return f"{total:.1f} sessions are active{cores}; {percent(most / total)} of them {doing}."


def tables(sample: Sample) -> tuple[LiveTable, ...]:
    """Return the essentials of a sample."""
    found = [_transactions(sample)]
    if sample.aas is not None:
        found.append(_sessions(sample))
    found.append(_requests(sample))
    if sample.latency:
        found.append(_latency(sample))
    if sample.cache is not None:
        found.append(_cache(sample))
    return tuple(found)


def _transactions(sample: Sample) -> LiveTable:
    commit = "-" if sample.commit_ms is None else f"{sample.commit_ms:.2f}"
    return LiveTable(
        title="Transactions",
        columns=("Commits/s", "Rollbacks/s", "Commit wait ms", "Sessions", "Active"),
        rows=(
            (
                f"{sample.commits_s:,.0f}",
                f"{sample.rollbacks_s:,.0f}",
                commit,
                f"{sample.sessions:,}",
                f"{sample.active:,}",
            ),
        ),
    )


def _sessions(sample: Sample) -> LiveTable:
    aas = sample.aas or {}
    rows = [(str(name), f"{aas[name]:.2f}") for name in WaitClass if aas.get(name)]
    return LiveTable(
        title="Average active sessions by wait class",
        columns=("Wait class", "Sessions"),
        rows=tuple(rows),
    )


def _requests(sample: Sample) -> LiveTable:
    rows = [
        (name, f"{sample.requests_s.get(name, 0.0):,.0f}", f"{size(sample.bytes_s[name])}/s")
        for name in FLOWS
        if name in sample.bytes_s
    ]
    return LiveTable(
        title="Requests", columns=("Flow", "Requests/s", "Throughput"), rows=tuple(rows)
    )


def _latency(sample: Sample) -> LiveTable:
    rows = [
        (name, f"{one.p50:.3f}", f"{one.p95:.3f}", f"{one.p99:.3f}")
        for name in TIMED
        if (one := sample.latency.get(name)) is not None
    ]
    return LiveTable(title="Latency in ms", columns=("Of", "p50", "p95", "p99"), rows=tuple(rows))


def _cache(sample: Sample) -> LiveTable:
    cache = sample.cache
    assert cache is not None
    ratio = "-" if cache.hit_ratio is None else percent(cache.hit_ratio)
    return LiveTable(
        title="Flash cache",
        columns=("Mode", "Hit ratio", "Hits/s", "Inserts/s", "Evictions/s", "Used"),
        rows=(
            (
                cache.mode,
                ratio,
                f"{cache.hits_s:,.0f}",
                f"{cache.inserts_s:,.0f}",
                f"{cache.evictions_s:,.0f}",
                size(cache.used_bytes),
            ),
        ),
    )
