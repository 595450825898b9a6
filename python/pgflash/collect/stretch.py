# SPDX-License-Identifier: PostgreSQL
"""What sessions did in a stretch of time: top waits, statements, sessions.

The source is the sampler's memory, which holds some minutes, so a stretch has to be read soon or
not at all. Texts of statements come from pg_stat_statements, as far as this session's role may see
them.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from psycopg import sql

from pgflash.model.live import LiveServer, Stretch, StretchRow
from pgflash.model.waits import WaitClass
from pgflash.session import Connection, said

ROWS_MAX = 10
TEXT_MAX = 500

_SUMMARY = """
select wait_class, wait_event_type, wait_event, query_id, sum(seconds)::float8
  from {schema}.pgflash_sample_summary(%s::timestamptz, %s::timestamptz)
 where wait_class = any(%s)
 group by 1, 2, 3, 4
"""
_SESSIONS = """
with each as (
    select coalesce(leader_pid, pid) as pid, wait_class, min(user_oid) as user_oid,
           min(database_oid) as database_oid, sum(seconds)::float8 as seconds
      from {schema}.pgflash_active_sessions_rows(%s::timestamptz, %s::timestamptz)
     where wait_class = any(%s)
     group by 1, 2),
top as (select pid from each group by pid order by sum(seconds) desc limit %s)
select e.pid, e.wait_class, u.rolname, d.datname, e.seconds
  from each e join top t on t.pid = e.pid
  left join pg_catalog.pg_roles u on u.oid = e.user_oid
  left join pg_catalog.pg_database d on d.oid = e.database_oid
"""
_OLDEST = "select oldest_at from {schema}.pgflash_sampler_row()"
_STATEMENTS = """
select pg_catalog.quote_ident(n.nspname)
  from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
 where e.extname = 'pg_stat_statements'
"""
_TEXTS = """
select distinct on (queryid) queryid, pg_catalog.left(query, %s)
  from {schema}.pg_stat_statements(true)
 where queryid = any(%s)
"""

COUNTED = [str(one) for one in WaitClass if one.counts]


def read_stretch(
    connection: Connection, server: LiveServer, *, begin: datetime, end: datetime
) -> Stretch:
    """Return what sessions did from BEGIN to just before END."""
    if not server.sampler:
        why = "no sampler remembers what sessions did: it comes with the extension pgflash"
        return _stretch(begin, end, None, {}, missing={"waits, statements, sessions": why})
    with said("ask what sessions did"):
        schema = sql.SQL(server.schema)

        def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
            return connection.execute(
                sql.SQL(text).format(schema=schema), values or None
            ).fetchall()

        summary = ask(_SUMMARY, begin, end, COUNTED)
        sessions = ask(_SESSIONS, begin, end, COUNTED, ROWS_MAX)
        oldest = ask(_OLDEST)[0][0]
        texts, missing = _texts(connection, [row[3] for row in summary if row[3] is not None])
    waits: Spent = {}
    statements: Spent = {}
    for wait_class, kind, event, query, seconds in summary:
        add_spent(waits, f"{kind}:{event}" if kind else str(wait_class), wait_class, seconds)
        name = "without an identifier" if query is None else str(query)
        add_spent(statements, name, wait_class, seconds)
    by_session: Spent = {}
    owners = {}
    for pid, wait_class, role, database, seconds in sessions:
        add_spent(by_session, str(pid), wait_class, seconds)
        owners[str(pid)] = f"{role or '?'} in {database or '?'}"
    total = sum(seconds for *_rest, seconds in summary)
    return _stretch(
        begin,
        end,
        oldest,
        {
            "waits": top_spent(waits, total, {}),
            "statements": top_spent(statements, total, texts),
            "sessions": top_spent(by_session, total, owners),
        },
        seconds=total,
        missing=missing,
    )


#: Seconds by name and wait class.
Spent = dict[str, dict[str, float]]


def add_spent(spent: Spent, name: str, wait_class: str, seconds: float) -> None:
    """Add time spent on something in a wait class."""
    classes = spent.setdefault(name, {})
    classes[wait_class] = classes.get(wait_class, 0.0) + float(seconds)


def top_spent(spent: Spent, total: float, details: Mapping[str, str]) -> tuple[StretchRow, ...]:
    """Return the things on which most time was spent."""
    ranked = sorted(spent.items(), key=lambda one: -sum(one[1].values()))[:ROWS_MAX]
    return tuple(
        StretchRow(
            name=name,
            detail=details.get(name, ""),
            wait_class=max(classes, key=lambda one: classes[one]),
            seconds=sum(classes.values()),
            share=sum(classes.values()) / total if total > 0 else 0.0,
        )
        for name, classes in ranked
    )


def _stretch(
    begin: datetime,
    end: datetime,
    oldest: datetime | None,
    rows: Mapping[str, tuple[StretchRow, ...]],
    *,
    seconds: float = 0.0,
    missing: Mapping[str, str],
) -> Stretch:
    return Stretch(
        begin=begin.isoformat(),
        end=end.isoformat(),
        remembered_from=oldest.isoformat() if oldest is not None else "",
        seconds=seconds,
        missing=missing,
        waits=rows.get("waits", ()),
        statements=rows.get("statements", ()),
        sessions=rows.get("sessions", ()),
    )


def _texts(connection: Connection, ids: Iterable[int]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the statements' texts by identifier and, if there are none, why."""
    found = connection.execute(_STATEMENTS).fetchone()
    if found is None:
        database = connection.info.dbname
        why = f'the extension pg_stat_statements is not in database "{database}"'
        return {}, {"texts of statements": why}
    query = sql.SQL(_TEXTS).format(schema=sql.SQL(found[0]))
    rows = connection.execute(query, (TEXT_MAX, sorted(set(ids)))).fetchall()
    return {str(number): str(text) for number, text in rows if text is not None}, {}
