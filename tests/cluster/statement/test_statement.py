# SPDX-License-Identifier: PostgreSQL
"""What statements took from where: exact sums, whatever a statement does and however it ends."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.account import one, rows, session
from support.cached import has_contrib
from support.cluster import ClusterFactory
from support.patience import eventually
from support.statements import (
    IN_PARALLEL,
    less,
    read,
    statements_server,
    taken,
    wait_for_workers,
    ways_to_read,
)

pytestmark = pytest.mark.extension

FUNCTIONS = """
create function nested(low int, high int) returns bigint language plpgsql as $$
declare found bigint;
begin
    select sum(length(pad)) into found from item where id between low and high;
    return found;
end $$;
create function fails() returns void language plpgsql as $$
begin
    perform count(*) from item;
    raise exception 'on purpose';
end $$;
create function fails_inside() returns int language plpgsql as $$
begin
    perform fails();
    return 0;
exception when others then
    return 1;
end $$
"""


def run_all(connection: psycopg.Connection[Any]) -> None:
    """Run statements of many kinds, of which some fail."""
    execute = connection.execute
    execute("select count(*) from item")
    execute("select sum(length(pad)) from item where mod(id, 3) = %s", [1], prepare=True)
    execute("select nested(1, 5000)")
    execute("select fails_inside()")
    execute("update item set pad = repeat('y', 500) where mod(id, 100) = 7")
    execute("create table copied as select * from item")
    execute("create index on copied (pad)")
    execute("vacuum analyze copied")
    execute("cluster copied using copied_pad_idx")
    with connection.cursor().copy("copy item to stdout") as copy:
        assert sum(len(part) for part in copy) > 0
    execute("explain (analyze, costs off) select count(*) from item")
    execute("explain select count(*) from copied")
    with connection.transaction():
        execute("declare c cursor for select * from item order by id desc")
        execute("fetch 10 from c")
        execute("select count(*) from copied")
        execute("fetch 5000 from c")
    # Workers of a statement that has failed may still read for a moment.
    execute("set max_parallel_workers_per_gather = 0; set max_parallel_maintenance_workers = 0")
    for wrong in (
        "select 1 / (id - 15000) from item",
        "select fails()",
        "do $$ begin perform 1 / (id - 15000) from item; end $$",
        "create index on copied ((1 / (id - 15000)))",
    ):
        with pytest.raises((psycopg.errors.DivisionByZero, psycopg.errors.RaiseException)):
            execute(wrong)
    execute("reset max_parallel_workers_per_gather; reset max_parallel_maintenance_workers")
    execute("drop table copied")


@pytest.mark.parametrize("parallel", [False, True], ids=["alone", "in parallel"])
@pytest.mark.parametrize("way", ["", "sync", "worker", "io_uring"])
def test_the_sums_equal_those_of_all_reads(
    cluster: ClusterFactory, pgflash_install: PgInstall, way: str, parallel: bool
) -> None:
    ways = ways_to_read(pgflash_install)
    if way not in ways:
        pytest.skip(f"this server does not read by {way or 'the only way of earlier ones'}")
    more = IN_PARALLEL if parallel else {}
    server = statements_server(cluster, pgflash_install, {**ways[way], **more})
    with session(server) as worker, session(server) as observer:
        worker.execute(FUNCTIONS)
        # What parsing looks up is in the session's memory afterwards.
        for _ in range(2):
            run_all(worker)
            (read(observer), taken(observer))
        wait_for_workers(observer)
        read_before, taken_before = read(observer), taken(observer)
        run_all(worker)
        wait_for_workers(observer)
        read_after, taken_after = read(observer), taken(observer)
    reads = less(read_after, read_before)
    assert reads["page cache"]["bytes"] + reads["disk"]["bytes"] > 0
    for source, numbers in less(taken_after, taken_before).items():
        for number, value in numbers.items():
            assert value == pytest.approx(reads[source][number], abs=0.01), (source, number)


def of_last(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    (row,) = rows(connection, "select * from pgflash_last_statement")
    return row


def blocks_of(row: dict[str, Any]) -> int:
    return int(row["page_cache_read_blocks"] + row["flash_read_blocks"] + row["disk_read_blocks"])


def test_the_last_statement_is_the_one_before_those_that_ask(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {})
    with session(server) as worker:
        pages = one(worker, "select pg_relation_size('item') / 8192")
        with worker.transaction():
            worker.execute("select count(*) from item")
        first = of_last(worker)
        again = of_last(worker)
        assert first == again
        assert blocks_of(first) + first["shared_hit_blocks"] >= pages
        # 1 MB of buffers: at most these blocks were there.
        assert blocks_of(first) >= pages - 128
        worker.execute("select 1")
        assert blocks_of(of_last(worker)) == 0
        with pytest.raises(psycopg.errors.DivisionByZero):
            worker.execute("select sum(1 / (id - 20000)) from item")
        assert blocks_of(of_last(worker)) >= pages - 128


def test_a_session_without_the_setting_counts_nothing(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {"pgflash.track_statements": "none"})
    with session(server) as worker:
        worker.execute("select count(*) from item")
        assert rows(worker, "select * from pgflash_last_statement") == []
        assert one(worker, "select count(*) from pgflash_statements") == 0
        worker.execute("set pgflash.track_statements = 'top'")
        worker.execute("select count(*) from item")
        assert blocks_of(of_last(worker)) > 0


def test_statements_without_an_identifier_are_added_up_together(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {"compute_query_id": "off"})
    with session(server) as worker:
        worker.execute("select pgflash_statements_reset()")
        worker.execute("select count(*) from item")
        last = of_last(worker)
        assert last["queryid"] is None
        assert blocks_of(last) > 0
        (row,) = rows(worker, "select * from pgflash_statements")
        assert row["userid"] is row["dbid"] is row["queryid"] is None
        assert row["toplevel"]
        assert row["disk_read_blocks"] + row["page_cache_read_blocks"] >= blocks_of(last)


def levels(connection: psycopg.Connection[Any]) -> dict[bool, int]:
    query = "select toplevel, sum(calls)::int as calls from pgflash_statements group by toplevel"
    return {row["toplevel"]: row["calls"] for row in rows(connection, query)}


def test_nested_statements_have_rows_of_their_own_if_all_are_wanted(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {"pgflash.track_statements": "top"})
    with session(server) as worker:
        worker.execute(FUNCTIONS)
        worker.execute("select nested(1, 100)")
        assert levels(worker).keys() == {True}
        worker.execute("set pgflash.track_statements = 'all'")
        worker.execute("select pgflash_statements_reset()")
        worker.execute("select nested(1, 100)")
        # The reset itself, which ends after its own effect, and the call.
        assert levels(worker) == {True: 2, False: 1}
        worker.execute("select nested(1, 100)")
        assert levels(worker)[False] == 2


@pytest.mark.parametrize("fault", ["", "STATEMENT_LEVEL"])
def test_statements_after_a_failed_one_are_at_the_top_again(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    broken_install: Callable[[str], PgInstall],
    fault: str,
) -> None:
    install = broken_install(fault) if fault else pgflash_install
    server = statements_server(cluster, install, {})
    with session(server) as worker:
        with pytest.raises(psycopg.errors.DivisionByZero):
            worker.execute("select sum(1 / (id - 20000)) from item")
        assert blocks_of(of_last(worker)) > 0
        worker.execute("select 1")
        assert (blocks_of(of_last(worker)) == 0) is not bool(fault)


def read_by_all(connection: psycopg.Connection[Any]) -> int:
    """Return how many blocks the statements that clients sent have read."""
    query = (
        "select coalesce(sum(page_cache_read_blocks + flash_read_blocks + disk_read_blocks), 0)"
        " from pgflash_statements where toplevel"
    )
    return int(one(connection, query))


@pytest.mark.parametrize("first", ["select 1", "create temporary table mine (i int)"])
@pytest.mark.parametrize("fault", ["", "STATEMENT_FATAL"])
def test_a_statement_whose_session_is_terminated_is_counted(
    cluster: ClusterFactory,
    pgflash_install: PgInstall,
    broken_install: Callable[[str], PgInstall],
    fault: str,
    first: str,
) -> None:
    """It is the one that somebody looks for: it was so slow that it was ended.

    A temporary table has the transaction aborted, and its memory released, before all else.
    """
    install = broken_install(fault) if fault else pgflash_install
    server = statements_server(cluster, install, {})
    with session(server) as observer:
        pages = one(observer, "select pg_relation_size('item') / 8192")
        for asleep in (
            "select sum(length(pad)), pg_sleep(600) from item",
            "do $$ begin perform sum(length(pad)) from item; perform pg_sleep(600); end $$",
            "do $$ begin execute 'select sum(length(pad)), pg_sleep(600) from item'; end $$",
        ):
            observer.execute("select pgflash_statements_reset()")
            worker = session(server)
            worker.execute(first)
            pid = worker.info.backend_pid
            with ThreadPoolExecutor(1) as pool:
                ended = pool.submit(worker.execute, asleep)
                sleeps = f"select wait_event = 'PgSleep' from pg_stat_activity where pid = {pid}"
                assert eventually(partial(one, observer, sleeps)), asleep
                observer.execute("select pg_terminate_backend(%s)", [pid])
                with pytest.raises(psycopg.OperationalError):
                    ended.result()
            gone = f"select count(*) = 0 from pg_stat_activity where pid = {pid}"
            assert eventually(partial(one, observer, gone))
            # 1 MB of buffers: at most these blocks were there.
            assert (read_by_all(observer) >= pages - 128) is not bool(fault), asleep


def test_a_statement_that_fails_at_its_start_is_counted(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """Its planning may have read: functions are evaluated before rights are checked."""
    server = statements_server(cluster, pgflash_install, {})
    with session(server) as worker:
        worker.execute(
            "create function planned() returns int language sql immutable"
            " as 'select sum(length(pad))::int from item';"
            " create table secret (i int); create role nobody_much login;"
            " grant select on item to nobody_much; set role nobody_much"
        )
        pages = one(worker, "select pg_relation_size('item') / 8192")
        with session(server) as observer:
            observer.execute("select pgflash_statements_reset()")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                worker.execute("select * from secret where i = planned()")
            assert read_by_all(observer) >= pages - 128


def test_what_triggers_do_at_commit_is_not_the_last_statement(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    server = statements_server(cluster, pgflash_install, {})
    with session(server) as worker:
        worker.execute(
            "create table part (of int references item (id) deferrable initially deferred)"
        )
        insert = "insert into part select id from item where id <= 500"
        worker.execute(insert)
        # Each of the 500 checks looks up a handful of blocks.
        assert of_last(worker)["shared_hit_blocks"] > 250
        with worker.transaction():
            worker.execute(insert)
        assert of_last(worker)["shared_hit_blocks"] > 250


@pytest.mark.parametrize("preload", ["pgflash, pg_stat_statements", "pg_stat_statements, pgflash"])
def test_rows_have_the_keys_and_hits_of_pg_stat_statements(
    cluster: ClusterFactory, pgflash_install: PgInstall, preload: str
) -> None:
    if not has_contrib(pgflash_install, "pg_stat_statements"):
        pytest.skip("this build has no pg_stat_statements")
    server = statements_server(cluster, pgflash_install, {}, preload=preload)
    with session(server) as worker:
        worker.execute("create extension pg_stat_statements")
        worker.execute(FUNCTIONS)
        worker.execute("select pg_stat_statements_reset(), pgflash_statements_reset()")
        worker.execute("select sum(length(pad)) from item where id < 1000")
        worker.execute("select nested(1, 100)")
        worker.execute("create table copied as select * from item")
        worker.execute("prepare p as select count(*) from item where id < 17")
        worker.execute("execute p")
        worker.execute("drop table copied")
        found = rows(
            worker,
            "select s.calls as theirs, f.calls as ours, shared_blks_hit, shared_hit_blocks"
            " from pg_stat_statements s full join pgflash_statements f"
            " using (userid, dbid, queryid, toplevel)"
            " where coalesce(query, '') not like '%_reset%'",
        )
    assert len(found) >= 5
    for row in found:
        assert row["theirs"] == row["ours"], row
        assert row["shared_hit_blocks"] >= row["shared_blks_hit"], row
