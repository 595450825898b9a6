# SPDX-License-Identifier: PostgreSQL
"""Move archived WAL to another folder without a gap in the chain.

copy what is there  ->  change archive_command  ->  wait until a segment that was finished
afterwards is in the new folder  ->  copy what the old one has received meanwhile  ->  compare

The archiver is one process that takes one segment after the other, so once a later segment is in
the new folder, no earlier one is still on its way to the old one.  Nothing is ever removed from the
old folder: it holds the whole chain up to the change, and the new folder holds the whole chain
throughout.  If the new command fails, the old one is restored; segments not archived meanwhile wait
in pg_wal, as they always do.

With the option copy=no, old segments stay where they are, and restores need both folders.

The folder is read from the command: it is the path in front of %f. basic_archive, whose folder is a
setting, is known as well.  If a command shows no folder, or two, the option command has to give the
new command, and nothing is copied; other archive libraries have to be configured by hand.  The
place of a move is the setting that it makes: NAME=set:VALUE or NAME=reset.
"""

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from pgflash.model.plan import Move
from pgflash.place import files
from pgflash.place.cluster import Cluster, said_no
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Steps
from pgflash.place.mover import Look, Room
from pgflash.place.owner import Beat, Owner, make_folder, refuse_folder
from pgflash.place.settings import change_setting, set_place, setting_place
from pgflash.place.speed import estimate

_COMMAND = "archive_command"
_BASIC = "basic_archive.archive_directory"

#: A path in front of %f, quoted or not; a path in front of %p is never the archive's folder.
_FOLDER = re.compile(
    r"""(?:"(/(?:[^"%]|%%)*)/%f|'(/(?:[^'%]|%%)*)/%f"""
    r"""|(?<![^\s<>&|;(=])(/(?:[^\s"';&|<>()%]|%%)+)/%f)"""
)

#: A folder of another machine, as rsync and scp write it.
_REMOTE = re.compile(r"\w:\S*%f")

#: How long a segment may take to be archived.
_ARCHIVED_WAIT_S = 300.0
_FAILED_MAX = 3
_POLL_S = 0.1

_SEGMENT = re.compile(r"[0-9A-F]{24}")


def folder_of(command: str) -> str | None:
    """Return the folder that a command archives to, or None if the command does not show it."""
    if _REMOTE.search(command):
        return None
    found = {_shown(match).rstrip("/") for match in _FOLDER.finditer(command)}
    # Two folders are two copies, and we do not know which of them to move.
    return found.pop().replace("%%", "%") if len(found) == 1 else None


def _shown(match: re.Match[str]) -> str:
    """Return the folder in front of %f as the command writes it."""
    (shown,) = filter(None, match.groups())
    return str(shown)


def with_folder(command: str, new: str) -> str:
    """Return a command that shows one folder with another in front of each %f."""
    if re.search(r"[^\w./@,+=-]", new):
        raise PlaceError(
            f'"{new}" cannot be used in a shell command as it is',
            hint="Name a folder without special characters.",
        )
    return _FOLDER.sub(lambda match: match[0].replace(f"{_shown(match)}/%f", f"{new}/%f"), command)


class ArchiveMover:
    """Moves the folder of archived WAL."""

    def __init__(self, cluster: Cluster, move: Move) -> None:
        """Prepare to move the archive of this cluster."""
        self._cluster = cluster
        self._move = move
        if not cluster.is_superuser:
            raise PlaceError(
                f'role "{cluster.role}" may not see and change how WAL is archived',
                hint="Use a superuser.",
            )
        if cluster.setting("archive_library") == "basic_archive":
            # Before 16, a session may set only parameters that it knows.
            cluster.run("load 'basic_archive'", doing="load basic_archive")
        self._name = _BASIC if cluster.setting("archive_library") == "basic_archive" else _COMMAND

    def here(self) -> str:
        """Return the setting that says where WAL is archived to."""
        return f"{self._name}={setting_place(self._cluster, self._name)}"

    def target(self) -> str:
        """Return the setting for the new place of WAL."""
        new = self._new_folder()
        if self._name == _BASIC:
            return f"{_BASIC}={set_place(new)}"
        command = self._move.options.get("command")
        if command is None:
            self._folder()  # it shows one
            command = with_folder(self._cluster.setting(_COMMAND), new)
        return f"{_COMMAND}={set_place(command)}"

    def _new_folder(self) -> str:
        return self._move.to.rstrip("/")

    def _folder(self) -> str:
        """Return the folder that WAL goes to now, or say why it is not known."""
        cluster = self._cluster
        if cluster.setting("archive_mode") == "off":
            raise PlaceError(
                "WAL is not archived (archive_mode is off)",
                hint="Set archive_mode and archive_command; that needs a restart.",
            )
        library = cluster.setting("archive_library")
        if library == "basic_archive":
            return cluster.setting(_BASIC).rstrip("/")
        if library:
            raise PlaceError(
                f'WAL is archived by the library "{library}", which pgflash does not support',
                hint="Configure the new folder of the library yourself.",
            )
        command = cluster.setting(_COMMAND)
        folder = folder_of(command)
        if "command" in self._move.options and not self._copies:
            # A folder named through a shell variable, for example, cannot be used here.
            return folder if folder is not None and self._is_folder(Path(folder)) else ""
        if folder is not None:
            return folder
        raise PlaceError(
            f"archive_command does not show one folder in front of %f: {command or '(empty)'}",
            hint="Name the new one with --command and keep the existing archive where it is "
            "with --leave-old, or configure the program that it calls yourself.",
        )

    # ---- look

    def refuse(self) -> None:
        """Refuse a move that must not be made."""
        cluster = self._cluster
        owner = self._owner  # may we act as its user?
        if cluster.is_standby:
            raise PlaceError(
                "a standby cannot complete a segment on request, so the change cannot be checked",
                hint="Change archive_command yourself.",
            )
        old, new = self._folders()
        if old == new:
            return
        self.target()  # raises if the command cannot contain the new folder
        if self._name == _COMMAND and "command" in self._move.options:
            _refuse_other_folder(self._move.options["command"], self._new_folder())
        if owner.do(files.is_inside, new, cluster.data_directory()):
            raise PlaceError(
                f"{new} is inside the data directory", hint="Name a folder on another device."
            )
        cluster.refuse_loss(str(new))
        refuse_folder(Path(self._new_folder()), owner)
        if old is not None and not self._is_folder(old):
            raise PlaceError(
                f"{old}, the folder of archive_command, does not exist here",
                hint="Name the new command with --command, and keep the existing archive where "
                "it is with --leave-old.",
            )

    def room(self, place: str) -> Room:
        """Say how much room the move needs; an undo finds most files in its place already."""
        old, new = self._folders()
        if place != self._move.to or old is None or old == new or not self._copies:
            return Room()
        return Room(stays={str(new): self._owner.do(_missing_bytes, old, new)})

    def look(self) -> Look:
        """Return the effects of the move, or refuse it."""
        self.refuse()
        old, new = self._folders()
        old_bytes = self._old_bytes(old)
        return Look(
            here=str(old or self._cluster.setting(_COMMAND)),
            there=str(new),
            bytes=old_bytes,
            lock="Nobody waits: archiving continues while old segments are copied.",
            estimate=estimate(old_bytes, writes=self._cluster.write_rate(new)).later(1.0, 10.0),
            warnings=tuple(self._warnings(old, new)),
            is_there=old == new,
        )

    def _folders(self) -> tuple[Path | None, Path]:
        """Return the current folder, if it is known, and the new one."""
        old = self._folder()
        return self._resolved(old) if old else None, self._resolved(self._new_folder())

    @property
    def _owner(self) -> Owner:
        """Return the owner of the archive: the server creates its files."""
        return self._cluster.process().owner

    def _resolved(self, folder: str) -> Path:
        return Path(self._owner.do(lambda: str(Path(folder).resolve())))

    def _is_folder(self, folder: Path) -> bool:
        return self._owner.do(lambda: folder.is_dir())

    def _old_bytes(self, old: Path | None) -> int:
        if old is None or not self._copies:
            return 0
        return self._owner.do(files.folder_bytes, old)

    @property
    def _copies(self) -> bool:
        return self._move.options.get("copy", "yes") == "yes"

    def _warnings(self, old: Path | None, new: Path) -> Iterator[str]:
        if old is not None and files.same_device(old, new):
            yield "Both folders are on the same device: nothing will be gained."
        for wanted_bytes in self.room(self._move.to).stays.values():
            if why := files.why_no_room(new, wanted_bytes, "The archive"):
                yield f"{why}."
        if self._copies:
            yield f"{old} keeps its content; remove it when no restore needs it any more."
        else:
            yield (
                f"Old segments remain {f'in {old}' if old else 'where they are'}: a restore "
                "needs both."
            )
        yield (
            f"Readers of the archive (restore_command, standbys, backups) must be pointed to {new}."
        )

    # ---- go

    def go(self, place: str, steps: Steps) -> None:
        """Change the folder, and make sure that the new one holds the whole chain."""
        name, _sign, setting = place.partition("=")
        if "folder" not in steps.record.notes:
            steps.note("folder", self._folder())
        former = steps.record.notes["folder"]
        goes_back = steps.record.was == place
        if not goes_back:
            make_folder(Path(self._new_folder()), self._owner, was_asked_for=True)
        elif former:
            make_folder(Path(former), self._owner, was_asked_for=False)
        old, new = self._resolved(former) if former else None, self._resolved(self._new_folder())
        # An undo goes the other way; the chain must be complete there, too.
        if goes_back:
            old, new = new, old
        if self._copies:
            hint = "Archiving continues with the previous setting; nothing was removed."
            self._copy_missing(old, new, steps, "copy the existing archive", hint)
        steps.at("change the setting")
        # The archiver tries three times at once, then again a minute later: count the first
        # failure, too.
        failed_before = self._failures()
        change_setting(self._cluster, name, setting)
        steps.at("wait for the next segment")
        try:
            self._wait_for_one(new, failed_before)
        except PlaceError:
            if steps.record.was != place:
                change_setting(self._cluster, name, steps.record.was.partition("=")[2])
            raise
        if self._copies:
            hint = f"Archiving continues in {new}; {old} has the segments that it lacks."
            self._copy_missing(old, new, steps, "copy the segments archived meanwhile", hint)
            steps.at("compare")
            assert old is not None
            assert new is not None
            self._owner.do(_compare, old, new)

    def _copy_missing(
        self, old: Path | None, new: Path | None, steps: Steps, step: str, hint: str
    ) -> None:
        """Copy the files that the new folder lacks; files already archived there stay.

        A segment that is still to be archived is left to the archiver: its command may refuse to
        overwrite an existing file.
        """
        assert old is not None
        assert new is not None
        steps.at(step, work=self._owner.do(files.folder_bytes, old))
        try:
            found = self._owner.do(_names, old)
            # Ask after looking: a file that was there and no longer waits is whole, however it got
            # there.
            waiting = self._waiting()
            whole = [name for name in found if not name.startswith(waiting)]
            self._owner.do(_copy, old, new, whole, beat=steps.beat)
        except OSError as error:
            raise PlaceError(
                f"could not copy {old} to {new}: {error.strerror}", hint=hint
            ) from error

    def _has(self, folder: Path, segment: str) -> bool:
        """Say whether a segment is in a folder; commands may append to its name."""
        return self._owner.do(lambda: any(name.startswith(segment) for name in _names(folder)))

    def _waiting(self) -> tuple[str, ...]:
        """Return the files that are still to be archived; commands may append to their names."""
        rows = self._cluster.rows("select name from pg_ls_archive_statusdir()")
        return tuple(name.removesuffix(".ready") for (name,) in rows if name.endswith(".ready"))

    def _failures(self) -> int:
        """Return how often archiving has failed."""
        return int(self._cluster.value("select failed_count from pg_stat_archiver"))

    def _wait_for_one(self, folder: Path | None, failed_before: int) -> None:
        """Finish a segment, and wait until it or a later one is archived and in the folder."""
        with said_no("complete a WAL segment"):
            session = self._cluster.session()
            session.execute("set synchronous_commit = local")
            session.execute("select pg_logical_emit_message(true, 'pgflash', 'archive moved')")
            (name,) = _row(session.execute("select pg_walfile_name(pg_switch_wal())"))
        deadline = time.monotonic() + _ARCHIVED_WAIT_S
        while True:
            last, failed, message = self._cluster.rows(
                "select last_archived_wal, failed_count, last_failed_wal from pg_stat_archiver"
            )[0]
            # File names begin with the timeline's number, so a later file has a greater name.
            is_over = last and _SEGMENT.match(last) and last >= name
            if is_over and (folder is None or self._has(folder, last)):
                return
            if failed - failed_before >= _FAILED_MAX or time.monotonic() > deadline:
                where = f" to {folder}" if folder else ""
                raise PlaceError(
                    f"the server does not archive{where} (it failed with {message or name})",
                    hint="See the server's log. No segment is lost: segments wait in pg_wal.",
                )
            time.sleep(_POLL_S)


def _names(folder: Path) -> list[str]:
    with files.opened(folder) as number:
        return files.names_in(number)


def _copy(old: Path, new: Path, names: list[str], *, beat: Beat) -> None:
    """Copy the files that the new folder lacks."""
    with files.opened(old) as source, files.opened(new) as dest:
        for part in files.names_in(dest):
            if part.endswith(".pgflash-part"):
                files.remove(dest, part)
        for name in names:
            # Another program may be cleaning up the archive.
            with contextlib.suppress(files.VanishedError, FileNotFoundError):
                if _lacks(source, dest, name):
                    files.copy_file(source, dest, name, beat, live=False)
        os.fsync(dest)


def _refuse_other_folder(command: str, folder: str) -> None:
    """Refuse a new command with a folder other than --on, where the change is checked."""
    shown = folder_of(command)
    if shown is not None and shown != folder:
        raise PlaceError(
            f"the new archive_command archives to {shown}, not to {folder}",
            hint="Name the same folder with --on.",
        )


def _row(cursor: "psycopg.Cursor[tuple[str, ...]]") -> tuple[str, ...]:
    row = cursor.fetchone()
    assert row is not None
    return row


def _lacks(source: int, dest: int, name: str) -> bool:
    """Say whether a folder lacks a file or has only part of it."""
    status = files.status_of(source, name)
    is_there = files.is_there(dest, name)
    if stat.S_ISLNK(status.st_mode) and not is_there:
        raise PlaceError(
            f"{name} in the archive is a link", hint="Replace it with the file that it points to."
        )
    if not stat.S_ISREG(status.st_mode):
        return False
    if not is_there:
        return True
    there = files.status_of(dest, name)
    return not stat.S_ISREG(there.st_mode) or there.st_size != status.st_size


def _missing_bytes(old: Path, new: Path) -> int:
    """Return the size of the files that the new folder lacks."""
    if not new.is_dir():
        return files.folder_bytes(old)
    missing_bytes = 0
    with files.opened(old) as source, files.opened(new) as dest:
        for name in files.names_in(source):
            with contextlib.suppress(FileNotFoundError):
                if _lacks(source, dest, name):
                    missing_bytes += files.status_of(source, name).st_size
    return missing_bytes


def _compare(old: Path, new: Path) -> None:
    """Check that the new folder has every file of the old one."""
    missing = []
    with files.opened(old) as source, files.opened(new) as dest:
        for name in files.names_in(source):
            with contextlib.suppress(FileNotFoundError):
                if _lacks(source, dest, name):
                    missing.append(name)
    if missing:
        raise PlaceError(
            f"{new} lacks {len(missing)} files of {old}, such as {missing[0]}",
            hint="Copy them yourself; archiving continues.",
        )
