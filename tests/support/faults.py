"""A device that misbehaves on demand: build and steer the library tests/crash/faults.c."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgflash.lab.server import server_account
from support.cluster import REPOSITORY

SOURCE = REPOSITORY / "tests" / "crash" / "faults.c"

NO_END = -1


class _State(ctypes.Structure):
    """struct Faults of faults.c."""

    _fields_ = tuple(
        (name, ctypes.c_int32)
        for name in ("read_errno", "write_errno", "short_reads", "budget", "delay_us", "faults")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The library, and the memory it shares with us."""

    library: Path
    state_path: Path
    _state: _State

    @classmethod
    def build(cls, folder: Path) -> Faults:
        """Compile the library into a folder that the server's user can read."""
        library = folder / "faults.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", library, SOURCE, "-ldl"],
            check=True,
        )
        state_path = folder / "faults.state"
        state_path.write_bytes(bytes(ctypes.sizeof(_State)))
        # The server's user is another one than root, who runs the test.
        state_path.chmod(0o666 if server_account() else 0o600)
        with state_path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), ctypes.sizeof(_State))
        return cls(library=library, state_path=state_path, _state=_State.from_buffer(memory))

    def env(self, target: Path) -> dict[str, str]:
        """What the server must be started with for faults in TARGET."""
        return {"FAULTS_STATE": str(self.state_path), "FAULTS_PATH": str(target.resolve())}

    @property
    def count(self) -> int:
        """How many calls have failed or come back short."""
        return int(self._state.faults)

    def fail(
        self, *, reads: int = 0, writes: int = 0, short_reads: bool = False, times: int = NO_END
    ) -> None:
        """Let reads or writes fail with these errors from now on, so many times."""
        self._state.budget = 0
        self._state.read_errno = reads
        self._state.write_errno = writes
        self._state.short_reads = int(short_reads)
        self._state.budget = times

    def delay(self, us: int) -> None:
        """Let reads sleep after, and writes before, they are done."""
        self._state.delay_us = us

    def stop(self) -> None:
        """Let all go well again."""
        self.fail(times=0)
        self.delay(0)
