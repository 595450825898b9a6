# SPDX-License-Identifier: PostgreSQL
"""A server's flash cache: what it does, and the changes that a superuser may make."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql
from psycopg.rows import dict_row

from pgflash.errors import PgflashError
from pgflash.model.words import duration
from pgflash.progress import Listener
from pgflash.session import Connection, connect, find_extension, require_own, said

#: What these functions need.
_SUPERUSER = "Connect as a superuser."

#: If a resize has not begun after so many seconds, it is called refused.
_PATIENCE_S = 5.0
#: Seconds between two looks at a resize.
_LOOK_S = 0.5

#: A cache file's size is a multiple of this many bytes: a set of 64 blocks.
_GRAIN = 64 * 8192
_SIZE = """
select resize_progress, resize_reason,
    size_bytes / nullif((select count(*) from {0}.pgflash_cache_devices), 0) as file_bytes
from {0}.pgflash_cache
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatus:
    """Rows of the extension's views, by column."""

    #: pgflash_cache.
    cache: Mapping[str, object]
    #: pgflash_cache_benefit: the last hour, the last day, and since the start.
    benefit: tuple[Mapping[str, object], ...]


def cache(*, dsn: str | None = None) -> CacheStatus:
    """Return what the cache does and what it has saved."""
    with connect(dsn or "") as connection, said("ask about the flash cache"):
        return CacheStatus(
            cache=_rows(connection, "select * from {}.pgflash_cache")[0],
            benefit=tuple(_rows(connection, "select * from {}.pgflash_cache_benefit")),
        )


def cache_mode(mode: str, *, dsn: str | None = None) -> None:
    """Set the mode of the cache: serve, passthrough or offline.

    Offline lasts until the server restarts.
    """
    with connect(dsn or "") as connection, said("set the mode of the cache", hint=_SUPERUSER):
        _rows(connection, "select {}.pgflash_cache_set_mode(%s::pg_catalog.text)", mode)


def cache_clear(*, dsn: str | None = None) -> None:
    """Drop every block from the cache."""
    with connect(dsn or "") as connection, said("clear the cache", hint=_SUPERUSER):
        _rows(connection, "select {}.pgflash_cache_clear()")


def cache_resize(
    size_bytes: int, *, dsn: str | None = None, listener: Listener | None = None
) -> None:
    """Change the size of each cache file, in bytes, and wait until the blocks have moved.

    The setting pgflash.cache_size is changed permanently, even if the caller stops waiting.
    PgflashError if the server refuses the size.
    """
    setting = sql.Literal(f"{size_bytes // 1024}kB")
    with connect(dsn or "") as connection, said("change the size of the cache", hint=_SUPERUSER):
        (before,) = _rows(connection, _SIZE)
        if before["file_bytes"] is None:
            raise PgflashError(
                "the server has no flash cache",
                hint="mode_reason in the view pgflash_cache says why.",
            )
        connection.execute(sql.SQL("alter system set pgflash.cache_size = {}").format(setting))
        connection.execute("select pg_catalog.pg_reload_conf()")
        _await_size(connection, size_bytes, before["resize_reason"], listener or Listener())


def _await_size(
    connection: Connection, size_bytes: int, reason_before: object, listener: Listener
) -> None:
    """Wait for the housekeeper, which begins within seconds and may work for minutes."""
    listener.stage("resizing the cache", work=1.0)
    looked = time.monotonic()
    while True:
        (row,) = _rows(connection, _SIZE)
        if row["resize_progress"] is not None:
            looked = time.monotonic()
            listener.advance(float(str(row["resize_progress"])))
        elif row["file_bytes"] == size_bytes // _GRAIN * _GRAIN:
            return
        late = time.monotonic() - looked > _PATIENCE_S
        # A reason that was there before may be that of an earlier request.
        if row["resize_reason"] and (late or row["resize_reason"] != reason_before):
            raise PgflashError(
                f"the cache keeps its size: {row['resize_reason']}",
                hint="pgflash.cache_size has the new value all the same: set it back.",
            )
        if late:
            raise PgflashError(
                f"the cache has not begun to change its size within {duration(_PATIENCE_S)}",
                hint="pgflash.cache_size has the new value, and the cache will follow once it can: "
                "`pgflash cache` shows its mode and size.",
            )
        time.sleep(_LOOK_S)


def _rows(connection: Connection, query: str, *values: str) -> list[Mapping[str, object]]:
    found = find_extension(connection)
    if found is None:
        raise PgflashError(
            "the extension pgflash is not in this database",
            hint="Name a database that has it (-d), or CREATE EXTENSION pgflash in this one.",
        )
    require_own(connection, query)
    with connection.cursor(row_factory=dict_row) as cursor:
        return list(
            cursor.execute(
                sql.SQL(query).format(sql.Identifier(found.schema)), values or None
            ).fetchall()
        )
