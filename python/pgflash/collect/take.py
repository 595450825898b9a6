# SPDX-License-Identifier: PostgreSQL
"""Take a snapshot from outside: every section, or the reason why it is missing."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import sql

from pgflash.collect import stock
from pgflash.collect.deltas import choose, difference
from pgflash.collect.host import host_sections
from pgflash.collect.stock import DeltaSection
from pgflash.local import why_not_local
from pgflash.machine.host import core_count, memory_bytes
from pgflash.model.collected import Counted, LastSnapshot, NewSnapshot, Rows
from pgflash.model.snapshot import MISSING, Section, SectionKind, Value
from pgflash.session import Connection, SessionError, said

_MAY_SEE = "select pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage'), current_user"


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
                hint=f"pg_monitor is enough: GRANT pg_monitor TO {role}.",
            )
        return str(
            _row(connection, "select system_identifier from pg_catalog.pg_control_system()")[0]
        )


def collect(connection: Connection, last: LastSnapshot | None, *, cluster: str) -> NewSnapshot:
    """Take a snapshot; its deltas begin at LAST."""
    begin = time.monotonic()
    with said("read the server's statistics"):
        (started_at,) = _row(connection, stock.STARTED)
        follows = last is not None and last.started_at == started_at
        taking = _Taking(connection=connection, last=last if follows else None)
        taken_at = datetime.now(UTC)
        local = _take_host(taking)
        _take_server(taking, local=local)
        for one in stock.STOCK:
            _attempt(taking, one.name, lambda one=one: _take_stock(taking, one))  # type: ignore[misc]
        _attempt(taking, "statements", lambda: _take_statements(taking))
        _attempt(taking, "relations", lambda: _take_delta(taking, stock.RELATIONS, ""))
    taking.missing |= {
        name: f"stock PostgreSQL does not have it: {what}"
        for name, what in stock.EXTENSION_ONLY.items()
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


def _attempt(taking: _Taking, name: str, take: Callable[[], object]) -> None:
    """Take a section, or note why it is missing."""
    try:
        take()
    except (psycopg.errors.QueryCanceled, psycopg.OperationalError):
        raise  # the session has ended, not only this section
    except psycopg.Error as error:
        taking.missing[name] = error.diag.message_primary or str(error)


def _take_stock(taking: _Taking, one: stock.StockSection) -> None:
    major = taking.connection.info.server_version // 10_000
    if major < one.major_min:
        taking.missing[one.name] = f"PostgreSQL has it from version {one.major_min} on"
        return
    cursor = taking.connection.execute(sql.SQL(one.query))
    taking.sections.append(
        Section(
            name=one.name,
            kind=one.kind,
            columns=_columns(cursor),
            rows=tuple(tuple(map(_plain, row)) for row in cursor),
        )
    )


def _take_server(taking: _Taking, *, local: bool) -> None:
    cursor = taking.connection.execute(stock.SERVER)
    (row,) = cursor.fetchall()
    record = dict(zip(_columns(cursor), map(_plain, row), strict=True))
    record["system_identifier"] = int(str(record["system_identifier"]))
    record["cores"] = core_count() if local else None
    record["memory_bytes"] = memory_bytes() if local else None
    record["page_size"] = os.sysconf("SC_PAGESIZE") if local else None
    taking.sections.append(
        Section(
            name="server",
            kind=SectionKind.GAUGE,
            columns=tuple(record),
            rows=(tuple(record.values()),),
        )
    )


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
        for name in ("host_cpu", "host_memory", "host_disks", "host_state"):
            taking.missing[name] = reason
    return not reason


# ---- deltas


def _take_statements(taking: _Taking) -> None:
    found = taking.connection.execute(stock.STATEMENTS_SCHEMA).fetchone()
    if found is None:
        database = taking.connection.info.dbname
        taking.missing["statements"] = (
            f'the extension pg_stat_statements is not in database "{database}"'
        )
        return
    schema = str(found[0])
    section = _take_delta(taking, stock.STATEMENTS, schema)
    if section is not None:
        wanted = [value for value in section.column("query_id") or () if value is not None]
        texts = taking.connection.execute(_with_schema(stock.TEXTS, schema), (wanted,))
        taking.queries |= dict(texts.fetchall())


def _take_delta(taking: _Taking, kind: DeltaSection, schema: str) -> Section | None:
    cursor = taking.connection.execute(_with_schema(kind.query, schema))
    rows, counted = _counted(kind, cursor)
    taking.remembered[kind.name] = rows
    before = None if taking.last is None else taking.last.remembered.get(kind.name)
    if before is None:
        taking.missing[kind.name] = "nothing to subtract: it is counted from this snapshot on"
        return None
    ranked = [place for place, one in enumerate(counted) if one.ranked]
    chosen, others = choose(difference(before, rows), ranked=ranked, limit=kind.limit)
    section = Section(
        name=kind.name,
        kind=SectionKind.DELTA,
        columns=(*kind.key_names, *kind.labels, *(one.name for one in counted)),
        rows=tuple(_delta_rows(kind, chosen, others or (0.0,) * len(counted))),
    )
    taking.sections.append(section)
    return section


def _with_schema(query: str, schema: str) -> sql.Composed:
    return sql.SQL(query).format(schema=sql.SQL(schema))


def _counted(
    kind: DeltaSection, cursor: "psycopg.Cursor[tuple[Any, ...]]"
) -> tuple[Rows, list[stock.DeltaColumn]]:
    """Return the rows of a reading, and the counters that this server has."""
    names = _columns(cursor)
    counted = [one for one in kind.columns if set(one.sources) & set(names)]
    places = [names.index(next(s for s in one.sources if s in names)) for one in counted]
    keys = [names.index(name) for name in kind.keys]
    labels = [names.index(name) for name in kind.labels]
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
    kind: DeltaSection, chosen: Rows, others: Iterable[float]
) -> Iterator[tuple[Value, ...]]:
    for key, row in chosen.items():
        yield (*(key if kind.key_names else ()), *row.labels, *map(_short, row.values))
    empty = (None,) * len(kind.key_names)
    yield (*empty, *kind.other, *map(_short, others))


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
