# SPDX-License-Identifier: PostgreSQL
"""A primary stores which blocks it has cached, and other servers warm themselves by that."""

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from pgflash_lab.account import make_server_dir
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer, assert_never_stale, create_cached
from support.cluster import ClusterFactory
from support.patience import eventually, until
from support.standby import REPLICATION, create_copy, create_standby, has_replayed

pytestmark = pytest.mark.extension

STORING = {
    **REPLICATION,
    "pgflash.load_rate": "1GB",
    "pgflash.cache_list_interval": "1s",
    "log_min_messages": "debug1",
}
#: What a visit of a primary says that stored nothing.
IDLE = "the stored list of cached blocks was not written"
#: What a visit says that may not store.
STAYS = "the stored list of cached blocks stays as it is"

Session = psycopg.Connection[Any]


def create_primary(
    cluster: ClusterFactory, install: PgInstall, *, settings: Mapping[str, str] | None = None
) -> CachedServer:
    """Return a server with a table in its cache, which has stored the list of its blocks."""
    cached = create_cached(cluster, install, settings={**STORING, **(settings or {})})
    with cached.server.connect() as session:
        create_item(session)
        cache_item(session)
        # The launcher looks for the extension again.
        session.execute("select pg_reload_conf()")
        until(lambda: stored_blocks(session) > 1000)
    return cached


def create_item(session: Session) -> None:
    session.execute("create table item (id int primary key, pad text)")
    session.execute("insert into item select n, repeat('x', 500) from generate_series(1, 20000) n")
    session.execute("vacuum analyze item")
    session.execute("checkpoint")


def cache_item(session: Session) -> None:
    session.execute("select pgflash_cache_load('item')")
    until(
        lambda: (
            session.execute(
                "select from pgflash_cache_load_progress where state in ('waiting', 'loading')"
            ).fetchall()
            == []
        )
    )


def one(session: Session, query: str) -> Any:  # noqa: ANN401
    row = session.execute(query).fetchone()
    return None if row is None else row[0]


def stored_blocks(session: Session) -> int:
    return int(one(session, "select coalesce(sum(bit_count(bitmap)), 0) from pgflash_stored_list"))


def number(session: Session) -> int | None:
    found = one(session, "select list_number from pgflash_stored_list_head")
    return None if found is None else int(found)


def list_of(session: Session) -> tuple[str, str, float] | None:
    """Return origin, state and warmth of the server's list."""
    return session.execute(
        "select origin, state, coalesce(warmth, 0) from pgflash_cache_warmth"
    ).fetchone()


def is_warm(session: Session) -> bool:
    found = list_of(session)
    return found is not None and found[:2] == ("repository", "done") and found[2] > 0.9


def await_warm(session: Session) -> None:
    assert eventually(lambda: is_warm(session)), list_of(session)


def set_interval(cached: CachedServer, interval: str) -> None:
    """Change how often lists are stored; copies of the server keep their own."""
    cached.server.configure({"pgflash.cache_list_interval": interval})
    cached.server.reload()
    with cached.server.connect() as session:
        until(lambda: one(session, "show pgflash.cache_list_interval") == interval)


def read_all(session: Session) -> None:
    session.execute("select sum(length(pad)) from item")


def change(session: Session) -> None:
    """Change a row of each block."""
    session.execute("update item set pad = repeat('y', 500) where id % 14 = 1")
    session.execute("checkpoint")


def promote(session: Session) -> None:
    assert session.execute("select pg_promote()").fetchone() == (True,)


def said(server: Server, words: str, times: int = 1) -> bool:
    return server.log_text(since_start=True).count(words) >= times


# ---- who is warmed by it


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


def test_a_copy_and_a_rewound_server_warm_themselves(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    settings = {**STORING, "wal_keep_size": "256MB", "wal_log_hints": "on"}
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


def test_nothing_is_written_while_nothing_changes(
    cluster: ClusterFactory, pgflash_install: PgInstall
) -> None:
    primary = create_primary(cluster, pgflash_install)
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
