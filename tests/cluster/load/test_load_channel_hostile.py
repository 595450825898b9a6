# SPDX-License-Identifier: PostgreSQL
"""What a stored list of cached blocks may meet: lost histories, dropped databases, lost caches."""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import (
    CachedServer,
    assert_never_stale,
    create_cached,
    go_on_until_told,
    process_titles,
)
from support.channel import (
    IDLE,
    STAYS,
    STORING,
    Session,
    await_warm,
    cache_item,
    change,
    create_item,
    create_primary,
    is_warm,
    list_of,
    number,
    one,
    promote,
    read_all,
    said,
    set_interval,
    stored_blocks,
)
from support.cluster import ClusterFactory
from support.patience import eventually, until
from support.shim import FULL_FLASH, compile_shim
from support.standby import create_standby, has_replayed, is_streaming_to
from support.visitors import oid_of

#: Differences between major versions are tested on each of them: recovery, and the processes that
#: load.  What a list may hold is not.
every_major = pytest.mark.extension

#: pg_rewind reads the log from before the histories diverge.
KEPT = {**STORING, "wal_log_hints": "on"}


#: A visitor is sent every second.
SEEN_S = 10


def rewind(old: CachedServer, new: CachedServer) -> None:
    """Make a standby of a stopped server whose history was lost, with the cache that it had."""
    old.server.run(
        [
            *("pg_rewind", "--target-pgdata", old.server.data),
            *("--source-server", new.server.conninfo()),
        ]
    )
    old.server.configure({"primary_conninfo": new.server.conninfo()})
    (old.server.data / "standby.signal").touch()
    old.start()
    old.await_serving()


# ---- histories that part


def make_other(cached: CachedServer, rows: int, pad: str) -> int:
    """Make a table and have it cached and listed; return the number of its file."""
    with cached.server.connect() as session:
        session.execute("create table other (id int, pad text)")
        session.execute(
            "insert into other select n, repeat(%s, 500) from generate_series(1, %s) n", (pad, rows)
        )
        session.execute("checkpoint")
        file = int(one(session, "select pg_relation_filenode('other')"))

        def is_listed() -> bool:
            """Load it again: what the writer of a busy machine has left out is missing."""
            session.execute("select pgflash_cache_load('other')")
            return listed_blocks(session, file) > rows / 16  # fourteen rows fit into a block

        until(is_listed)
        return file


def listed_blocks(session: Session, file: int) -> int:
    """Return how many blocks of a file the stored list has."""
    blocks = "select coalesce(sum(bit_count(bitmap)), 0) from pgflash_stored_list"
    return int(one(session, f"{blocks} where filenode = {file}"))


def carry_list(to: Session, source: Session) -> object:
    """Give a server the stored list of another one; return when it was taken."""
    rows = source.execute("select * from pgflash_stored_list").fetchall()
    head = source.execute("select * from pgflash_stored_list_head").fetchone()
    with to.transaction(), to.cursor() as cursor:
        cursor.execute("truncate pgflash_stored_list, pgflash_stored_list_head")
        cursor.executemany("insert into pgflash_stored_list values (%s,%s,%s,%s,%s,%s,%s)", rows)
        cursor.execute("insert into pgflash_stored_list_head values (%s,%s,%s,%s,%s)", head)
    assert head is not None
    return head[3]


def lists_of_two_histories(cluster: ClusterFactory, install: PgInstall) -> None:
    """Promote two standbys of one primary; give one the other's list, then rewind that one to it.

    Both make a table with the same number, but other rows.
    """
    primary = create_primary(cluster, install, settings=KEPT)
    first, second = (
        create_standby(cluster, primary.server, settings=KEPT, name=name)
        for name in ("first", "second")
    )
    until(lambda: is_streaming_to(primary.server, 2))
    primary.server.stop()  # once they have received everything
    with first.server.connect() as kept, second.server.connect() as lost:
        promote(kept)
        # As an archive would have it, so that the histories have different numbers.
        history = "pg_wal/00000002.history"
        copied = shutil.copy2(first.server.data / history, second.server.data / history)
        if second.server.account is not None:
            os.chown(copied, second.server.account.uid, second.server.account.gid)
        promote(lost)
        kept.execute("checkpoint")
        number_of_file = make_other(first, 4000, "k")
        assert make_other(second, 20000, "l") == number_of_file
        await_taken(kept, carry_list(kept, lost))
        missing = one(kept, "select blocks_missing from pgflash_cache_warmth")
        assert missing > 1000  # the other's table is longer

        def read_kept() -> None:
            read_all(kept)
            assert one(kept, "select count(*) from other where pad = repeat('k', 500)") == 4000

        assert_never_stale(first, compared_min=500, go_on=read_kept)
        change(lost)
    second.server.stop()
    rewind(second, first)
    with second.server.connect() as rewound:
        until(lambda: has_replayed(first.server, second.server))
        await_warm(rewound)
        promote(rewound)
        assert_never_stale(second, compared_min=500, go_on=lambda: read_all(rewound))
        assert one(rewound, "select count(*) from other where pad = repeat('k', 500)") == 4000


@every_major
def test_a_list_of_a_lost_history_costs_time_and_no_more(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    lists_of_two_histories(cluster, pgflash_install)


def test_control_a_cache_that_forgets_writes_is_found(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    with pytest.raises(AssertionError, match="stale blocks were served"):
        lists_of_two_histories(cluster, broken_install("WRITE"))


@every_major
def test_a_leader_that_was_cut_off_serves_nothing_of_what_it_lost(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """It goes on while the standby takes over, has the lost blocks cached, and is rewound."""
    old = create_primary(cluster, pgflash_install, settings=KEPT)
    new = create_standby(cluster, old.server, settings=KEPT)
    with old.server.connect() as cut_off, new.server.connect() as leader:
        await_warm(leader)
        new.server.configure({"primary_conninfo": "host=/nowhere"})
        new.server.reload()
        until(lambda: not cut_off.execute("select from pg_stat_replication").fetchall())
        promote(leader)
        leader.execute("checkpoint")
        before = number(cut_off)
        change(cut_off)
        cache_item(cut_off)
        until(lambda: number(cut_off) != before)
        leader.execute("update item set pad = repeat('z', 500) where id % 14 = 2")
    old.server.stop()
    rewind(old, new)
    with old.server.connect() as rewound:
        until(lambda: has_replayed(new.server, old.server))
        await_warm(rewound)
        assert_never_stale_on_standby(old, lambda: read_all(rewound))
        assert one(rewound, "select count(*) from item where pad like 'y%'") == 0
        assert one(rewound, "select count(*) from item where pad like 'z%'") > 1000
        promote(rewound)
        assert_never_stale(old, compared_min=500, go_on=lambda: read_all(rewound))


def assert_never_stale_on_standby(cached: CachedServer, go_on: Callable[[], object]) -> None:
    """Fail unless many hits of a standby were compared, and none was stale."""
    assert go_on_until_told(cached, 500, go_on), cached.view()
    compared, mismatched = cached.verify()
    assert compared > 0
    assert mismatched == 0
    cached.assert_serving()


@every_major
def test_a_standby_that_lags_warms_itself_for_what_it_has(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    standby = create_standby(cluster, primary.server, settings=STORING)
    with primary.server.connect() as writer, standby.server.connect() as reader:
        await_warm(reader)
        # recovery_min_apply_delay would stop a standby that has yet to ask for the stream, too.
        until(lambda: one(reader, "select count(*) from pg_stat_wal_receiver") == 1)
        reader.execute("select pg_wal_replay_pause()")
        until(lambda: one(reader, "select pg_get_wal_replay_pause_state()") == "paused")
        before, replayed = number(writer), number(reader)
        change(writer)
        writer.execute("delete from item where id > 15000")
        writer.execute("vacuum item")
        writer.execute("create table other as select * from item")
        writer.execute("checkpoint")
        writer.execute("select pgflash_cache_load('other')")
        until(lambda: number(writer) != before)
        newest = one(writer, "select pg_current_wal_flush_lsn()")
        until(lambda: one(reader, f"select pg_last_wal_receive_lsn() >= '{newest}'"))
        assert number(reader) == replayed
        assert one(reader, "select count(*) from item") == 20000
        assert_never_stale_on_standby(standby, lambda: read_all(reader))
        # It replays what it has first, which may cancel a session that waits for that.
        reader.execute("select pg_promote(wait => false)")
    with standby.server.connect() as reader:
        until(lambda: not one(reader, "select pg_is_in_recovery()"))
        assert one(reader, "select count(*) from other") == 15000
        assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


# ---- databases that are dropped


def is_visited(cached: CachedServer) -> bool:
    """Say whether a process is in the database of the list."""
    return any("pgflash stored list of" in title for _, title in process_titles(cached.server))


def test_the_database_of_the_list_is_dropped_during_visits(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    settings = {**STORING, "pgflash.snapshot_database": "repository"}
    primary = create_cached(cluster, pgflash_install, settings=settings)
    with primary.server.connect() as writer:
        create_item(writer)
        cache_item(writer)
        standby = create_standby(cluster, primary.server, settings=settings)
        for force in ("with (force)", "", "with (force)"):
            make_repository(primary)
            with primary.server.connect("repository") as session:
                # A list so long that a visit takes its time.
                session.execute(
                    "insert into pgflash_stored_list"
                    " select 1663, 5, 900000 + n, 'main', 0, 0, '\\xff'"
                    " from generate_series(1, 60000) n;"
                    "update pgflash_stored_list_head set list_number = list_number + 1"
                )
            # A busy machine may miss a visitor: then there is another round.
            eventually(lambda: is_visited(standby), seconds=SEEN_S)
            # A visitor leaves at once, which may take a busy machine longer than this waits.
            with suppress(psycopg.errors.ObjectInUse):
                writer.execute(f"drop database repository {force}")
            writer.execute("drop database if exists repository with (force)")
            until(lambda: has_replayed(primary.server, standby.server))
        make_repository(primary)
        until(lambda: has_replayed(primary.server, standby.server))
        with standby.server.connect("repository") as reader:
            await_warm(reader)
            promote(reader)
        with standby.server.connect() as reader:
            assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))
    for cached in (primary, standby):
        assert "terminated by signal" not in cached.server.log_text()


def make_repository(primary: CachedServer) -> None:
    """Make the database of the list, and wait until it has one."""
    with primary.server.connect() as session:
        session.execute("create database repository")
    with primary.server.connect("repository") as session:
        session.execute("create extension pgflash")
        until(lambda: stored_blocks(session) > 1000)


@every_major
def test_a_database_of_the_list_is_dropped_while_it_is_loaded(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_cached(cluster, pgflash_install, settings=STORING)
    with primary.server.connect() as writer:
        writer.execute("create database app")
        database = oid_of(primary.server, "app")
        with primary.server.connect("app") as session:
            session.execute("create extension pgflash")
            create_item(session)
            cache_item(session)
        writer.execute("select pg_reload_conf()")
        until(lambda: stored_blocks(writer) > 1000)
        # Slow, so that the load has only begun when it is told to wait.
        standby = create_standby(
            cluster, primary.server, settings={**STORING, "pgflash.load_rate": "1MB"}
        )
        with standby.server.connect() as reader:
            until(lambda: (one(reader, "select blocks_loaded from pgflash_cache_warmth") or 0) > 50)
            reader.execute("alter system set pgflash.load_rate = 0")
            reader.execute("select pg_reload_conf()")
            until(lambda: (list_of(reader) or ("", "loading"))[1] != "loading")
            # The number of the database goes to another one, whose catalogs have the same files.
            writer.execute("drop database app")
            writer.execute(f"create database again oid {database}")
            create_item(writer)
            until(lambda: has_replayed(primary.server, standby.server))
            # It says "loading" again as soon as the parts of the dropped database are over.
            assert (list_of(reader) or ("",))[0] == "repository"
            reader.execute("alter system set pgflash.load_rate = '1GB'")
            reader.execute("select pg_reload_conf()")
            await_warm(reader)
            promote(reader)
            assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


# ---- caches that are lost, small, or not there


def test_a_primary_whose_cache_is_lost_loads_its_list_before_it_stores_another(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as session:
        until(lambda: said(primary.server, IDLE))
        blocks = stored_blocks(session)
        for _ in range(2):
            session.execute("alter system set pgflash.load_rate = 0")
            session.execute("select pg_reload_conf()")
            session.execute("select pgflash_cache_clear()")
            # It could store another list each time.
            await_more(primary, STAYS, 4)
            assert stored_blocks(session) > 0.9 * blocks
            assert not is_warm(session)
            session.execute("alter system reset pgflash.load_rate")
            session.execute("select pg_reload_conf()")
            await_warm(session)
            # A visit that finds most of the list cached is ready for the next loss.
            await_more(primary, IDLE, 1)
        assert_never_stale(primary, compared_min=500, go_on=lambda: read_all(session))

        # What is gone for good does not stay in the list.
        file = int(one(session, "select pg_relation_filenode('item')"))
        assert listed_blocks(session, file) > 1000
        session.execute("drop table item")
        session.execute("checkpoint")
        session.execute("select pgflash_cache_clear()")
        until(lambda: listed_blocks(session, file) == 0)


def test_a_load_that_was_cancelled_does_not_begin_again(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install, settings={"pgflash.load_rate": "1GB"})
    with primary.server.connect() as session:
        until(lambda: said(primary.server, IDLE))
        before, blocks = number(session), stored_blocks(session)
        session.execute("alter system set pgflash.load_rate = 0")
        session.execute("select pg_reload_conf()")
        session.execute("select pgflash_cache_clear()")
        until(lambda: (list_of(session) or ("",))[0] == "repository")
        session.execute("select pgflash_cache_load_cancel()")
        until(lambda: number(session) != before)
        assert stored_blocks(session) < blocks / 2


@pytest.mark.parametrize("size", ["4MB", "none", "no room"])
def test_a_standby_without_the_room_of_its_primary(
    cluster: ClusterFactory, pgflash_install: PgInstall, size: str
) -> None:
    """Its cache is smaller, or there is none, or its device is full."""
    primary = create_primary(cluster, pgflash_install)
    own = {
        "4MB": {"pgflash.cache_size": "4MB"},
        "none": {"pgflash.cache_file": ""},
        "no room": {},
    }[size]
    standby = create_standby(
        cluster, primary.server, settings={**STORING, **own}, start=size != "no room"
    )
    if size == "no room":
        standby.preloads = [compile_shim(standby.server.base, "full", FULL_FLASH)]
        standby.start()
        assert "no room for cache file" in standby.view()["mode_reason"]
    with primary.server.connect() as writer, standby.server.connect() as reader:
        if size == "4MB":
            until(lambda: (list_of(reader) or ("", ""))[:2] == ("repository", "done"))
        else:
            assert list_of(reader) is None
        change(writer)
        until(lambda: has_replayed(primary.server, standby.server))
        blocks = stored_blocks(reader)
        promote(reader)
        if size != "4MB":
            blocks = stored_blocks(reader)  # the primary may have stored another meanwhile
        read_all(reader)
        if size == "4MB":
            # Its own list takes the place of the longer one.
            until(lambda: stored_blocks(reader) < blocks / 2)
            assert_never_stale(standby, compared_min=100, go_on=lambda: read_all(reader))
            return
        # The list stays for a server that has a cache: this one, too.
        assert stored_blocks(reader) == blocks > 1000
    standby.server.stop()
    standby.preloads = []
    standby.server.configure({"pgflash.cache_file": str(standby.cache_file)})
    standby.start()
    standby.await_serving()
    with standby.server.connect() as reader:
        await_warm(reader)
        assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


def test_invalid_rows_are_logged_once(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as writer:
        set_interval(primary, "0")
        writer.execute(
            "insert into pgflash_stored_list"
            " select 1663, 5, n, 'toast', 0, 0, '\\xff' from generate_series(1, 3) n"
        )
        standby = create_standby(cluster, primary.server, settings=STORING)
        with standby.server.connect() as reader:
            await_warm(reader)
            for _ in range(2):
                writer.execute(
                    "update pgflash_stored_list_head"
                    " set list_number = list_number + 1, taken_at = clock_timestamp()"
                )
                await_taken(reader, one(writer, "select taken_at from pgflash_stored_list_head"))
        log = standby.server.log_text()
        assert re.findall(r"ignoring \d+ invalid rows", log) == ["ignoring 3 invalid rows"]


def await_taken(session: Session, at: object) -> None:
    """Wait until a server has loaded the list that was taken then."""
    loaded = "select list_taken_at from pgflash_cache_warmth where state = 'done'"
    until(lambda: one(session, loaded) == at)


def await_more(cached: CachedServer, words: str, times: int) -> None:
    """Wait until a server has said something so many times more."""
    before = cached.server.log_text(since_start=True).count(words)
    until(lambda: said(cached.server, words, times=before + times))
