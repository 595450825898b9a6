# SPDX-License-Identifier: PostgreSQL
"""A write that is held up: build and control the library tests/crash/hold.c."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgflash_lab.account import make_server_dir
from support.cluster import REPOSITORY
from support.patience import eventually

SOURCE = REPOSITORY / "tests" / "crash" / "hold.c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The library, and the folder through which we communicate with a held process."""

    library: Path
    folder: Path

    @classmethod
    def build(cls, base: Path) -> "Hold":
        """Compile the library into a folder that the server's user can read."""
        library = base / "hold.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-o", library, SOURCE, "-ldl"],
            check=True,
        )
        return cls(library=library, folder=make_server_dir(base / "hold"))

    @property
    def env(self) -> dict[str, str]:
        """The variables that the server must be started with."""
        return {"HOLD_FOLDER": str(self.folder)}

    def hold(self, path: Path, *, first: int = 0, last: int = 2**62) -> None:
        """From now on, hold any process that writes to a file at these offsets."""
        new = self.folder / "new"
        new.write_text(f"{path.stat().st_ino} {first} {last}")
        new.chmod(0o644)
        new.rename(self.folder / "here")

    def stands_before(self) -> bool:
        """Wait for a process to begin the write; say whether one did."""
        return eventually(lambda: (self.folder / "before").exists())

    def write(self) -> bool:
        """Let the write happen, but nothing after it; say whether it did."""
        (self.folder / "write").touch()
        return eventually(lambda: (self.folder / "after").exists())

    def release(self) -> None:
        """Let the process that has written continue, and hold no other."""
        (self.folder / "here").unlink()
        (self.folder / "go").touch()

    def end(self) -> None:
        """Hold no other process.  The held one stays held, and has to be killed."""
        for path in self.folder.iterdir():
            path.unlink()
