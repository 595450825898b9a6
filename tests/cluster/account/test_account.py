# SPDX-License-Identifier: PostgreSQL
"""The accounting on and off, at the ends of sessions, files and servers, and at its limits."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.account import (
    SETTINGS,
    counted_server,
    io,
    load,
    one,
    read_by_sessions,
    relation,
    rows,
    session,
)
from support.cluster import ClusterFactory
from support.patience import eventually

pytestmark = pytest.mark.extension


@pytest.fixture(scope="module")
def server(pgflash_install: PgInstall) -> Iterator[Server]:
    """One server for all tests here that do not need it set up otherwise."""
    with counted_server(pgflash_install) as made:
        yield made


def test_it_can_be_turned_off_and_on_while_the_server_runs(server: Server) -> None:
    with session(server) as worker, session(server) as observer:

        def turn(value: str) -> None:
            observer.execute(f"alter system set pgflash.account = {value}")
            observer.execute("select pg_reload_conf()")
            for connection in (worker, observer):
                assert eventually(
                    lambda connection=connection: (
                        one(  # type: ignore[misc]
                            connection, "show pgflash.account"
                        )
                        == value
                    )
                )

        load(worker, updates=10)
        turn("off")
        before = relation(observer, "item")
        load(worker, updates=10)
        off = relation(observer, "item")
        turn("on")
        load(worker, updates=10)
        on = relation(observer, "item")
    assert off == before
    assert on["reads"] > off["reads"]


def test_a_backend_that_is_killed_takes_no_count_with_it(server: Server) -> None:
    with session(server) as worker:
        worker.execute("select count(*) from item")
        before = relation(worker, "item")
        since = one(worker, "select stats_since from pgflash_wal")
        counts = io(worker)
        os.kill(worker.info.backend_pid, signal.SIGKILL)

    def answers() -> bool:
        with suppress(psycopg.OperationalError), session(server) as again:
            return bool(one(again, "select true"))
        return False

    assert eventually(lambda: "all server processes terminated" in server.log_text())
    assert eventually(answers)
    with session(server) as worker:
        assert one(worker, "select stats_since from pgflash_wal") == since
        after = relation(worker, "item")
        later = io(worker)
        assert after["reads"] >= before["reads"] > 0
        assert after["extend_bytes"] == before["extend_bytes"] > 0
        assert all(later[key]["calls"] >= row["calls"] for key, row in counts.items())
        reads = relation(worker, "item")["reads"]
        worker.execute("select count(*) from item")
        assert relation(worker, "item")["reads"] > reads


def test_more_relations_than_places_are_counted_together(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(
        install=pgflash_install,
        settings={
            **read_by_sessions(pgflash_install, SETTINGS),
            "pgflash.account_relations": "40",
        },
    )
    with session(server) as worker:
        worker.execute("create extension pgflash")
        for number in range(100):
            worker.execute(f"create table t{number} as select 1 as n")
        worker.execute("checkpoint")
        relations = rows(
            worker,
            "select coalesce(relation, '') = 'other' as other, relfilenumber is null as nobody,"
            " reads + writes + extends + syncs as calls from pgflash_io_relations",
        )
        spaces = rows(
            worker,
            "select sum(reads + writes + extends + syncs) as calls from pgflash_io_tablespaces",
        )
        assert [row["nobody"] for row in relations if row["other"]] == [True]
        assert len(relations) == 41
        assert next(row["calls"] for row in relations if row["other"]) > 100
        # The query between them reads, too.
        assert 0 <= spaces[0]["calls"] - sum(row["calls"] for row in relations) < 100


def test_a_dropped_relation_stays_in_the_totals(server: Server) -> None:
    spaces = "select extends from pgflash_io_tablespaces where tablespace = 'pg_default'"
    with session(server) as worker:
        worker.execute("create table gone as select * from item")
        worker.execute("checkpoint")
        filenode = one(worker, "select pg_relation_filenode('gone')")
        before = relation(worker, "gone")
        assert before["extends"] > 0
        assert before["syncs"] > 0
        assert one(worker, spaces) >= before["extends"]
        worker.execute("drop table gone")
        worker.execute("checkpoint")
        raw = rows(
            worker, f"select * from pgflash_io_relation_rows() where relfilenumber = {filenode}"
        )
        shown = rows(
            worker, f"select relation from pgflash_io_relations where relfilenumber = {filenode}"
        )
        assert {row["file_gone"] for row in raw} == {True}
        assert max(row["extends"] for row in raw) == before["extends"]
        assert {row["relation"] for row in shown} == {None}
        assert one(worker, spaces) >= before["extends"]


def test_a_rewritten_relation_starts_over_and_the_old_file_is_kept(server: Server) -> None:
    with session(server) as worker:
        worker.execute("create table rewritten as select * from item")
        old = relation(worker, "rewritten")
        worker.execute("vacuum full rewritten")
        worker.execute("checkpoint")
        new = relation(worker, "rewritten")
        kept = rows(
            worker,
            "select * from pgflash_io_relation_rows()"
            f" where relfilenumber = {old['relfilenumber']} and fork = 'main'",
        )
        worker.execute("drop table rewritten")
    assert new["relfilenumber"] != old["relfilenumber"]
    assert [row["file_gone"] for row in kept] == [True]
    assert kept[0]["extend_bytes"] == old["extend_bytes"]


def test_the_views_agree_with_one_another(server: Server) -> None:
    query = """
        with io as materialized (select * from pgflash_io_rows()),
             buckets as materialized (select * from pgflash_io_histogram_rows()),
             spaces as materialized (select * from pgflash_io_tablespace_rows()),
             relations as materialized (select * from pgflash_io_relation_rows())
        select (select sum(calls) from io) as calls,
               (select sum(calls) from buckets) as in_buckets,
               (select sum(calls) from io where file_class = 'data') as data_calls,
               (select sum(reads + writes + extends + syncs) from spaces) as in_spaces,
               (select sum(reads + writes + extends + syncs) from relations) as in_relations,
               (select sum(bytes) from io where file_class = 'data') as data_bytes,
               (select sum(read_bytes + write_bytes + extend_bytes) from relations)
                   as relation_bytes
    """
    with session(server) as worker:

        def agree() -> bool:
            (found,) = rows(worker, query)
            return bool(
                found["calls"] == found["in_buckets"] > 0
                and found["data_calls"] == found["in_spaces"] == found["in_relations"]
                and found["data_bytes"] == found["relation_bytes"]
            )

        # They are read one after another, and others may write meanwhile.
        assert eventually(agree)


class Follower:
    """Keeps the calls of relations up to date from the rows that have changed."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.mark: int | None = None
        self.places: dict[int, tuple[Any, ...]] = {}

    def look(self) -> int:
        """Take up what has changed; return how many rows that were."""
        query = "select * from pgflash_io_relation_changes(%s)"
        told = self.connection.execute(query, (self.mark,)).fetchall()
        for mark, place, *row in told:
            self.mark = mark
            self.places[place] = tuple(row)
        return len(told)

    def knows_all(self) -> bool:
        self.look()
        query = "select * from pgflash_io_relation_rows()"
        return set(self.places.values()) == set(self.connection.execute(query).fetchall())


def ask_anything(worker: psycopg.Connection[Any], number: int, random: Random) -> None:
    """Read, change, create, rewrite and drop its tables."""
    statements = (
        "create table if not exists {0} as select n, repeat('x', 300) as pad"
        " from generate_series(1, 2000) n",
        "insert into {0} select n, 'y' from generate_series(1, 500) n",
        "update {0} set pad = pad where n % 7 = 0",
        "select count(*) from {0}",
        "truncate {0}",
        "vacuum full {0}",
        "drop table {0}",
        "checkpoint",
    )
    for _ in range(120):
        with suppress(psycopg.errors.UndefinedTable):
            worker.execute(random.choice(statements).format(f"own_{number}_{random.randrange(3)}"))


def test_who_is_told_what_changes_knows_what_there_is(server: Server) -> None:
    workers = [session(server) for _ in range(3)]
    with session(server) as observer, session(server) as late:
        follower, seldom = Follower(observer), Follower(late)
        assert follower.look() == len(follower.places) > 50
        seldom.look()
        threads = [
            threading.Thread(target=ask_anything, args=[worker, number, Random(number)])
            for number, worker in enumerate(workers)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            follower.look()
        for thread in threads:
            thread.join()
        for worker in workers:
            worker.close()
        # Others may write between the two queries; a row that was once missed would stay missing.
        assert eventually(follower.knows_all)
        assert eventually(seldom.knows_all)
        assert eventually(lambda: follower.look() == 0)
        assert relation(late, "item")["reads"] > 0

        mark, follower.mark = follower.mark, 4711
        assert follower.look() == len(follower.places), "another's mark"
        follower.mark = mark
        assert follower.look() == len(follower.places), "a mark of before"


def test_off_at_the_start_and_nothing_else_on_leaves_the_server_alone(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = cluster(
        install=pgflash_install,
        settings={
            "shared_preload_libraries": "pgflash",
            "pgflash.account": "off",
            "pgflash.advice": "off",
        },
    )
    with session(server) as worker:
        worker.execute("create extension pgflash")
        worker.execute("alter system set pgflash.account = on")
        worker.execute("select pg_reload_conf()")
        assert eventually(lambda: one(worker, "show pgflash.account") == "on")
        worker.execute("create table item as select 1 as n")
        for view in ("io", "io_histogram", "io_relations", "io_tablespaces"):
            assert rows(worker, f"select * from pgflash_{view}") == []
        assert one(worker, "select stats_since from pgflash_wal") is None
