# SPDX-License-Identifier: PostgreSQL
"""Read a server once a second at little cost: one round trip, with rows added up by the server.

With the extension, every file call is counted by source and timed, and the sampler's samples since
the previous reading are added up by class and event.  On a plain server, the sessions at the moment
of the reading are one sample, and requests are those that PostgreSQL itself counts; figures that
this cannot provide are listed in `missing`.

What PostgreSQL counts by database is read by database: the sum falls if one of them is dropped.

Each reading takes the samples from the one that was newest at the previous reading up to the newest
one now, which is left for the next reading.  So no sample is counted twice, and none is missed.

If this extension version answers a query differently from what is expected here, that query is not
sent any more, and the page says so: everything else is shown.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from pgflash.local import why_not_local
from pgflash.machine.host import core_count
from pgflash.model.counters import COUNTERS
from pgflash.model.live import DatabaseCounts, Flow, LiveServer, Reading, WaitTime
from pgflash.model.waits import FOREGROUND, WaitClass, wait_class
from pgflash.session import Connection, SessionError, find_extension, require_own, said

#: A statement of ours that takes longer than this is abandoned, and the reading with it.
STATEMENT_TIMEOUT_MS = 5000

_SERVER = """
select (select system_identifier::text from pg_catalog.pg_control_system()),
       pg_catalog.pg_postmaster_start_time(), pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_database(), current_user,
       pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage')
"""

_BASE = """
select pg_catalog.clock_timestamp(), pg_catalog.pg_postmaster_start_time(),
       (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend'),
       (select count(*) from pg_catalog.pg_stat_activity
         where backend_type = 'client backend' and state in ('active', 'fastpath function call')
           and pid <> pg_catalog.pg_backend_pid())
"""

_DATABASES = """
select datid::text, coalesce(datname, ''), xact_commit, xact_rollback, temp_bytes::float8,
       blks_read::float8, blks_read::float8 * pg_catalog.current_setting('block_size')::float8
  from pg_catalog.pg_stat_database
"""

#: Only outside recovery: a standby generates no WAL.
_WAL = "select wal_bytes::float8 from pg_catalog.pg_stat_wal"

_FLOWS = """
select case when file_class = 'wal' then case when operation = 'sync' then 'wal sync' else 'wal' end
            when file_class like 'temp%%' then 'temp'
            when operation <> 'read' then 'disk writes' else source end,
       sum(calls)::float8, sum(bytes)::float8, sum(time_ms)::float8
  from {schema}.pgflash_io_rows()
 where file_class in ('data', 'temp', 'temp relation')
    or file_class = 'wal' and operation in ('write', 'sync')
 group by 1
"""

_LATENCIES = """
select case when file_class = 'wal' then 'wal sync' else source end, lower_us, sum(calls)::float8
  from {schema}.pgflash_io_histogram_rows()
 where file_class = 'data' and operation = 'read' or file_class = 'wal' and operation = 'sync'
 group by 1, 2
"""

_CACHE = """
select mode, mode_reason, hits, misses, inserts, updates, eviction_invalidated,
       eviction_aged_out, eviction_buffer_pinned, size_bytes, used_bytes, flash_reads,
       flash_read_bytes, flash_writes, flash_write_bytes, write_budget_left_bytes,
       flash_read_errors, flash_write_errors, read_timeouts, corrupt_slots, verify_mismatches
  from {schema}.pgflash_cache_row()
"""

#: Queried separately, since an older extension may not have all of these columns.
_SKIPPED = f"""
select cache_file, foreign_changes,
       {", ".join(name for name in COUNTERS if name.startswith("insert_skip_"))}
  from {{schema}}.pgflash_cache_row()
"""

_DEVICES = "select cache_file, state from {schema}.pgflash_cache_devices_rows()"

#: Of the time since the server started.
_BENEFIT = """
select saved_ms, saved_share
  from {schema}.pgflash_cache_benefit_rows() where period = 'start'::text
"""

_NEWEST = "select newest_at from {schema}.pgflash_sampler_row() where running and rate_hz > 0"

_WAITS = """
select w.wait_class, w.wait_event_type, w.wait_event, sum(w.seconds)::float8
  from {schema}.pgflash_sample_summary(%s::timestamptz, %s::timestamptz) w
 group by 1, 2, 3
"""
_COVERED = """
select sum(seconds)::float8
  from {schema}.pgflash_sample_minutes(%s::timestamptz, %s::timestamptz)
"""

_LOOK = """
select backend_type, wait_event_type, wait_event, count(*)::float8
  from pg_catalog.pg_stat_activity
 where pid <> pg_catalog.pg_backend_pid()
   and (not backend_type = any(%s)
        or state in ('active', 'fastpath function call'))
 group by 1, 2, 3
"""

#: A process that never does something has null for it: the checkpointer extends nothing.
_STOCK_IO = """
select sum(reads)::float8, sum(coalesce(writes, 0) + coalesce(extends, 0))::float8,
       sum(reads * {block})::float8,
       sum((coalesce(writes, 0) + coalesce(extends, 0)) * {block})::float8
  from pg_catalog.pg_stat_io where object = 'relation'
"""
_STOCK_IO_18 = """
select sum(reads)::float8, sum(coalesce(writes, 0) + coalesce(extends, 0))::float8,
       sum(read_bytes)::float8, sum(coalesce(write_bytes, 0) + coalesce(extend_bytes, 0))::float8
  from pg_catalog.pg_stat_io where object = 'relation'
"""


#: The queries to the extension, and the names of their results on a page.
_ASKED = {
    "flows": (_FLOWS,),
    "latencies": (_LATENCIES,),
    "cache": (_CACHE,),
    "skipped": (_SKIPPED,),
    "devices": (_DEVICES,),
    "benefit": (_BENEFIT,),
    "waits": (_NEWEST, _WAITS, _COVERED),
}
_SHOWN = {
    "flows": "requests by source",
    "latencies": "latency",
    "cache": "flash cache",
    "skipped": "blocks not cached, by reason",
    "devices": "cache files",
    "benefit": "what the cache saved",
    "waits": "waits",
}


class LiveReader:
    """Reads one server over one session, and keeps the server's properties from its start."""

    def __init__(self, connection: Connection) -> None:
        """Find out what the server can tell."""
        self._connection = connection
        with said("ask the server what it can tell"):
            connection.execute(
                sql.SQL("set statement_timeout = {}").format(sql.Literal(STATEMENT_TIMEOUT_MS))
            )
            self.server = _server(connection)
            self._newest = self._newest_look()
            #: Samples, the sampler's or ours, are known from the second reading on.
            self._looked_at: float | None = None

    def look_again(self) -> bool:
        """Find out again what the server can tell; return whether that changed."""
        with said("ask the server what it can tell"):
            server = _server(self._connection)
        changed = server != self.server
        self.server = server
        return changed

    def read(self) -> Reading:
        """Return what the server has counted now."""
        with said("read the server's statistics"):
            return self._read()

    def _read(self) -> Reading:
        since, until = self._newest, self._newest_look()
        queries: dict[str, tuple[str, tuple[object, ...]]] = {
            "base": (_BASE, ()),
            "databases": (_DATABASES, ()),
            "wal": (_WAL, ()),
        }
        if self.server.schema:
            asked = {
                "flows": _FLOWS, "latencies": _LATENCIES, "cache": _CACHE, "skipped": _SKIPPED,
                "devices": _DEVICES, "benefit": _BENEFIT,
            }  # fmt: skip
            queries |= {name: (text, ()) for name, text in asked.items() if self._tells(name)}
        if "flows" not in queries and self.server.version_num >= 160_000:
            stock = _STOCK_IO_18 if self.server.version_num >= 180_000 else _STOCK_IO
            queries["stock"] = (stock, ())
        sampled = since is not None and until is not None and until > since
        if sampled:
            queries |= {"waits": (_WAITS, (since, until)), "covered": (_COVERED, (since, until))}
        elif until is None:
            queries["look"] = (_LOOK, (sorted(FOREGROUND),))
        rows = self._all(queries)
        self._newest = until
        return self._reading(rows, sampled=sampled)

    def _tells(self, name: str) -> bool:
        return _SHOWN[name] not in self.server.missing

    def _newest_look(self) -> datetime | None:
        if not self.server.sampler:
            return None
        row = self._connection.execute(self._sql(_NEWEST), prepare=True).fetchone()
        return None if row is None else row[0]

    def _all(
        self, queries: Mapping[str, tuple[str, tuple[object, ...]]]
    ) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of several queries, sent in one round trip."""
        with self._connection.pipeline():
            cursors = {
                name: self._connection.execute(self._sql(text), values or None, prepare=True)
                for name, (text, values) in queries.items()
            }
        return {name: cursor.fetchall() for name, cursor in cursors.items()}

    def _sql(self, text: str) -> sql.Composed:
        schema = sql.Identifier(self.server.schema or "pg_catalog")
        return sql.SQL(text).format(schema=schema, block=sql.SQL("op_bytes"))

    def _reading(self, rows: Mapping[str, list[tuple[Any, ...]]], *, sampled: bool) -> Reading:
        monotonic_s = time.monotonic()
        at, started_at, sessions, active = rows["base"][0]
        waits, covered_s = self._waits(rows, monotonic_s, sampled=sampled)
        self._looked_at = monotonic_s
        flows = _flows(rows)
        syncs = flows.pop("wal sync", None)
        return Reading(
            at=at,
            monotonic_s=monotonic_s,
            started_at=started_at,
            sessions=int(sessions),
            active=int(active),
            databases=_databases(rows),
            wal_bytes=int(rows["wal"][0][0] or 0) if rows["wal"] else None,
            flows=flows,
            latencies=_latencies(rows.get("latencies", [])),
            waits=waits,
            covered_s=covered_s,
            cache=_cache(rows),
            devices={str(name): str(state) for name, state in rows.get("devices", [])},
            wal_sync_ms=None if syncs is None else syncs.time_ms,
        )

    def _waits(
        self, rows: Mapping[str, list[tuple[Any, ...]]], now_s: float, *, sampled: bool
    ) -> tuple[tuple[WaitTime, ...], float]:
        """Return what sessions did, and for how many seconds that is known."""
        if sampled:
            covered = rows["covered"][0][0]
            return tuple(_waited(rows["waits"])), float(covered or 0.0)
        if "look" in rows and self._looked_at is not None:
            elapsed_s = now_s - self._looked_at
            return tuple(_looked(rows["look"], elapsed_s)), elapsed_s
        return (), 0.0


def _server(connection: Connection) -> LiveServer:
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    identifier, started_at, recovery, database, role, may = row
    if not may:
        raise SessionError(
            f'role "{role}" may not see the statistics of other sessions',
            hint=f"The role needs pg_monitor: GRANT pg_monitor TO {role};",
        )
    schema, version = find_extension(connection) or ("", "")
    unknown = _unknown(connection, schema, version) if schema else {}
    sampler = False
    if schema and _SHOWN["waits"] not in unknown:
        sampler = bool(
            connection.execute(sql.SQL(_NEWEST).format(schema=sql.Identifier(schema))).fetchone()
        )
    local = not why_not_local(connection)
    return LiveServer(
        version_num=connection.info.server_version,
        system_identifier=str(identifier),
        started_at=started_at,
        in_recovery=bool(recovery),
        database=str(database),
        role=str(role),
        extension_version=version,
        schema=schema,
        sampler=sampler,
        cores=core_count() if local else None,
        missing=dict(
            _missing(
                database=str(database),
                major=connection.info.server_version // 10_000,
                extension=bool(schema),
                sampler=sampler,
                local=local,
            ),
            **unknown,
        ),
    )


def _unknown(connection: Connection, schema: str, version: str) -> dict[str, str]:
    """Return what this version of the extension does not answer in the form we expect."""
    own = sql.Identifier(schema)
    missing = {}
    for name, texts in _ASKED.items():
        for text in texts:
            query = sql.SQL(text).format(schema=own)
            values = (None, None) if "%s" in text else ()
            try:
                require_own(connection, text)
                connection.execute(
                    sql.SQL("select from ({}) as asked limit 0").format(query), values
                )
            except psycopg.errors.InsufficientPrivilege:
                raise
            except psycopg.ProgrammingError as error:
                words = " ".join((error.diag.message_primary or str(error)).split())
                missing[_SHOWN[name]] = (
                    f"the extension pgflash {version} does not provide it in the expected form: "
                    f"{words}"
                )
    return missing


def _missing(
    *, database: str, major: int, extension: bool, sampler: bool, local: bool
) -> Iterable[tuple[str, str]]:
    """Yield what cannot be shown, and why."""
    if not extension:
        why = f'the extension pgflash is not in database "{database}"'
        yield "requests by source", f"{why}: reads from disk and page cache are not distinguished"
        yield "latency", f"{why}: requests are not timed"
        yield "flash cache", why
        if major < 16:
            yield "writes", "PostgreSQL counts them from version 16 on (pg_stat_io)"
    if not sampler:
        yield "waits", "there is no sampler: sessions are sampled once a second"
    if not local:
        yield "cores", "the server is on another machine, or in another container"


# ---- rows


def _flows(rows: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, Flow]:
    if "flows" in rows:
        return {
            str(name): Flow(calls=float(calls), bytes=float(size or 0), time_ms=float(ms or 0))
            for name, calls, size, ms in rows["flows"]
        }
    if not rows.get("stock"):
        return {}
    reads, writes, read_bytes, written = (float(one or 0) for one in rows["stock"][0])
    return {
        "disk": Flow(calls=reads, bytes=read_bytes),
        "disk writes": Flow(calls=writes, bytes=written),
    }


def _databases(rows: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, DatabaseCounts]:
    """Return what each database counts, with the requests that nothing better counts."""
    found = {}
    for oid, name, commits, rollbacks, temp_bytes, blocks, size in rows["databases"]:
        flows = {} if "flows" in rows else {"temp": Flow(bytes=temp_bytes)}
        if "flows" not in rows and "stock" not in rows:
            flows["disk"] = Flow(calls=blocks, bytes=size)
        found[oid] = DatabaseCounts(name=name, commits=commits, rollbacks=rollbacks, flows=flows)
    return found


def _latencies(rows: Iterable[tuple[Any, ...]]) -> dict[str, dict[float, float]]:
    found: dict[str, dict[float, float]] = {}
    for name, lower_us, calls in rows:
        found.setdefault(str(name), {})[float(lower_us)] = float(calls)
    return found


def _columns(query: str) -> list[str]:
    return [word.strip(" \n,") for word in query.split("select")[1].split("from")[0].split(",")]


def _cache(rows: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, float | str | None]:
    """Return the cache's row, with what it saved; nothing if no cache is set up."""
    if not rows.get("cache"):
        return {}
    columns = {"cache": _CACHE, "skipped": _SKIPPED, "benefit": _BENEFIT}
    return {
        name: value if value is None or isinstance(value, str) else float(value)
        for key, query in columns.items()
        for row in rows.get(key, [])[:1]
        for name, value in zip(_columns(query), row, strict=True)
    }


def _waited(rows: Iterable[tuple[Any, ...]]) -> Iterable[WaitTime]:
    for name, kind, event, seconds in rows:
        if WaitClass(name).counts:
            yield WaitTime(
                wait_class=str(name),
                event=f"{kind}:{event}" if kind else str(name),
                seconds=float(seconds),
            )


def _looked(rows: Iterable[tuple[Any, ...]], elapsed_s: float) -> Iterable[WaitTime]:
    """Yield our own sample: each session counts as having done the same thing the whole time."""
    for backend, kind, event, count in rows:
        found = wait_class(
            backend_type=str(backend), wait_type=str(kind or ""), event=str(event or "")
        )
        if found.counts:
            yield WaitTime(
                wait_class=str(found),
                event=f"{kind}:{event}" if kind else str(found),
                seconds=float(count) * elapsed_s,
            )
