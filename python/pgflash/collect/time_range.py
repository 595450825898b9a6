# SPDX-License-Identifier: PostgreSQL
"""What sessions did in a time range: top waits, statements, sessions; all, or those in focus.

The source is the sampler's memory, which holds some minutes, so a range has to be read soon or
not at all.  Its rows are added up in one pass, which also chooses what is in focus and adds it up
by time.  Texts of statements come from pg_stat_statements, as far as this session's role may see
them.  Application and client come from pg_stat_activity: they are known of sessions that are still
connected.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from pgflash.collect.statement_reads import in_words, read_statement_reads
from pgflash.model.live import Focus, LiveServer, Span, TimeRange, TimeRangeRow
from pgflash.model.waits import WaitClass
from pgflash.session import Connection, find_statements, said

ROWS_MAX = 10
TEXT_MAX = 500
#: Into how many parts a range is divided for a chart, and how short one may be.
SPANS = 60
SPAN_MIN_S = 1.0
#: How many applications, clients, users and databases there are to choose from.
NAMES_MAX = 20

#: A client on the server's own machine, which has no address.
LOCAL = "local"

_ACTIVITY = """
with spent as materialized (
    select case when %(spans)s
                then pg_catalog.date_bin(%(span)s, sampled_at, %(begin)s) end as span, wait_class,
           case when wait_event_type is null then wait_class
                else wait_event_type || ':'::text || wait_event end as event,
           query_id, coalesce(leader_pid, pid) as session, user_oid, database_oid,
           min(sampled_at) as since, sum(seconds)::float8 as seconds
      from {schema}.pgflash_active_sessions_rows(%(begin)s::timestamptz, %(end)s::timestamptz)
     where wait_class = any(%(counted)s)
       and (%(query)s::bigint is null or query_id = %(query)s::bigint)
       and (%(session)s::int4 is null or coalesce(leader_pid, pid) = %(session)s::int4)
     group by 1, 2, 3, 4, 5, 6, 7),
named as (
    select s.span, s.wait_class, s.event, s.query_id, s.session, s.seconds,
           coalesce(u.rolname::text, '?'::text) as user_name,
           coalesce(d.datname::text, '?'::text) as database,
           a.application_name as application,
           case when a.pid is not null
                then coalesce(pg_catalog.host(a.client_addr), {local}::text) end as client
      from spent s
      left join pg_catalog.pg_roles u on u.oid = s.user_oid
      left join pg_catalog.pg_database d on d.oid = s.database_oid
      left join pg_catalog.pg_stat_activity a on a.pid = s.session and a.backend_start <= s.since),
chosen as (
    select * from named
     where (%(wait)s::text = ''::text or %(wait)s::text in (event, wait_class))
       and (%(user)s::text = ''::text or user_name = %(user)s::text)
       and (%(database)s::text = ''::text or database = %(database)s::text)
       and (%(application)s::text = ''::text or application = %(application)s::text)
       and (%(client)s::text = ''::text or client = %(client)s::text))
select case when grouping(span) = 0 then 'span' when grouping(event) = 0 then 'wait'
            when grouping(query_id) = 0 then 'statement' when grouping(session) = 0 then 'session'
            when grouping(user_name) = 0 then 'user' when grouping(database) = 0 then 'database'
            when grouping(application) = 0 then 'application' else 'client' end,
       span, wait_class, event, query_id, session, user_name, database, application, client,
       sum(seconds)
  from chosen
 group by grouping sets ((span, wait_class), (event, wait_class), (query_id, wait_class),
                         (session, wait_class, user_name, database, application, client),
                         (user_name), (database), (application), (client))
"""
_MINUTES = """
select bucket from {schema}.pgflash_sample_minutes(%s::timestamptz, %s::timestamptz)
"""
_OLDEST = "select oldest_at from {schema}.pgflash_sampler_row()"
_TEXTS = """
select distinct on (queryid) queryid, pg_catalog.left(query, %s)
  from {schema}.pg_stat_statements(true)
 where queryid = any(%s)
"""

#: pg_stat_statements was not preloaded, is in a schema that the role may not use, or has a text
#: with bytes that are wrong here.
_TEXTS_FAIL = (
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.InsufficientPrivilege,
    psycopg.DataError,
)

COUNTED = [str(one) for one in WaitClass if one.counts]
#: What a page can be about that can be chosen from a list.
NAMED = ("user", "database", "application", "client")

Records = dict[str, list[dict[str, Any]]]


def read_range(
    connection: Connection,
    server: LiveServer,
    *,
    begin: datetime,
    end: datetime,
    focus: Focus | None = None,
) -> TimeRange:
    """Return what sessions did from BEGIN to just before END, as far as it is in focus."""
    focus = focus or Focus()
    nothing = TimeRange(
        begin=begin.isoformat(), end=end.isoformat(), remembered_from="", seconds=0.0
    )
    if not server.sampler:
        why = "there is no history of sessions: it needs the sampler of the extension pgflash"
        return replace(nothing, missing={"waits, statements, sessions": why})
    span = span_of(begin, end)
    values = {**values_of(focus), "begin": begin, "end": end, "span": span, "counted": COUNTED}
    schema = sql.Identifier(server.schema)
    activity = sql.SQL(_ACTIVITY).format(schema=schema, local=sql.Literal(LOCAL))
    with said("ask what sessions did"):
        rows = _recorded(connection.execute(activity, values).fetchall())
        ((oldest,),) = connection.execute(sql.SQL(_OLDEST).format(schema=schema)).fetchall()
        asked = connection.execute(sql.SQL(_MINUTES).format(schema=schema), (begin, end))
        looked = {row[0] for row in asked.fetchall()}
        ids = [one["query_id"] for one in rows["statement"] if one["query_id"] is not None]
        texts, missing = _texts(connection, ids)
        reads = read_statement_reads(connection, server, ids) if tells_reads(focus) else {}
    total = sum(one["seconds"] for one in rows["wait"])
    statements = _spent(rows["statement"], "query_id", otherwise=UNNAMED)

    def known(first: datetime, last: datetime) -> bool:
        """Tell whether the sampler looked in the minutes of a span."""
        minutes = {one.astimezone(UTC).replace(second=0, microsecond=0) for one in (first, last)}
        return any(one in minutes or first <= one < last for one in looked)

    aas = spans_of(_by_span(rows["span"]), begin, end, span, known)
    return replace(
        nothing,
        remembered_from=oldest.isoformat() if oldest is not None else "",
        seconds=total,
        waits=top_spent(_spent(rows["wait"], "event"), total, {}),
        statements=top_spent(statements, total, texts, in_words(reads)),
        sessions=top_spent(_spent(rows["session"], "session"), total, _owners(rows["session"])),
        spans=() if focus.is_all else tuple(aas),
        names={name: _names(rows[name], name) for name in NAMED},
        missing=missing,
    )


def tells_reads(focus: Focus) -> bool:
    """Tell whether what all users' statements read is about the focus."""
    return replace(focus, query="", wait="").is_all


def values_of(focus: Focus) -> dict[str, object]:
    """Return a focus as the values of a query."""
    return {
        "spans": not focus.is_all,
        "query": int(focus.query) if focus.query else None,
        "session": int(focus.session) if focus.session else None,
        **{name: getattr(focus, name) for name in ("wait", *NAMED)},
    }


_COLUMNS = ("span", "wait_class", "event", "query_id", "session", *NAMED, "seconds")


def _recorded(rows: Iterable[tuple[Any, ...]]) -> Records:
    """Return the rows by what they are about."""
    found: Records = {kind: [] for kind in ("span", "wait", "statement", "session", *NAMED)}
    for kind, *values in rows:
        found[kind].append(dict(zip(_COLUMNS, values, strict=True)))
    return found


#: Seconds by name and wait class.
Spent = dict[str, dict[str, float]]
_Name = TypeVar("_Name", str, datetime)

#: The name of all statements that have none.
UNNAMED = "without an identifier"


def add_spent(
    spent: dict[_Name, dict[str, float]], name: _Name, wait_class: str, seconds: float
) -> None:
    """Add time spent on something in a wait class."""
    classes = spent.setdefault(name, {})
    classes[wait_class] = classes.get(wait_class, 0.0) + float(seconds)


def _spent(rows: Iterable[Mapping[str, Any]], column: str, *, otherwise: str = "") -> Spent:
    found: Spent = {}
    for one in rows:
        name = otherwise if one[column] is None else str(one[column])
        add_spent(found, name, one["wait_class"], one["seconds"])
    return found


def _owners(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return whose each session is, and from where."""
    found = {}
    for one in rows:
        client = "" if one["client"] in (None, LOCAL) else f"from {one['client']}"
        owner = f"{one['user']} in {one['database']}"
        found[str(one["session"])] = ", ".join(filter(None, (owner, one["application"], client)))
    return found


def _names(rows: Iterable[Mapping[str, Any]], column: str) -> tuple[str, ...]:
    """Return the names in which most time was spent."""
    ranked = sorted(rows, key=lambda one: -one["seconds"])
    return tuple(one[column] for one in ranked if one[column])[:NAMES_MAX]


def top_spent(
    spent: Spent, total: float, details: Mapping[str, str], reads: Mapping[str, str] | None = None
) -> tuple[TimeRangeRow, ...]:
    """Return the things on which most time was spent."""
    ranked = sorted(spent.items(), key=lambda one: -sum(one[1].values()))[:ROWS_MAX]
    return tuple(
        TimeRangeRow(
            name=name,
            detail=details.get(name, ""),
            wait_class=max(classes, key=lambda one: classes[one]),
            seconds=sum(classes.values()),
            share=sum(classes.values()) / total if total > 0 else 0.0,
            reads=(reads or {}).get(name, ""),
        )
        for name, classes in ranked
    )


# ---- over time

#: Seconds by wait class, by the beginning of the span.
BySpan = dict[datetime, dict[str, float]]


def span_of(begin: datetime, end: datetime) -> timedelta:
    """Return into how long spans a range is divided."""
    seconds = (end - begin).total_seconds() / SPANS
    return timedelta(seconds=max(seconds, SPAN_MIN_S))


def _by_span(rows: Iterable[Mapping[str, Any]]) -> BySpan:
    found: BySpan = {}
    for one in rows:
        if one["span"] is not None:
            found.setdefault(one["span"], {})[one["wait_class"]] = one["seconds"]
    return found


def spans_of(
    spent: BySpan,
    begin: datetime,
    end: datetime,
    span: timedelta,
    known: Callable[[datetime, datetime], bool],
) -> Iterator[Span]:
    """Yield the spans of which something is known, each with its average sessions."""
    first = begin
    while first < end:
        last = min(first + span, end)
        if known(first, last):
            seconds = (last - first).total_seconds()
            classes = spent.get(first, {})
            yield Span(
                at=last.isoformat(),
                elapsed_s=seconds,
                aas={name: spent_s / seconds for name, spent_s in classes.items()},
            )
        first += span


def _texts(connection: Connection, ids: Iterable[int]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the statements' texts by identifier and, if there are none, why."""
    schema, why_not = find_statements(connection)
    if why_not:
        return {}, {"texts of statements": why_not}
    query = sql.SQL(_TEXTS).format(schema=sql.Identifier(schema))
    try:
        rows = connection.execute(query, (TEXT_MAX, sorted(set(ids)))).fetchall()
    except _TEXTS_FAIL as error:
        return {}, {"texts of statements": str(error.diag.message_primary)}
    return {str(number): str(text) for number, text in rows if text is not None}, {}
