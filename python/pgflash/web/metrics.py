# SPDX-License-Identifier: PostgreSQL
"""The server's counters as OpenMetrics text, for Prometheus and similar scrapers.

Counters are the server's own, since it started; a scraper computes rates from them, and recognizes
a restart.  Units are base units and part of the name. docs/reference/metrics.md lists the metrics
with the same help texts.  A figure that this server cannot provide is absent rather than 0.
"""

import enum
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pgflash.model.live import LiveServer, Reading

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Kind(enum.StrEnum):
    """The kind of a metric, which decides what may be done with it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"
    STATESET = "stateset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The data from which metrics are made."""

    live: bool
    server: LiveServer | None
    reading: Reading | None
    #: Seconds of database time by wait class, since the page was started.
    waited_s: Mapping[str, float]
    viewers: int
    cpu_s: float


#: Suffix, labels, value.
Point = tuple[str, Mapping[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A family of metrics."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    points: Callable[[Facts], Iterable[Point]]


def render(facts: Facts) -> str:
    """Return the text."""
    lines = []
    for metric in METRICS:
        points = list(metric.points(facts))
        if points:
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            if metric.unit:
                lines.append(f"# UNIT {metric.name} {metric.unit}")
            lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
            lines.extend(
                f"{metric.name}{suffix}{_labels(labels)} {_number(value)}"
                for suffix, labels, value in points
            )
    return "\n".join([*lines, "# EOF", ""])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)


# ---- the sources of the points


def _one(
    value: Callable[[Facts], float | None], suffix: str = ""
) -> Callable[[Facts], list[Point]]:
    def points(facts: Facts) -> list[Point]:
        found = value(facts)
        return [] if found is None else [(suffix, {}, found)]

    return points


def _reading(value: Callable[[Reading], float | None]) -> Callable[[Facts], float | None]:
    return lambda facts: None if facts.reading is None else value(facts.reading)


def _flows(value: Callable[[Reading, str], float]) -> Callable[[Facts], Iterator[Point]]:
    def points(facts: Facts) -> Iterator[Point]:
        for name in facts.reading.flows if facts.reading is not None else ():
            assert facts.reading is not None
            yield "_total", {"flow": name}, value(facts.reading, name)

    return points


def _transactions(facts: Facts) -> Iterator[Point]:
    if facts.reading is not None:
        yield "_total", {"result": "commit"}, facts.reading.commits
        yield "_total", {"result": "rollback"}, facts.reading.rollbacks


def _info(facts: Facts) -> Iterator[Point]:
    server = facts.server
    if server is not None:
        number = server.version_num
        yield (
            "_info",
            {
                "version": f"{number // 10_000}.{number % 10_000}",
                "extension_version": server.extension_version,
                "system_identifier": server.system_identifier,
                "in_recovery": "true" if server.in_recovery else "false",
            },
            1,
        )


def _waits(facts: Facts) -> Iterator[Point]:
    for name, seconds in sorted(facts.waited_s.items()):
        yield "_total", {"wait_class": name}, seconds


def _reads(facts: Facts) -> Iterator[Point]:
    if facts.reading is not None:
        for source, counts in facts.reading.latencies.items():
            if source != "wal sync":
                flow = facts.reading.flows.get(source)
                seconds = None if flow is None else flow.time_ms / 1000
                yield from _buckets(counts, {"source": source}, seconds)


def _syncs(facts: Facts) -> Iterator[Point]:
    if facts.reading is not None and "wal sync" in facts.reading.latencies:
        yield from _buckets(facts.reading.latencies["wal sync"], {}, None)


def _buckets(
    counts: Mapping[float, float], labels: Mapping[str, str], sum_s: float | None
) -> Iterator[Point]:
    """Yield a histogram's points; each range ends at twice its beginning, where the next begins."""
    running = 0.0
    for lower_us, count in sorted(counts.items()):
        running += count
        upper_s = 2 * lower_us / 1e6 if lower_us > 0 else 1e-6
        yield "_bucket", {**labels, "le": repr(upper_s)}, running
    yield "_bucket", {**labels, "le": "+Inf"}, running
    if sum_s is not None:
        yield "_count", labels, running
        yield "_sum", labels, sum_s


def _cache(name: str, *, suffix: str = "") -> Callable[[Facts], list[Point]]:
    def value(reading: Reading) -> float | None:
        found = reading.cache.get(name)
        return found if isinstance(found, int | float) else None

    return _one(_reading(value), suffix)


_EVICTIONS = {
    "invalidated": "eviction_invalidated",
    "aged out": "eviction_aged_out",
    "buffer pinned": "eviction_buffer_pinned",
}
_MODES = ("serve", "passthrough", "offline")


def _evictions(facts: Facts) -> Iterator[Point]:
    for kind, name in _EVICTIONS.items():
        found = None if facts.reading is None else facts.reading.cache.get(name)
        if isinstance(found, int | float):
            yield "_total", {"kind": kind}, found


def _modes(facts: Facts) -> Iterator[Point]:
    mode = None if facts.reading is None else facts.reading.cache.get("mode")
    if mode:
        for one in _MODES:
            yield "", {"pgflash_cache_mode": one}, float(one == mode)


def _cache_counter(name: str, column: str, text: str, unit: str = "") -> Metric:
    return Metric(
        name=f"pgflash_cache_{name}",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
        points=_cache(column, suffix="_total"),
    )


def _cache_gauge(name: str, column: str, text: str) -> Metric:
    return Metric(
        name=f"pgflash_cache_{name}",
        kind=Kind.GAUGE,
        unit="bytes",
        help=text,
        points=_cache(column),
    )


METRICS = (
    Metric(
        name="pgflash_up",
        kind=Kind.GAUGE,
        help="1 while the server answers, else 0.",
        points=lambda facts: [("", {}, float(facts.live))],
    ),
    Metric(
        name="pgflash_server",
        kind=Kind.INFO,
        help="What the server is.",
        labels=("version", "extension_version", "system_identifier", "in_recovery"),
        points=_info,
    ),
    Metric(
        name="pgflash_server_start_time_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="When the server started, in seconds since 1970.",
        points=_one(_reading(lambda one: one.started_at.timestamp())),
    ),
    Metric(
        name="pgflash_sessions",
        kind=Kind.GAUGE,
        help="Client sessions.",
        points=_one(_reading(lambda one: one.sessions)),
    ),
    Metric(
        name="pgflash_active_sessions",
        kind=Kind.GAUGE,
        help="Client sessions that run a statement at this moment.",
        points=_one(_reading(lambda one: one.active)),
    ),
    Metric(
        name="pgflash_db_time_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Database time by wait class, sampled, since pgflash serve was started. Its rate is "
        "the average of active sessions.",
        labels=("wait_class",),
        points=_waits,
    ),
    Metric(
        name="pgflash_transactions",
        kind=Kind.COUNTER,
        help="Transactions of all databases that have ended.",
        labels=("result",),
        points=_transactions,
    ),
    Metric(
        name="pgflash_wal_generated_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="WAL that was generated.",
        points=_one(_reading(lambda one: one.wal_bytes), "_total"),
    ),
    Metric(
        name="pgflash_requests",
        kind=Kind.COUNTER,
        help="Requests for files, in calls: reads of data by what served them, writes of data, "
        "writes of WAL, temporary files.",
        labels=("flow",),
        points=_flows(lambda one, name: one.flows[name].calls),
    ),
    Metric(
        name="pgflash_request_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="Bytes of those.",
        labels=("flow",),
        points=_flows(lambda one, name: one.flows[name].bytes),
    ),
    Metric(
        name="pgflash_request_wait_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Time that processes waited for those; 0 without the extension.",
        labels=("flow",),
        points=_flows(lambda one, name: one.flows[name].time_ms / 1000),
    ),
    Metric(
        name="pgflash_read_latency_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="How long reads of data took, by what served them.",
        labels=("source",),
        points=_reads,
    ),
    Metric(
        name="pgflash_wal_sync_latency_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="How long syncs of the WAL took.",
        points=_syncs,
    ),
    Metric(
        name="pgflash_cache_mode",
        kind=Kind.STATESET,
        help="The flash cache's mode.",
        labels=("pgflash_cache_mode",),
        points=_modes,
    ),
    _cache_counter("hits", "hits", "Blocks that flash served."),
    _cache_counter("misses", "misses", "Blocks looked up and not read from flash."),
    _cache_counter("inserts", "inserts", "Blocks put into the cache, refreshed ones included."),
    _cache_counter("updates", "updates", "Cached blocks that were written and refreshed."),
    Metric(
        name="pgflash_cache_evictions",
        kind=Kind.COUNTER,
        help="Blocks dropped, or not dropped since they were in use, by Oracle's kinds.",
        labels=("kind",),
        points=_evictions,
    ),
    _cache_gauge("size_bytes", "size_bytes", "Size of all cache files."),
    _cache_gauge("used_bytes", "used_bytes", "What of that holds blocks."),
    _cache_gauge(
        "write_budget_left_bytes",
        "write_budget_left_bytes",
        "What is left of the day's pgflash.write_budget; absent without one.",
    ),
    _cache_counter("flash_reads", "flash_reads", "Reads of the cache files."),
    _cache_counter("flash_read_bytes", "flash_read_bytes", "Bytes of those.", "bytes"),
    _cache_counter("flash_writes", "flash_writes", "Writes of the cache files."),
    _cache_counter("flash_write_bytes", "flash_write_bytes", "Bytes of those.", "bytes"),
    _cache_counter("flash_read_errors", "flash_read_errors", "Reads that failed."),
    _cache_counter("flash_write_errors", "flash_write_errors", "Writes that failed."),
    _cache_counter(
        "read_timeouts", "read_timeouts", "Reads that were not done by pgflash.read_deadline."
    ),
    _cache_counter(
        "corrupt_slots", "corrupt_slots", "Blocks that came back damaged; none was used."
    ),
    _cache_counter(
        "verify_mismatches",
        "verify_mismatches",
        "Blocks that differed from their file (pgflash.verify); must be 0.",
    ),
    Metric(
        name="pgflash_collector_viewers",
        kind=Kind.GAUGE,
        help="Who watches the live page now.",
        points=lambda facts: [("", {}, float(facts.viewers))],
    ),
    Metric(
        name="pgflash_collector_cpu_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        help="Processor time that pgflash serve has used.",
        points=lambda facts: [("_total", {}, facts.cpu_s)],
    ),
    Metric(
        name="pgflash_collector_reading_age_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="How old the newest reading is.",
        points=_one(_reading(lambda one: max(time.monotonic() - one.monotonic_s, 0.0))),
    ),
)
