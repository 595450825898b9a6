# SPDX-License-Identifier: PostgreSQL
"""The folders of a WAL move: where the WAL is, its copy, and the name put aside.

`pg_wal` leads to all of the WAL at every moment.  `pg_wal.pgflash`, the name aside, is what
`pg_wal` is swapped with: before the swap it leads to the copy; afterwards it leads to the former
place, or is itself the former folder.  Our mark in a folder that we fill names this cluster, so
another one's WAL is never taken for a copy of its own.

All of this is done as the owner of the data directory (Owner.do); wal.py says when.
"""

import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from pgflash.place import files
from pgflash.place.errors import PlaceError
from pgflash.place.owner import Beat

_MARK = ".pgflash-wal"

#: Names that PostgreSQL uses in pg_wal.
_WAL_NAME = re.compile(
    r"[0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history|xlogtemp\.\d+|RECOVERY(XLOG|HISTORY)"
    r"|archive_status|summaries|.*\.pgflash-part"
)


class WalFolders:
    """The folders of one cluster's WAL."""

    def __init__(self, data: Path) -> None:
        """Remember the data directory."""
        self._data = data
        self.wal = data / "pg_wal"
        self.aside = data / "pg_wal.pgflash"

    def here(self) -> str:
        """Return the folder that the WAL is in."""
        return str(self.wal.resolve())

    def former(self) -> str | None:
        """Return the folder that is aside, if there is one."""
        return str(self.aside.resolve()) if self._aside_is(stat.S_ISLNK, stat.S_ISDIR) else None

    def largest(self) -> Path | None:
        """Return the largest file of the WAL."""
        here = Path(self.here())
        with files.opened(here) as folder:
            sizes = {name: files.status_of(folder, name).st_size for name in _segments(folder)}
        return here / max(sizes, key=lambda name: sizes[name]) if sizes else None

    def control_digest(self) -> str:
        """Return a digest that tells one pg_control from another."""
        return hashlib.sha256(self._control()).hexdigest()

    def _control(self) -> bytes:
        """Return pg_control, which begins with the cluster's identifier."""
        path = self._data / "global" / "pg_control"
        with files.opened(path.parent) as folder:
            return files.read_file(folder, path.name)

    # ---- the new folder

    def is_ours(self, folder: Path) -> bool:
        """Say whether a folder is empty, missing, or filled by us for this cluster."""
        if files.is_empty(folder):
            return True
        with files.opened(folder) as number:
            # A mark alone may be one that a kill has left half written.
            return self._is_marked(number) or files.names_in(number) == [_MARK]

    def copied_bytes(self, folder: Path) -> int:
        """Return the size of what an interrupted move has copied to a folder."""
        if folder == self.wal:
            folder = self.aside
        elif not self.is_ours(folder):
            return 0
        try:
            return files.folder_bytes(folder)
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def claim(self, folder: Path) -> bool:
        """Mark a folder as filled by us, and forget another copy; False if it is not ours."""
        # Ours by its mark, or as the place that an unfinished move has just left.
        leads_there = self._aside_is(stat.S_ISLNK) and self.aside.resolve() == folder
        if not (leads_there or self.is_ours(folder)):
            return False
        with files.opened(folder) as number:
            if not self._is_marked(number):
                self._put_mark(number)
        if leads_there:
            self.unlink_aside()
        self.remove_aside()
        return True

    def copy(self, source: Path, dest: Path, *, live: bool, beat: Beat) -> None:
        """Make one folder the image of the other; if no server runs, check that it is."""
        files.mirror(source, dest, beat=beat, live=live, keep=_MARK)
        if not live and (differ := files.differences(source, dest, keep=_MARK)):
            raise PlaceError(f"the copy in {dest} differs: {', '.join(differ[:5])}")

    def _mark(self) -> bytes:
        """Return what our mark says: the cluster's identifier, and where its data are.

        A standby has the identifier of its primary.
        """
        identifier = int.from_bytes(self._control()[:8], sys.byteorder)
        return f"{identifier} {self._data.resolve()}\n".encode()

    def _put_mark(self, folder: int) -> None:
        """Mark an open folder, durably."""
        files.remove(folder, _MARK)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(_MARK, flags, 0o600, dir_fd=folder), "wb") as mark:
            mark.write(self._mark())
            mark.flush()
            os.fsync(mark.fileno())
        os.fsync(folder)

    def _is_marked(self, folder: int) -> bool:
        """Say whether an open folder has the mark of this cluster."""
        try:
            return files.read_file(folder, _MARK) == self._mark()
        except OSError:
            return False

    # ---- the name aside

    def lead_aside_to(self, folder: Path) -> None:
        """Point the name aside at the copy, unless it is the copy."""
        if folder == self.aside:
            return
        with files.opened(self._data) as data:
            os.symlink(folder, self.aside.name, dir_fd=data)
            os.fsync(data)

    def unlink_aside(self) -> None:
        """Remove the name aside if it is a link."""
        if self._aside_is(stat.S_ISLNK):
            with files.opened(self._data) as data:
                os.unlink(self.aside.name, dir_fd=data)

    def remove_aside(self) -> None:
        """Remove the copy that pg_wal does not lead to."""
        if self._aside_is(stat.S_ISLNK):
            former = self.aside.resolve()
            if former.is_dir():
                with files.opened(former) as folder:
                    self._remove_copy(folder)
            self.unlink_aside()
        with files.opened(self._data) as data:
            files.remove(data, self.aside.name)
            os.fsync(data)

    def _aside_is(self, *kinds: Callable[[int], bool]) -> bool:
        with files.opened(self._data) as data:
            if not files.is_there(data, self.aside.name):
                return False
            mode = files.status_of(data, self.aside.name).st_mode
        return any(kind(mode) for kind in kinds)

    # ---- afterwards

    def clean_up(self, target: Path) -> bool:
        """Remove our mark and our leftovers; say if the folder is empty now."""
        try:
            with files.opened(target) as folder:
                if self._is_marked(folder):
                    self._remove_copy(folder)
                    files.remove(folder, _MARK)
                return not files.names_in(folder)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _remove_copy(self, folder: int) -> None:
        """Remove PostgreSQL's files from an open folder, unless pg_wal leads to it.

        Folders are compared, not names: while we look, a name may lead elsewhere for a moment.
        """
        wal = os.open(self.wal, os.O_RDONLY | os.O_DIRECTORY)
        try:
            here, there = os.fstat(wal), os.fstat(folder)
        finally:
            os.close(wal)
        if here.st_uid != os.geteuid():
            raise PlaceError(
                f"{self.wal} leads to a folder that does not belong to the server's user any more"
            )
        if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
            return
        for name in files.names_in(folder):
            if _WAL_NAME.fullmatch(name):
                files.remove(folder, name)
        os.fsync(folder)


def _segments(folder: int) -> list[str]:
    """Return the files of an open folder."""
    return [
        name
        for name in files.names_in(folder)
        if files.is_there(folder, name) and stat.S_ISREG(files.status_of(folder, name).st_mode)
    ]
