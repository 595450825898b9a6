# SPDX-License-Identifier: PostgreSQL
"""The server's operating-system user as an attacker: a process of that user, and its target.

Root runs pgflash in folders of the server's user, who may be anyone: the holder of that account, or
any superuser of the database by COPY ... TO PROGRAM. While a command runs, the attacker replaces
its own files and folders by links to root's.
"""

import contextlib
import mmap
import os
import shutil
import signal
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgflash.model.plan import Move, MoveKind
from pgflash_lab.account import Account, server_account

#: One turn of an attack; returns how often it replaced something.
Attack = Callable[[], int]


def the_attacker() -> Account:
    """Return the user that servers run as; without root there are no two users."""
    account = server_account()
    if account is None:
        pytest.skip("only root can act for two users; run the tests as root")
    return account


def moves(target: Path) -> dict[str, Move]:
    """Return each kind of move that makes, fills or leaves a folder."""
    to = str(target)
    return {
        "wal": Move(kind=MoveKind.WAL, to=to),
        "temp": Move(kind=MoveKind.TEMP, to=to),
        "archive": Move(kind=MoveKind.ARCHIVE, to=to),
        "table": Move(kind=MoveKind.TABLE, to=to, name="public.a"),
        "index": Move(kind=MoveKind.INDEX, to=to, name="public.a_n"),
        "database": Move(
            kind=MoveKind.DATABASE, to=to, name="template1", options={"offline": "yes"}
        ),
    }


KINDS = [*moves(Path())]


class Victim:
    """A folder and a file of root's, and their former state."""

    def __init__(self) -> None:
        """Create them where the attacker can name them."""
        self._base = Path(tempfile.mkdtemp(prefix="pgflash-victim-", dir="/var/tmp"))
        self._base.chmod(0o755)
        self.folder = self._base / "folder"
        (self.folder / "below").mkdir(parents=True)
        (self.folder / "shadow").write_text("important\n")
        (self.folder / "below" / "more").write_text("more\n")
        self.file = self._base / "file"
        self.file.write_text("root's secret\n")
        self.file.chmod(0o600)
        self._was = self.state()

    def state(self) -> dict[str, tuple[int, int, int, int, bytes]]:
        """Return everything observable: owner, mode, time and content of all of it."""
        return {
            str(path): (
                *((it := path.lstat()).st_uid, it.st_gid, it.st_mode),
                it.st_mtime_ns,
                path.read_bytes() if stat.S_ISREG(it.st_mode) else b"",
            )
            for path in (self._base, *sorted(self._base.rglob("*")))
        }

    def assert_untouched(self) -> None:
        """Fail if any of it has been changed."""
        assert self.state() == self._was

    def remove(self) -> None:
        """Remove it."""
        shutil.rmtree(self._base)


@contextlib.contextmanager
def attacking(attack: Attack) -> Iterator[Callable[[], int]]:
    """Let the server's user attack again and again; yield a function that counts successes."""
    account = the_attacker()
    bitten = mmap.mmap(-1, 8)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(account.gid)
            os.setuid(account.uid)
            _attack_on(attack, bitten)
        finally:
            os._exit(1)
    try:
        yield lambda: int(struct.unpack("q", bitten[:])[0])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _attack_on(attack: Attack, bitten: mmap.mmap) -> None:
    """Repeat an attack until the parent has seen enough, or has ended."""
    parent, count = os.getppid(), 0
    while os.getppid() == parent:
        with contextlib.suppress(OSError):
            count += attack()
            bitten[:] = struct.pack("q", count)


def swap(path: str, link_to: Path) -> int:
    """Replace a file or folder of ours, as it is at this moment, by a link."""
    if os.path.islink(path):  # noqa: PTH114 - an attacker has no time for objects
        return 0
    with contextlib.suppress(FileNotFoundError):
        _discard(f"{path}.x")
    os.rename(path, f"{path}.x")  # noqa: PTH104
    os.symlink(link_to, path)  # noqa: PTH211
    return 1


def swap_back(path: str) -> None:
    """Undo swap(), so that the command continues to the next trap."""
    if os.path.islink(path):  # noqa: PTH114
        os.unlink(path)  # noqa: PTH108
        os.rename(f"{path}.x", path)  # noqa: PTH104


def _discard(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
        shutil.rmtree(path)
    else:
        os.unlink(path)  # noqa: PTH108
