# SPDX-License-Identifier: PostgreSQL
"""A time range from the snapshots that the server keeps, as samples like the live ones.

The counters of a snapshot are a reading of that moment.  So what happened between two snapshots is
computed like a second from two readings, by the same code, with the same treatment of resets and
restarts.  A long range has more snapshots than a chart has room for: some are skipped, which loses
nothing, since counters are subtracted.  What sessions did is kept from snapshot to snapshot and by
the minute; the server adds it up over all snapshots of the range.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from psycopg import sql

from pgflash.analyze.live import sample
from pgflash.analyze.sections import number, total
from pgflash.model.history import History, SessionsSpan
from pgflash.model.live import DatabaseCounts, Flow, LiveServer, Reading, WaitTime
from pgflash.model.snapshot import Value
from pgflash.model.waits import FOREGROUND, WaitClass
from pgflash.session import Connection, said

ROWS_MAX = 120
#: Of a section, as JSON.  None that a server has stored is nearly as long.
SECTION_BYTES_MAX = 1_000_000

#: One more snapshot at either end, so that the ends of the range are covered.
_HEADS = """
select snapshot_id, taken_at, started_at from {schema}.pgflash_snapshots
 where taken_at >= coalesce((select max(taken_at) from {schema}.pgflash_snapshots
                              where taken_at <= %(begin)s), %(begin)s)
   and taken_at <= coalesce((select min(taken_at) from {schema}.pgflash_snapshots
                              where taken_at >= %(end)s), %(end)s)
 order by snapshot_id
"""
_FIRST_AND_LAST = "select min(taken_at), max(taken_at) from {schema}.pgflash_snapshots"
_SECTIONS = """
select snapshot_id, section,
       case when pg_catalog.octet_length(content::text) <= {bytes_max} then content::text end
  from {schema}.pgflash_snapshot_sections
 where snapshot_id = any(%s) and section = any(%s)
"""
#: Seconds by interval, time and name.
_ROWS = """
with chosen (snapshot_id, place) as (select * from unnest(%(ids)s::bigint[], %(places)s::int[])),
found as (
    select g.place, s.content -> 'rows'::text as lines,
           array(select pg_catalog.jsonb_array_elements_text(s.content -> 'columns'::text)) as names
      from chosen g join {schema}.pgflash_snapshot_sections s using (snapshot_id)
     where s.section = {section}),
placed as (
    select f.place, l.line,
           pg_catalog.array_position(f.names, 'bucket') - 1 as bucket,
           pg_catalog.array_position(f.names, 'seconds') - 1 as seconds,
           pg_catalog.array_position(f.names, 'wait_class') - 1 as class,
           pg_catalog.array_position(f.names, 'backend_type') - 1 as backend
      from found f cross join lateral pg_catalog.jsonb_array_elements(f.lines) as l (line))
select place, pg_catalog.date_bin(%(step)s::interval, (line ->> bucket)::timestamptz, %(origin)s),
       {name}, sum((line ->> seconds)::float8)
  from placed where {condition}
 group by 1, 2, 3
"""
_SAMPLES = ("line ->> class", "line ->> backend = any(%(foreground)s)")
_LOOKS = ("''", "true")

_READ = ("server", "database", "stat_wal", "io", "io_histogram", "cache")

_COUNTED = frozenset(str(one) for one in WaitClass if one.counts)

Records = list[dict[str, Value]]


def read_history(
    connection: Connection, server: LiveServer, *, begin: datetime, end: datetime
) -> History:
    """Return what the server's snapshots show of a range."""
    if not server.schema:
        return History(
            begin="",
            end="",
            missing={
                "history": f'the extension pgflash is not in database "{server.database}": '
                "it takes the snapshots"
            },
        )
    with said("read the snapshots"):
        reader = _Reader(connection, server.schema)
        heads = reader.ask(_HEADS, {"begin": begin, "end": end})
        if len(heads) < 2:
            return History(begin="", end="", missing={"history": _why_none(reader)})
        return _History(reader, heads).make()


def _why_none(reader: "_Reader") -> str:
    ((first, last),) = reader.ask(_FIRST_AND_LAST, {})
    if first is None:
        return "there are no snapshots yet: pgflash.snapshot_interval is the time between them"
    return f"no two snapshots are near: there are those from {first.isoformat()} to " + str(
        last.isoformat()
    )


class _Reader:
    """Queries the contents of snapshots."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = sql.Identifier(schema)

    def ask(self, text: str, values: Any, **parts: str) -> list[tuple[Any, ...]]:  # noqa: ANN401
        pieces = {name: sql.SQL(part) for name, part in parts.items()}
        query = sql.SQL(text).format(schema=self._schema, **pieces)
        return self._connection.execute(query, values).fetchall()


class _History:
    """Makes a history of the snapshots from one to another."""

    def __init__(self, reader: _Reader, heads: Sequence[tuple[Any, ...]]) -> None:
        self._reader = reader
        self._all = heads
        self._heads = thinned(heads)
        self._missing: dict[str, str] = {}
        self.step_s = 60.0 * max(1, -(-int(self._span_s() / 60) // ROWS_MAX))

    def _span_s(self) -> float:
        span: float = (self._all[-1][1] - self._all[0][1]).total_seconds()
        return span

    def make(self) -> History:
        spent, looked = self._sampled()
        sections = self._sections()
        readings = []
        for place, (number_, at, started_at) in enumerate(self._heads):
            found = sections.get(number_, {})
            waits = tuple(
                WaitTime(wait_class=name, event=name, seconds=seconds)
                for name, seconds in _added(spent, place).items()
                if name in _COUNTED
            )
            covered_s = sum(_added(looked, place).values())
            readings.append(_reading(found, at, started_at, waits, covered_s))
        rows = []
        for place, (before, after) in enumerate(itertools.pairwise(readings), 1):
            made = sample(before, after, number=place)
            if made is None:
                self._missing["restart"] = unknown_between(before, after)
            else:
                rows.append(replace(made, events=()))
        if not looked:
            self._missing.setdefault(
                "sessions", "the sampler took no samples (pgflash.sample_rate)"
            )
        if not any("io" in found for found in sections.values()):
            self._missing["requests by source"] = "file calls were not counted (pgflash.account)"
        return History(
            begin=self._heads[0][1].isoformat(),
            end=self._heads[-1][1].isoformat(),
            rows=tuple(rows),
            sessions=tuple(_spans(spent, looked)),
            missing=self._missing,
        )

    def _sections(self) -> dict[int, dict[str, Records]]:
        """Return the contents of the chosen snapshots, by their numbers."""
        numbers = [head[0] for head in self._heads]
        found: dict[int, dict[str, Records]] = {}
        rows = self._reader.ask(_SECTIONS, (numbers, list(_READ)), bytes_max=str(SECTION_BYTES_MAX))
        for snapshot, name, content in rows:
            if content is None:
                self._missing["a section"] = f"{name} of snapshot {snapshot} is too long"
                continue
            table = msgspec.json.decode(content)
            found.setdefault(snapshot, {})[name] = [
                dict(zip(table["columns"], row, strict=True)) for row in table["rows"]
            ]
        return found

    def _sampled(self) -> tuple["_Spent", "_Spent"]:
        """Return what sessions did, and for how long that is known."""
        chosen = {head[0]: place for place, head in enumerate(self._heads)}
        places, place = [], 1
        for number_, *_rest in self._all[1:]:
            places.append(place)
            if number_ in chosen:
                place = chosen[number_] + 1
        values = {
            "ids": [head[0] for head in self._all[1:]],
            "places": places,
            "step": f"{self.step_s} seconds",
            "origin": self._all[0][1].replace(second=0, microsecond=0),
            "foreground": sorted(FOREGROUND),
        }
        try:
            spent, looked = (
                self._reader.ask(_ROWS, values, section=f"'{section}'", name=name, condition=where)
                for section, (name, where) in (("samples", _SAMPLES), ("sample_looks", _LOOKS))
            )
        except psycopg.errors.QueryCanceled:
            self._missing["sessions"] = "adding them up takes too long: select a shorter range"
            return {}, {}
        return _by_place(spent), _by_place(looked)


#: Seconds by interval, time and name.
_Spent = dict[tuple[int, datetime], dict[str, float]]


def _by_place(rows: Iterable[tuple[Any, ...]]) -> _Spent:
    found: _Spent = {}
    for place, at, name, seconds in rows:
        found.setdefault((place, at), {})[str(name)] = float(seconds or 0.0)
    return found


def _added(spent: _Spent, place: int) -> dict[str, float]:
    """Return the seconds of an interval by name."""
    found: dict[str, float] = {}
    for (of, _at), names in spent.items():
        if of == place:
            for name, seconds in names.items():
                found[name] = found.get(name, 0.0) + seconds
    return found


def _spans(spent: _Spent, looked: _Spent) -> Iterable[SessionsSpan]:
    """Yield what sessions did by time."""
    covered: dict[datetime, float] = {}
    for (_place, at), names in looked.items():
        covered[at] = covered.get(at, 0.0) + sum(names.values())
    seen: dict[datetime, dict[str, float]] = {at: {} for at in covered}
    for (_place, at), names in spent.items():
        for name, seconds in names.items():
            if name in _COUNTED and at in seen:
                seen[at][name] = seen[at].get(name, 0.0) + seconds
    for at in sorted(covered):
        if covered[at] > 0:
            aas = {name: seconds / covered[at] for name, seconds in seen[at].items()}
            yield SessionsSpan(at=at.isoformat(), elapsed_s=covered[at], aas=aas)


def unknown_between(before: Reading, after: Reading) -> str:
    """Say why nothing is known of the time between two readings."""
    happened = (
        "the server restarted"
        if before.started_at != after.started_at
        else "the server's clock was set back"
    )
    return (
        f"{happened} between {before.at.isoformat(timespec='seconds')} and "
        f"{after.at.isoformat(timespec='seconds')}: there is no data for that time"
    )


def thinned(heads: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return as many snapshots as a chart has room for: the ends, and both sides of a restart."""
    step = -(-(len(heads) - 1) // ROWS_MAX)
    last = len(heads) - 1
    return [
        head
        for place, head in enumerate(heads)
        if place in (0, last)
        or place % step == 0
        or head[2] != heads[place - 1][2]
        or head[2] != heads[place + 1][2]
    ]


# ---- a snapshot as a reading


def _reading(
    found: Mapping[str, Records],
    at: datetime,
    started_at: datetime,
    waits: tuple[WaitTime, ...],
    covered_s: float,
) -> Reading:
    (facts,) = found.get("server", []) or ({},)
    wal = found.get("stat_wal", [])
    cache = found.get("cache", [])
    return Reading(
        at=at,
        monotonic_s=at.timestamp(),
        started_at=started_at,
        sessions=int(number(facts.get("sessions"))),
        active=int(number(facts.get("active_sessions"))),
        databases={
            str(one.get("datid")): DatabaseCounts(
                name=str(one.get("datname") or ""),
                commits=int(number(one.get("xact_commit"))),
                rollbacks=int(number(one.get("xact_rollback"))),
                flows={} if "io" in found else {"temp": Flow(bytes=number(one.get("temp_bytes")))},
            )
            for one in found.get("database", [])
        },
        wal_bytes=int(total(wal, "wal_bytes")) if wal else None,
        flows=_flows(found.get("io", [])),
        latencies=_latencies(found.get("io_histogram", [])),
        waits=waits,
        covered_s=covered_s,
        cache={
            name: value if value is None or isinstance(value, str) else float(value)
            for name, value in (cache[0] if cache else {}).items()
            if value is None or isinstance(value, str | int | float)
        },
    )


def flow_of(file_class: object, operation: object, source: object) -> str:
    """Return the live page's flow that a row of pgflash_io belongs to; "": none."""
    if file_class == "wal":
        return "wal" if operation == "write" else ""
    if file_class in ("temp", "temp relation"):
        return "temp"
    if file_class != "data":
        return ""
    return str(source) if operation == "read" else "disk writes"


def _flows(records: Records) -> dict[str, Flow]:
    found: dict[str, Flow] = {}
    for one in records:
        name = flow_of(one.get("file_class"), one.get("operation"), one.get("source"))
        if name:
            before = found.get(name, Flow())
            found[name] = Flow(
                calls=before.calls + number(one.get("calls")),
                bytes=before.bytes + number(one.get("bytes")),
                time_ms=before.time_ms + number(one.get("time_ms")),
            )
    return found


def _latencies(records: Records) -> dict[str, dict[float, float]]:
    found: dict[str, dict[float, float]] = {}
    for one in records:
        kind = (one.get("file_class"), one.get("operation"))
        if kind == ("data", "read"):
            name = str(one.get("source"))
        elif kind == ("wal", "sync"):
            name = "wal sync"
        else:
            continue
        ranges = found.setdefault(name, {})
        lower = number(one.get("lower_us"))
        ranges[lower] = ranges.get(lower, 0.0) + number(one.get("calls"))
    return found
