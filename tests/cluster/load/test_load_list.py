# SPDX-License-Identifier: PostgreSQL
"""A list of blocks is loaded into the cache; a bad one costs time, never a wrong block."""

import os
import signal
import struct
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgflash import api
from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, assert_never_stale, create_cached, process_titles
from support.cluster import ClusterFactory
from support.patience import eventually, until
from support.standby import REPLICATION, create_standby, has_replayed

#: Differences between major versions are tested on each of them: recovery, and the processes that
#: load.  What a list may hold is not.
every_major = pytest.mark.extension

#: With room for all loaders.
LOADING = {"pgflash.load_rate": "1GB", "max_worker_processes": "16"}
LOADERS = 4

#: The header of the list's file, and one of its parts; see load_list.c.
HEADER = struct.Struct("<IIQQQqII")
PART = struct.Struct("<8IQII")
HEAT = 5

STORE = "create table stored as select * from pgflash_cache_list()"
LOAD = "select pgflash_cache_load_list(array_agg(s)) from stored s"
#: The blocks of a table, all of one heat, as a list.
WHOLE = """
select 1663::oid as tablespace, d.oid as database, pg_relation_filenode('{table}') as filenode,
       'main'::text as fork, 0 as segment, {heat} as heat,
       decode(repeat('ff', (pg_relation_size('{table}') / 8192 / 8)::int), 'hex') as bitmap
  from pg_database d where datname = current_database()
"""


@pytest.fixture
def cached(cluster: ClusterFactory, pgflash_install: PgInstall) -> CachedServer:
    return create_cached(cluster, pgflash_install, settings=LOADING)


@pytest.fixture
def session(cached: CachedServer) -> Iterator[psycopg.Connection[Any]]:
    with cached.server.connect() as connection:
        connection.autocommit = True
        yield connection


def create_item(session: psycopg.Connection[Any]) -> None:
    session.execute("create table item (id int primary key, pad text)")
    session.execute("insert into item select n, repeat('x', 500) from generate_series(1, 20000) n")
    session.execute("vacuum analyze item")
    session.execute("checkpoint")


def cache_item(session: psycopg.Connection[Any]) -> None:
    """Have the table and its index in the cache."""
    session.execute("select pgflash_cache_load('item')")
    assert eventually(
        lambda: (
            session.execute(
                "select from pgflash_cache_load_progress where state in ('waiting', 'loading')"
            ).fetchall()
            == []
        )
    )


def load_item(session: psycopg.Connection[Any], heat: int = 0) -> None:
    """Load the whole table by a list that was taken on a day in the past."""
    session.execute(
        "select pgflash_cache_load_list(array_agg(s), '2026-01-01')"
        f" from ({WHOLE.format(table='item', heat=heat)}) s"
    )


def warmth(session: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return the row of the view; empty: there is no list."""
    cursor = session.execute("select * from pgflash_cache_warmth")
    row = cursor.fetchone()
    assert cursor.description is not None
    return (
        {} if row is None else dict(zip((one.name for one in cursor.description), row, strict=True))
    )


def await_end(session: psycopg.Connection[Any]) -> dict[str, Any]:
    assert eventually(lambda: warmth(session)["state"] == "done"), warmth(session)
    return warmth(session)


def set_rate(session: psycopg.Connection[Any], rate: str) -> None:
    session.execute(f"alter system set pgflash.load_rate = '{rate}'")
    session.execute("select pg_reload_conf()")
    until(lambda: session.execute("show pgflash.load_rate").fetchone() == (rate,))


def sums_up(row: dict[str, Any]) -> bool:
    parts = ("cached", "loaded", "refused", "missing")
    return bool(row["blocks_done"] == sum(row[f"blocks_{part}"] for part in parts))


def read_all(session: psycopg.Connection[Any]) -> None:
    session.execute("select sum(length(pad)) from item")


@every_major
def test_what_was_cached_is_loaded_again(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    assert warmth(session) == {}
    create_item(session)
    cache_item(session)
    session.execute(STORE)
    session.execute("select pgflash_cache_clear()")
    before = cached.view()
    (listed,) = session.execute(LOAD).fetchone() or (0,)
    row = await_end(session)
    assert listed == row["blocks_total"] == row["blocks_done"] > 1000
    assert sums_up(row)
    assert row["blocks_loaded"] > listed * 0.9
    assert row["warmth"] > 0.9
    assert row["to_go_s"] == 0
    assert row["list_age_s"] >= 0
    after = cached.view()
    # No query asked for these blocks.
    assert after["hits"] + after["misses"] - before["hits"] - before["misses"] < 500

    # Taken again, nothing has to be read.
    session.execute(LOAD)
    again = await_end(session)
    assert again["list_id"] > row["list_id"]
    assert again["blocks_cached"] > listed * 0.9
    assert_never_stale(cached, compared_min=500, go_on=lambda: read_all(session))


@every_major
def test_the_hottest_part_is_loaded_first(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    create_item(session)
    set_rate(session, "0")
    parts = " union all ".join(WHOLE.format(table="item", heat=heat) for heat in (1, 3, 0, 2))
    session.execute(f"select pgflash_cache_load_list(array_agg(s)) from ({parts}) s")
    content = (cached.server.data / "pg_stat" / "pgflash_load_list.stat").read_bytes()
    _, count, *_ = HEADER.unpack_from(content)
    heats = [PART.unpack_from(content, HEADER.size + n * PART.size)[HEAT] for n in range(count)]
    assert heats == [3, 2, 1, 0]


@every_major
def test_a_paused_list_continues_after_a_restart(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    create_item(session)
    set_rate(session, "0")
    whole = WHOLE.format(table="item", heat=2)
    session.execute(f"select pgflash_cache_load_list(array_agg(s), '2026-01-01') from ({whole}) s")
    until(lambda: warmth(session)["state_reason"] == "pgflash.load_rate is 0")
    before = warmth(session)
    assert (before["blocks_done"], before["to_go_s"]) == (0, None)
    session.close()
    cached.server.stop()
    cached.start()
    cached.await_serving()
    with cached.server.connect() as again:
        again.autocommit = True
        for same in ("list_id", "list_taken_at", "blocks_total"):
            assert warmth(again)[same] == before[same]
        set_rate(again, "1GB")
        row = await_end(again)
        there = row["blocks_loaded"] + row["blocks_cached"]
        assert there + row["blocks_refused"] == row["blocks_total"]
        # A block is refused if a block of its set changed meanwhile, as at a checkpoint.
        assert there > 0.9 * row["blocks_total"]
        assert_never_stale(cached, compared_min=500, go_on=lambda: read_all(again))


@every_major
def test_a_cancelled_list_does_not_come_back(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    create_item(session)
    set_rate(session, "0")
    load_item(session)
    assert session.execute("select pgflash_cache_load_cancel()").fetchone() == (1,)
    row = warmth(session)
    assert (row["state"], row["warmth"], row["to_go_s"]) == ("cancelled", None, None)
    assert session.execute("select pgflash_cache_load_cancel()").fetchone() == (0,)
    session.close()
    cached.server.stop()
    cached.start()
    with cached.server.connect() as again:
        assert warmth(again) == {}


# ---- the processes that load


def pids_of(cached: CachedServer, name: str) -> set[int]:
    return {pid for pid, title in process_titles(cached.server) if title == name}


def end_one(cached: CachedServer, name: str) -> None:
    """End a process of this name, and wait until there is another one instead."""
    before = pids_of(cached, name)
    ended = min(before)
    os.kill(ended, signal.SIGTERM)

    def replaced() -> bool:
        now = pids_of(cached, name)
        return ended not in now and bool(now - before)

    until(replaced)


@every_major
def test_there_are_as_many_loaders_as_wanted(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    create_item(session)
    set_rate(session, "0")
    parts = " union all ".join(
        WHOLE.format(table=table, heat=heat)
        for table in ("item", "item_pkey")
        for heat in range(LOADERS)
    )
    session.execute(f"select pgflash_cache_load_list(array_agg(s)) from ({parts}) s")
    until(lambda: len(pids_of(cached, "pgflash loader")) == LOADERS)
    end_one(cached, "pgflash")
    for _ in range(2):  # what the new worker does not know is replaced, and nothing is there twice
        end_one(cached, "pgflash loader")
        assert len(pids_of(cached, "pgflash loader")) == LOADERS

    listed = warmth(session)["list_id"]
    session.execute("select pgflash_cache_set_mode('offline')")
    until(lambda: not pids_of(cached, "pgflash loader"))
    row = warmth(session)
    assert row["state"] == "loading"
    assert row["state_reason"] == "the mode of the cache is not serve"
    session.close()
    cached.server.stop()
    cached.start()
    with cached.server.connect() as again:
        again.autocommit = True
        assert warmth(again)["list_id"] == listed
        set_rate(again, "1GB")
        await_end(again)


# ---- lists that are wrong


@every_major
def test_blocks_that_are_not_there_are_missing(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    """The relations are dropped, truncated and rewritten, or have never been there."""
    create_item(session)
    for table in ("dropped", "truncated", "rewritten"):
        session.execute(f"create table {table} as table item")
    session.execute("checkpoint")
    parts = " union all ".join(
        WHOLE.format(table=table, heat=0) for table in ("dropped", "truncated", "rewritten")
    )
    session.execute(f"create table stored as {parts}")
    (bits,) = session.execute("select sum(bit_count(bitmap)) from stored").fetchone() or (0,)
    session.execute("drop table dropped")
    session.execute("truncate truncated")
    session.execute("vacuum full rewritten")
    session.execute("checkpoint")
    session.execute(
        "insert into stored values (77777, 88888, 99999, 'main', 0, 3, '\\xff'),"
        " (1664, 0, 99999, 'vm', 7, 3, '\\xff'),"
        " (1663, 5, 4294967295, 'init', 16777215, 0, '\\xff')"
    )
    assert session.execute(LOAD).fetchone() == (bits + 24,)
    row = await_end(session)
    assert row["blocks_missing"] == row["blocks_done"] == bits + 24
    assert row["warmth"] == 0
    assert_never_stale(cached, compared_min=500, go_on=lambda: read_all(session))


def test_more_blocks_than_the_file_has_are_missing(session: psycopg.Connection[Any]) -> None:
    create_item(session)
    whole = WHOLE.format(table="item", heat=0)
    session.execute(
        "select pgflash_cache_load_list(array_agg(s)) from (select tablespace, database, filenode,"
        f" fork, segment, heat, decode(repeat('ff', 16384), 'hex') as bitmap from ({whole}) w) s"
    )
    row = await_end(session)
    (size,) = session.execute("select pg_relation_size('item') / 8192").fetchone() or (0,)
    assert row["blocks_total"] == row["blocks_done"] == 131072
    assert row["blocks_missing"] == 131072 - size
    assert sums_up(row)


@pytest.mark.parametrize("where", ["header", "part", "bitmap", "end"])
def test_a_damaged_list_costs_time_and_no_more(
    cached: CachedServer, session: psycopg.Connection[Any], where: str
) -> None:
    create_item(session)
    set_rate(session, "0")
    load_item(session)
    session.close()
    cached.server.stop()
    path = cached.server.data / "pg_stat" / "pgflash_load_list.stat"
    content = bytearray(path.read_bytes())
    at = {"header": 9, "part": HEADER.size + 8, "bitmap": HEADER.size + PART.size + 3}
    if where == "end":
        del content[-1]
    else:
        content[at[where]] ^= 1
    path.write_bytes(content)
    cached.start()
    cached.await_serving()
    with cached.server.connect() as again:
        again.autocommit = True
        set_rate(again, "1GB")
        if where == "header":
            assert warmth(again) == {}
            assert "ignoring invalid file" in cached.server.log_text()
        else:
            row = await_end(again)
            assert (row["blocks_loaded"], row["warmth"]) == (0, None)
        assert_never_stale(cached, compared_min=500, go_on=lambda: read_all(again))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("segment = -1", "segment of a row is invalid"),
        ("segment = 16777216", "filenode or segment of a row is invalid"),
        ("filenode = 0", "filenode or segment of a row is invalid"),
        ("fork = 'toast'", "fork of a row is invalid"),
        ("heat = 4", "heat of a row is invalid"),
        ("bitmap = null", "bitmap of a row is invalid"),
        ("bitmap = decode(repeat('ff', 16385), 'hex')", "bitmap of a row is invalid"),
    ],
)
def test_a_row_that_cannot_be_of_a_file_is_refused(
    session: psycopg.Connection[Any], change: str, words: str
) -> None:
    create_item(session)
    session.execute(f"create table stored as {WHOLE.format(table='item', heat=0)}")
    session.execute(f"update stored set {change}")
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        session.execute(LOAD)
    assert words in str(refused.value.diag.message_detail)
    assert warmth(session) == {}


def test_rows_need_the_columns_of_a_list(session: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.DatatypeMismatch, match='no column "tablespace" of type oid'):
        session.execute(
            "select pgflash_cache_load_list(array_agg(s)) from (select 1 as tablespace) s"
        )
    assert session.execute("select pgflash_cache_load_list('{}')").fetchone() == (0,)
    assert warmth(session)["state"] == "done"


def test_the_age_of_a_list_is_never_negative(session: psycopg.Connection[Any]) -> None:
    session.execute("select pgflash_cache_load_list('{}', now() + interval '1 day')")
    assert warmth(session)["list_age_s"] == 0
    for never in ("infinity", "-infinity"):
        with pytest.raises(psycopg.errors.DatetimeFieldOverflow, match="must be finite"):
            session.execute(f"select pgflash_cache_load_list('{{}}', '{never}')")


def test_only_superusers_load_lists(session: psycopg.Connection[Any]) -> None:
    session.execute("create role watcher in role pg_monitor")
    session.execute("set role watcher")
    assert warmth(session) == {}
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("select pgflash_cache_load_list('{}')")


# ---- lists beside changes


@every_major
def test_a_list_loaded_beside_changes_is_never_stale(
    cached: CachedServer, session: psycopg.Connection[Any]
) -> None:
    stop = threading.Event()
    create_item(session)

    def change() -> None:
        number = 0
        with cached.server.connect() as changer:
            changer.autocommit = True
            while not stop.is_set():
                number += 7919
                changer.execute(
                    "update item set pad = repeat(%s, 500) where id between %s and %s",
                    [chr(97 + number % 26), number % 20000, number % 20000 + 50],
                )

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for number in range(6):
            session.execute("select pgflash_cache_clear()")
            load_item(session, heat=3)
            if number % 2:
                session.execute("vacuum full item")
            if number == 4:
                # Another list comes while this one is loaded.
                session.execute(
                    "select pgflash_cache_load_list(array_agg(l)) from pgflash_cache_list() l"
                )
            row = await_end(session)
            assert sums_up(row)
    finally:
        stop.set()
        changing.join()
    session.execute("truncate item")
    session.execute("insert into item select n, repeat('x', 500) from generate_series(1, 20000) n")
    session.execute("checkpoint")
    assert_never_stale(cached, compared_min=500, go_on=lambda: read_all(session))


@every_major
def test_a_standby_loads_the_list_of_its_primary(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_cached(cluster, pgflash_install, settings={**REPLICATION, **LOADING})
    with primary.server.connect() as session:
        session.autocommit = True
        create_item(session)
        cache_item(session)
        session.execute(STORE)
        standby = create_standby(cluster, primary.server, settings=LOADING)
        session.execute("drop index if exists nothing")
        session.execute("update item set pad = repeat('y', 500) where id % 100 = 1")
        session.execute("checkpoint")
    assert eventually(lambda: has_replayed(primary.server, standby.server))
    standby.await_serving()
    with standby.server.connect() as reader:
        reader.autocommit = True
        reader.execute(LOAD)
        row = await_end(reader)
        assert row["warmth"] > 0.9
        (member,) = api.fleet_status(dsns=[standby.server.conninfo()]).members
        assert (member.role, member.problem) == ("standby", "")
        assert member.warmth is not None
        assert member.warmth > 0.9
        assert member.to_go_s == 0
        assert member.list_age_s is not None
        reader.execute("select pg_promote()")
        reader.execute("update item set pad = repeat('z', 500) where id % 100 = 2")
        assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))
