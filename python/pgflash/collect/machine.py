# SPDX-License-Identifier: PostgreSQL
"""What the kernel shows in files: /proc, /sys, and names in /dev.

All code that looks for devices and settings uses a Machine, whose root is / or, in tests, a folder
that holds such a tree.  A file that is missing or unreadable is None: the caller decides what
follows from that.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A tree of the kernel's files."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """Return the path of a file of the tree; NAME is absolute."""
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
