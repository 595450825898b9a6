# SPDX-License-Identifier: PostgreSQL
"""Relations are loaded into the cache in the background, and never a wrong block with them."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_never_stale, create_cached, process_titles
from support.cluster import ClusterFactory
from support.patience import eventually, until
from support.shim import compile_shim

pytestmark = pytest.mark.extension

PROGRESS = "select state, state_reason, {} from pgflash_cache_load_progress order by load_id"
BLOCKS = "blocks_total, blocks_done, blocks_cached, blocks_loaded, blocks_refused"

#: What loads of a partitioned table consist of: its files with their blocks.
FILES = """
with tables as (select relid::oid as oid from pg_partition_tree('orders') where isleaf),
     files as (
       select oid from tables
       union all select reltoastrelid from pg_class where oid in (select oid from tables)
       union all select indexrelid from pg_index where indrelid in (select oid from tables)
       union all select indexrelid from pg_index where indrelid in
         (select reltoastrelid from pg_class where oid in (select oid from tables)))
select oid, pg_relation_size(oid) / 8192 from files where pg_relation_size(oid) > 0
"""

SLOW_AFTER_FORK = """
#include <pthread.h>
#include <unistd.h>
static void rest(void) { sleep(1); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(NULL, NULL, rest); }
"""


@pytest.fixture
def cached(cluster: ClusterFactory, pgflash_install: PgInstall) -> CachedServer:
    return create_cached(cluster, pgflash_install, settings={"pgflash.load_rate": "1GB"})


@pytest.fixture
def worker(cached: CachedServer) -> Iterator[psycopg.Connection[Any]]:
    with cached.server.connect() as connection:
        connection.autocommit = True
        yield connection


def create_orders(worker: psycopg.Connection[Any]) -> None:
    """Make a table of two partitions, with an index and long texts."""
    worker.execute("create table orders (id int primary key, note text) partition by range (id)")
    for first in (0, 2000):
        worker.execute(
            f"create table orders_{first} partition of orders"
            f" for values from ({first}) to ({first + 2000})"
        )
    worker.execute("alter table orders alter note set storage external")
    worker.execute("insert into orders select n, repeat('x', 3000) from generate_series(1, 3999) n")
    worker.execute("vacuum analyze orders")
    worker.execute("checkpoint")


def progress(worker: psycopg.Connection[Any], columns: str = BLOCKS) -> list[tuple[Any, ...]]:
    return worker.execute(PROGRESS.format(columns)).fetchall()


def finished(worker: psycopg.Connection[Any]) -> bool:
    states = {row[0] for row in progress(worker)}
    return bool(states) and not states & {"waiting", "loading"}


def assert_none_stale(worker: psycopg.Connection[Any]) -> None:
    seen = worker.execute("select verify_mismatches from pgflash_cache").fetchone()
    assert seen == (0,), "stale blocks were served"


def await_loads_never_stale(worker: psycopg.Connection[Any]) -> None:
    """Wait until all loads have ended; fail at once if a hit was stale: then none would end."""

    def ended() -> bool:
        assert_none_stale(worker)
        return finished(worker)

    assert eventually(ended), progress(worker)


def set_rate(worker: psycopg.Connection[Any], rate: str) -> None:
    worker.execute(f"alter system set pgflash.load_rate = '{rate}'")
    worker.execute("select pg_reload_conf()")
    until(lambda: worker.execute("show pgflash.load_rate").fetchone() == (rate,))


def test_a_table_is_loaded_with_its_partitions_texts_and_indexes(
    cached: CachedServer, worker: psycopg.Connection[Any]
) -> None:
    create_orders(worker)
    files = dict(worker.execute(FILES).fetchall())
    worker.execute("select pgflash_cache_clear()")
    before = cached.view()
    queued = worker.execute("select pgflash_cache_load('orders')").fetchone()
    assert queued == (sum(files.values()),)
    assert eventually(lambda: finished(worker)), progress(worker)
    loaded = progress(worker, f"relation_oid, {BLOCKS}")
    assert {row[2]: row[3] for row in loaded} == files
    for state, _reason, _oid, total, done, there, added, refused in loaded:
        assert (state, done, there + added + refused) == ("done", total, total)
    after = cached.view()
    assert after["inserts"] - before["inserts"] >= sum(row[6] for row in loaded) > 0
    # No query asked for these blocks.
    assert after["hits"] + after["misses"] - before["hits"] - before["misses"] < len(files) * 20

    def all_cached() -> bool:
        """A block that is written meanwhile, as by autovacuum, is not added: ask again."""
        worker.execute("select pgflash_cache_load('orders')")
        until(lambda: finished(worker))
        return all(
            len(worker.execute("select from pgflash_cache_blocks(%s)", [oid]).fetchall()) >= blocks
            for oid, blocks in files.items()
        )

    until(all_cached)
    assert_never_stale(
        cached,
        compared_min=200,
        go_on=lambda: worker.execute("select sum(length(note)) from orders"),
    )


def test_a_paused_load_continues_after_a_restart(
    cached: CachedServer, worker: psycopg.Connection[Any]
) -> None:
    create_orders(worker)
    set_rate(worker, "0")
    worker.execute("select pgflash_cache_load('orders', indexes => false)")
    until(lambda: "pgflash.load_rate is 0" in {row[1] for row in progress(worker)})
    listed = progress(worker, "filenode, blocks_total")
    worker.close()
    cached.server.stop()
    cached.start()
    cached.await_serving()
    with cached.server.connect() as again:
        again.autocommit = True
        assert [row[2:] for row in progress(again, "filenode, blocks_total")] == [
            row[2:] for row in listed
        ]
        set_rate(again, "1GB")
        assert eventually(lambda: finished(again)), progress(again)
        assert {row[0] for row in progress(again)} == {"done"}


def test_a_load_is_cancelled(worker: psycopg.Connection[Any]) -> None:
    create_orders(worker)
    set_rate(worker, "0")
    worker.execute("select pgflash_cache_load('orders')")
    assert worker.execute("select pgflash_cache_load_cancel('orders_0')").fetchone() == (1,)
    left = worker.execute("select pgflash_cache_load_cancel()").fetchone()
    assert left == (len(progress(worker)) - 1,)
    assert {row[0] for row in progress(worker)} == {"cancelled"}
    # Asked for again, it is loaded.
    set_rate(worker, "1GB")
    worker.execute("select pgflash_cache_load('orders_0')")
    assert eventually(lambda: "done" in {row[0] for row in progress(worker)}), progress(worker)


def test_a_load_that_is_cancelled_while_nobody_loads_is_not_resumed_by_a_restart(
    cached: CachedServer, worker: psycopg.Connection[Any]
) -> None:
    create_orders(worker)
    set_rate(worker, "0")
    worker.execute("select pgflash_cache_load('orders')")
    path = cached.server.data / "pg_stat" / "pgflash_load.stat"
    until(path.exists)
    worker.execute("select pgflash_cache_set_mode('offline')")
    server = cached.server
    until(lambda: "pgflash loader" not in {title for _pid, title in process_titles(server)})
    full = path.stat().st_size
    worker.execute("select pgflash_cache_load_cancel()")
    until(lambda: path.stat().st_size < full)
    worker.close()
    cached.server.stop()
    cached.start()
    cached.await_serving()
    with cached.server.connect() as again:
        assert progress(again) == []


def test_a_file_that_is_gone_has_failed(worker: psycopg.Connection[Any]) -> None:
    create_orders(worker)
    set_rate(worker, "0")
    worker.execute("select pgflash_cache_load('orders_0', indexes => false)")
    worker.execute("drop table orders")
    worker.execute("checkpoint")
    set_rate(worker, "1GB")
    assert eventually(lambda: finished(worker)), progress(worker)
    assert {row[:2] for row in progress(worker)} == {("failed", "No such file or directory")}


def test_a_rate_that_changes_while_the_loader_starts_counts(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """PostgreSQL discards a reload between a worker's fork and its start: a second here."""
    cached = create_cached(
        cluster, pgflash_install, settings={"pgflash.load_rate": "0"}, start=False
    )
    cached.preloads = (compile_shim(cached.server.base, "slow", SLOW_AFTER_FORK),)
    cached.start()
    cached.create_extension()
    with cached.server.connect() as worker:
        worker.autocommit = True
        create_orders(worker)
        before = set(cached.server.child_pids())
        worker.execute("select pgflash_cache_load('orders_0', indexes => false)")
        until(lambda: set(cached.server.child_pids()) - before)
        set_rate(worker, "1GB")
        await_loads_never_stale(worker)


def test_a_damaged_list_is_ignored(cached: CachedServer, worker: psycopg.Connection[Any]) -> None:
    create_orders(worker)
    set_rate(worker, "0")
    worker.execute("select pgflash_cache_load('orders')")
    path = cached.server.data / "pg_stat" / "pgflash_load.stat"
    until(path.exists)
    worker.close()
    cached.server.stop()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    cached.start()
    cached.await_serving()
    with cached.server.connect() as again:
        assert progress(again) == []
    assert 'ignoring invalid file "pg_stat/pgflash_load.stat"' in cached.server.log_text()


def test_only_superusers_load(worker: psycopg.Connection[Any]) -> None:
    create_orders(worker)
    worker.execute("create role watcher in role pg_monitor")
    worker.execute("set role watcher")
    assert progress(worker) == []
    for call in ("pgflash_cache_load('orders')", "pgflash_cache_load_cancel()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            worker.execute(f"select {call}")


@pytest.mark.parametrize(
    ("relation", "words"),
    [("pg_tables", "has no blocks to load"), ("scratch", "cannot load temporary relation")],
)
def test_what_cannot_be_loaded_is_refused(
    worker: psycopg.Connection[Any], relation: str, words: str
) -> None:
    worker.execute("create temp table scratch (id int)")
    with pytest.raises(psycopg.Error, match=words):
        worker.execute(f"select pgflash_cache_load('{relation}')")


def test_a_partition_without_blocks_hinders_no_other(worker: psycopg.Connection[Any]) -> None:
    worker.execute("create table parted (n int) partition by range (n)")
    worker.execute("create table parted_b partition of parted for values from (1) to (9)")
    worker.execute("insert into parted values (1)")
    for statement in (
        "create foreign data wrapper nothing",
        "create server nowhere foreign data wrapper nothing",
        "create foreign table parted_a partition of parted for values from (0) to (1) "
        "server nowhere",
        "create table family (n int)",
        "create temp table child () inherits (family)",
        "create table grown_up () inherits (family)",
        "insert into family values (1)",
        "insert into child values (1)",
        "insert into grown_up values (1)",
        "checkpoint",
    ):
        worker.execute(statement)
    assert worker.execute("select pgflash_cache_load('parted')").fetchone() == (1,)
    assert worker.execute("select pgflash_cache_load('family')").fetchone() == (2,)
    with pytest.raises(psycopg.Error, match="has no blocks to load"):
        worker.execute("select pgflash_cache_load('parted_a')")


# ---- loads beside changes


def change_and_load(cached: CachedServer, rounds: int) -> None:
    """Load a table again and again while its rows change, and it is truncated and rewritten."""
    stop = threading.Event()
    with cached.server.connect() as worker, cached.server.connect() as changer:
        worker.autocommit = changer.autocommit = True
        worker.execute("drop table if exists item")
        worker.execute("create table item (id int primary key, pad text)")

        def fill() -> None:
            changer.execute(
                "insert into item select n, repeat('x', 500) from generate_series(1, 20000) n"
            )

        def change() -> None:
            number = 0
            while not stop.is_set():
                number += 7919
                changer.execute(
                    "update item set pad = repeat(%s, 500) where id between %s and %s",
                    [chr(97 + number % 26), number % 20000, number % 20000 + 50],
                )
                # Written while no query reads, so that only the load may fill what it changes.
                changer.execute("checkpoint")

        fill()
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for number in range(rounds):
                worker.execute("select pgflash_cache_clear()")
                worker.execute("select pgflash_cache_load('item')")
                if number % 2:
                    worker.execute("vacuum full item")
                await_loads_never_stale(worker)
                # At once, for the next change takes away what went in stale.
                assert cached.verify()[1] == 0, "stale blocks were loaded"
        finally:
            stop.set()
            changing.join()
        changer.execute("truncate item")
        worker.execute("select pgflash_cache_load('item')")
        fill()
        worker.execute("checkpoint")
        worker.execute("select pgflash_cache_load('item')")
        await_loads_never_stale(worker)
        assert_never_stale(
            cached,
            compared_min=500,
            go_on=lambda: worker.execute("select sum(length(pad)) from item"),
        )


def test_a_load_beside_changes_is_never_stale(cached: CachedServer) -> None:
    change_and_load(cached, rounds=6)


def change_during_load(cached: CachedServer) -> int:
    """Change one block after another of a table until it is loaded.  Return how many are stale.

    The table is one run of blocks.  A second change of a block would take away what is stale: so
    the rows are read before each checkpoint, since the first reader of a row marks it.
    """
    with cached.server.connect() as worker:
        worker.autocommit = True
        worker.execute("drop table if exists item")
        worker.execute(
            "create table item with (fillfactor = 50) as"
            " select n as id, repeat('x', 1500) as pad from generate_series(1, 24) n"
        )

        def read_and_checkpoint() -> None:
            worker.execute("select count(pad) from item")
            worker.execute("checkpoint")

        read_and_checkpoint()
        worker.execute("select pgflash_cache_clear()")
        worker.execute("select pgflash_cache_load('item')")
        number = 0

        def change() -> None:
            nonlocal number
            number += 1
            worker.execute("update item set pad = repeat('y', 1500) where id = 2 * %s", [number])
            read_and_checkpoint()
            time.sleep(0.15)

        assert eventually(lambda: finished(worker), pause=change), progress(worker)
    return cached.verify()[1]


def test_a_change_during_a_load_is_never_stale(cached: CachedServer) -> None:
    assert [change_during_load(cached) for _ in range(10)] == [0] * 10


@pytest.mark.parametrize("fault", ["LOAD_TICKET"])
def test_a_ticket_taken_after_the_read_is_caught(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall], fault: str
) -> None:
    cached = create_cached(cluster, broken_install(fault), settings={"pgflash.load_rate": "1GB"})
    until(lambda: change_during_load(cached) > 0)
