# SPDX-License-Identifier: PostgreSQL
"""Take a snapshot from outside: every section, or the reason why it is missing."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from pgflash.collect.deltas import choose, difference, summed
from pgflash.collect.host import host_sections
from pgflash.local import why_not_local
from pgflash.machine.host import core_count, memory_bytes
from pgflash.model.collected import Counted, LastSnapshot, NewSnapshot, Rows
from pgflash.model.snapshot import (
    MISSING,
    DeltaCount,
    Section,
    SectionDefinition,
    SectionKind,
    Value,
)
from pgflash.model.snapshot_sections import SECTIONS
from pgflash.session import Connection, SessionError, find_statements, said

_MAY_SEE = "select pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage'), current_user"

#: When counting began. A crash resets the counters without restarting the postmaster; the
#: checkpointer is as old as the counters are.
_STARTED = """
select coalesce(min(backend_start), pg_catalog.pg_postmaster_start_time())
  from pg_catalog.pg_stat_activity where backend_type = 'checkpointer'
"""

#: Of a statement: 1, or 0 if it ran inside another one.
_TOPLEVEL = "toplevel"

_TEXTS = """
select distinct on (queryid) queryid, pg_catalog.left(query, %s)
  from {schema}pg_stat_statements(true)
 where queryid = any(%s) and query is not null
"""


@dataclass(slots=True, kw_only=True)
class _Taking:
    """A snapshot that is being taken."""

    connection: Connection
    last: LastSnapshot | None
    sections: list[Section] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    remembered: dict[str, Rows] = field(default_factory=dict)
    queries: dict[int, str] = field(default_factory=dict)


def system_identifier(connection: Connection) -> str:
    """Return the cluster's identifier; this also checks the rights that are needed."""
    with said("ask for the server's statistics"):
        may, role = _row(connection, _MAY_SEE)
        if not may:
            raise SessionError(
                f'role "{role}" may not see the statistics of other sessions',
                hint=f"The role needs pg_monitor: GRANT pg_monitor TO {role};",
            )
        return str(
            _row(connection, "select system_identifier from pg_catalog.pg_control_system()")[0]
        )


def collect(connection: Connection, last: LastSnapshot | None, *, cluster: str) -> NewSnapshot:
    """Take a snapshot; its deltas begin at LAST."""
    begin = time.monotonic()
    with said("read the server's statistics"):
        (started_at,) = _row(connection, _STARTED)
        follows = last is not None and last.started_at == started_at
        taking = _Taking(connection=connection, last=last if follows else None)
        taken_at = datetime.now(UTC)
        local = _take_host(taking)
        for one in SECTIONS.values():
            if one.client == "yes" and one.query:
                _attempt(taking, one, local=local)
    taking.missing |= {
        one.name: f"stock PostgreSQL does not have it: {one.about}"
        for one in SECTIONS.values()
        if one.about
    }
    missing = Section(
        name=MISSING,
        kind=SectionKind.GAUGE,
        columns=("section", "reason"),
        rows=tuple(sorted(taking.missing.items())),
    )
    return NewSnapshot(
        taken_at=taken_at,
        started_at=started_at,
        previous_id=last.id if last is not None and follows else None,
        took_ms=(time.monotonic() - begin) * 1000,
        origin="command",
        server_version_num=connection.info.server_version,
        system_identifier=cluster,
        sections=(*taking.sections, missing),
        remembered=taking.remembered,
        queries=taking.queries,
    )


def _attempt(taking: _Taking, one: SectionDefinition, *, local: bool) -> None:
    """Take a section, or note why it is missing."""
    major = taking.connection.info.server_version // 10_000
    if major < one.major_min:
        taking.missing[one.name] = f"PostgreSQL has it from version {one.major_min} on"
        return
    one = replace(one, query=_for_version(one.query, major))
    try:
        if one.name == "server":
            _take_server(taking, one, local=local)
        elif one.name == "statements":
            _take_statements(taking, one)
        elif one.counts:
            _take_delta(taking, one, one.query)
        else:
            _keep(taking, one, taking.connection.execute(sql.SQL(one.query)))
    except (psycopg.errors.QueryCanceled, psycopg.OperationalError):
        raise  # the session has ended, not only this section
    except psycopg.Error as error:
        taking.missing[one.name] = error.diag.message_primary or str(error)


def _for_version(query: str, major: int) -> str:
    """Return a query with the lines that are for this version; for others they are comments."""
    return query.replace("-- since 18: ", "") if major >= 18 else query


def _keep(
    taking: _Taking, one: SectionDefinition, cursor: "psycopg.Cursor[tuple[Any, ...]]"
) -> None:
    """Keep the rows of a query as they are."""
    taking.sections.append(
        Section(
            name=one.name,
            kind=one.kind,
            columns=_columns(cursor),
            rows=tuple(tuple(map(_plain, row)) for row in cursor),
        )
    )


def _take_server(taking: _Taking, one: SectionDefinition, *, local: bool) -> None:
    machine = (core_count(), memory_bytes(), os.sysconf("SC_PAGESIZE"))
    # The server is asked as one without the extension: none has the number 0.
    arguments = (0, *(machine if local else (None, None, None)))
    cursor = psycopg.RawCursor(taking.connection)
    _keep(taking, one, cursor.execute(sql.SQL(one.query), arguments))


# ---- the machine


def _take_host(taking: _Taking) -> bool:
    """Take the machine's figures if the server runs on it; say whether it does."""
    reason = why_not_local(taking.connection)
    if not reason:
        try:
            taking.sections.extend(host_sections())
        except OSError as error:
            reason = f"/proc could not be read: {error.strerror}"
    if reason:
        taking.missing |= {one.name: reason for one in SECTIONS.values() if one.client == "local"}
    return not reason


# ---- deltas


def _take_statements(taking: _Taking, one: SectionDefinition) -> None:
    schema, why_not = find_statements(taking.connection)
    if why_not:
        taking.missing[one.name] = why_not
        return
    query = _with_schema(f"{one.query} where queryid is not null", schema)
    section = _take_delta(taking, one, query)
    if section is not None:
        wanted = [value for value in section.column("query_id") or () if value is not None]
        try:
            texts = taking.connection.execute(_with_schema(_TEXTS, schema), (one.text_max, wanted))
            taking.queries |= dict(texts.fetchall())
        except psycopg.DataError as error:  # a text of any statement has bytes that are wrong here
            taking.missing["texts of statements"] = str(error.diag.message_primary)


def _take_delta(
    taking: _Taking, kind: SectionDefinition, query: str | sql.Composed
) -> Section | None:
    rows, counted = _counted(kind, taking.connection.execute(query))
    taking.remembered[kind.name] = rows
    before = None if taking.last is None else taking.last.remembered.get(kind.name)
    if before is None:
        taking.missing[kind.name] = "first snapshot: counting starts here"
        return None
    ranked = [place for place, one in enumerate(counted) if one.ranked]
    chosen, others = choose(difference(before, rows), ranked=ranked, limit=kind.limit)
    section = Section(
        name=kind.name,
        kind=SectionKind.DELTA,
        columns=(*kind.columns, *(one.name for one in counted)),
        rows=tuple(_delta_rows(kind, chosen, others, len(counted))),
    )
    taking.sections.append(section)
    return section


def _with_schema(query: str, schema: str) -> sql.Composed:
    """Name the schema in a query, with its dot."""
    return sql.SQL(query).format(schema=sql.SQL("{}.").format(sql.Identifier(schema)))


def _labels(kind: SectionDefinition) -> tuple[str, ...]:
    """Return the columns that people see, unless these are what identifies a row in a reading."""
    return () if len(kind.columns) == len(kind.read_key) else kind.columns


def _counted(
    kind: SectionDefinition, cursor: "psycopg.Cursor[tuple[Any, ...]]"
) -> tuple[Rows, list[DeltaCount]]:
    """Return the rows of a reading, and the counters that this server has."""
    names = _columns(cursor)
    counted = [one for one in kind.counts if set(one.sources) & set(names)]
    places = [names.index(next(s for s in one.sources if s in names)) for one in counted]
    for name in set(kind.read_key) - set(names):
        raise psycopg.errors.UndefinedColumn(
            f'there is no column "{name}" to tell rows apart: the extension may be out of date'
        )
    keys = [names.index(name) for name in kind.read_key]
    labels = [names.index(name) for name in _labels(kind)]
    birth = names.index(kind.birth) if kind.birth in names else None
    rows = {
        tuple(int(row[place]) for place in keys): Counted(
            values=tuple(float(row[place] or 0) for place in places),
            birth=None if birth is None else str(row[birth]),
            labels=tuple(row[place] for place in labels),
        )
        for row in cursor
    }
    return rows, counted


def _delta_rows(
    kind: SectionDefinition, chosen: Rows, others: Rows, width: int
) -> Iterator[tuple[Value, ...]]:
    """Yield the rows that were chosen, and the sum of the others.

    What ran inside other statements is included in them, so it has a sum of its own.
    """
    for key, row in chosen.items():
        yield (*(row.labels or key), *map(_short, row.values))
    place = kind.columns.index(_TOPLEVEL) if _TOPLEVEL in kind.columns else None
    sums: dict[int | None, list[Counted]] = {1 if place is not None else None: []}
    for key, row in others.items():
        sums.setdefault(key[place] if place is not None else None, []).append(row)
    for toplevel, rows in sums.items():
        rest = {"relation": "other", _TOPLEVEL: toplevel}
        yield (*map(rest.get, kind.columns), *map(_short, summed(rows, width)))


# ---- values


def _row(connection: Connection, query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row


def _columns(cursor: "psycopg.Cursor[tuple[Any, ...]]") -> tuple[str, ...]:
    return tuple(column.name for column in cursor.description or ())


def _short(value: float) -> int | float:
    """Round a number to a millionth: of milliseconds, that is a nanosecond."""
    return int(value) if value == int(value) else round(value, 6)


def _plain(value: object) -> Value:
    """Convert a value of the server to its JSON form."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Decimal):
        return (
            None if not value.is_finite() else int(value) if value == int(value) else float(value)
        )
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value)
