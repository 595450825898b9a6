# SPDX-License-Identifier: PostgreSQL
"""A power cut: kill everything, then lose a random part of what was not synced.

The library tests/crash/power.c records what each write overwrites. cut() kills all processes of a
server at once and restores some of the old content, piece by piece (512 bytes or 4 kB), like a disk
that has written some sectors and not others.  If a piece was written several times, any state since
the last sync may survive.  Names of new files and the removal of files are lost in the same way.

Inodes are lost independently: a file system writes them when its journal is committed, seconds
before or after the bytes.  So a file has the size and the change time of one moment since its last
sync, whatever of its bytes is on disk: new bytes with an old time, or old ones with a new time.
Size and time are of the same moment, since they are written together, and never older than the
sync.  Nobody can set a change time, so the library reports it, as long as the file is not changed,
in all later lives of the server.  Changes that the library does not see (a program that runs
without it, stdio) are on disk at once, including their time.

At the end the machine has booted: it has another boot id.
"""

import mmap
import os
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pgflash_lab.account import make_server_dir
from pgflash_lab.server import Server
from support.cluster import REPOSITORY

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

Choice = TypeVar("Choice")

SOURCE = REPOSITORY / "tests" / "crash" / "power.c"

#: struct Record and struct ChangeTime of power.c.
_RECORD = struct.Struct("<IIQQQqqqqQ")
_CHANGE_TIME = struct.Struct("<QQqq")
_MAGIC = 0x52574F50
_CHANGE_TIMES_MAX = 4096
_WRITE, _SIZE, _SYNC, _CREATE, _UNLINK, _SYNC_ALL = 1, 2, 3, 4, 5, 6

#: How much a disk writes at once.
PIECES = (512, 4096)
#: The share of a file's unsynced pieces that is lost: drawn for each file.
_LOSSES = (0.0, 0.1, 0.5, 1.0)

#: The files whose names may be lost or reappear: those of relations.
_RELATION = re.compile(r"/base/\d+/\d+(_[a-z]+)?(\.\d+)?$")

_File = tuple[int, int]


class KeepsBytes(random.Random):
    """Dice that keep all written bytes on disk, and each inode as it was last synced."""

    def random(self) -> float:
        """Lose no name and restore none; take the chance that an inode is not written."""
        return 0.99

    def choice(self, seq: "SupportsLenAndGetItem[Choice]") -> Choice:
        """Take the first: no share of the bytes, the oldest inode."""
        return seq[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inode:
    """The written state of an inode at one moment."""

    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    kind: int
    sequence: int
    file: _File
    offset: int
    length: int
    size_before: int
    changed_ns_before: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class Lost:
    """What power cuts have lost, all cuts of a test together."""

    pieces: int = 0
    files: int = 0
    sizes: int = 0
    times: int = 0
    created: int = 0
    removed: int = 0

    def add(self, other: "Lost") -> None:
        """Add what another cut has lost."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut:
    """The library, the folder with its records, and the folders that it watches."""

    library: Path
    folder: Path
    watched: tuple[Path, ...]

    @classmethod
    def build(cls, base: Path, *, watched: Sequence[Path]) -> "PowerCut":
        """Compile the library; BASE is on the same file system as the WATCHED folders."""
        library = base / "power.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", library, SOURCE, "-ldl"],
            check=True,
        )
        cut = cls(
            library=library,
            folder=base / "power",
            watched=tuple(path.resolve() for path in watched),
        )
        cut.forget()
        return cut

    @property
    def env(self) -> dict[str, str]:
        """The variables that the server must be started with."""
        return {
            "POWER_FOLDER": str(self.folder),
            "POWER_PATHS": ":".join(map(str, self.watched)),
        }

    def forget(self) -> None:
        """Start again: no records, and the machine's own boot id."""
        shutil.rmtree(self.folder, ignore_errors=True)
        make_server_dir(self.folder)
        make_server_dir(self.folder / "kept")
        owner = self.folder.stat()
        self._write("sequence", (1).to_bytes(mmap.PAGESIZE, "little"), owner)

    def _write(self, name: str, content: bytes, owner: os.stat_result) -> None:
        path = self.folder / name
        path.write_bytes(content)
        os.chown(path, owner.st_uid, owner.st_gid)

    def cut(
        self,
        server: Server,
        choice: random.Random,
        *,
        pieces: Sequence[int] = PIECES,
        boots: bool = True,
    ) -> Lost:
        """Kill the server if it runs, lose what the dice say in pieces of one of these sizes, boot.

        Without a boot, the storage has lost its power, but not the machine.
        """
        if server.running:
            kill_all(server)
        records = sorted(self._records(), key=lambda record: record.sequence)
        times = self._change_times()
        lost = self._lose(records, times, choice, pieces)
        self.forget()
        if boots:
            self.boot(choice)
        self._write_times(times)
        return lost

    def sync(self) -> None:
        """Put everything on disk that a stopped server wrote."""
        for path in self.folder.glob("log.*"):
            path.unlink()

    def boot(self, choice: random.Random) -> None:
        """Give the machine another boot id."""
        boot_id = uuid.UUID(int=choice.getrandbits(128))
        self._write("boot_id", f"{boot_id}\n".encode(), self.folder.stat())

    def change_time_ns(self, path: Path) -> int:
        """Return a file's last change time, as reported to the server."""
        status = path.stat()
        file = (status.st_dev, status.st_ino)
        return self._change_times().get(file, (0, status.st_ctime_ns))[1]

    def change_times_ns(self, folder: Path) -> dict[Path, int]:
        """Return the same for each file in a folder and below."""
        reported = self._change_times()
        found = {}
        for path in folder.rglob("*"):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                file = (status.st_dev, status.st_ino)
                found[path] = reported.get(file, (0, status.st_ctime_ns))[1]
        return found

    def report_times(self, times: Mapping[Path, int]) -> None:
        """Report these change times for the files in their present state."""
        reported = self._change_times()
        for path, changed_ns in times.items():
            status = path.stat()
            reported[status.st_dev, status.st_ino] = (status.st_ctime_ns, changed_ns)
        self._write_times(reported)

    def _write_times(self, times: Mapping[_File, tuple[int, int]]) -> None:
        lines = [_CHANGE_TIME.pack(*file, *both) for file, both in times.items()]
        assert len(lines) <= _CHANGE_TIMES_MAX
        self._write("ctimes", b"".join(lines), self.folder.stat())

    # ---- records

    def _records(self) -> Iterator[_Record]:
        for path in self.folder.glob("log.*"):
            content = path.read_bytes()
            at = 0
            while at + _RECORD.size <= len(content):
                (
                    magic,
                    kind,
                    sequence,
                    device,
                    inode,
                    offset,
                    length,
                    size,
                    changed_ns,
                    data_size,
                ) = _RECORD.unpack_from(content, at)
                at += _RECORD.size
                # The last record of a killed process may be torn; then its write was not made.
                if magic != _MAGIC or at + data_size > len(content):
                    break
                yield _Record(
                    kind=kind,
                    sequence=sequence,
                    file=(device, inode),
                    offset=offset,
                    length=length,
                    size_before=size,
                    changed_ns_before=changed_ns,
                    data=content[at : at + data_size],
                )
                at += data_size

    # ---- losses

    def _change_times(self) -> dict[_File, tuple[int, int]]:
        """Return the reports on files that have not been changed since: (real, reported)."""
        path = self.folder / "ctimes"
        if not path.exists():
            return {}
        real = {file: path.stat().st_ctime_ns for file, path in self._paths().items()}
        found = {}
        for device, inode, real_ns, reported_ns in _CHANGE_TIME.iter_unpack(path.read_bytes()):
            if real.get((device, inode)) == real_ns:
                found[device, inode] = (real_ns, reported_ns)
        return found

    def _lose(
        self,
        records: list[_Record],
        times: dict[_File, tuple[int, int]],
        choice: random.Random,
        sizes: Sequence[int],
    ) -> Lost:
        lost = Lost()
        self._restore_removed(records, choice, lost)
        synced: dict[_File, int] = defaultdict(int)
        all_synced: dict[int, int] = defaultdict(int)
        for record in records:
            if record.kind == _SYNC:
                synced[record.file] = record.sequence
            elif record.kind == _SYNC_ALL:
                all_synced[record.file[0]] = record.sequence
        unsynced: dict[_File, list[_Record]] = defaultdict(list)
        for record in records:
            if record.sequence > max(synced[record.file], all_synced[record.file[0]]):
                unsynced[record.file].append(record)
        paths = self._paths()
        for file, writes in unsynced.items():
            path = paths.get(file)
            # Without its lock file, a server that does not sync would be caught for that alone.
            if path is None or path.name == "postmaster.pid":
                continue
            if _take_name(path, writes, choice, lost):
                continue
            status = path.stat()
            _, changed_ns = times.pop(file, (0, status.st_ctime_ns))
            inode = _take_inode(
                _Inode(size=status.st_size, changed_ns=changed_ns), writes, choice, lost
            )
            _take_bytes(path, inode.size, choice.choice(sizes), writes, choice, lost)
            real_ns = path.stat().st_ctime_ns
            if real_ns != inode.changed_ns:
                times[file] = (real_ns, inode.changed_ns)
        return lost

    def _restore_removed(self, records: list[_Record], choice: random.Random, lost: Lost) -> None:
        for record in records:
            if record.kind != _UNLINK:
                continue
            path = Path(os.fsdecode(record.data))
            if _RELATION.search(str(path)) and not path.exists() and choice.random() < 0.25:
                # The name may have been that of a file of a dropped database.
                with suppress(FileNotFoundError):
                    os.link(self.folder / "kept" / str(record.sequence), path)
                    lost.removed += 1

    def _paths(self) -> dict[_File, Path]:
        found = {}
        for watched in self.watched:
            for folder, _, names in os.walk(watched):
                for name in names:
                    path = Path(folder, name)
                    # A running server may just have renamed it.
                    with suppress(FileNotFoundError):
                        status = path.lstat()
                        found[status.st_dev, status.st_ino] = path
        return found


def kill_all(server: Server) -> None:
    """Kill all processes of a server as simultaneously as possible."""
    postmaster = server.postmaster_pid
    assert postmaster is not None
    # Stop the postmaster first, so that there are no new children; none may end normally.
    os.kill(postmaster, signal.SIGSTOP)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in server.child_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    server.kill_postmaster()


def _take_name(path: Path, writes: list[_Record], choice: random.Random, lost: Lost) -> bool:
    """Perhaps lose a new file that was never synced; say whether it is gone."""
    is_new = any(record.kind == _CREATE for record in writes)
    if not is_new or not _RELATION.search(str(path)) or choice.random() < 0.75:
        return False
    path.unlink()
    lost.created += 1
    return True


def _take_inode(
    present: _Inode, writes: list[_Record], choice: random.Random, lost: Lost
) -> _Inode:
    """Return the inode that is on disk: the present one, or an older one since the last sync."""
    older = [
        _Inode(size=record.size_before, changed_ns=record.changed_ns_before)
        for record in writes
        if record.kind in (_WRITE, _SIZE)
    ]
    if not older or choice.random() < 0.5:
        return present
    inode = choice.choice((older[0], choice.choice(older)))
    lost.sizes += inode.size != present.size
    lost.times += inode.changed_ns != present.changed_ns
    return inode


def _take_bytes(
    path: Path,
    new_size: int,
    piece: int,
    writes: list[_Record],
    choice: random.Random,
    lost: Lost,
) -> None:
    """Lose some of a file's pieces, and give it a size.

    Bytes that the inode on disk has beyond the present size are kept: they were not truncated.
    """
    share = choice.choice(_LOSSES)
    size = path.stat().st_size
    if share == 0.0 and new_size == size:
        return
    depths: dict[int, int] = dict.fromkeys(range(-(-size // piece), -(-new_size // piece)), 2**31)
    pieces = 0
    with path.open("r+b", buffering=0) as file:
        # From the newest record to the oldest: what each overwrote, as far back as a piece goes.
        for record in reversed(writes):
            if record.kind != _WRITE:
                continue
            before = record.data.ljust(record.length, b"\0")
            for start, end in _undone(record, piece, share, depths, choice):
                os.pwrite(file.fileno(), before[start - record.offset : end - record.offset], start)
                pieces += (end - start + piece - 1) // piece
        os.ftruncate(file.fileno(), new_size)
    lost.pieces += pieces
    lost.files += pieces > 0


def _undone(
    record: _Record, piece: int, share: float, depths: dict[int, int], choice: random.Random
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a record that are restored.

    DEPTHS says for each piece how many of its records are still to be undone; the number is drawn
    when the piece first occurs.
    """
    end = record.offset + record.length
    run: tuple[int, int] | None = None
    for number in range(record.offset // piece, (end - 1) // piece + 1):
        if number not in depths:
            depths[number] = choice.choice((1, 2**31)) if choice.random() < share else 0
        if depths[number] > 0:
            depths[number] -= 1
            first, last = max(number * piece, record.offset), min((number + 1) * piece, end)
            if run is not None and run[1] == first:
                run = (run[0], last)
                continue
            if run is not None:
                yield run
            run = (first, last)
    if run is not None:
        yield run
