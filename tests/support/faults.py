# SPDX-License-Identifier: PostgreSQL
"""A device that fails on demand: build and control the library tests/crash/faults.c."""

import ctypes
import enum
import mmap
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgflash_lab.account import server_account
from support.cluster import REPOSITORY

SOURCE = REPOSITORY / "tests" / "crash" / "faults.c"

NO_END = -1
_EVERYWHERE = (0, 2**62)


class Call(enum.IntFlag):
    """The calls that a fault may affect; reads and writes also as requests of Linux AIO."""

    OPEN = 1
    ALLOCATE = 2
    READ = 4
    WRITE = 8
    SYNC = 16
    TRUNCATE = 32
    SUBMIT = 64


class Kind(enum.IntEnum):
    """How a call fails."""

    FAIL = 0
    SHORT = 1
    TEAR = 2
    MISPLACE = 3
    FLIP = 4


class _State(ctypes.Structure):
    """struct Faults of faults.c."""

    _fields_ = (
        ("from_offset", ctypes.c_int64),
        ("to_offset", ctypes.c_int64),
        *(
            (name, ctypes.c_int32)
            for name in (
                *("calls", "kind", "error", "amount", "skip", "budget"),
                *("delay_us", "no_aio", "faults", "aio_faults"),
            )
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault: which calls fail, how, with which errno, where, when and how often."""

    calls: Call
    kind: Kind = Kind.FAIL
    error: int = 0
    #: For a torn write, the bytes that arrive; for a misplaced write, its displacement in bytes.
    amount: int = 0
    #: Offsets that are affected: from, to.
    where: tuple[int, int] = _EVERYWHERE
    #: This many calls succeed first.
    skip: int = 0
    times: int = NO_END


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The library, and the memory it shares with us."""

    library: Path
    state_path: Path
    _state: _State

    @classmethod
    def build(cls, folder: Path) -> "Faults":
        """Compile the library into a folder that the server's user can read."""
        library = folder / "faults.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", library, SOURCE, "-ldl"],
            check=True,
        )
        state_path = folder / "faults.state"
        state_path.write_bytes(bytes(ctypes.sizeof(_State)))
        # The server's user differs from root, who runs the test.
        state_path.chmod(0o666 if server_account() else 0o600)
        with state_path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), ctypes.sizeof(_State))
        return cls(library=library, state_path=state_path, _state=_State.from_buffer(memory))

    def env(self, target: Path) -> dict[str, str]:
        """The variables that the server must be started with for faults in TARGET."""
        return {"FAULTS_STATE": str(self.state_path), "FAULTS_PATH": str(target.resolve())}

    @property
    def count(self) -> int:
        """How many calls have failed since strike()."""
        return int(self._state.faults)

    @property
    def aio_count(self) -> int:
        """How many of them were requests of Linux AIO."""
        return int(self._state.aio_faults)

    def strike(self, fault: Fault) -> None:
        """Make calls fail from now on."""
        state = self._state
        state.budget = 0
        state.faults = state.aio_faults = 0
        state.from_offset, state.to_offset = fault.where
        state.calls, state.kind = int(fault.calls), int(fault.kind)
        state.error, state.amount, state.skip = fault.error, fault.amount, fault.skip
        state.budget = fault.times

    def delay(self, us: int) -> None:
        """Let reads sleep after, and writes before, they are done."""
        self._state.delay_us = us

    def hide_aio(self, *, hidden: bool) -> None:
        """Make Linux AIO unavailable to processes that set it up from now on."""
        self._state.no_aio = int(hidden)

    def stop(self) -> None:
        """Let all calls succeed again; the counts stay."""
        self._state.budget = 0
        self.delay(0)
