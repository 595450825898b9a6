# SPDX-License-Identifier: PostgreSQL
"""What happened between two consecutive readings, as rates.

A counter that is smaller than before started over: its whole value was counted since.  What
PostgreSQL counts by database is compared by database: a sum over all of them falls if one is
dropped or reset, though no other started over.  No rate is negative, and none spans a restart.
What the earlier reading lacks, as a snapshot may lack a section, is unknown and not zero.

Quantiles are computed from ranges, each twice as wide as the one before.  Within a range, requests
are assumed to be spread evenly over its logarithm, so a quantile may be off by a factor of two at
most.
"""

import math
from collections.abc import Iterator, Mapping

from pgflash.model.live import (
    CacheSecond,
    DatabaseCounts,
    EventSecond,
    Flow,
    Quantiles,
    Reading,
    Sample,
)

#: The first range begins at 0, which has no logarithm; this value is used instead.
_LOWEST_US = 0.5

#: A second rarely has more, and a page shows fewer.
EVENTS_MAX = 12

_EVICTIONS = ("eviction_invalidated", "eviction_aged_out")


def sample(before: Reading, after: Reading, *, number: int) -> Sample | None:
    """Return what happened between two readings; None across a restart, or if no time passed."""
    elapsed_s = after.monotonic_s - before.monotonic_s
    if after.started_at != before.started_at or elapsed_s <= 0:
        return None
    databases = list(_databases(before, after))
    commits = sum(_since(was.commits, now.commits) for was, now in databases)
    rollbacks = sum(_since(was.rollbacks, now.rollbacks) for was, now in databases)
    flows: dict[str, Flow] = {}
    for was_flows, now_flows in [
        (before.flows, after.flows),
        *((was.flows, now.flows) for was, now in databases),
    ]:
        for name, flow in now_flows.items() if was_flows else ():
            more = _flow(was_flows.get(name, Flow()), flow)
            flows[name] = _sum(flows.get(name, Flow()), more)
    latency = {}
    for name, counts in after.latencies.items() if before.latencies else ():
        found = quantiles(between(before.latencies.get(name, {}), counts))
        if found is not None:
            latency[name] = found
    return Sample(
        number=number,
        at=after.at.isoformat(timespec="milliseconds"),
        elapsed_s=elapsed_s,
        aas=_sessions(after),
        events=_events(after),
        commits_s=commits / elapsed_s,
        rollbacks_s=rollbacks / elapsed_s,
        sessions=after.sessions,
        active=after.active,
        bytes_s={name: flow.bytes / elapsed_s for name, flow in flows.items()},
        requests_s={name: flow.calls / elapsed_s for name, flow in flows.items()},
        latency=latency,
        commit_ms=_commit_ms(after, commits, elapsed_s),
        wal_bytes_s=None
        if before.wal_bytes is None or after.wal_bytes is None
        else _since(before.wal_bytes, after.wal_bytes) / elapsed_s,
        cache=_cache(before, after, elapsed_s),
    )


def _since(before: float, now: float) -> float:
    return now - before if now >= before else now


def _flow(before: Flow, now: Flow) -> Flow:
    if now.calls < before.calls:
        before = Flow()
    return Flow(
        calls=now.calls - before.calls,
        bytes=max(now.bytes - before.bytes, 0.0),
        time_ms=max(now.time_ms - before.time_ms, 0.0),
    )


def _sum(one: Flow, other: Flow) -> Flow:
    return Flow(
        calls=one.calls + other.calls,
        bytes=one.bytes + other.bytes,
        time_ms=one.time_ms + other.time_ms,
    )


def _databases(before: Reading, after: Reading) -> Iterator[tuple[DatabaseCounts, DatabaseCounts]]:
    """Yield the earlier and the later counts of each database; a new one began at zero."""
    for oid, now in after.databases.items() if before.databases else ():
        new = DatabaseCounts(flows=dict.fromkeys(now.flows, Flow()))
        yield before.databases.get(oid, new), now


def _sessions(reading: Reading) -> dict[str, float] | None:
    """Return the average active sessions by wait class."""
    if reading.covered_s <= 0:
        return None
    found: dict[str, float] = {}
    for wait in reading.waits:
        found[wait.wait_class] = found.get(wait.wait_class, 0.0) + wait.seconds / reading.covered_s
    return found


def _events(reading: Reading) -> tuple[EventSecond, ...]:
    """Return the events that most sessions waited for."""
    if reading.covered_s <= 0:
        return ()
    spent: dict[tuple[str, str], float] = {}
    for wait in reading.waits:  # of sessions and of parallel workers
        key = (wait.event, wait.wait_class)
        spent[key] = spent.get(key, 0.0) + wait.seconds / reading.covered_s
    ranked = sorted(spent.items(), key=lambda one: -one[1])[:EVENTS_MAX]
    return tuple(
        EventSecond(event=event, wait_class=wait_class, sessions=sessions)
        for (event, wait_class), sessions in ranked
    )


def _commit_ms(after: Reading, commits: float, elapsed_s: float) -> float | None:
    """Return the mean wait for a commit, from the waiting sessions and the commits."""
    if after.covered_s <= 0 or commits <= 0:
        return None
    waiting = sum(w.seconds for w in after.waits if w.wait_class == "Commit") / after.covered_s
    return waiting * elapsed_s / commits * 1000


def _cache(before: Reading, after: Reading, elapsed_s: float) -> CacheSecond | None:
    if not before.cache or not after.cache:
        return None

    def rate(*names: str) -> float:
        return sum(
            _since(_number(before.cache.get(name)), _number(after.cache.get(name)))
            for name in names
        ) / elapsed_s  # fmt: skip

    hits, misses = rate("hits"), rate("misses")
    return CacheSecond(
        mode=str(after.cache.get("mode") or ""),
        hit_ratio=hits / (hits + misses) if hits + misses > 0 else None,
        hits_s=hits,
        misses_s=misses,
        inserts_s=rate("inserts"),
        evictions_s=rate(*_EVICTIONS),
        used_bytes=_number(after.cache.get("used_bytes")),
        saved_share=_saved(after.cache.get("saved_share")),
    )


def _saved(share: float | str | None) -> float | None:
    return share if isinstance(share, float) and share >= 0 else None


def _number(value: float | str | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# ---- quantiles


def between(before: Mapping[float, float], now: Mapping[float, float]) -> dict[float, float]:
    """Return the number of requests in each range, keyed by its start in microseconds."""
    found = {lower: _since(before.get(lower, 0.0), count) for lower, count in now.items()}
    return {lower: count for lower, count in found.items() if count > 0}


def quantiles(counts: Mapping[float, float]) -> Quantiles | None:
    """Return the quantiles of requests counted by range, or None if there were no requests."""
    if not counts:
        return None
    return Quantiles(
        p50=_quantile(counts, 0.50), p95=_quantile(counts, 0.95), p99=_quantile(counts, 0.99)
    )


def _quantile(counts: Mapping[float, float], share: float) -> float:
    """Return the time in milliseconds within which a share of the requests was done."""
    left = share * sum(counts.values())
    lower = 0.0
    for lower, count in sorted(counts.items()):
        if count >= left:
            begin = max(lower, _LOWEST_US)
            end = 2 * lower if lower > 0 else 1.0
            return begin * math.pow(end / begin, left / count) / 1000
        left -= count
    return 2 * lower / 1000  # floating-point rounding left a remainder
