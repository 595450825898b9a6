# SPDX-License-Identifier: PostgreSQL
"""The memory for statements: its limit, many sessions at once, and a crash."""

import os
import signal
import threading
from contextlib import suppress

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.account import one, rows, session
from support.cluster import ClusterFactory
from support.patience import eventually
from support.statements import statements_server

pytestmark = pytest.mark.extension

#: More than there is room for; and which of them is used all the time.
STATEMENTS = 300
OFTEN = "select 1"


def columns(count: int) -> str:
    """Return a statement whose identifier nothing else has."""
    return "select " + ", ".join(["1"] * count)


def test_the_least_used_statements_move_to_a_sum_of_all_others(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {"pgflash.statements_max": "100"})
    with session(server) as worker:
        worker.execute("select pgflash_statements_reset()")
        for count in range(1, STATEMENTS + 1):
            worker.execute(OFTEN)
            worker.execute(columns(count))
        found = rows(worker, "select queryid, calls from pgflash_statements")
    named = [row["calls"] for row in found if row["queryid"] is not None]
    others = [row["calls"] for row in found if row["queryid"] is None]
    assert len(named) <= 112
    assert len(others) == 1
    assert sum(named) + sum(others) == 2 * STATEMENTS + 1
    # The first of them is the same statement.
    assert max(named) == STATEMENTS + 1


def test_many_sessions_add_to_the_same_statements(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {"pgflash.statements_max": "100"})
    each, sessions = 200, 6

    def work() -> None:
        with session(server) as worker:
            for number in range(each):
                worker.execute(columns(2 + number % 150))

    threads = [threading.Thread(target=work) for _ in range(sessions)]
    with session(server) as observer:
        observer.execute("select pgflash_statements_reset()")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert one(observer, "select sum(calls) from pgflash_statements") == each * sessions + 1


def test_a_crash_of_a_process_takes_the_sums_away(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {})
    with session(server) as worker:
        worker.execute("select count(*) from item")
        since = one(worker, "select min(stats_since) from pgflash_statements")
        os.kill(worker.info.backend_pid, signal.SIGKILL)

    def answers() -> bool:
        with suppress(psycopg.OperationalError), session(server) as again:
            return bool(one(again, "select true"))
        return False

    assert eventually(lambda: "all server processes terminated" in server.log_text())
    assert eventually(answers)
    with session(server) as worker:
        worker.execute("select count(*) from item")
        assert one(worker, "select min(stats_since) from pgflash_statements") > since
