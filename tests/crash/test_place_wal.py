"""The WAL moves to another folder: under load, cut off at every step, refused, rolled back.

After each cut the cluster is started by pg_ctl alone, as somebody would who has never
heard of pgflash, and what was committed is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.lab.postgres import PgInstall
from pgflash.model.plan import Move, MoveKind, MoveState
from pgflash.place import apply_plan, undo_plan
from support.cluster import ClusterFactory
from support.placed import Place, PlacedServer, Work, cut_off, placed_server


@pytest.fixture(scope="module")
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """One server for all tests here; each leaves its WAL in the data directory."""
    factory = ClusterFactory(pg_install)
    settings = {"max_prepared_transactions": "5", "min_wal_size": "2MB", "max_wal_size": "8MB"}
    with placed_server(factory, settings=settings, initdb_args=["--wal-segsize=1"]) as placed:
        yield placed
    factory.close()


def move_to(folder: Path) -> Move:
    return Move(kind=MoveKind.WAL, to=str(folder))


class Rows:
    """The rows that were committed: each of them has to be there for ever."""

    def __init__(self, placed: PlacedServer) -> None:
        self._placed = placed
        self._committed = 0
        with placed.server.connect() as connection:
            connection.execute("create table if not exists kept (n int)")
            connection.execute("truncate kept")

    def add(self) -> None:
        """Commit one more, and check."""
        with self._placed.server.connect() as connection:
            connection.execute("insert into kept values (1)")
        self._committed += 1
        self.check()

    def check(self) -> None:
        """Fail if one is missing."""
        with self._placed.server.connect() as connection:
            row = connection.execute("select count(*) from kept").fetchone()
        assert row == (self._committed,)


@pytest.fixture
def rows(placed: PlacedServer) -> Rows:
    return Rows(placed)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_at_home(placed: PlacedServer, folder: Path) -> None:
    """Fail unless the WAL is in the data directory, as initdb leaves it, and nothing beside."""
    assert placed.wal_folder == placed.data / "pg_wal"
    assert not (placed.data / "pg_wal").is_symlink()
    assert "pg_wal.pgflash" not in names(placed.data)
    assert not folder.exists()


def test_the_wal_goes_and_comes_back(placed: PlacedServer, rows: Rows) -> None:
    folder = placed.server.base / "flash-wal"
    rows.add()
    path = placed.plan(move_to(folder))
    plan = placed.apply(path)
    assert plan.records[0].state is MoveState.DONE
    assert placed.wal_folder == folder
    assert (folder.stat().st_mode & 0o777) == 0o700
    assert folder.stat().st_uid == placed.data.stat().st_uid
    assert "pg_wal.pgflash" not in names(placed.data)
    rows.add()
    assert placed.undo(path).records[0].state is MoveState.UNDONE
    assert_at_home(placed, folder)
    rows.add()


def test_every_cut_leaves_a_cluster_that_starts(
    placed: PlacedServer, rows: Rows, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = placed.server.base / "flash-cut"
    path = placed.plan(move_to(folder), name="cut")
    matrix = list[str]()

    def cut(work: Work, place: Place) -> None:
        if cut_off(work, path, placed.dsn, place) is not None:
            return  # it did not come there this time
        up = placed.answers
        matrix.append(f"{work.__name__}: {place[0]} {place[1]}: {'up' if up else 'down'}")
        # Some are started as anybody would, some are left to pgflash.
        if not up and len(matrix) % 3:
            placed.start()
            up = True
        if up:
            rows.add()

    places = cut_off(apply_plan, path, placed.dsn, None)
    back = cut_off(undo_plan, path, placed.dsn, None)
    assert places
    assert back
    assert_at_home(placed, folder)
    for number, place in enumerate(places):
        cut(apply_plan, place)
        if number % 2:
            assert placed.apply(path).records[0].state is MoveState.DONE
            assert placed.wal_folder == folder
        placed.undo(path)
        assert_at_home(placed, folder)
        rows.check()
    for number, place in enumerate(back):
        placed.apply(path)
        cut(undo_plan, place)
        if number % 2:
            placed.apply(path)
            assert placed.wal_folder == folder
        placed.undo(path)
        assert_at_home(placed, folder)
        rows.check()
    with capsys.disabled():
        print("", *matrix, sep="\n")  # noqa: T201 - the matrix is what one wants to see
    down = {line.split(": ")[1].rsplit(" ", 1)[0] for line in matrix if line.endswith("down")}
    # Where the server is down is where it matters.
    assert {"copy the rest", "switch", "start the server"} <= down
