# SPDX-License-Identifier: PostgreSQL
"""A primary stores which blocks it has cached, and other servers warm themselves by that."""

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from support.cached import assert_never_stale
from support.channel import (
    IDLE,
    STAYS,
    STORING,
    await_warm,
    cache_item,
    change,
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
from support.patience import until
from support.standby import create_copy, create_standby, has_replayed

#: Differences between major versions are tested on each of them: recovery, and the processes that
#: load.  What a list may hold is not.
every_major = pytest.mark.extension


# ---- who is warmed by it


@every_major
def test_a_standby_and_its_standby_warm_themselves(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    standby = create_standby(cluster, primary.server, settings=STORING)
    cascaded = create_standby(cluster, standby.server, settings=STORING, name="cascaded")
    with (
        primary.server.connect() as writer,
        standby.server.connect() as reader,
        cascaded.server.connect() as second,
    ):
        for session in (reader, second):
            await_warm(session)
        # Blocks change while lists are loaded and replayed, and the table is cut off.
        for _ in range(5):
            change(writer)
        writer.execute("delete from item where id > 15000")
        writer.execute("vacuum item")
        until(lambda: has_replayed(primary.server, cascaded.server))
        before = number(writer)
        until(lambda: number(writer) != before)
        for session in (reader, second):
            await_warm(session)

        # A promoted standby stores its own list.
        promote(reader)
        before = number(reader)
        reader.execute("create table other as select * from item")
        reader.execute("checkpoint")
        reader.execute("select pgflash_cache_load('other')")
        until(lambda: number(reader) != before)
        assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))
        promote(second)
        second.execute("update item set pad = repeat('z', 500) where id % 100 = 2")
        assert_never_stale(cascaded, compared_min=500, go_on=lambda: read_all(second))


@every_major
def test_a_standby_that_is_fed_by_an_archive_warms_itself(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install, settings={"archive_mode": "on"})
    archive = make_server_dir(primary.server.base / "archive")
    with primary.server.connect() as writer:
        writer.execute(f"alter system set archive_command = 'cp %p {archive}/%f'")
        writer.execute("select pg_reload_conf()")
        standby = create_standby(
            cluster,
            primary.server,
            settings={
                **STORING,
                "primary_conninfo": "",
                "restore_command": f"cp {archive}/%f %p",
                "wal_retrieve_retry_interval": "100ms",
            },
        )
        before = number(writer)
        change(writer)
        writer.execute("create table other as select * from item")
        writer.execute("checkpoint")
        writer.execute("select pgflash_cache_load('other')")
        until(lambda: number(writer) != before)
        newest = number(writer)
        writer.execute("select pg_switch_wal()")
        with standby.server.connect() as reader:
            until(lambda: number(reader) == newest)
            await_warm(reader)
            promote(reader)
            assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


@every_major
def test_a_copy_and_a_rewound_server_warm_themselves(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    settings = {**STORING, "wal_log_hints": "on"}
    primary = create_primary(cluster, pgflash_install, settings=settings)
    copy = create_copy(cluster, primary.server, settings=settings)
    copy.start()
    with copy.server.connect() as session:
        await_warm(session)
        # It is a server of its own, with the identity of the other.
        assert one(session, "select pg_is_in_recovery()") is False
        assert_never_stale(copy, compared_min=500, go_on=lambda: read_all(session))
    copy.server.stop()

    standby = create_standby(cluster, primary.server, settings=settings)
    with standby.server.connect() as session:
        await_warm(session)
        promote(session)
        session.execute("checkpoint")
        with primary.server.connect() as lost:
            change(lost)
        primary.server.stop()
        primary.server.run(
            [
                *("pg_rewind", "--target-pgdata", primary.server.data),
                *("--source-server", standby.server.conninfo()),
            ]
        )
        primary.server.configure({"primary_conninfo": standby.server.conninfo()})
        (primary.server.data / "standby.signal").touch()
        primary.cache_file.unlink()
        primary.start()
        primary.await_serving()
        with primary.server.connect() as rewound:
            until(lambda: has_replayed(standby.server, primary.server))
            await_warm(rewound)
            promote(rewound)
            assert_never_stale(primary, compared_min=500, go_on=lambda: read_all(rewound))


@every_major
def test_a_primary_that_lost_its_cache_loads_its_own_list(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as session:
        blocks = stored_blocks(session)
        session.execute("alter system set pgflash.load_rate = 0")
    primary.server.kill_postmaster()
    primary.cache_file.unlink()
    primary.start()
    primary.await_serving()
    with primary.server.connect() as session:
        until(lambda: list_of(session) is not None)
        newest = number(session)
        # The list of a cold cache does not take its place, however often it could.
        until(lambda: said(primary.server, STAYS, times=4))
        assert not is_warm(session)
        assert (number(session), stored_blocks(session)) == (newest, blocks)
        session.execute("alter system reset pgflash.load_rate")
        session.execute("select pg_reload_conf()")
        await_warm(session)
        assert_never_stale(primary, compared_min=500, go_on=lambda: read_all(session))


def test_a_warm_primary_stores_its_list_though_a_load_waits(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    """After a restart it is given its own list to load, which may wait for ever."""
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as session:
        session.execute("alter system set pgflash.load_rate = 0")
    primary.server.kill_postmaster()
    primary.start()
    primary.await_serving()
    with primary.server.connect() as session:
        before = number(session)
        # A quarter of what is cached goes.
        session.execute("delete from item where id > 15000")
        session.execute("vacuum item")
        until(lambda: number(session) != before)


# ---- what is not trusted


@pytest.mark.parametrize(
    "change",
    [
        "segment = -1",
        "filenode = 0",
        "fork = 'toast'",
        "heat = 9",
        "bitmap = decode(repeat('ff', 16385), 'hex')",
    ],
)
def test_invalid_rows_are_left_out(
    cluster: ClusterFactory, pgflash_install: PgInstall, change: str
) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as writer:
        set_interval(primary, "0")
        writer.execute(
            "insert into pgflash_stored_list values (1663, 5, 999999, 'main', 0, 0, '\\xff')"
        )
        writer.execute(f"update pgflash_stored_list set {change} where filenode = 999999")
        standby = create_standby(cluster, primary.server, settings=STORING)
        with standby.server.connect() as reader:
            await_warm(reader)
            assert said(standby.server, "ignoring 1 invalid rows of the stored list")
            promote(reader)
            assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


def test_an_unlogged_partition_hinders_no_load_on_a_standby(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    standby = create_standby(cluster, primary.server, settings=STORING)
    with primary.server.connect() as writer, standby.server.connect() as reader:
        for statement in (
            "create table parted (n int) partition by range (n)",
            "create unlogged table parted_a partition of parted for values from (0) to (1)",
            "create table parted_b partition of parted for values from (1) to (2)",
            "insert into parted values (0), (1)",
        ):
            writer.execute(statement)
        until(lambda: has_replayed(primary.server, standby.server))
        assert reader.execute("select pgflash_cache_load('parted')").fetchone() == (1,)
        with pytest.raises(psycopg.Error, match="cannot load unlogged relation"):
            reader.execute("select pgflash_cache_load('parted_a')")
        assert writer.execute("select pgflash_cache_load('parted')").fetchone() == (2,)


@pytest.mark.parametrize(
    "change",
    [
        "update pgflash_stored_list_head set system_identifier = system_identifier + 1",
        "update pgflash_stored_list_head set taken_at = 'infinity'",
        "update pgflash_stored_list_head set list_number = 0",
        "delete from pgflash_stored_list_head",
    ],
)
def test_a_list_of_another_cluster_is_ignored_and_replaced(
    cluster: ClusterFactory, pgflash_install: PgInstall, change: str
) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as writer:
        set_interval(primary, "0")
        writer.execute(change)
        before = number(writer)
        standby = create_standby(cluster, primary.server, settings=STORING)
        with standby.server.connect() as reader:
            until(lambda: said(standby.server, STAYS, times=3))
            assert list_of(reader) is None
            promote(reader)
            cache_item(reader)
            until(lambda: number(reader) not in (before, None))
            assert one(
                reader,
                "select h.system_identifier = c.system_identifier"
                " from pgflash_stored_list_head h, pg_control_system() c",
            )
            assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


def test_an_old_list_costs_time_and_no_more(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as writer:
        for name in ("dropped", "truncated", "rewritten"):
            writer.execute(f"create table {name} as table item")
            writer.execute("checkpoint")
            writer.execute(f"select pgflash_cache_load('{name}')")
        until(lambda: stored_blocks(writer) > 5000)
        set_interval(primary, "0")
        writer.execute("drop table dropped")
        writer.execute("truncate truncated")
        writer.execute("vacuum full rewritten")
        change(writer)
        standby = create_standby(cluster, primary.server, settings=STORING)
        with standby.server.connect() as reader:
            until(lambda: (list_of(reader) or ("", ""))[:2] == ("repository", "done"))
            missing = one(reader, "select blocks_missing from pgflash_cache_warmth")
            assert missing > 2000
            promote(reader)
            assert_never_stale(standby, compared_min=500, go_on=lambda: read_all(reader))


@every_major
def test_a_table_that_was_changed_is_not_read(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
    changed = "a table of the stored list of cached blocks has been changed"
    with primary.server.connect() as writer:
        writer.execute("alter table pgflash_stored_list alter bitmap type text using 'x'")
        until(lambda: said(primary.server, changed, times=2))
        writer.execute("alter table pgflash_stored_list_head alter taken_at type text")
        until(lambda: said(primary.server, changed, times=4))
        assert "terminated by signal" not in primary.server.log_text()
        primary.assert_serving()


def test_who_may_read_and_write_it(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    primary = create_primary(cluster, pgflash_install)
    with primary.server.connect() as session:
        session.execute("create role watcher in role pg_monitor")
        session.execute("create role stranger")
        for table in ("pgflash_stored_list", "pgflash_stored_list_head"):
            session.execute("set role watcher")
            assert session.execute(f"select * from {table}").fetchall()
            for act in (f"delete from {table}", f"truncate {table}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    session.execute(act)
            session.execute("set role stranger")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(f"select * from {table}")


# ---- what it costs


@every_major
def test_nothing_is_written_while_nothing_changes(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    # Or the visits themselves would read catalogs from flash, which changes their heat.
    primary = create_primary(cluster, pgflash_install, settings={"shared_buffers": "32MB"})
    with primary.server.connect() as session:
        until(lambda: said(primary.server, IDLE))
        newest, visits = number(session), primary.server.log_text().count(IDLE)
        until(lambda: said(primary.server, IDLE, times=visits + 3))
        assert number(session) == newest
        assert one(session, "select count(*) from pgflash_stored_list_head") == 1


def test_the_budget_limits_its_wal(cluster: ClusterFactory, pgflash_install: PgInstall) -> None:
    primary = create_primary(
        cluster, pgflash_install, settings={"pgflash.cache_list_wal_budget": "1MB"}
    )
    with primary.server.connect() as session:
        set_interval(primary, "0")
        # Each of these rows has to go, as nothing of it is cached.
        session.execute(
            "insert into pgflash_stored_list select 1663, 5, 900000 + n, 'main', 0, 0, '\\xff'"
            " from generate_series(1, 60000) n"
        )
        session.execute("update pgflash_stored_list_head set wal_left_bytes = 1048576")
        # With data checksums, the first reader of new rows writes the pages to the WAL.
        session.execute("vacuum pgflash_stored_list")
        session.execute("checkpoint")
        before, position = number(session), one(session, "select pg_current_wal_insert_lsn()")
        set_interval(primary, "1s")
        until(lambda: number(session) != before)
        until(lambda: said(primary.server, IDLE))
        left = one(session, "select wal_left_bytes from pgflash_stored_list_head")
        written = one(session, f"select pg_current_wal_insert_lsn() - '{position}'::pg_lsn")
        assert -50_000 < left < 50_000
        assert 900_000 < written < 1_400_000
        rest = one(session, "select count(*) from pgflash_stored_list where filenode > 900000")
        assert 1000 < rest < 59990

        # The list of a session stays until the stored one changes.
        session.execute("select pgflash_cache_load_list('{}')")
        until(lambda: said(primary.server, IDLE, times=3))
        assert (list_of(session) or ("",))[0] == "session"
