# SPDX-License-Identifier: PostgreSQL
"""Root places parts of a server, and the server's user wants root's files.

An attacker who has the server's account waits until root runs `pgflash place` or
`pgflash plan`.  He owns the data directory and, from the moment that root gives it to him,
the new folder.  Whatever he prepares or swaps there meanwhile, no file of root's may be read for
him, changed, removed or given to him: a command works, or refuses and says why.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash.errors import PgflashError
from pgflash.model.plan import Move, MoveKind, MoveState
from pgflash.place import cluster as cluster_module
from pgflash.place.control import ServerProcess, Startup
from pgflash_lab.postgres import PgInstall
from support.cluster import ClusterFactory
from support.hostile import KINDS, Victim, attacking, moves, swap, swap_back, the_attacker
from support.placed import PlacedServer, placed_server

ROUNDS = 2

#: A segment that the server has not reached.
SEGMENT = "0000000100000000000000FF"


@pytest.fixture
def victim() -> Iterator[Victim]:
    the_attacker()
    victim = Victim()
    yield victim
    victim.remove()


@pytest.fixture
def placed(pg_install: PgInstall) -> Iterator[PlacedServer]:
    """A server of the attacker's that archives, with WAL enough to be copied for a while."""
    the_attacker()
    factory = ClusterFactory(pg_install)
    with placed_server(factory, settings={"archive_mode": "on"}) as placed:
        archive = placed.folder("archive")
        with placed.server.connect() as connection:
            connection.execute(
                "create table a as select n, repeat('A', 900) p from generate_series(1, 30000) n"
            )
            connection.execute("create index a_n on a (n)")
            connection.execute(f"alter system set archive_command = 'cp %p {archive}/%f'")
            connection.execute("select pg_reload_conf()")
        yield placed
    factory.close()


def refused_or_done(work: Callable[[Path], object], path: Path) -> str:
    """Run something; return why it was refused, if it was: in a sentence, without a traceback."""
    try:
        work(path)
    except PgflashError as error:
        return error.message
    return ""


# ---- prepared before root comes


def test_a_folder_that_was_prepared_with_a_link(placed: PlacedServer, victim: Victim) -> None:
    """Before root comes, the server's user makes the new folder himself.

    He puts our mark in it, and archive_status as a link to a folder of root's.  Root's
    `pgflash place wal` must not empty that folder, nor give it to him.
    """
    account = the_attacker()
    target = placed.folder("new-wal")
    with placed.server.connect() as connection:
        row = connection.execute("select system_identifier from pg_control_system()").fetchone()
    assert row is not None
    (target / ".pgflash-wal").write_text(f"{row[0]} {placed.data.resolve()}\n")
    (target / "archive_status").symlink_to(victim.folder)
    for path in target.iterdir():
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    path = placed.plan(Move(kind=MoveKind.WAL, to=str(target)), name="prepared")
    assert placed.apply(path).records[0].state is MoveState.DONE
    victim.assert_untouched()
    assert stat.S_ISDIR((target / "archive_status").lstat().st_mode)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_would_be_made_where_a_link_leads(
    placed: PlacedServer, victim: Victim, kind: str
) -> None:
    """The server's user makes the new folder a link to a name in a folder of root's.

    That name does not exist yet.  Root must not create it there and give it away: other programs of
    root's may trust such a folder.
    """
    target = placed.server.base / "new"
    target.symlink_to(victim.folder / "gift")
    path = placed.plan(moves(target)[kind], name="linked")
    assert "could not make" in (said := refused_or_done(placed.apply, path)) or (
        "nothing can be written" in said
    )
    victim.assert_untouched()


def test_a_server_of_whose_user_the_kernel_says_nothing(
    placed: PlacedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TCP, a program of one user may answer, and name another user's data directory.

    It is asked for by the name of its socket, over which the kernel says whose it is.
    """
    monkeypatch.setattr(cluster_module, "listener", lambda _connection: None)
    target = placed.server.base / "new"
    path = placed.plan(moves(target)["wal"], name="tcp")
    assert "root must connect by a Unix socket" in refused_or_done(placed.apply, path)
    assert not target.exists()


def test_an_archive_with_a_link_to_a_secret(placed: PlacedServer, victim: Victim) -> None:
    """The server's user links a segment of the archive to a file that only root may read.

    Root's copy of the archive would be his, and the secret in it.
    """
    (placed.server.base / "archive" / SEGMENT).symlink_to(victim.file)
    target = placed.server.base / "new"
    path = placed.plan(moves(target)["archive"], name="secret")
    assert "is a link" in refused_or_done(placed.apply, path)
    victim.assert_untouched()
    assert not (target / SEGMENT).exists()


def test_wal_with_a_link_to_a_secret(placed: PlacedServer, victim: Victim) -> None:
    """The same, with a segment of pg_wal that the server does not need."""
    (placed.data / "pg_wal" / SEGMENT).symlink_to(victim.file)
    path = placed.plan(moves(placed.server.base / "new")["wal"], name="secret")
    assert "neither a file nor a folder" in refused_or_done(placed.apply, path)
    victim.assert_untouched()


def test_an_undo_that_would_go_back_to_where_a_link_led(
    placed: PlacedServer, victim: Victim
) -> None:
    """pg_wal led to a folder of root's, which the server's user has replaced since.

    Root undoes a move.  He makes no folder that only the server has named, and fills none that is
    not the server's.
    """
    first, second = placed.server.base / "first", placed.server.base / "second"
    placed.apply(placed.plan(moves(first)["wal"], name="first"))
    path = placed.plan(moves(second)["wal"], name="second")
    placed.apply(path)
    first.rmdir()
    first.symlink_to(victim.folder / "gift")
    assert refused_or_done(placed.undo, path)
    victim.assert_untouched()
    first.unlink()
    first.symlink_to(victim.folder)
    assert refused_or_done(placed.undo, path)
    victim.assert_untouched()
    assert placed.answers


def test_a_pipe_that_nobody_fills(placed: PlacedServer) -> None:
    """The server's user puts a pipe in the place of a file that root is going to read.

    A process that opens it waits for ever.
    """
    account, path = the_attacker(), placed.data / "postmaster.pid"
    plan = placed.plan(moves(placed.server.base / "new")["wal"], name="pipe")
    path.rename(f"{path}.x")
    try:
        os.mkfifo(path, 0o600)
        os.chown(path, account.uid, account.gid)
        assert refused_or_done(placed.apply, plan)
    finally:
        path.unlink()
        Path(f"{path}.x").rename(path)
        placed.start_again()


def test_programs_of_the_server_run_as_its_user(placed: PlacedServer, victim: Victim) -> None:
    """The server's user runs a server of his own making, with a pg_ctl of his own beside it.

    It must find itself with his rights, and with no way to what root has open.
    """
    account = the_attacker()
    folder = placed.folder("programs")
    program = folder / "pg_controldata"
    program.write_text(
        f"#!/bin/sh\nid -u; id -G\ncat {victim.file} 2>&1\nls -l /proc/self/fd | wc -l\npwd\n"
    )
    program.chmod(0o755)
    process = ServerProcess(placed.data)
    kept_open = victim.file.open()
    with kept_open:
        done = process._run(
            Startup(bindir=str(folder), config_directory=str(placed.data)), ["pg_controldata"]
        )
    uid, groups, denied, files, where = done.stdout.splitlines()
    assert uid == str(account.uid)
    assert set(groups.split()) == {str(gid) for gid in process.owner.groups()}
    assert "Permission denied" in denied
    assert int(files) == 5  # a total, three of its own, the folder that ls lists
    assert where == str(placed.data)


# ---- swapped while root works


def parts(folder: Path, victim: Victim) -> int:
    """Put links in the place of all files that are being copied."""
    return sum(
        swap(f"{folder}/{name}", victim.file)
        for name in os.listdir(folder)  # noqa: PTH208
        if name.endswith(".pgflash-part")
    )


def blink(path: Path, link_to: Path) -> int:
    """Put a link in the place of something for a moment."""
    bitten = swap(str(path), link_to)
    swap_back(str(path))
    return bitten


#: What is swapped, of each kind of move, and for what.
ATTACKS: dict[str, tuple[list[str], Callable[[PlacedServer, Path, Victim], int]]] = {
    "a file that is being copied": (
        ["wal", "archive"],
        lambda _placed, target, victim: parts(target, victim),
    ),
    "archive_status": (
        ["wal"],
        lambda _placed, target, victim: blink(target / "archive_status", victim.folder),
    ),
    "the new folder": (
        KINDS,
        lambda _placed, target, victim: blink(target, victim.folder),
    ),
    "the name aside": (
        ["wal"],
        lambda placed, _target, victim: blink(placed.data / "pg_wal.pgflash", victim.folder),
    ),
    "the old archive": (
        ["archive"],
        lambda placed, _target, victim: blink(placed.server.base / "archive", victim.folder),
    ),
}


@pytest.mark.parametrize(
    ("kind", "what"), [(kind, what) for what, (kinds, _) in ATTACKS.items() for kind in kinds]
)
def test_something_is_swapped_for_a_link(
    placed: PlacedServer,
    victim: Victim,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    what: str,
) -> None:
    """While root makes a move and undoes it, the server's user swaps what he may rename.

    All of it is his or was just given to him; his links lead to root's files.
    """
    target, bitten = placed.server.base / "new", 0
    path = placed.plan(moves(target)[kind], name="swapped")
    # An attacker can keep his own server from starting; the test need not wait for it long.
    monkeypatch.setattr("pgflash.place.control.START_WAIT_S", 20)
    monkeypatch.setattr("pgflash.place.archive._ARCHIVED_WAIT_S", 20)
    for _round in range(ROUNDS):
        for work in (placed.apply, placed.undo):
            if kind not in {"wal", "archive"} and target.exists() and not any(target.iterdir()):
                target.rmdir()  # to be made again
            with attacking(lambda: ATTACKS[what][1](placed, target, victim)) as counted:
                refused_or_done(work, path)
                bitten += counted()
            victim.assert_untouched()
            for name in (target, target / "archive_status", placed.data / "pg_wal.pgflash"):
                put_back(name, victim)
            put_back(placed.server.base / "archive", victim)
            placed.start_again()
    assert bitten or what == "the name aside"
    victim.assert_untouched()
    monkeypatch.undo()
    assert refused_or_done(placed.undo, path) == ""


def put_back(path: Path, victim: Victim) -> None:
    """Undo a swap that the attacker was killed in."""
    before = path.with_name(f"{path.name}.x")
    if path.is_symlink() and path.readlink() in {victim.folder, victim.file}:
        path.unlink()
    if before.exists() and not path.exists() and not path.is_symlink():
        before.rename(path)
