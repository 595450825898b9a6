# SPDX-License-Identifier: PostgreSQL
"""One process: its owner, its folder, and its use of resources.

A process may end between two calls, and another one may get its number.  So each method reads what
is true now and raises OSError if the process is gone or hidden; a start time tells two processes
with one number apart.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgflash.machine.host import TICKS_PER_S
from pgflash.machine.tree import HERE, Machine, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """The line of /proc/PID/stat."""

    state: str
    parent: int
    start_ticks: int
    user_s: float
    system_s: float
    #: Of the children that it has waited for, and of theirs.
    reaped_user_s: float
    reaped_system_s: float

    @property
    def has_ended(self) -> bool:
        """Say whether it only waits to be reaped."""
        return self.state in {"Z", "X"}


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine, by its number."""

    pid: int
    machine: Machine = HERE

    def stat(self) -> Stat:
        """Return its state, its parent, its start and its CPU time."""
        # The name in brackets may contain anything, so count fields after the last bracket: field 3
        # of proc(5), the state, comes first there.
        words = self._read("stat").rpartition(")")[2].split()
        user, system, reaped_user, reaped_system = (
            int(word) / TICKS_PER_S for word in words[11:15]
        )
        return Stat(
            state=words[0],
            parent=int(words[1]),
            start_ticks=int(words[19]),
            user_s=user,
            system_s=system,
            reaped_user_s=reaped_user,
            reaped_system_s=reaped_system,
        )

    def started_at(self) -> float:
        """Return when it started, in seconds since 1970."""
        boot = numbers(self.machine.read("/proc/stat"))["btime"]
        return boot + self.stat().start_ticks / TICKS_PER_S

    def is_ending(self) -> bool:
        """Say whether it has already lost its program but still exists."""
        try:
            self.program()
        except FileNotFoundError:
            return self._path("").exists()
        except OSError:
            return False
        return False

    def name(self) -> str:
        """Return its name, as the kernel keeps it."""
        return self._read("comm").strip()

    def program(self) -> Path:
        """Return the file that it runs."""
        return self._path("exe").readlink()

    def folder(self) -> Path:
        """Return its working directory."""
        return self._path("cwd").readlink()

    def folder_status(self) -> os.stat_result:
        """Return the status of that directory, even of one that only its container sees."""
        return self._path("cwd").stat()

    def messages(self) -> Path:
        """Return what its standard error leads to."""
        return self._path("fd/2").readlink()

    def command_line(self) -> bytes:
        """Return its arguments, each ended by a zero byte, or the title that it gave itself."""
        return self._path("cmdline").read_bytes()

    def environment(self) -> bytes:
        """Return the variables that it was started with, each ended by a zero byte."""
        return self._path("environ").read_bytes()

    def io(self) -> dict[str, int]:
        """Return what it has read and written, in bytes: rchar by read calls, wchar by writes."""
        return numbers(self._read("io"))

    def groups(self) -> str:
        """Return its control groups, one in a line."""
        return self._read("cgroup")

    def users(self) -> tuple[int, ...]:
        """Return its real, effective and saved user, and that for files."""
        lines = self._read("status").splitlines()
        return next(tuple(map(int, line.split()[1:])) for line in lines if line.startswith("Uid:"))

    def children(self) -> list[int]:
        """Return the processes that its first thread has started."""
        return sorted(map(int, self._read(f"task/{self.pid}/children").split()))

    def mapped_files(self) -> Iterator[tuple[int, int, str]]:
        """Yield the device, inode and name of each file that is mapped into its memory."""
        for line in self._read("maps").splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6:
                major, minor = (int(part, 16) for part in words[3].split(":"))
                yield os.makedev(major, minor), int(words[4]), words[5]

    def _path(self, name: str) -> Path:
        return self.machine.path(f"/proc/{self.pid}/{name}")

    def _read(self, name: str) -> str:
        return self.machine.read(f"/proc/{self.pid}/{name}")


def processes() -> Iterator[Process]:
    """Yield all processes that we see."""
    return (Process(int(name)) for name in HERE.names("/proc") if name.isdecimal())


def system_service(groups: str) -> str:
    """Return the systemd service of a process with these control groups, or "".

    Only root makes groups in system.slice; elsewhere a user may have chosen the name.
    """
    found = re.search(
        r"/system\.slice/(?:[^/\n]+\.slice/)*([\w@:.\\-]+\.service)", groups, re.ASCII
    )
    return found[1] if found else ""
