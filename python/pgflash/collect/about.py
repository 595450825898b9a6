# SPDX-License-Identifier: PostgreSQL
"""The present facts about a statement, a session, a wait event or a relation.

No text of a statement is planned or executed here: what a tenant has written is only read and
shown.  Decision 55 says why there are no plans.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from pgflash.collect.statement_reads import read_statement_reads
from pgflash.collect.time_range import LOCAL
from pgflash.model.live import About, Focus, LiveServer
from pgflash.model.moments import print_moment
from pgflash.model.words import count, duration, figure, percent, size
from pgflash.session import Connection, find_statements, said

TEXT_MAX = 100_000
LOCKS_MAX = 10

_STATEMENT = """
select sum(calls)::float8, sum(total_exec_time)::float8, sum(rows)::float8,
       sum(shared_blks_hit)::float8, sum(shared_blks_read)::float8,
       sum(temp_blks_read + temp_blks_written)::float8, sum(wal_bytes)::float8,
       pg_catalog.left((pg_catalog.array_agg(query))[1], {length})
  from {schema}.pg_stat_statements({texts}) where queryid = %s::bigint
"""
_KEPT_TEXT = """
select pg_catalog.left(query, {length}) from {schema}.pgflash_snapshot_queries
 where query_id = %s::bigint
"""
_SESSION = """
select usename::text, datname::text, application_name,
       coalesce(pg_catalog.host(client_addr), {local}), backend_type, backend_start, xact_start,
       query_start, state, wait_event_type || ':'::text || wait_event, query_id,
       query, pg_catalog.clock_timestamp()
  from pg_catalog.pg_stat_activity where pid = %s::int4
"""
_CLASS = """
select wait_class from {schema}.pgflash_wait_events
 where wait_event_type || ':'::text || wait_event = %s::text
"""
_MEANING = """
select description from pg_catalog.pg_wait_events where type || ':'::text || name = %s::text
"""
_RELATION = """
select c.oid, c.relkind::text,
       c.relpages::float8 * pg_catalog.current_setting('block_size')::float8, c.reltuples::float8,
       t.seq_scan::float8, t.idx_scan::float8, t.n_dead_tup::float8,
       coalesce(t.last_vacuum, t.last_autovacuum)
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       left join pg_catalog.pg_stat_all_tables t on t.relid = c.oid,
       pg_catalog.parse_ident(%s::text) as words
 where c.relname = words[pg_catalog.cardinality(words)]::name
   and case pg_catalog.cardinality(words) when 2 then n.nspname = words[1]::name
            when 1 then n.nspname in ('pg_catalog'::name, 'public'::name) end
 order by n.nspname limit 1
"""
_CACHED = """
select sum(cached_blocks)::float8, sum(hits)::float8, sum(misses)::float8, min(policy)
  from {schema}.pgflash_relations where relation::oid = %s::oid
"""
_LOCKS = """
select l.pid, l.mode, l.granted from pg_catalog.pg_locks l
 where l.locktype = 'relation' and l.relation = %s::oid and l.pid <> pg_catalog.pg_backend_pid()
   and l.database = (select oid from pg_catalog.pg_database
                      where datname = pg_catalog.current_database())
 order by l.granted, l.pid limit {limit}
"""
_KINDS = {
    "r": "table", "i": "index", "t": "TOAST table", "m": "materialized view", "S": "sequence",
    "p": "partitioned table", "I": "partitioned index",
}  # fmt: skip

#: Why there are no counts: the library is not loaded, or its extension is in a schema that the
#: role may not use.
_NO_COUNTS = (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InsufficientPrivilege)

Facts = list[tuple[str, str]]


def read_about(connection: Connection, server: LiveServer, focus: Focus) -> About:
    """Return what the server tells about a focus."""
    with said("ask about it"):
        reader = _Reader(connection, server)
        if focus.query:
            return reader.statement(int(focus.query))
        if focus.session:
            return reader.session(int(focus.session))
        if focus.relation:
            return reader.relation(focus.relation)
        if focus.wait:
            return reader.wait(focus.wait)
        return About()


class _Reader:
    """Asks one server."""

    def __init__(self, connection: Connection, server: LiveServer) -> None:
        self._connection = connection
        self._server = server

    def _one(self, text: str, *values: object, **parts: sql.Composable) -> tuple[Any, ...] | None:
        parts.setdefault("schema", sql.Identifier(self._server.schema))
        return self._connection.execute(sql.SQL(text).format(**parts), values).fetchone()

    def statement(self, number: int) -> About:
        """Return a statement's text, what it has cost, and where its blocks came from."""
        found = self._counts(number)
        reads = read_statement_reads(self._connection, self._server, [number]).get(str(number))
        if reads is None:
            return found
        return replace(
            found,
            facts=(*found.facts, *reads.facts()),
            note=f"{found.note} {reads.note()}",
        )

    def _counts(self, number: int) -> About:
        """Return what pg_stat_statements tells of a statement, or why it tells nothing."""
        schema, why_not = find_statements(self._connection)
        if why_not:
            return About(text=self._kept_text(number), note=f"No counts: {why_not}.")
        parts = {"schema": sql.Identifier(schema), "length": sql.Literal(TEXT_MAX)}
        try:
            try:
                row = self._one(_STATEMENT, number, texts=sql.SQL("true"), **parts)
            except psycopg.DataError:  # a text of any statement has bytes that are wrong here
                row = self._one(_STATEMENT, number, texts=sql.SQL("false"), **parts)
        except _NO_COUNTS as error:
            return About(text=self._kept_text(number), note=f"{error.diag.message_primary}.")
        if row is None or row[0] is None:
            return About(
                text=self._kept_text(number), note="pg_stat_statements no longer contains it."
            )
        calls, time_ms, rows, hits, reads, temp, wal, text = row
        facts = [
            ("Calls", count(calls)),
            ("Mean time", duration(time_ms / calls / 1000 if calls else None)),
            ("Total time", duration(time_ms / 1000)),
            ("Rows a call", figure(rows / calls if calls else None)),
            (
                "Blocks found in shared_buffers",
                percent(hits / (hits + reads) if hits + reads else None),
            ),
            ("Blocks read", count(reads)),
            ("Temporary blocks", count(temp)),
            ("WAL", size(wal)),
        ]
        return About(
            text=str(text or "") or self._kept_text(number),
            facts=tuple(facts),
            note="Counts since pg_stat_statements was reset.",
        )

    def _kept_text(self, number: int) -> str:
        if not self._server.schema:
            return ""
        row = self._one(_KEPT_TEXT, number, length=sql.Literal(TEXT_MAX))
        return str(row[0]) if row else ""

    def session(self, pid: int) -> About:
        """Return a session's properties and what it does."""
        row = self._one(_SESSION, pid, local=sql.Literal(LOCAL))
        if row is None:
            return About(note="The session has ended.")
        (
            user,
            database,
            application,
            client,
            kind,
            began,
            xact,
            query,
            state,
            wait,
            number,
            text,
            now,
        ) = row

        def ago(moment: datetime | None) -> str:
            return "" if moment is None else f"{duration((now - moment).total_seconds())} ago"

        facts = [
            ("User and database", f"{user or '?'} in {database or '?'}"),
            ("Application", application),
            ("Client", client),
            ("Type", kind),
            ("Connected", ago(began)),
            ("Transaction began", ago(xact)),
            ("Statement began", ago(query)),
            ("State", state),
            ("Waits for", wait),
            ("Identifier of its statement", "" if number is None else str(number)),
        ]
        return About(
            text=str(text or "")[:TEXT_MAX], facts=tuple((n, str(w)) for n, w in facts if w)
        )

    def wait(self, name: str) -> About:
        """Return what a wait event means."""
        facts: Facts = []
        if self._server.schema and (row := self._one(_CLASS, name)):
            facts.append(("Wait class", str(row[0])))
        if self._server.version_num >= 170_000 and (row := self._one(_MEANING, name)):
            facts.append(("Meaning", str(row[0])))
        return About(facts=tuple(facts))

    def relation(self, name: str) -> About:
        """Return a relation's properties, its cached blocks, and the sessions that lock it."""
        try:
            row = self._one(_RELATION, name)
        except psycopg.DataError:  # no name at all: its quotes do not end, for example
            row = None
        if row is None:
            return About(note=f"No relation of this name is in database {self._server.database}.")
        oid, kind, size_bytes, tuples, scans, index_scans, dead, vacuumed = row
        facts = [
            ("Kind", _KINDS.get(kind, kind)),
            ("Size at its last VACUUM", size(size_bytes)),
            ("Rows", count(max(tuples, 0.0))),
        ]
        if scans is not None:
            facts += [
                ("Sequential scans", count(scans)),
                ("Index scans", count(index_scans or 0.0)),
                ("Dead rows", count(dead)),
                ("Last vacuumed", _moment(vacuumed)),
            ]
        return About(facts=(*facts, *self._cached(oid), *self._locks(oid)))

    def _cached(self, oid: int) -> Facts:
        if not self._server.schema:
            return []
        row = self._one(_CACHED, oid)
        if row is None or row[0] is None:
            return []
        blocks, hits, misses, policy = row
        return [
            ("In the flash cache", size(blocks * 8192)),
            ("Hit ratio", percent(hits / (hits + misses) if hits + misses else None)),
            ("Cache policy", policy or "default"),
        ]

    def _locks(self, oid: int) -> Facts:
        query = sql.SQL(_LOCKS).format(limit=sql.Literal(LOCKS_MAX))
        rows = self._connection.execute(query, (oid,)).fetchall()
        words = [f"{pid} {'has' if granted else 'waits for'} {mode}" for pid, mode, granted in rows]
        return [("Locks", "; ".join(words))] if words else []


def _moment(moment: datetime | None) -> str:
    if moment is None:
        return "never"
    return print_moment(moment, moment.tzinfo or UTC)
