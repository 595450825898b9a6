# SPDX-License-Identifier: PostgreSQL
"""A clock that is set while a server runs: build and control the library tests/crash/clock.c."""

import ctypes
import mmap
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgflash_lab.account import server_account
from support.cluster import REPOSITORY

SOURCE = REPOSITORY / "tests" / "crash" / "clock.c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The library, and the number it shares with us."""

    library: Path
    state_path: Path
    _step_s: ctypes.c_int64

    @classmethod
    def build(cls, folder: Path) -> "Clock":
        """Compile the library into a folder that the server's user can read."""
        library = folder / "clock.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", library, SOURCE, "-ldl"],
            check=True,
        )
        state_path = folder / "clock.state"
        state_path.write_bytes(bytes(8))
        state_path.chmod(0o666 if server_account() else 0o600)
        with state_path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 8)
        return cls(
            library=library, state_path=state_path, _step_s=ctypes.c_int64.from_buffer(memory)
        )

    @property
    def env(self) -> dict[str, str]:
        """The variables that the server must be started with."""
        return {"CLOCK_STATE": str(self.state_path)}

    def set(self, *, ahead_s: int) -> None:
        """Set the server's time of day this many seconds ahead of the real one, or behind it."""
        self._step_s.value = ahead_s
