# SPDX-License-Identifier: PostgreSQL
"""What one of several servers reports about itself; if it does not answer, why.

A server that Patroni names was not chosen by the user: anybody who can write to Patroni's store may
have named it.  So nothing is sent there that the user meant for another host: the password of the
connection string, of a service or of PGPASSWORD is left out, and only a line of ~/.pgpass that fits
the host is used, by libpq's own rules.
"""

import re
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from pgflash.errors import PgflashError
from pgflash.model.fleet import ServerFacts
from pgflash.session import (
    Connection,
    Extension,
    connect,
    connect_timeout_s,
    find_extension,
    parse_dsn,
    require_own,
    said,
)

#: Short, so that one of several servers does not delay the others.
CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 5000

_HOST_LENGTH_MAX = 253
#: A name or an address: no folder of sockets, and no list of hosts.
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:%-]*[A-Za-z0-9])?|::[A-Za-z0-9:.]*")

#: In addition to pgflash's own: settings on which its work or its load depends.
_SETTINGS_NAMES = [
    "data_checksums",
    "effective_io_concurrency",
    "huge_pages",
    "io_method",
    "max_worker_processes",
    "server_version",
    "shared_buffers",
    "shared_preload_libraries",
]

_SERVER = """
select pg_catalog.pg_is_in_recovery(),
       (select system_identifier from pg_catalog.pg_control_system()),
       case when pg_catalog.pg_is_in_recovery()
            then (select received_tli::pg_catalog.text from pg_catalog.pg_stat_wal_receiver)
            else pg_catalog.substr(pg_catalog.pg_walfile_name(
                     pg_catalog.pg_current_wal_lsn()), 1, 8)
        end,
       pg_catalog.pg_wal_lsn_diff(
           case when pg_catalog.pg_is_in_recovery()
                then pg_catalog.pg_last_wal_replay_lsn()
                else pg_catalog.pg_current_wal_lsn()
            end, '0/0'::pg_catalog.pg_lsn)::pg_catalog.int8,
       pg_catalog.current_setting('pgflash.version'::pg_catalog.text, true),
       pg_catalog.current_setting('pgflash.snapshot_interval'::pg_catalog.text, true)
"""
_SETTINGS = """
select name, pg_catalog.current_setting(name, true)
  from pg_catalog.pg_settings where name = any(%s) or pg_catalog.starts_with(name, 'pgflash.')
"""
_CACHE = "select * from {}.pgflash_cache"
_WARMTH = "select * from {}.pgflash_cache_warmth"


def is_host(name: str) -> bool:
    """Say whether a name that others chose can be a host's."""
    return len(name) <= _HOST_LENGTH_MAX and _HOST.fullmatch(name) is not None


def member_dsn(dsn: str | None, host: str, port: int) -> str:
    """Return the connection string of a server that Patroni names, and the user did not.

    DSN is the user's: database, role, certificates.
    """
    return make_conninfo(
        "",
        **{
            **parse_dsn(dsn or ""),
            "host": host,
            "port": port,
            # If empty, they are not taken from the environment or a service; a password file still
            # is used.
            "hostaddr": "",
            "password": "",
            "target_session_attrs": "any",
        },
    )


def read_member(dsn: str) -> ServerFacts:
    """Return what a server says of itself, or why it says nothing."""
    try:
        timeout = connect_timeout_s(parse_dsn(dsn), CONNECT_TIMEOUT_S)
        with (
            connect(make_conninfo(dsn, connect_timeout=timeout)) as connection,
            said("ask about the server"),
        ):
            connection.execute(
                sql.SQL("set statement_timeout = {}").format(sql.Literal(STATEMENT_TIMEOUT_MS))
            )
            return _facts(connection)
    except PgflashError as error:
        return ServerFacts(problem=error.message)


def ask_member(connection: Connection) -> ServerFacts:
    """Return what a server says of itself, over a session that others use, too."""
    with said("ask about the server"):
        return _facts(connection)


def _facts(connection: Connection) -> ServerFacts:
    row = connection.execute(_SERVER).fetchone()
    assert row is not None
    in_recovery, system, timeline, wal_bytes, version, any_setting = row
    settings = {
        str(name): str(value)
        for name, value in connection.execute(_SETTINGS, (_SETTINGS_NAMES,)).fetchall()
        if value is not None
    }
    problem, cache, warmth, why_no_warmth = _cache(connection, loaded=any_setting is not None)
    return ServerFacts(
        problem=problem,
        in_recovery=bool(in_recovery),
        system=_whole(system),
        timeline=_timeline(timeline, in_recovery=bool(in_recovery)),
        wal_bytes=_whole(wal_bytes),
        # 0.1's library does not tell its version.
        version=str(version or ("0.1" if any_setting is not None else "")),
        mode=str(cache.get("mode") or ""),
        mode_reason=str(cache.get("mode_reason") or ""),
        size_bytes=_whole(cache.get("size_bytes")),
        used_bytes=_whole(cache.get("used_bytes")),
        hit_ratio=_number(cache.get("hit_ratio")),
        warmth=_number(warmth.get("warmth")),
        why_no_warmth=problem or why_no_warmth,
        to_go_s=_number(warmth.get("to_go_s")),
        list_age_s=_number(warmth.get("list_age_s")),
        settings=settings,
    )


_Row = Mapping[str, Any]


def _cache(connection: Connection, *, loaded: bool) -> tuple[str, _Row, _Row, str]:
    """Return the rows of the cache and of its warmth, each beside why it is missing."""
    found = find_extension(connection)
    if not loaded:
        return "the server has not loaded pgflash", {}, {}, ""
    if found is None:
        database = connection.info.dbname
        return f'the extension pgflash is not in the database "{database}"', {}, {}, ""
    cache, problem = _row(connection, found, _CACHE)
    warmth, why = _row(connection, found, _WARMTH)
    return problem, cache, warmth, why and f"this pgflash does not tell how warm it is: {why}"


def _row(connection: Connection, extension: Extension, query: str) -> tuple[_Row, str]:
    """Return a view's row, or why it cannot be read."""
    try:
        require_own(connection, query)
        with connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(sql.SQL(query).format(sql.Identifier(extension.schema)))
            return cursor.fetchone() or {}, ""
    except (
        psycopg.ProgrammingError,  # no such view, no right to read it
        psycopg.errors.ObjectNotInPrerequisiteState,  # no cache
        psycopg.errors.QueryCanceled,
    ) as error:
        return {}, " ".join((error.diag.message_primary or str(error)).split())


def _timeline(value: object, *, in_recovery: bool) -> int | None:
    """Return a timeline: a standby's receiver has its number, a WAL file its name."""
    return None if value is None else int(str(value), 10 if in_recovery else 16)


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))
