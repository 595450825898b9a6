# SPDX-License-Identifier: PostgreSQL
"""What statements took from where, by pgflash_statements and by pgflash_io."""

from collections.abc import Mapping
from typing import Any

import psycopg

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.account import SETTINGS, Row, one, rows
from support.cluster import ClusterFactory
from support.items import create_items
from support.patience import eventually
from support.uring import SETTINGS as URING
from support.uring import has_uring, uring_forbidden

SOURCES = ("page cache", "flash", "disk")
ROWS = 20_000

#: Reads in parallel, however small the table is.
IN_PARALLEL = {
    "max_parallel_workers_per_gather": "2",
    "max_parallel_maintenance_workers": "2",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "min_parallel_table_scan_size": "0",
    "min_parallel_index_scan_size": "0",
}


def ways_to_read(install: PgInstall) -> dict[str, dict[str, str]]:
    """Return the settings for each way in which a server of this build can read."""
    ways = {"sync": {"io_method": "sync"}, "worker": {"io_method": "worker"}}
    if has_uring(install) and not uring_forbidden():
        ways["io_uring"] = URING
    return ways if install.major >= 18 else {"": {}}


def statements_server(
    cluster: ClusterFactory, install: PgInstall, settings: Mapping[str, str], *, preload: str = ""
) -> Server:
    """Return a server with the extension and the table; its buffers hold a tenth of it."""
    libraries = {"shared_preload_libraries": preload} if preload else {}
    server = cluster(
        install=install, settings={**SETTINGS, "compute_query_id": "on", **libraries, **settings}
    )
    with server.connect() as connection:
        connection.execute("create extension pgflash")
        create_items(connection, ROWS)
        connection.execute("analyze item")
    return server


def taken(connection: psycopg.Connection[Any]) -> dict[str, Row]:
    """Return what all statements that clients sent have read, by source."""
    (row,) = rows(
        connection,
        "select "
        + ", ".join(
            f"sum({name}_reads)::bigint as {name}_calls,"
            f" sum({name}_read_blocks)::bigint * 8192 as {name}_bytes,"
            f" sum({name}_read_time_ms) as {name}_ms"
            for name in ("page_cache", "flash", "disk")
        )
        + ", sum(worker_read_time_ms) as worker_ms"
        " from pgflash_statements where toplevel",
    )
    return _by_source(row)


def read(connection: psycopg.Connection[Any]) -> dict[str, Row]:
    """Return what sessions and parallel workers have read from data files, by source."""
    found = rows(
        connection,
        "select source, sum(calls)::bigint as calls, sum(bytes)::bigint as bytes,"
        " sum(time_ms) as ms, sum(worker_time_ms) as worker_ms from pgflash_io"
        " where backend_type in ('client backend', 'parallel worker')"
        " and file_class = 'data' and operation = 'read' group by source",
    )
    row = {"worker_ms": sum(one["worker_ms"] for one in found)}
    for source in SOURCES:
        for number in ("calls", "bytes", "ms"):
            row[f"{source.replace(' ', '_')}_{number}"] = sum(
                one[number] for one in found if one["source"] == source
            )
    return _by_source(row)


def _by_source(row: Row) -> dict[str, Row]:
    parts = {
        source: {
            number: float(row[f"{source.replace(' ', '_')}_{number}"] or 0)
            for number in ("calls", "bytes", "ms")
        }
        for source in SOURCES
    }
    return {**parts, "others": {"ms": float(row["worker_ms"] or 0)}}


def less(after: dict[str, Row], before: dict[str, Row]) -> dict[str, Row]:
    """Return the differences of two of these."""
    return {
        source: {number: value - before[source][number] for number, value in numbers.items()}
        for source, numbers in after.items()
    }


def wait_for_workers(connection: psycopg.Connection[Any]) -> None:
    """Wait until no parallel worker is left: an ending one may still be there."""
    query = "select count(*) from pg_stat_activity where backend_type = 'parallel worker'"
    assert eventually(lambda: one(connection, query) == 0)
