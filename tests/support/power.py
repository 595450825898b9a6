"""A power cut: kill everything, then lose a random part of what was not synced.

The library tests/crash/power.c records what each write overwrites.  cut() kills all
processes of a server at once and puts some of it back, piece by piece (512 bytes or 4 kB),
as a disk does that has written some sectors and not others.  Of a piece that was written
several times any state since the last sync may survive.  Sizes, names of new files and the
removal of files are lost in the same way.  Half of the files that lost something keep the
change time they had, as they may on a real disk.

At the end the machine has booted: it has another boot id.
"""

from __future__ import annotations

import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pgflash.lab.account import make_server_dir
from pgflash.lab.server import Server
from support.cluster import REPOSITORY

SOURCE = REPOSITORY / "tests" / "crash" / "power.c"

#: struct Record and struct ChangeTime of power.c.
_RECORD = struct.Struct("<IIQQQqqqQ")
_CHANGE_TIME = struct.Struct("<QQqq")
_MAGIC = 0x52574F50
_WRITE, _SIZE, _SYNC, _CREATE, _UNLINK, _SYNC_ALL = 1, 2, 3, 4, 5, 6

_PIECES = (512, 4096)
#: How much of a file's unsynced pieces is lost: a share that is drawn for each file.
_LOSSES = (0.0, 0.1, 0.5, 1.0)

#: The files whose names may be lost or come back: those of relations.
_RELATION = re.compile(r"/base/\d+/\d+(_[a-z]+)?(\.\d+)?$")

_File = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    kind: int
    sequence: int
    file: _File
    offset: int
    length: int
    size_before: int
    data: bytes


@dataclass(slots=True, kw_only=True)
class Lost:
    """What a power cut has lost, all cuts of a test together."""

    pieces: int = 0
    files: int = 0
    sizes: int = 0
    created: int = 0
    removed: int = 0

    def add(self, other: Lost) -> None:
        """Add what another cut has lost."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCut:
    """The library, the folder with its records, and what it watches."""

    library: Path
    folder: Path
    watched: tuple[Path, ...]

    @classmethod
    def build(cls, base: Path, *, watched: Sequence[Path]) -> PowerCut:
        """Compile the library; BASE is on the file system of what is WATCHED."""
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
        """What the server must be started with."""
        return {
            "POWER_FOLDER": str(self.folder),
            "POWER_PATHS": ":".join(map(str, self.watched)),
        }

    def forget(self) -> None:
        """Begin anew: no records, and the machine's own boot id."""
        shutil.rmtree(self.folder, ignore_errors=True)
        make_server_dir(self.folder)
        make_server_dir(self.folder / "kept")
        owner = self.folder.stat()
        self._write("sequence", (1).to_bytes(mmap.PAGESIZE, "little"), owner)

    def _write(self, name: str, content: bytes, owner: os.stat_result) -> None:
        path = self.folder / name
        path.write_bytes(content)
        os.chown(path, owner.st_uid, owner.st_gid)

    def cut(self, server: Server, choice: random.Random) -> Lost:
        """Kill the server if it runs, lose what the dice say, boot."""
        if server.running:
            kill_all(server)
        records = sorted(self._records(), key=lambda record: record.sequence)
        lost, change_times = self._lose(records, choice)
        self.forget()
        self.boot(choice)
        self._write("ctimes", b"".join(change_times), self.folder.stat())
        return lost

    def boot(self, choice: random.Random) -> None:
        """Give the machine another boot id."""
        boot_id = uuid.UUID(int=choice.getrandbits(128))
        self._write("boot_id", f"{boot_id}\n".encode(), self.folder.stat())

    # ---- records

    def _records(self) -> Iterator[_Record]:
        for path in self.folder.glob("log.*"):
            content = path.read_bytes()
            at = 0
            while at + _RECORD.size <= len(content):
                magic, kind, sequence, device, inode, offset, length, size, data_size = (
                    _RECORD.unpack_from(content, at)
                )
                at += _RECORD.size
                # The last record of a killed process may be torn; its write was not made.
                if magic != _MAGIC or at + data_size > len(content):
                    break
                yield _Record(
                    kind=kind,
                    sequence=sequence,
                    file=(device, inode),
                    offset=offset,
                    length=length,
                    size_before=size,
                    data=content[at : at + data_size],
                )
                at += data_size

    # ---- losing

    def _lose(self, records: list[_Record], choice: random.Random) -> tuple[Lost, list[bytes]]:
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
        change_times = []
        for file, writes in unsynced.items():
            path = paths.get(file)
            # Without its lock file a server that does not sync would be caught for that alone.
            if path is None or path.name == "postmaster.pid":
                continue
            if _take_name(path, writes, choice, lost):
                continue
            before = path.stat().st_ctime_ns
            if _take_bytes(path, writes, choice, lost) and choice.random() < 0.5:
                after = path.stat().st_ctime_ns
                change_times.append(_CHANGE_TIME.pack(*file, after, before))
        return lost, change_times

    def _restore_removed(self, records: list[_Record], choice: random.Random, lost: Lost) -> None:
        for record in records:
            if record.kind != _UNLINK:
                continue
            path = Path(os.fsdecode(record.data))
            if _RELATION.search(str(path)) and not path.exists() and choice.random() < 0.25:
                # The name may have been a database's that is gone.
                with suppress(FileNotFoundError):
                    os.link(self.folder / "kept" / str(record.sequence), path)
                    lost.removed += 1

    def _paths(self) -> dict[_File, Path]:
        found = {}
        for watched in self.watched:
            for folder, _, names in os.walk(watched):
                for name in names:
                    path = Path(folder, name)
                    status = path.lstat()
                    found[status.st_dev, status.st_ino] = path
        return found


def kill_all(server: Server) -> None:
    """Kill all processes of a server at one moment, as far as that can be."""
    postmaster = server.postmaster_pid
    assert postmaster is not None
    # First the postmaster, so that there are no new children; none may end in good order.
    os.kill(postmaster, signal.SIGSTOP)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in server.child_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    server.kill_postmaster()


def _take_name(path: Path, writes: list[_Record], choice: random.Random, lost: Lost) -> bool:
    """Lose a new file that was never synced, perhaps; say whether it is gone."""
    is_new = any(record.kind == _CREATE for record in writes)
    if not is_new or not _RELATION.search(str(path)) or choice.random() < 0.75:
        return False
    path.unlink()
    lost.created += 1
    return True


def _take_bytes(path: Path, writes: list[_Record], choice: random.Random, lost: Lost) -> bool:
    """Lose some of a file's pieces, and perhaps its size; say whether anything is lost."""
    share = choice.choice(_LOSSES)
    if share == 0.0:
        return False
    size = path.stat().st_size
    piece = choice.choice(_PIECES)
    depths: dict[int, int] = {}
    pieces = 0
    with path.open("r+b", buffering=0) as file:
        # From the newest to the oldest: what each overwrote, as far back as a piece goes.
        for record in reversed(writes):
            if record.kind != _WRITE:
                continue
            before = record.data.ljust(record.length, b"\0")
            for start, end in _undone(record, piece, share, depths, choice):
                os.pwrite(file.fileno(), before[start - record.offset : end - record.offset], start)
                pieces += (end - start + piece - 1) // piece
        sizes = {record.size_before for record in writes if record.kind in (_WRITE, _SIZE)}
        new_size = choice.choice(sorted(sizes | {size})) if choice.random() < 0.5 else size
        os.ftruncate(file.fileno(), new_size)
    lost.pieces += pieces
    lost.files += pieces > 0
    lost.sizes += new_size != size
    return pieces > 0 or new_size != size


def _undone(
    record: _Record, piece: int, share: float, depths: dict[int, int], choice: random.Random
) -> Iterator[tuple[int, int]]:
    """Give the ranges of a record that are put back.

    DEPTHS says of each piece how many of its records are yet to be undone; which is drawn
    when the piece is met for the first time.
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
