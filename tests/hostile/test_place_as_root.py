"""Root places parts of a server, and the server's user wants what is root's.

Whoever has the account that the server runs as waits until root runs `pgflash place` or
`pgflash plan`.  He owns the data directory and, from the moment that root gives it to him,
the new folder.  Whatever he prepares or swaps there meanwhile, nothing of root's may be
read for him, changed, removed or given to him: a command works, or refuses and says why.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash.lab.postgres import PgInstall
from pgflash.model.plan import Move, MoveKind, MoveState
from support.cluster import ClusterFactory
from support.hostile import Victim, attacking, swap, the_attacker
from support.placed import PlacedServer, placed_server


@pytest.fixture
def victim() -> Iterator[Victim]:
    the_attacker()
    victim = Victim()
    yield victim
    victim.remove()


@pytest.fixture
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """A server of the attacker's, with WAL enough to be copied for a while."""
    the_attacker()
    factory = ClusterFactory(pg_install)
    with placed_server(factory) as placed:
        with placed.server.connect() as connection:
            connection.execute(
                "create table a as select repeat('A', 900) from generate_series(1, 30000)"
            )
        yield placed
    factory.close()


def test_a_folder_that_was_prepared_with_a_link(placed: PlacedServer, victim: Victim) -> None:
    """Before root comes, the server's user makes the new folder himself.

    He puts our mark in it, and archive_status as a link to a folder of root's.  Root's
    `pgflash place wal` must not empty that folder, nor give it to him.
    """
    target = placed.folder("new-wal")
    (target / ".pgflash-wal").touch()
    (target / "archive_status").symlink_to(victim.folder)
    account = the_attacker()
    for path in target.iterdir():
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    path = placed.plan(Move(kind=MoveKind.WAL, to=str(target)), name="prepared")
    assert placed.apply(path).records[0].state is MoveState.DONE
    victim.assert_untouched()
    assert (target / "archive_status").is_dir()
    assert not (target / "archive_status").is_symlink()


def test_a_file_that_is_swapped_while_it_is_copied(placed: PlacedServer, victim: Victim) -> None:
    """While root copies the WAL, the server's user waits for the files of the copy.

    Each that is not finished he replaces by a link to a file that only root may read.  That
    file must not become his.
    """
    target = placed.server.base / "new-wal"

    def attack() -> int:
        return sum(
            swap(f"{target}/{name}", victim.file)
            for name in os.listdir(target)  # noqa: PTH208
            if name.endswith(".pgflash-part")
        )

    path = placed.plan(Move(kind=MoveKind.WAL, to=str(target)), name="swapped")
    with attacking(attack) as bitten:
        worked_or_refused(placed, path)
    assert bitten()
    victim.assert_untouched()


def worked_or_refused(placed: PlacedServer, path: Path) -> None:
    with contextlib.suppress(PgflashError):
        placed.apply(path)
