# SPDX-License-Identifier: PostgreSQL
"""What a server reports about its flash cache: the views, in one round trip.

Views are read whole, with whatever columns they have.  A view that this version of the extension
lacks, or that the role may not read, is named in `missing`; the others are shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from pgflash.collect.names import short_name
from pgflash.model.cache_view import (
    CachePolicy,
    CacheRelation,
    CacheView,
    Cell,
    ViewRow,
    WriteBudget,
)
from pgflash.model.live import LiveServer
from pgflash.session import Connection, require_own, said

RELATIONS_MAX = 50
POLICIES_MAX = 100
BLOCK_BYTES = 8192

_NOW = "select pg_catalog.clock_timestamp()"
_BUDGET = (
    "select (setting::float8 * 1048576::float8)::bigint from pg_catalog.pg_settings "
    "where name = 'pgflash.write_budget'"
)
_CACHE = "select * from {schema}.pgflash_cache"
_DEVICES = "select * from {schema}.pgflash_cache_devices"
_ADVICE = "select * from {schema}.pgflash_cache_advice order by size_factor"
_BENEFIT = "select * from {schema}.pgflash_cache_benefit order by since desc"
_RELATIONS = """
select coalesce(relation::text, ''), fork, sum(cached_blocks)::bigint, sum(hits)::bigint,
       sum(misses)::bigint, sum(disk_read_time_ms)::float8, coalesce(min(policy), ''),
       count(*) over ()
  from {schema}.pgflash_relations
 group by 1, 2 order by 3 desc, sum(hits) + sum(misses) desc, 1, 2 limit {limit}
"""
_POLICIES = """
select coalesce(relation::text, name), policy, coalesce(set_on::text, '')
  from {schema}.pgflash_cache_policy order by 2, 1 limit {limit}
"""


def read_cache(connection: Connection, server: LiveServer) -> CacheView:
    """Return what the server reports about its flash cache."""
    with said("ask about the flash cache"):
        at = connection.execute(_NOW).fetchall()[0][0].isoformat(timespec="milliseconds")
        if not server.schema:
            why = server.missing.get("flash cache", "the extension pgflash is not in this database")
            return CacheView(at=at, present=False, missing={"flash cache": why})
        asking = _Asking(connection, server.schema)
        (row,) = asking.rows("flash cache", _CACHE) or ({},)
        benefit = tuple(asking.rows("what the cache saved", _BENEFIT))
        advice = tuple(asking.rows("miss-ratio curve", _ADVICE))
        relations = asking.tuples("relations", _RELATIONS, limit=RELATIONS_MAX)
        policies = asking.tuples("policies", _POLICIES, limit=POLICIES_MAX)
        devices = tuple(asking.rows("devices", _DEVICES))
        budget = connection.execute(_BUDGET).fetchone()
    missing = dict(asking.missing)
    if not advice:
        missing.setdefault("miss-ratio curve", "pgflash.advice is off, or pgflash not preloaded")
    if not row:
        missing.setdefault("flash cache", "pgflash is not in shared_preload_libraries")
    elif not row.get("size_bytes"):
        missing.setdefault("flash cache", str(row.get("mode_reason") or "no cache is set up"))
    return CacheView(
        at=at,
        present=bool(row.get("size_bytes")),
        missing=missing,
        mode=str(row.get("mode") or ""),
        mode_reason=str(row.get("mode_reason") or ""),
        cache=row,
        evictions=_named("eviction_", row),
        insert_skips=_named("insert_skip_", row),
        budget=_budget(row, None if budget is None else budget[0]),
        devices=devices,
        relations=tuple(_relation(one) for one in relations),
        relations_all=int(relations[0][7]) if relations else 0,
        benefit=benefit,
        advice=advice,
        present_bytes=_present(row),
        policies=tuple(
            CachePolicy(relation=short_name(name), policy=str(policy), set_on=short_name(on))
            for name, policy, on in policies
        ),
    )


class _Asking:
    """Reads views one by one, and notes those that are not available."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = sql.Identifier(schema)
        self.missing: dict[str, str] = {}

    def tuples(self, what: str, text: str, *, limit: int = 0) -> list[tuple[Any, ...]]:
        return self._execute(what, text, limit=sql.Literal(limit))[1]

    def rows(self, what: str, text: str) -> list[ViewRow]:
        names, found = self._execute(what, text)
        return [dict(zip(names, map(_cell, row), strict=True)) for row in found]

    def _execute(
        self, what: str, text: str, **parts: sql.Literal
    ) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        try:
            require_own(self._connection, text)
            query = sql.SQL(text).format(schema=self._schema, **parts)
            cursor = self._connection.execute(query)
            return [one.name for one in cursor.description or ()], cursor.fetchall()
        except (
            psycopg.ProgrammingError,  # no such view or column, no right to read it
            psycopg.errors.ObjectNotInPrerequisiteState,  # not preloaded
            psycopg.errors.QueryCanceled,  # it took too long
        ) as error:
            text = error.diag.message_primary or str(error)
            self.missing[what] = " ".join(text.split())
            return (), []


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [float(one) for one in value]
    try:
        return float(value)  # type: ignore[arg-type]  # Decimal
    except (TypeError, ValueError):
        return str(value)


def _named(prefix: str, row: ViewRow) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, value in row.items()
        if name.startswith(prefix) and isinstance(value, int | float)
    }


def _budget(row: ViewRow, day_bytes: object) -> WriteBudget | None:
    left, written = row.get("write_budget_left_bytes"), row.get("flash_write_bytes_day")
    if not isinstance(day_bytes, int) or not isinstance(left, int | float) or not day_bytes:
        return None
    return WriteBudget(
        day_bytes=day_bytes,
        left_bytes=int(left),
        written_day_bytes=int(written) if isinstance(written, int | float) else 0,
    )


def _present(row: Mapping[str, Cell]) -> float | None:
    """Return the size of the cache, or None without one."""
    size = row.get("size_bytes")
    return float(size) if isinstance(size, int | float) and size > 0 else None


def _relation(row: tuple[Any, ...]) -> CacheRelation:
    name, fork, blocks, hits, misses, time_ms, policy, _all = row
    asked = int(hits or 0) + int(misses or 0)
    return CacheRelation(
        relation=short_name(name),
        fork=str(fork),
        cached_bytes=int(blocks or 0) * BLOCK_BYTES,
        hits=int(hits or 0),
        misses=int(misses or 0),
        hit_ratio=int(hits or 0) / asked if asked else None,
        disk_read_time_ms=float(time_ms or 0.0),
        policy=str(policy),
    )
