# SPDX-License-Identifier: PostgreSQL
"""A time range that the sampler no longer remembers, from the snapshots.

Snapshots keep what sessions did by the minute, and the requests to relations from snapshot to
snapshot.  A range gets a part of each minute and of each interval in proportion to the time that
they share.  Sessions, applications and clients are not kept, and of statements only those that were
seen most.  Where the blocks of these came from is kept from snapshot to snapshot, too.
"""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from pgflash.collect.statement_reads import StatementReads, in_words, reads_of_range
from pgflash.collect.time_range import (
    COUNTED,
    TEXT_MAX,
    UNNAMED,
    BySpan,
    Spent,
    add_spent,
    span_of,
    spans_of,
    tells_reads,
    top_spent,
    values_of,
)
from pgflash.model.live import FileCount, Focus, LiveServer, TimeRange
from pgflash.model.waits import FOREGROUND
from pgflash.session import Connection, said

_MINUTE = timedelta(minutes=1)

_KNOWN = """
select min(p.taken_at), max(s.taken_at)
  from {schema}.pgflash_snapshots s join {schema}.pgflash_snapshots p
    on p.snapshot_id = s.previous_id
 where s.taken_at > %(begin)s and p.taken_at < %(end)s
"""

#: The rows of a section in the range, each with its interval.
_ROWS = """
with rows as (
    select p.taken_at as began, s.taken_at as ended, l.line,
           array(select pg_catalog.jsonb_array_elements_text(c.content -> 'columns'::text)) as names
      from {schema}.pgflash_snapshots s
      join {schema}.pgflash_snapshots p on p.snapshot_id = s.previous_id
      join {schema}.pgflash_snapshot_sections c on c.snapshot_id = s.snapshot_id
     cross join lateral pg_catalog.jsonb_array_elements(c.content -> 'rows'::text) as l (line)
     where s.taken_at > %(begin)s and p.taken_at < %(end)s and c.section = {section})
"""
_WAITS = (
    _ROWS
    + """,
minutes as (
    select (line ->> pg_catalog.array_position(names, 'bucket') - 1)::timestamptz as minute,
           line ->> pg_catalog.array_position(names, 'backend_type') - 1 as backend,
           line ->> pg_catalog.array_position(names, 'wait_class') - 1 as class,
           line ->> pg_catalog.array_position(names, 'wait_event_type') - 1 as kind,
           line ->> pg_catalog.array_position(names, 'wait_event') - 1 as event,
           line ->> pg_catalog.array_position(names, 'query_id') - 1 as query,
           line ->> pg_catalog.array_position(names, 'user_oid') - 1 as user_oid,
           line ->> pg_catalog.array_position(names, 'database_oid') - 1 as database_oid,
           (line ->> pg_catalog.array_position(names, 'seconds') - 1)::float8 as seconds
      from rows)
select class, kind, event, query,
       case when %(spans)s
            then pg_catalog.date_bin(%(span)s, greatest(minute, %(begin)s), %(begin)s) end,
       sum(seconds * extract(epoch from least(minute + interval '1 min', %(end)s)
                                        - greatest(minute, %(begin)s))::float8 / 60::float8)
  from minutes
 where backend = any(%(foreground)s) and class = any(%(counted)s)
   and minute < %(end)s and minute > %(begin)s - interval '1 min'
   and (%(query)s::bigint is null or query = %(query)s::bigint::text)
   and (%(wait)s::text = ''::text or %(wait)s::text in (class, kind || ':'::text || event))
   and (%(user)s::text = ''::text
        or user_oid = (select oid::text from pg_catalog.pg_roles
                        where rolname::text = %(user)s::text))
   and (%(database)s::text = ''::text
        or database_oid = (select oid::text from pg_catalog.pg_database
                            where datname::text = %(database)s::text))
 group by 1, 2, 3, 4, 5
"""
)
_FILES = (
    _ROWS
    + """,
counted as (
    select extract(epoch from least(ended, %(end)s) - greatest(began, %(begin)s))::float8
             / extract(epoch from ended - began)::float8 as share,
           line ->> pg_catalog.array_position(names, 'database') - 1 as database,
           line ->> pg_catalog.array_position(names, 'schema') - 1 as schema,
           line ->> pg_catalog.array_position(names, 'relation') - 1 as relation,
           {numbers}
      from rows
     where pg_catalog.array_position(names, 'read_time_ms') is not null)
select coalesce(relation, ''), coalesce(schema, ''), coalesce(database, ''),
       sum(share * reads), sum(share * flash_reads), sum(share * read_bytes),
       sum(share * read_time_ms), sum(share * (writes + extends)),
       sum(share * (write_bytes + extend_bytes)), sum(share * (write_time_ms + extend_time_ms))
  from counted group by 1, 2, 3
"""
)
_READS = (
    _ROWS
    + """,
counted as (
    select extract(epoch from least(ended, %(end)s) - greatest(began, %(begin)s))::float8
             / extract(epoch from ended - began)::float8 as share,
           line ->> pg_catalog.array_position(names, 'query_id') - 1 as query,
           {read_numbers}
      from rows)
select query, sum(share * page_cache_read_blocks), sum(share * page_cache_read_time_ms),
       sum(share * flash_read_blocks), sum(share * flash_read_time_ms),
       sum(share * disk_read_blocks), sum(share * disk_read_time_ms)
  from counted where query::bigint = any(%(ids)s::bigint[]) group by query
"""
)
_READ_NUMBERS = tuple(
    f"{source}_{what}"
    for source in ("page_cache", "flash", "disk")
    for what in ("read_blocks", "read_time_ms")
)
_NUMBERS = (
    *("reads", "flash_reads", "read_bytes", "read_time_ms", "writes", "extends"),
    *("write_bytes", "extend_bytes", "write_time_ms", "extend_time_ms"),
)
_TEXTS = """
select query_id, pg_catalog.left(query, {text_max}) from {schema}.pgflash_snapshot_queries
 where query_id = any(%(ids)s::bigint[])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRange:
    """What the snapshots show of a range."""

    time_range: TimeRange
    #: For how many of its seconds there are snapshots.
    known_s: float
    #: The requests to relations, by the relations' names.
    files: Mapping[str, FileCount]


def read_old_range(
    connection: Connection,
    server: LiveServer,
    *,
    begin: datetime,
    end: datetime,
    focus: Focus | None = None,
) -> OldRange | None:
    """Return what the snapshots around a range show of it; None if there are none."""
    focus = focus or Focus()
    if not server.schema or focus.session or focus.application or focus.client:
        return None
    span = max(span_of(begin, end), _MINUTE)
    values = {
        **values_of(focus),
        "begin": begin,
        "end": end,
        "span": span,
        "foreground": sorted(FOREGROUND),
        "counted": COUNTED,
    }

    def ask(text: str, section: str = "") -> list[tuple[Any, ...]]:
        return connection.execute(_query(server.schema, text, section), values).fetchall()

    with said("read the snapshots"):
        ((first, last),) = ask(_KNOWN)
        if first is None or last <= first:
            return None
        missing = {
            "sessions": "the sampler no longer remembers them, and snapshots do not contain them"
        }
        try:
            waits, files = ask(_WAITS, "samples"), ask(_FILES, "relations")
        except psycopg.errors.QueryCanceled:
            why = "adding them up takes too long: select a shorter range"
            waits, files, missing = [], [], {"waits, statements, segments": why}
        found = _spent(waits)
        values["ids"] = [int(name) for name in found.statements if name.lstrip("-").isdigit()]
        texts = {str(query): text for query, text in ask(_TEXTS)}
        reads: dict[str, StatementReads] = {}
        if tells_reads(focus):
            with contextlib.suppress(psycopg.errors.QueryCanceled):
                reads = reads_of_range(ask(_READS, "statement_reads"))
    total = sum(float(row[5]) for row in waits)
    by_span: BySpan = {}
    for wait_class, *_what, at, seconds in waits:
        if at is not None:
            add_spent(by_span, at, wait_class, seconds)
    aas = spans_of(by_span, begin, end, span, lambda a, b: first <= a and b <= last)
    return OldRange(
        known_s=(min(end, last) - max(begin, first)).total_seconds(),
        time_range=TimeRange(
            begin=begin.isoformat(),
            end=end.isoformat(),
            remembered_from=first.isoformat(),
            seconds=total,
            source="snapshots",
            waits=top_spent(found.waits, total, {}),
            statements=top_spent(found.statements, total, texts, in_words(reads)),
            spans=() if focus.is_all else tuple(aas),
            missing=missing,
        ),
        files=_files(files, server.database),
    )


def _query(schema: str, text: str, section: str) -> sql.Composed:
    return sql.SQL(text).format(
        schema=sql.Identifier(schema),
        section=sql.Literal(section),
        text_max=sql.Literal(TEXT_MAX),
        numbers=sql.SQL(_numbers(_NUMBERS)),
        read_numbers=sql.SQL(_numbers(_READ_NUMBERS)),
    )


def _numbers(names: Iterable[str]) -> str:
    return ", ".join(
        f"coalesce((line ->> pg_catalog.array_position(names, '{name}') - 1)::float8, 0) as {name}"
        for name in names
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    waits: Spent
    statements: Spent


def _spent(rows: list[tuple[Any, ...]]) -> _Found:
    found = _Found(waits={}, statements={})
    for wait_class, kind, event, query, _span, seconds in rows:
        name = f"{kind}:{event}" if kind else str(wait_class)
        add_spent(found.waits, name, wait_class, seconds)
        statement = UNNAMED if query is None else str(query)
        add_spent(found.statements, statement, wait_class, seconds)
    return found


def _files(rows: list[tuple[Any, ...]], database: str) -> dict[str, FileCount]:
    found = {}
    for relation, schema, of, *counted in rows:
        reads, flash_reads, read_bytes, read_ms, writes, write_bytes, write_ms = counted
        found[_name(relation, schema, of, database)] = FileCount(
            reads=reads,
            flash_reads=flash_reads,
            read_bytes=read_bytes,
            read_ms=read_ms,
            writes=writes,
            write_bytes=write_bytes,
            write_ms=write_ms,
        )
    return found


def _name(relation: str, schema: str, of: str, database: str) -> str:
    """Return a relation's name as this database's sessions write it, or with its database."""
    if not schema:
        return "all others together" if relation == "other" else relation or "without a name"
    name = relation if schema in ("public", "pg_catalog") else f"{schema}.{relation}"
    return name if of in ("", database) else f"{name} of database {of}"
