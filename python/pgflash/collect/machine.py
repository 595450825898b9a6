# SPDX-License-Identifier: PostgreSQL
"""What the kernel tells in files: /proc, /sys, and names in /dev.

Everything that looks at the machine for devices and settings does it through a Machine,
whose root is / or, in tests, a folder that holds such a tree.  A file that is not there, or
that may not be read, is None: what follows from that is for the caller to say.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A tree of the kernel's files."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """Return where a file of the tree is: NAME is absolute."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Return a file's text, stripped, or None if it cannot be read."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except (OSError, ValueError):
            return None

    def number(self, name: str) -> int | None:
        """Return the whole number that a file holds, or None."""
        try:
            return int(self.text(name) or "")
        except ValueError:
            return None

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder in order; none if there is no such folder."""
        try:
            return tuple(sorted(entry.name for entry in self.path(folder).iterdir()))
        except OSError:
            return ()

    def exists(self, name: str) -> bool:
        """Tell whether there is such a file or folder."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def resolve(self, name: str) -> str | None:
        """Return a file's name within the tree with all links followed, or None."""
        try:
            found = self.path(name).resolve(strict=True).relative_to(self.root.resolve())
        except (OSError, ValueError, RuntimeError):
            return None
        return "/" if found == Path() else f"/{found}"
