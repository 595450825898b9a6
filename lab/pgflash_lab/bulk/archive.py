# SPDX-License-Identifier: PostgreSQL
"""Two copies of every segment: the archive, and a second recovery area made from it.

Paper 003's recovery area takes the archived redo and the flashback log, about as many bytes again.
PostgreSQL has no flashback log; the second write here is a second copy, made from the first, as by
a program that ships an archive elsewhere.  Under its final name each copy is complete or absent: it
is synced under another name and renamed.
"""

from pathlib import Path

#: The folders of the copies.
COPIES = ("archive", "second")


def archive_command(folder: Path) -> str:
    """Return the archive_command that makes both copies below a folder."""
    first, second = (_quoted(folder / name) for name in COPIES)
    steps = [f"mkdir -p {first} {second}", *_copy('"%p"', first), *_copy(f"{first}/%f", second)]
    return " && ".join(steps)


def missing_copies(folder: Path) -> set[str]:
    """Return the segments that one of the folders has and the other lacks."""
    first, second = ({one.name for one in (folder / name).glob("*")} for name in COPIES)
    return {name for name in first ^ second if not name.endswith(".part")}


def _copy(source: str, into: str) -> list[str]:
    return [
        f"cp {source} {into}/%f.part",
        f"sync {into}/%f.part",
        f"mv {into}/%f.part {into}/%f",
    ]


def _quoted(folder: Path) -> str:
    """Quote a folder for the shell and for archive_command's own percent signs."""
    return "'" + str(folder).replace("'", "'\\''").replace("%", "%%") + "'"
