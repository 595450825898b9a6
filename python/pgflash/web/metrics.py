# SPDX-License-Identifier: PostgreSQL
"""The server's counters for Prometheus and similar scrapers, in a text format that they accept.

The format is OpenMetrics, or the older text format (0.0.4) for scrapers that do not ask for
OpenMetrics.  The older one has no units, and gauges instead of the types info and stateset; a
counter's name has its suffix in the head, too; and a histogram has its count even if its sum is
unknown.

Other exporters read the same metrics with the queries in share/pgflash/monitoring, which are
generated from the same declarations.

With several servers, each point has the label MEMBER with its server's name, except the points of
pgflash serve itself.

Counters start with the server; scrapers compute rates and recognize restarts.  Units are base units
and part of the name.  Metrics are declared in definitions/metrics.toml; those that are columns of
pgflash_cache are declared with the view.  A metric that this server does not have is absent, not 0.
"""

import enum
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pgflash.model.fleet import LEADING, FleetMember
from pgflash.model.live import LiveServer, Reading

OPENMETRICS = "application/openmetrics-text"
TEXT = "text/plain"
CONTENT_TYPES = {
    OPENMETRICS: "application/openmetrics-text; version=1.0.0; charset=utf-8",
    TEXT: "text/plain; version=0.0.4; charset=utf-8",
}


class Kind(enum.StrEnum):
    """The type of a metric."""

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
    #: Seconds of DB time by wait class, since pgflash serve started.
    waited_s: Mapping[str, float]
    viewers: int
    cpu_s: float
    #: Its row among several servers.
    member: FleetMember | None = None


#: The data of a server that is not being read.
NOTHING = Facts(live=False, server=None, reading=None, waited_s={}, viewers=0, cpu_s=0.0)

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
    #: The column of pgflash_cache that has its value; "" if none has.
    column: str = ""
    #: It has a point for each column of pgflash_cache with this prefix.
    columns: str = ""
    #: It is about pgflash serve itself, not about a server.
    shared: bool = False

    def points(self, facts: Facts) -> Iterable[Point]:
        """Return its points; none if the server does not have them."""
        if self.column:
            return _of_column(self, facts)
        if self.columns:
            return _of_columns(self, facts)
        return _POINTS[self.name](facts)


def accepted(accept: str) -> str:
    """Return the format to answer with: OpenMetrics if Accept prefers it or has no preference."""
    weights: dict[str, float] = {}
    for part in accept.split(","):
        name, *parameters = (word.strip().lower() for word in part.split(";"))
        weight = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        try:
            weights[name] = max(weights.get(name, 0.0), float(weight))
        except ValueError:
            continue
    plain = max(weights.get(name, 0.0) for name in (TEXT, "text/*"))
    wanted = weights.get(OPENMETRICS, 0.0)
    return OPENMETRICS if wanted > 0 and wanted >= plain else TEXT


#: Suffixes that are part of a metric's name in the older format.
_SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}
_OLD_KINDS = {Kind.INFO: Kind.GAUGE, Kind.STATESET: Kind.GAUGE}


#: The label with the name of one of several servers.
MEMBER = "member"


def render(facts: Facts | Mapping[str, Facts], form: str) -> str:
    """Return the text of all metrics, of one server or of several by their names."""
    lines = []
    for metric in METRICS:
        points = list(_all_points(metric, facts))
        if points:
            lines += _head(metric) if form == OPENMETRICS else _old_head(metric)
            lines.extend(
                f"{metric.name}{suffix}{_labels(labels)} {_number(value)}"
                for suffix, labels, value in points
                if form == TEXT or suffix != "_count" or _has_sum(points, labels)
            )
    return "\n".join([*lines, "# EOF", ""] if form == OPENMETRICS else [*lines, ""])


def _all_points(metric: Metric, facts: Facts | Mapping[str, Facts]) -> Iterator[Point]:
    if isinstance(facts, Facts):
        yield from metric.points(facts)
    elif metric.shared:
        yield from metric.points(next(iter(facts.values()), NOTHING))
    else:
        for name, of_one in facts.items():
            for suffix, labels, value in metric.points(of_one):
                yield suffix, {MEMBER: name, **labels}, value


def _head(metric: Metric) -> list[str]:
    name = metric.name
    units = [f"# UNIT {name} {metric.unit}"] if metric.unit else []
    return [f"# TYPE {name} {metric.kind}", *units, f"# HELP {name} {_escaped(metric.help)}"]


def _old_head(metric: Metric) -> list[str]:
    name = f"{metric.name}{_SUFFIXES.get(metric.kind, '')}"
    # In this format, a help's quotation marks are not escaped.
    said = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    return [f"# HELP {name} {said}", f"# TYPE {name} {_OLD_KINDS.get(metric.kind, metric.kind)}"]


def _has_sum(points: Iterable[Point], labels: Mapping[str, str]) -> bool:
    return any((suffix, of) == ("_sum", labels) for suffix, of, _value in points)


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


def _member(value: Callable[[FleetMember], float | None]) -> Callable[[Facts], list[Point]]:
    return _one(lambda facts: None if facts.member is None else value(facts.member))


def _flows(value: Callable[[Reading, str], float]) -> Callable[[Facts], Iterator[Point]]:
    def points(facts: Facts) -> Iterator[Point]:
        for name in facts.reading.flows if facts.reading is not None else ():
            assert facts.reading is not None
            yield "_total", {"flow": name}, value(facts.reading, name)

    return points


def _transactions(facts: Facts) -> Iterator[Point]:
    for one in facts.reading.databases.values() if facts.reading is not None else ():
        yield "_total", {"database": one.name, "result": "commit"}, one.commits
        yield "_total", {"database": one.name, "result": "rollback"}, one.rollbacks


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
    reading = facts.reading
    if reading is not None and "wal sync" in reading.latencies:
        seconds = None if reading.wal_sync_ms is None else reading.wal_sync_ms / 1000
        yield from _buckets(reading.latencies["wal sync"], {}, seconds)


#: The upper bounds of a histogram's buckets, the same for all servers and exporters.
_ENDS_NS = tuple(2.0**power for power in range(10, 35))


def _buckets(
    counts: Mapping[float, float], labels: Mapping[str, str], sum_s: float | None
) -> Iterator[Point]:
    """Yield a histogram's points; COUNTS is by lower bounds, and each range ends at twice that."""
    for end_ns in _ENDS_NS:
        within = sum(count for lower_us, count in counts.items() if 2 * lower_us <= end_ns / 1000)
        yield "_bucket", {**labels, "le": repr(end_ns / 1e9)}, within
    total = sum(counts.values())
    yield "_bucket", {**labels, "le": "+Inf"}, total
    yield "_count", labels, total
    if sum_s is not None:
        yield "_sum", labels, sum_s


def _of_column(metric: Metric, facts: Facts) -> Iterator[Point]:
    found = None if facts.reading is None else facts.reading.cache.get(metric.column)
    if isinstance(found, int | float):
        yield "_total" if metric.kind is Kind.COUNTER else "", {}, found


def _of_columns(metric: Metric, facts: Facts) -> Iterator[Point]:
    (label,) = metric.labels
    for name, found in (facts.reading.cache if facts.reading is not None else {}).items():
        if name.startswith(metric.columns) and isinstance(found, int | float):
            word = name.removeprefix(metric.columns).replace("_", " ")
            yield "_total", {label: word}, found


_MODES = ("serve", "passthrough", "offline")
_DEVICE_STATES = ("in use", "bypassed", "missing", "failed")


def _modes(facts: Facts) -> Iterator[Point]:
    mode = None if facts.reading is None else facts.reading.cache.get("mode")
    if mode:
        for one in _MODES:
            yield "", {"pgflash_cache_mode": one}, float(one == mode)


def _configured(facts: Facts) -> Iterator[Point]:
    cache = {} if facts.reading is None else facts.reading.cache
    if "cache_file" in cache:
        yield "", {}, float(cache["cache_file"] is not None)


def _device_states(facts: Facts) -> Iterator[Point]:
    for file, state in (facts.reading.devices if facts.reading is not None else {}).items():
        for one in _DEVICE_STATES:
            yield (
                "",
                {"cache_file": file, "pgflash_cache_device_state": one},
                float(one == state),
            )


def _saved(column: str, unit: float) -> Callable[[Facts], Iterator[Point]]:
    def points(facts: Facts) -> Iterator[Point]:
        found = None if facts.reading is None else facts.reading.cache.get(column)
        if isinstance(found, int | float):
            yield "", {}, found / unit

    return points


_POINTS: Mapping[str, Callable[[Facts], Iterable[Point]]] = {
    "pgflash_up": lambda facts: [("", {}, float(facts.live))],
    "pgflash_server": _info,
    "pgflash_server_start_time_seconds": _one(_reading(lambda one: one.started_at.timestamp())),
    "pgflash_sessions": _one(_reading(lambda one: one.sessions)),
    "pgflash_active_sessions": _one(_reading(lambda one: one.active)),
    "pgflash_db_time_seconds": _waits,
    "pgflash_transactions": _transactions,
    "pgflash_wal_generated_bytes": _one(_reading(lambda one: one.wal_bytes), "_total"),
    "pgflash_requests": _flows(lambda one, name: one.flows[name].calls),
    "pgflash_request_bytes": _flows(lambda one, name: one.flows[name].bytes),
    "pgflash_request_wait_seconds": _flows(lambda one, name: one.flows[name].time_ms / 1000),
    "pgflash_read_latency_seconds": _reads,
    "pgflash_wal_sync_latency_seconds": _syncs,
    "pgflash_leading": _member(lambda one: float(one.role in LEADING) if one.role else None),
    "pgflash_replication_lag_bytes": _member(lambda one: one.lag_bytes),
    "pgflash_cache_warmth_ratio": _member(lambda one: one.warmth),
    "pgflash_cache_mode": _modes,
    "pgflash_cache_saved_seconds": _saved("saved_ms", 1000),
    "pgflash_cache_saved_ratio": _saved("saved_share", 1),
    "pgflash_cache_configured": _configured,
    "pgflash_cache_device_state": _device_states,
    "pgflash_collector_viewers": lambda facts: [("", {}, float(facts.viewers))],
    "pgflash_collector_cpu_seconds": lambda facts: [("_total", {}, facts.cpu_s)],
    "pgflash_collector_reading_age_seconds": _one(
        _reading(lambda one: max(time.monotonic() - one.monotonic_s, 0.0))
    ),
}

# BEGIN generated: metrics
METRICS = (
    Metric(
        name="pgflash_up",
        kind=Kind.GAUGE,
        help="1 while the server answers, else 0.",
    ),
    Metric(
        name="pgflash_server",
        kind=Kind.INFO,
        labels=("version", "extension_version", "system_identifier", "in_recovery"),
        help="Version and identity of the server.",
    ),
    Metric(
        name="pgflash_server_start_time_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="When the server started, in seconds since 1970.",
    ),
    Metric(
        name="pgflash_sessions",
        kind=Kind.GAUGE,
        help="Client sessions.",
    ),
    Metric(
        name="pgflash_active_sessions",
        kind=Kind.GAUGE,
        help="Client sessions that are running a statement.",
    ),
    Metric(
        name="pgflash_db_time_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        labels=("wait_class",),
        help="DB time by wait class, sampled, since pgflash serve was started. Its rate is the "
        "average number of active sessions.",
    ),
    Metric(
        name="pgflash_transactions",
        kind=Kind.COUNTER,
        labels=("database", "result"),
        help="Completed transactions by database; of no database where its name is empty.",
    ),
    Metric(
        name="pgflash_wal_generated_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        help="WAL generated.",
    ),
    Metric(
        name="pgflash_requests",
        kind=Kind.COUNTER,
        labels=("flow",),
        help="File calls: reads of data by source, writes of data, writes of WAL, temporary files.",
    ),
    Metric(
        name="pgflash_request_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        labels=("flow",),
        help="Bytes that these calls read or wrote.",
    ),
    Metric(
        name="pgflash_request_wait_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        labels=("flow",),
        help="Time that processes waited for these calls; 0 without the extension.",
    ),
    Metric(
        name="pgflash_read_latency_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        labels=("source",),
        help="Duration of reads of data, by source.",
    ),
    Metric(
        name="pgflash_wal_sync_latency_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Duration of syncs of the WAL.",
    ),
    Metric(
        name="pgflash_leading",
        kind=Kind.GAUGE,
        help="1 while the server leads the others, else 0; only if several are watched.",
    ),
    Metric(
        name="pgflash_replication_lag_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        help="WAL of the leader that a standby has not replayed; only if several are watched.",
    ),
    Metric(
        name="pgflash_cache_warmth_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="Share of the list of cached blocks that is in the server's cache, from 0 to 1; only "
        "if several are watched.",
    ),
    Metric(
        name="pgflash_collector_viewers",
        kind=Kind.GAUGE,
        help="Viewers of the live page now.",
    ),
    Metric(
        name="pgflash_collector_cpu_seconds",
        kind=Kind.COUNTER,
        unit="seconds",
        shared=True,
        help="CPU time used by pgflash serve.",
    ),
    Metric(
        name="pgflash_collector_reading_age_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Age of the newest reading.",
    ),
    Metric(
        name="pgflash_cache_mode",
        kind=Kind.STATESET,
        labels=("pgflash_cache_mode",),
        help="The flash cache's mode.",
    ),
    Metric(
        name="pgflash_cache_saved_seconds",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Time by which the cache shortened reads by clients, since the server started "
        "(modelled); negative if flash is slower than the disk.",
    ),
    Metric(
        name="pgflash_cache_saved_ratio",
        kind=Kind.GAUGE,
        unit="ratio",
        help="The same as a share of the time that these reads would have taken without the cache.",
    ),
    Metric(
        name="pgflash_cache_evictions",
        kind=Kind.COUNTER,
        labels=("kind",),
        columns="eviction_",
        help="Blocks dropped, or kept because they were in use, by Oracle's kinds.",
    ),
    Metric(
        name="pgflash_cache_insert_skips",
        kind=Kind.COUNTER,
        labels=("reason",),
        columns="insert_skip_",
        help="Blocks not added to the cache, by Oracle's reasons and ours.",
    ),
    Metric(
        name="pgflash_cache_configured",
        kind=Kind.GAUGE,
        help="1 if pgflash.cache_file is set, else 0.",
    ),
    Metric(
        name="pgflash_cache_device_state",
        kind=Kind.STATESET,
        labels=("cache_file", "pgflash_cache_device_state"),
        help="The state of each cache file: in use, bypassed, missing or failed.",
    ),
    Metric(
        name="pgflash_cache_size_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        column="size_bytes",
        help="Size of the cache in bytes; while it is being resized, its new size.",
    ),
    Metric(
        name="pgflash_cache_used_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        column="used_bytes",
        help="Bytes that the cache holds now.",
    ),
    Metric(
        name="pgflash_cache_hits",
        kind=Kind.COUNTER,
        column="hits",
        help="Blocks that the cache had: read from flash, or from the staging ring.",
    ),
    Metric(
        name="pgflash_cache_misses",
        kind=Kind.COUNTER,
        column="misses",
        help="Blocks looked up in the cache that it did not serve. Blocks in the page cache are "
        "not looked up.",
    ),
    Metric(
        name="pgflash_cache_inserts",
        kind=Kind.COUNTER,
        column="inserts",
        help="Blocks added to the cache, including refreshed ones.",
    ),
    Metric(
        name="pgflash_cache_updates",
        kind=Kind.COUNTER,
        column="updates",
        help="Inserts that refreshed a cached block after it was written.",
    ),
    Metric(
        name="pgflash_cache_flash_reads",
        kind=Kind.COUNTER,
        column="flash_reads",
        help="Reads of the cache files.",
    ),
    Metric(
        name="pgflash_cache_flash_read_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        column="flash_read_bytes",
        help="Bytes read from the cache files.",
    ),
    Metric(
        name="pgflash_cache_flash_writes",
        kind=Kind.COUNTER,
        column="flash_writes",
        help="Writes of the cache files.",
    ),
    Metric(
        name="pgflash_cache_flash_write_bytes",
        kind=Kind.COUNTER,
        unit="bytes",
        column="flash_write_bytes",
        help="Bytes written to the cache files.",
    ),
    Metric(
        name="pgflash_cache_write_budget_left_bytes",
        kind=Kind.GAUGE,
        unit="bytes",
        column="write_budget_left_bytes",
        help="What is left of pgflash.write_budget for the day, in bytes; null if there is no "
        "budget.",
    ),
    Metric(
        name="pgflash_cache_flash_read_errors",
        kind=Kind.COUNTER,
        column="flash_read_errors",
        help="Reads of the cache files that failed or returned too few bytes.",
    ),
    Metric(
        name="pgflash_cache_read_timeouts",
        kind=Kind.COUNTER,
        column="read_timeouts",
        help="Reads of the cache files that exceeded pgflash.read_deadline; the blocks were read "
        "from disk instead.",
    ),
    Metric(
        name="pgflash_cache_flash_write_errors",
        kind=Kind.COUNTER,
        column="flash_write_errors",
        help="Writes of the cache files that failed or wrote too few bytes.",
    ),
    Metric(
        name="pgflash_cache_corrupt_slots",
        kind=Kind.COUNTER,
        column="corrupt_slots",
        help="Blocks that flash returned with a wrong checksum; none was used.",
    ),
    Metric(
        name="pgflash_cache_verify_mismatches",
        kind=Kind.COUNTER,
        column="verify_mismatches",
        help="Compared blocks that differed from their file. Anything but 0 means that another "
        "program changed the file (foreign_changes), a bad disk, or a bug.",
    ),
    Metric(
        name="pgflash_cache_foreign_changes",
        kind=Kind.COUNTER,
        column="foreign_changes",
        help="Times a data file had changed although pgflash saw no change: a program or an "
        "extension wrote to it directly, or touched its attributes. The file's cached blocks "
        "were dropped.",
    ),
)
# END generated: metrics
