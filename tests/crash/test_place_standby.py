# SPDX-License-Identifier: PostgreSQL
"""The WAL moves on a primary with a slot and a standby, and on the standby itself."""

from collections.abc import Iterator
from functools import partial

import pytest

from pgflash.machine.ephemeral import ephemeral_at
from pgflash.model.plan import Move, MoveKind
from pgflash.place import PlaceError, cluster, look_at
from pgflash.place.journal import read_plan
from pgflash.standbys import read_standbys
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cluster import FAST_SETTINGS, ClusterFactory
from support.machines import FakeMachine
from support.patience import eventually, until
from support.placed import PlacedServer, placed_server
from support.standby import REPLICATION, has_replayed
from support.uring import uring_settings


@pytest.fixture(scope="module")
def pair(pg_install: PgInstall) -> Iterator[tuple[PlacedServer, PlacedServer]]:
    """A primary, and a standby that follows it by a slot."""
    factory = ClusterFactory(pg_install)
    with placed_server(factory, settings=REPLICATION, initdb_args=["--wal-segsize=1"]) as primary:
        with primary.server.connect() as connection:
            connection.execute("create table kept (n int)")
        server = factory.adopt(
            Server(
                install=pg_install,
                base=primary.server.base.parent / "standby",
                settings={**FAST_SETTINGS, **uring_settings(pg_install), **REPLICATION},
            )
        )
        slot = ("--write-recovery-conf", "--create-slot", "--slot=follows")
        words = [
            "pg_basebackup",
            "--pgdata",
            str(server.data),
            "--checkpoint=fast",
            "--no-sync",
            *slot,
        ]
        primary.server.run(words)
        standby = PlacedServer(server)
        try:
            yield primary, standby
        finally:
            standby.close()
    factory.close()


def add_and_follow(primary: PlacedServer, standby: PlacedServer) -> None:
    """Commit a row on the primary, and wait until all of them are on the standby."""
    with primary.server.connect() as connection:
        connection.execute("insert into kept values (1)")
        rows = connection.execute("select count(*) from kept").fetchone()
    assert eventually(lambda: has_replayed(primary.server, standby.server))
    with standby.server.connect() as connection:
        assert connection.execute("select count(*) from kept").fetchone() == rows


def wal_to(placed: PlacedServer) -> Move:
    return Move(kind=MoveKind.WAL, to=str(placed.server.base / "flash-wal"))


def test_a_standby_follows_a_primary_whose_wal_moves(
    pair: tuple[PlacedServer, PlacedServer],
) -> None:
    primary, standby = pair
    add_and_follow(primary, standby)
    path = primary.plan(wal_to(primary))
    primary.apply(path)
    add_and_follow(primary, standby)
    # The slot keeps WAL that the standby has not had yet, across the next move, too.
    standby.stop()
    with primary.server.connect() as connection:
        for _number in range(5):
            connection.execute("insert into kept values (1)")
            connection.execute("select pg_switch_wal()")
        connection.execute("checkpoint")
    primary.undo(path)
    standby.start()
    add_and_follow(primary, standby)


def test_the_wal_of_a_standby_moves_by_itself(pair: tuple[PlacedServer, PlacedServer]) -> None:
    primary, standby = pair
    path = standby.plan(wal_to(standby))
    standby.apply(path)
    assert standby.wal_folder == standby.server.base / "flash-wal"
    assert primary.wal_folder == primary.data / "pg_wal"
    add_and_follow(primary, standby)
    standby.undo(path)
    add_and_follow(primary, standby)


def test_the_wal_goes_to_a_drive_that_may_be_lost_only_beside_a_synchronous_standby(
    pair: tuple[PlacedServer, PlacedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    add_and_follow(primary, standby)
    # The target is on a drive that is named as one that is empty after a stop, the data is not.
    drive = primary.server.base / "flash-wal"
    root = primary.server.base / "machine"  # which the server's user can read
    fake = FakeMachine(root)
    fake.mount("8:1", "/", "ext4", "/dev/sda1")
    fake.mount("259:1", str(drive), "ext4", "/dev/nvme0n1p1")
    fake.write("etc/pgflash/ephemeral/nvme.conf", f"MOUNT={drive}")
    (root / str(drive).lstrip("/")).mkdir(parents=True)
    monkeypatch.setattr(cluster, "ephemeral_at", partial(ephemeral_at, machine=fake.machine))

    path = primary.plan(wal_to(primary), name="lost")
    with pytest.raises(PlaceError, match=r"nvme.conf names it.*there is no synchronous standby"):
        primary.apply(path)
    assert primary.wal_folder == primary.data / "pg_wal"
    with primary.server.connect() as connection:
        connection.execute("alter system set synchronous_standby_names = '*'")
        connection.execute("select pg_reload_conf()")
        until(lambda: read_standbys(connection).why_alone() == "")
    (seen,) = look_at(read_plan(path), primary.dsn)
    assert seen.refused is None
    assert seen.look is not None
    assert any("rebuilt from another member" in one for one in seen.look.warnings)
    (own,) = look_at(read_plan(standby.plan(wal_to(standby), name="own")), standby.dsn)
    assert own.refused is None
    with primary.server.connect() as connection:
        connection.execute("alter system reset synchronous_standby_names")
        connection.execute("select pg_reload_conf()")


def test_a_table_is_not_moved_on_a_standby(pair: tuple[PlacedServer, PlacedServer]) -> None:
    primary, standby = pair
    add_and_follow(primary, standby)
    path = standby.plan(Move(kind=MoveKind.TABLE, to="pg_default", name="kept"), name="standby")
    (seen,) = look_at(read_plan(path), standby.dsn)
    assert "is a standby" in str(seen.refused)
    with pytest.raises(PlaceError, match="is a standby"):
        standby.apply(path)


def test_no_tablespace_is_made_that_would_stop_a_standby(
    pair: tuple[PlacedServer, PlacedServer],
) -> None:
    primary, standby = pair
    folder = primary.server.base / "space"
    path = primary.plan(Move(kind=MoveKind.TABLE, to=str(folder), name="kept"), name="space")
    with pytest.raises(PlaceError, match="has standbys"):
        primary.apply(path)
    assert not folder.exists()
    add_and_follow(primary, standby)
