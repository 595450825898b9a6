# SPDX-License-Identifier: PostgreSQL
"""The usage that is measured for a step of the warehouse, compared with what it must have read.

A scan of a table that memory cannot hold reads the whole table, whether the session or its workers
read it.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash_lab.extension import create_extension
from pgflash_lab.leftovers import remove_tree
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.warehouse import Use, WarehouseParameters, load, run
from pgflash_lab.workload import DATABASE
from support.cluster import FAST_SETTINGS
from support.workloads import parameters_of

ALONE = parameters_of(WarehouseParameters, scale_factor=0.01, clients=1)


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="pgflash-warehouse-"))
    folder.chmod(0o755)
    settings = {
        **FAST_SETTINGS,
        "shared_preload_libraries": "pgflash",
        "pgflash.advice": "off",
        "shared_buffers": "1MB",
        "work_mem": "64kB",
    }
    with Server.create(pgflash_install, folder / "server", settings=settings) as server:
        server.start()
        with server.connect() as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        create_extension(server, statements=False)
        load(server.conninfo(DATABASE), ALONE)
        yield server
    remove_tree(folder)


def use_of(server: Server, query: int, *, degree: int) -> Use:
    parameters = replace(ALONE, queries=str(query), degree=degree)
    result = run(server.conninfo(DATABASE), parameters, cpu_s=lambda: 0.0)
    use = result.steps[0].use
    assert use is not None
    return use


@pytest.mark.parametrize("degree", [1, 3])
def test_a_scan_by_session_or_workers_reads_all_bytes(server: Server, degree: int) -> None:
    with server.connect(DATABASE) as connection:
        row = connection.execute("SELECT pg_table_size('warehouse.lineitem')").fetchone()
    assert row is not None
    use = use_of(server, 6, degree=degree)
    # A megabyte of the table may be in memory; the planner reads a little of the catalogs.
    assert row[0] - 2**20 <= use.read_bytes <= row[0] + 2**20
    assert use.reads > 0
    assert use.wait_s >= use.read_s > 0
    assert use.db_time_s == use.wait_s  # no work was reported here


def test_what_spills_is_told_by_written_and_read_bytes(server: Server) -> None:
    use = use_of(server, 9, degree=1)
    assert use.temp_write_bytes > 0
    assert use.temp_read_bytes >= use.temp_write_bytes // 2
    assert use.temp_writes > 0
    assert use.temp_write_s > 0
