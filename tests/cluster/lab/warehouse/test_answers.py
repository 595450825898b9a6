# SPDX-License-Identifier: PostgreSQL
"""The warehouse at scale factor 1 against the TPC's own answers, to the last cent.

Takes some minutes and 2 GB, so it is part of `make soak` alone; the same queries are held
to an independent computation at a hundredth of the size in test_database.py.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgflash_lab.leftovers import remove_tree
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from pgflash_lab.warehouse import WarehouseParameters, check_consistency, load
from pgflash_lab.warehouse.answers import (
    ANSWERS_SCALE_FACTOR,
    plain_row,
    read_answers,
)
from pgflash_lab.warehouse.driver import open_session, query_text
from pgflash_lab.warehouse.parameters import QUERIES
from support.cluster import FAST_SETTINGS
from support.workloads import parameters_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ONE = parameters_of(WarehouseParameters, scale_factor=ANSWERS_SCALE_FACTOR, clients=1, degree=2)


@pytest.fixture(scope="module")
def conninfo(pg_install: PgInstall) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="pgflash-warehouse-", dir="/var/tmp"))
    folder.chmod(0o755)
    settings = {
        **FAST_SETTINGS,
        "shared_buffers": "512MB",
        "work_mem": "64MB",
        "max_wal_size": "8GB",
        "wal_level": "minimal",
        "max_wal_senders": "0",
    }
    with Server.create(pg_install, folder / "server", settings=settings) as server:
        server.start()
        load(server.conninfo(), ONE)
        yield server.conninfo()
    remove_tree(folder)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_answer_of_the_specification(conninfo: str, query: int) -> None:
    with open_session(conninfo, ONE) as session:
        rows = session.execute(query_text(ONE, query, 0).encode()).fetchall()
    answer = read_answers()[query]
    assert answer.agrees(rows), f"{len(rows)} rows, the first {plain_row(rows[0])}, not {answer}"


def test_one_wrong_cent_is_noticed(conninfo: str) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute(
            "UPDATE warehouse.partsupp SET ps_supplycost = ps_supplycost + 0.01"
            " WHERE (ps_partkey, ps_suppkey) = (SELECT ps_partkey, ps_suppkey"
            "   FROM warehouse.partsupp JOIN warehouse.supplier ON s_suppkey = ps_suppkey"
            "   JOIN warehouse.nation ON n_nationkey = s_nationkey"
            "  WHERE n_name = 'GERMANY' ORDER BY ps_supplycost * ps_availqty DESC LIMIT 1)"
        )
        rows = connection.execute(query_text(ONE, 11, 0).encode()).fetchall()
        connection.rollback()
    assert len(rows) == read_answers()[11].rows
    assert not read_answers()[11].agrees(rows)


def test_the_contents_are_consistent(conninfo: str) -> None:
    assert [one for one in check_consistency(conninfo) if not one.holds] == []
