# SPDX-License-Identifier: PostgreSQL
"""What the kernel shows in files: /proc, /sys, and names in /dev.

A Machine's root is / or, in tests, a folder that holds such a tree.  text() and number() return
None if a file is missing or unreadable; read() is for a caller that cannot do without it.
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

    def read(self, name: str) -> str:
        """Return a file's text; OSError if it cannot be read."""
        return self.path(name).read_text(errors="replace")

    def text(self, name: str) -> str | None:
        """Return a file's text, stripped, or None if it cannot be read."""
        try:
            return self.read(name).strip()
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


#: The machine that we run on.
HERE = Machine()


def numbers(text: str) -> dict[str, int]:
    """Return the first number of each line by the line's first word: "MemTotal:  123 kB"."""
    found = {}
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        if len(words) > 1 and words[1].isdecimal():
            found[words[0].rstrip(":")] = int(words[1])
    return found
