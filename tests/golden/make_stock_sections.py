# SPDX-License-Identifier: PostgreSQL
"""Make the samples of PostgreSQL's own statistics that the tests of pgflash.analyze use.

    PYTHONPATH=python:tests .venv/bin/python tests/golden/make_stock_sections.py [MAJOR ...]

For each major it starts a private server, reads the statistics views, does work whose size
it knows, reads them again, and writes data/stock-MAJOR.json: sections as in a snapshot, and the
work done between them ("did").  The tests hold the one against the other.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from pgflash.model.snapshot_sections import SECTIONS
from pgflash_lab.postgres import MAJORS, PgInstall
from pgflash_lab.server import Server

HERE = Path(__file__).resolve().parent

#: Sections that are a statistics view as it is.
VIEWS = [
    one for one in SECTIONS.values() if one.query.startswith("select * from pg_catalog.pg_stat_")
]

SETTINGS = {
    "shared_buffers": "16MB",
    "fsync": "on",
    "track_io_timing": "on",
    "track_wal_io_timing": "on",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "1GB",
    "work_mem": "64kB",
    "max_parallel_workers_per_gather": "0",
    "full_page_writes": "on",
    # A backend may pin as many buffers as there are for each: few backends, long reads.
    "max_connections": "10",
    "max_worker_processes": "2",
    "max_wal_senders": "0",
    # Waits for locks are counted from this on.
    "deadlock_timeout": "10ms",
}

COMMITS = 50
LOCKED_MS = 200


def main(majors: Sequence[int]) -> None:
    """Write a sample for each major."""
    for major in majors:
        found = subprocess.run(
            [sys.executable, HERE.parents[1] / "tools" / "pg.py", str(major)],
            capture_output=True,
            text=True,
            check=True,
        )
        install = PgInstall.from_pg_config(found.stdout.strip())
        with tempfile.TemporaryDirectory(prefix="pgflash-sections-") as folder:
            Path(folder).chmod(0o755)
            with Server.create(install, Path(folder) / "server", settings=SETTINGS) as server:
                server.start()
                sample = take(server, major)
        text = json.dumps(sample, separators=(",", ":")).replace('"rows":', '\n"rows":')
        (HERE / "data" / f"stock-{major}.json").write_text(text + "\n")


def take(server: Server, major: int) -> dict[str, Any]:
    """Return what the views said before and after, and what was done between."""
    with server.connect() as connection:
        connection.execute("create table wide (id int, filler text) with (fillfactor = 100)")
        connection.execute(
            "insert into wide select i, repeat('x', 900) from generate_series(1, 40000) i"
        )
        connection.execute("create table narrow (id int primary key, n int)")
        connection.execute("insert into narrow select i, 0 from generate_series(1, 100) i")
        connection.execute("vacuum (freeze) wide, narrow")
        connection.execute("checkpoint")
        blocks = _one(connection, "select pg_relation_size('wide') / 8192")
        buffers = _one(connection, "select setting from pg_settings where name = 'shared_buffers'")
    before = _look(server, major)
    with server.connect() as connection:
        begin_lsn = _one(connection, "select pg_current_wal_insert_lsn() - '0/0'")
        connection.execute("select count(*) from wide")
        for i in range(COMMITS):
            connection.execute("update narrow set n = n + 1 where id = %s", (i + 1,))
        connection.execute("select count(*) from (select * from wide order by filler, id) t")
        connection.execute("select pg_sleep(0.3)")
        _wait_for_a_lock(server)
        connection.execute("checkpoint")
        end_lsn = _one(connection, "select pg_current_wal_insert_lsn() - '0/0'")
    after = _look(server, major)
    return {
        "major": major,
        "did": {
            "table_blocks": int(blocks),
            "buffers": int(buffers),
            "scans": 2,
            "commits_at_least": COMMITS,
            "wal_bytes": int(end_lsn - begin_lsn),
            "checkpoints": 1,
            "active_ms_at_least": 300,
            "locked_ms_at_least": LOCKED_MS // 2,
        },
        "before": before,
        "after": after,
    }


def _wait_for_a_lock(server: Server) -> None:
    """Let a session wait for another one's lock on a table."""

    def hold() -> None:
        with server.connect() as holder, holder.transaction():
            holder.execute("lock table narrow")
            locked.set()
            holder.execute(f"select pg_sleep({LOCKED_MS / 1000})")

    locked = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    locked.wait()
    with server.connect() as waiter:
        waiter.execute("select count(*) from narrow")
    thread.join()


def _look(server: Server, major: int) -> dict[str, Any]:
    with server.connect() as connection:
        connection.execute("select pg_stat_force_next_flush()")
        connection.execute("select pg_stat_clear_snapshot()")
        sections = {
            one.name: _section(connection, one.query) for one in VIEWS if major >= one.major_min
        }
        return {
            "taken_at": datetime.now(UTC).isoformat(),
            "server_version_num": int(_one(connection, "show server_version_num")),
            "started_at": _one(connection, "select to_jsonb(pg_postmaster_start_time())"),
            "sections": sections,
        }


def _section(connection: psycopg.Connection[Any], query: str) -> dict[str, Any]:
    found = connection.execute(f"select to_jsonb(v) from ({query}) v").fetchall()
    records = [row[0] for row in found]
    columns = list(records[0]) if records else []
    return {"columns": columns, "rows": [[one[column] for column in columns] for one in records]}


def _one(connection: psycopg.Connection[Any], query: str) -> Any:  # noqa: ANN401
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or MAJORS)
