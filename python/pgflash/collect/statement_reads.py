# SPDX-License-Identifier: PostgreSQL
"""Where the blocks of statements came from, as the library counts it: pgflash_statements.

An older version of the extension does not have it, and a library that cannot count answers with an
error or with nothing.  Then nothing is known, and nothing is said.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql

from pgflash.model.live import LiveServer
from pgflash.model.moments import print_moment
from pgflash.model.words import count, duration, percent, things
from pgflash.session import Connection, require_own

#: Whether nested or sent by a client, an execution is in one row.
_READS = """
select queryid::text, sum(page_cache_read_blocks)::float8, sum(page_cache_read_time_ms)::float8,
       sum(flash_read_blocks)::float8, sum(flash_read_time_ms)::float8,
       sum(disk_read_blocks)::float8, sum(disk_read_time_ms)::float8, min(stats_since)
  from {schema}.pgflash_statement_rows() where queryid = any(%s::bigint[])
 group by queryid
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementReads:
    """Blocks of data files that a statement read, and the time of the reads, by source."""

    page_cache_blocks: float
    page_cache_ms: float
    flash_blocks: float
    flash_ms: float
    disk_blocks: float
    disk_ms: float
    #: When counting began; None: it is of a range that is named elsewhere.
    since: datetime | None = None

    @property
    def blocks(self) -> float:
        """Return how many it read."""
        return self.page_cache_blocks + self.flash_blocks + self.disk_blocks

    def in_words(self) -> str:
        """Return the shares of the sources, the slowest first; "" if it read nothing."""
        if self.blocks < 0.5:
            return ""
        shares = ", ".join(
            f"{source} {percent(blocks / self.blocks)}"
            for source, blocks in (
                ("disk", self.disk_blocks),
                ("flash", self.flash_blocks),
                ("page cache", self.page_cache_blocks),
            )
        )
        since = f" since {_moment(self.since)}" if self.since else ""
        return f"{things(round(self.blocks), 'block')} read{since}: {shares}"

    def facts(self) -> list[tuple[str, str]]:
        """Return the blocks and times of each source, with their names."""
        both = self.flash_blocks + self.disk_blocks
        found = [
            (f"Blocks from {source}", f"{count(blocks)} in {duration(ms / 1000)}")
            for source, blocks, ms in (
                ("the page cache", self.page_cache_blocks, self.page_cache_ms),
                ("flash", self.flash_blocks, self.flash_ms),
                ("disk", self.disk_blocks, self.disk_ms),
            )
        ]
        return [
            *found,
            ("Flash, of flash and disk", percent(self.flash_blocks / both if both else None)),
        ]

    def note(self) -> str:
        """Return the time from which on it is counted, as a sentence."""
        return f"Blocks by source since {_moment(self.since)}." if self.since else ""


def read_statement_reads(
    connection: Connection, server: LiveServer, ids: Iterable[int]
) -> dict[str, StatementReads]:
    """Return what the library has counted of these statements, by their identifiers."""
    wanted = sorted(set(ids))
    if not server.schema or not wanted:
        return {}
    query = sql.SQL(_READS).format(schema=sql.Identifier(server.schema))
    try:
        require_own(connection, _READS)
        rows = connection.execute(query, (wanted,)).fetchall()
    except (psycopg.ProgrammingError, psycopg.errors.ObjectNotInPrerequisiteState):
        return {}
    return {str(name): _made(*numbers) for name, *numbers in rows}


def reads_of_range(rows: Iterable[tuple[Any, ...]]) -> dict[str, StatementReads]:
    """Return the same of a range, from rows of an identifier and the numbers in their order."""
    return {str(name): _made(*numbers) for name, *numbers in rows if name is not None}


def in_words(reads: Mapping[str, StatementReads]) -> dict[str, str]:
    """Return the shares of the sources of each statement."""
    return {name: one.in_words() for name, one in reads.items()}


def _made(
    page_cache_blocks: float,
    page_cache_ms: float,
    flash_blocks: float,
    flash_ms: float,
    disk_blocks: float,
    disk_ms: float,
    since: datetime | None = None,
) -> StatementReads:
    return StatementReads(
        page_cache_blocks=page_cache_blocks,
        page_cache_ms=page_cache_ms,
        flash_blocks=flash_blocks,
        flash_ms=flash_ms,
        disk_blocks=disk_blocks,
        disk_ms=disk_ms,
        since=since,
    )


def _moment(moment: datetime) -> str:
    return print_moment(moment, moment.tzinfo or UTC)
