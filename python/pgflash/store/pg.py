# SPDX-License-Identifier: PostgreSQL
"""Snapshots in the tables of the extension.

They are read with the rights of the connected role: pg_monitor, or any role with SELECT on them.
The extension may be in any schema, which is looked up once.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Self

from psycopg import sql

from pgflash import __version__
from pgflash.model.snapshot import (
    Baseline,
    Section,
    SnapshotError,
    SnapshotHead,
)
from pgflash.session import Connection, connect, find_extension, own_names, require_own, said
from pgflash.store.section import decode_section

_MAY_DROP = (
    "Let the server drop old snapshots by itself (pgflash.snapshot_retention); or: GRANT EXECUTE "
    "ON FUNCTION pgflash_snapshot_drop(timestamptz) TO role_name;"
)

_MAY_KEEP = (
    "Connect as a superuser; or: GRANT EXECUTE ON FUNCTION "
    "pgflash_baseline_keep(text, bigint, bigint), pgflash_baseline_drop(text) TO role_name;"
)

_HEAD = (
    "s.snapshot_id, s.taken_at, s.started_at, s.previous_id, s.took_ms, s.origin, "
    "s.server_version_num, s.extension_version"
)


#: Of a section, as JSON; NULL if it is longer than any that a server has stored.
_CONTENT = "case when pg_catalog.octet_length(c.content::text) <= 50000000 then c.content::text end"


class PgStore:
    """The snapshots that a server itself keeps."""

    def __init__(self, dsn: str) -> None:
        """Connect to the database that keeps them."""
        self._connection = connect(dsn)
        try:
            self._schema = _schema(self._connection)
        except BaseException:
            self._connection.close()
            raise

    @property
    def name(self) -> str:
        """The name that people know this store by."""
        return f'database "{self._connection.info.dbname}"'

    @property
    def connection(self) -> Connection:
        """The session that reads it."""
        return self._connection

    def take(self) -> int:
        """Let the server take a snapshot; return its number."""
        with said("take a snapshot"):
            rows = self._query("select {schema}.pgflash_snapshot()")
        return int(rows[0][0])

    def drop(self, before: datetime) -> int:
        """Drop older snapshots; return how many there were."""
        with said("drop snapshots", hint=_MAY_DROP):
            rows = self._query("select {schema}.pgflash_snapshot_drop(%s::timestamptz)", before)
        return int(rows[0][0])

    def list(self) -> tuple[SnapshotHead, ...]:
        """Return all heads, the oldest first."""
        with said("read the snapshots"):
            rows = self._query(f"select {_HEAD} from {{schema}}.pgflash_snapshots s order by 1")
        return tuple(_head(row) for row in rows)

    def sections(self, snapshot_id: int) -> dict[str, Section]:
        """Return a snapshot's sections by name."""
        with said("read a snapshot"):
            rows = self._query(
                f"select c.section, c.kind, {_CONTENT} "
                "from {schema}.pgflash_snapshot_sections c where c.snapshot_id = %s",
                snapshot_id,
            )
        if not rows:
            raise SnapshotError(f"there is no snapshot {snapshot_id} in {self.name}")
        return {
            name: decode_section(name, kind, content, store=self.name)
            for name, kind, content in rows
        }

    def sections_between(
        self, begin_id: int, end_id: int, name: str
    ) -> tuple[tuple[SnapshotHead, Section], ...]:
        """Return the section of every snapshot after BEGIN_ID up to END_ID that has it."""
        with said("read the snapshots"):
            rows = self._query(
                f"select {_HEAD}, c.kind, {_CONTENT} from {{schema}}.pgflash_snapshots s "
                "join {schema}.pgflash_snapshot_sections c using (snapshot_id) "
                "where s.snapshot_id > %s and s.snapshot_id <= %s and c.section = %s order by 1",
                begin_id,
                end_id,
                name,
            )
        return tuple(
            (_head(row[:8]), decode_section(name, row[8], row[9], store=self.name)) for row in rows
        )

    def queries(self, query_ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of statements by their ids, as far as they are known."""
        with said("read the texts of statements"):
            rows = self._query(
                "select query_id, query from {schema}.pgflash_snapshot_queries "
                "where query_id = any(%s)",
                [*query_ids],
            )
        return dict(rows)

    def baselines(self) -> tuple[Baseline, ...]:
        """Return the periods that are kept under a name; none of an extension before 0.2."""
        with said("read the baselines"):
            known = "pgflash_baselines" in own_names(self._connection)
            rows = (
                self._query(
                    "select name, begin_id, end_id, kept_at from {schema}.pgflash_baselines "
                    "order by begin_id, end_id, name"
                )
                if known
                else ()
            )
        return tuple(
            Baseline(name=name, begin_id=begin, end_id=end, kept_at=kept_at)
            for name, begin, end, kept_at in rows
        )

    def keep(self, name: str, begin_id: int, end_id: int) -> None:
        """Keep the snapshots from one to another under a name that is free."""
        with said("keep a baseline", hint=_MAY_KEEP):
            self._query(
                "select {schema}.pgflash_baseline_keep(%s::text, %s::bigint, %s::bigint)",
                name,
                begin_id,
                end_id,
            )

    def release(self, name: str) -> None:
        """Drop a baseline; its snapshots are then dropped by their age, like all others."""
        with said("drop a baseline", hint=_MAY_KEEP):
            self._query("select {schema}.pgflash_baseline_drop(%s::text)", name)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _query(self, text: str, *values: object) -> Sequence[tuple[Any, ...]]:
        require_own(self._connection, text)
        query = sql.SQL(text).format(schema=sql.Identifier(self._schema))
        return self._connection.execute(query, values).fetchall()


def _head(row: tuple[Any, ...]) -> SnapshotHead:
    names = SnapshotHead.__dataclass_fields__
    return SnapshotHead(**dict(zip(names, row, strict=True)))


def _schema(connection: Connection) -> str:
    """Return the extension's schema, or raise if its snapshots are not available."""
    with said("look for the extension"):
        found = find_extension(connection)
    database = connection.info.dbname
    if found is None:
        raise SnapshotError(
            f'the extension pgflash is not in database "{database}"',
            hint="Name the database that has it (--dsn); or store snapshots in a file: pgflash "
            "snapshot --store FILE.",
        )
    if _numbers(found.version) > _numbers(__version__)[:2]:
        raise SnapshotError(
            f'the extension in database "{database}" is of version {found.version}, newer than '
            f"this program ({__version__})",
            hint="Use the pgflash command of that version.",
        )
    return found.schema


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", version))
