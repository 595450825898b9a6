# SPDX-License-Identifier: PostgreSQL
"""Move pg_wal to another device: copy, stop, copy the rest, switch, start, check, clean up.

Most is copied while the server runs.  It is down for a shutdown, the copy of the segments
that were written meanwhile, and a start.  The switch is one system call that lets two
names in the data directory change places: `pg_wal`, and `pg_wal.pgflash`, which leads to
the copy before and to the former place afterwards.

What is always true: **`pg_wal` leads to all of the WAL**, and whatever else there is, is a
copy.  So a server that finds itself stopped by a kill of ours at any step can be started by
anybody, with pgflash or without, and has lost nothing; and go() may remove or overwrite
whatever `pg_wal` does not lead to.

If the server does not come up with the WAL in its new place, the names change back.  A
server that came far enough to change pg_control may have written WAL there: then the former
place is first made the image of the new one.

The WAL of a standby is its own; a primary that moves its WAL is to its standbys a primary
that was restarted.  Slots, prepared transactions and what is not archived yet are files
that move with the rest, or that do not move.

The new folder is marked with a file while we fill it, so that nothing of anybody else's is
ever taken for ours; a folder that is not empty and not marked is refused.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import pq

from pgflash.model.plan import Move
from pgflash.place import files, speed
from pgflash.place.cluster import Cluster, said_no, try_cluster
from pgflash.place.control import ServerProcess, Startup
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Shield, Steps
from pgflash.place.mover import Look, Room

ASIDE = "pg_wal.pgflash"
#: What a shutdown and a start take at least, for the forecast.
_RESTART_S = 3.0
_PING_S = 60.0

#: Names that PostgreSQL gives to what is in pg_wal.
_WAL_NAME = re.compile(
    r"[0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history|xlogtemp\.\d+|RECOVERY(XLOG|HISTORY)"
    r"|archive_status|summaries|.*\.pgflash-part"
)


class WalMover:
    """Moves the WAL of a cluster on this machine; the server may be down."""

    def __init__(self, dsn: str, cluster: Cluster | None, move: Move, data: Path) -> None:
        """Look after the WAL of the cluster in DATA; without CLUSTER its server is down."""
        self._dsn = dsn
        self._cluster = cluster
        self._move = move
        self._data = data.resolve()
        self._process = ServerProcess(self._data)
        self._wal = self._data / "pg_wal"
        self._aside = self._data / ASIDE

    def here(self) -> str:
        """Return the folder that the WAL is in."""
        return str(self._wal.resolve())

    def target(self) -> str:
        """Return the folder that it is to be in."""
        return str(Path(self._move.to).resolve())

    # ---- look

    def look(self) -> Look:
        """Say what the move would mean, or refuse it."""
        here, there = Path(self.here()), Path(self.target())
        current_bytes = files.folder_bytes(here)
        if here == there:
            return Look(
                here=str(here),
                there=str(there),
                bytes=current_bytes,
                lock="",
                about_s=0,
                is_there=True,
            )
        self.refuse()
        startup = self._startup()
        largest = _largest(here)
        bytes_s, source = speed.slower(
            None if largest is None else speed.read_bytes_s(largest),
            speed.write_bytes_s(files.nearest(there)),
        )
        how = "by your commands" if startup.stop_command else "by pg_ctl"
        return Look(
            here=str(here),
            there=str(there),
            bytes=current_bytes,
            lock=f"The server is stopped and started ({how}): every session ends. Most of the WAL "
            "is copied before; the server is down for its shutdown, the segments written "
            "meanwhile, and its start.",
            about_s=current_bytes / bytes_s + _RESTART_S,
            speed=source,
            warnings=tuple(self._warnings(there)),
        )

    def refuse(self) -> None:
        """Refuse a move that must not be."""
        cluster, there = self._cluster, Path(self.target())
        if there == Path(self.here()):
            return
        if cluster is None:
            raise PlaceError(
                f"no server answers, and none runs in {self._data}", hint="Start the server first."
            )
        self._process.rehearse(self._startup())
        if files.is_inside(there, self._data):
            raise PlaceError(
                f"{there} is inside the data directory", hint="Name a folder on another device."
            )
        if files.is_inside(there, Path(self.here())):
            raise PlaceError(f"{there} is inside {self.here()}, where the WAL is now")
        if not files.is_empty(there) and not self._marker(there).exists():
            raise PlaceError(
                f"{there} is not empty",
                hint="Name a folder that is empty or not there yet; below a mount point, not the "
                "mount point itself.",
            )
        files.refuse_folder(there, self._process.owner)
        if not files.can_exchange(self._data):
            raise PlaceError(
                f"the file system of {self._data} cannot switch two names at once, so a kill could "
                "leave a cluster without WAL",
                hint="Move it by hand: stop the server, copy pg_wal, put a symbolic link in its "
                "place, start.",
            )
        files.need_room(there, self._wanted_bytes(cluster), "the WAL (max_wal_size)")
        if cluster.value("select count(*) from pg_stat_progress_basebackup"):
            raise PlaceError("a base backup is being taken", hint="Wait until it is done.")

    def room(self, place: str) -> Room:
        """Say what the WAL may grow to: a device that it fills up ends the server."""
        if self._cluster is None or place == self.here():
            return Room()
        return Room(stays={place: self._wanted_bytes(self._cluster)})

    def _wanted_bytes(self, cluster: Cluster) -> int:
        max_bytes = cluster.value("select pg_size_bytes(current_setting('max_wal_size'))")
        return max(files.folder_bytes(Path(self.here())), int(max_bytes))

    def _warnings(self, there: Path) -> Iterator[str]:
        cluster = self._cluster
        assert cluster is not None
        if files.same_device(there, Path(self.here())):
            yield "Both folders are on the same device: nothing will be gained."
        sessions, senders, prepared = cluster.rows(
            "select (select count(*) from pg_stat_activity where backend_type = 'client backend' "
            "and pid <> pg_backend_pid()), (select count(*) from pg_stat_replication), "
            "(select count(*) from pg_prepared_xacts)"
        )[0]
        if sessions:
            yield f"{sessions} sessions will be disconnected, and what they are at is rolled back."
        if senders:
            yield f"{senders} standbys or receivers will lose the connection and come back."
        if prepared:
            yield f"{prepared} prepared transactions stay prepared."
        waiting = cluster.value(
            "select string_agg(name, ', ') from pg_settings where pending_restart"
        )
        if waiting:
            yield f"With the restart changed settings take effect: {waiting}."

    def _startup(self) -> Startup:
        options = self._move.options
        return self._process.startup(
            stop_command=options.get("stop_command", ""),
            start_command=options.get("start_command", ""),
            collector_log=self._collector_log(),
        )

    def _collector_log(self) -> Path | None:
        """Return a file for what a server says before its own logging collector runs."""
        cluster = self._cluster
        if cluster is None or cluster.setting_or_none("logging_collector") != "on":
            return None
        folder = self._data / (cluster.setting_or_none("log_directory") or "")
        return folder / "pgflash-start.log" if folder.is_dir() else None

    # ---- go

    def go(self, place: str, steps: Steps) -> None:
        """Move the WAL to a folder."""
        target = Path(place)
        with self._only_one():
            self._bring_up(steps)
            if Path(self.here()) != target:
                self._move_to(target, steps)
            else:
                self._finish(self._noted_startup(steps) or self._startup(), steps)

    def bring_up(self, steps: Steps) -> None:
        """Start the server if a move that was cut off had stopped it."""
        with self._only_one():
            self._bring_up(steps)

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        """Let nobody else move this WAL; the kernel forgets the lock with the process."""
        number = os.open(self._data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise PlaceError(f"another pgflash moves the WAL of {self._data}") from error
        finally:
            os.close(number)

    def _bring_up(self, steps: Steps) -> None:
        if self._process.pid() is not None:
            return
        startup = self._noted_startup(steps)
        if startup is None:
            raise PlaceError(
                f"no server runs in {self._data}, and it was not stopped by this move",
                hint="Start the server first.",
            )
        self._start_checked(startup, steps)

    @staticmethod
    def _noted_startup(steps: Steps) -> Startup | None:
        text = steps.record.notes.get("startup")
        return None if text is None else Startup.from_json(text)

    def _move_to(self, target: Path, steps: Steps) -> None:
        """Copy, stop, copy the rest, switch; then finish."""
        startup = self._startup()
        self._process.rehearse(startup)
        steps.note("startup", startup.to_json())
        folder = self._prepare(target, steps)
        current = Path(self.here())
        steps.at("copy while the server runs", total=files.folder_bytes(current))
        try:
            files.mirror(current, folder, beat=steps.beat, live=True, keep=self._marker_name())
        except OSError as error:
            raise PlaceError(
                f"could not copy the WAL to {folder}: {error.strerror}",
                hint="Nothing was changed; the server was not stopped.",
            ) from error
        self._checkpoint()
        begun = time.monotonic()
        with Shield(steps.listener) as shield:
            steps.at("stop the server")
            self._forget_sessions()
            try:
                self._process.stop(startup)
                self._switch(target, folder, startup, steps, shield)
            except BaseException:
                # Whatever it was: pg_wal leads to all of the WAL.
                if self._process.pid() is None:
                    self._process.start(startup)
                raise
            self._finish(startup, steps)
            steps.note("down_s", f"{time.monotonic() - begun:.2f}")

    def _prepare(self, target: Path, steps: Steps) -> Path:
        """Return the folder to copy into: the target, or one beside pg_wal if that is it."""
        files.need_room(target, files.folder_bytes(Path(self.here())), "the WAL")
        if target == self._wal:
            # What is aside and no link is the former pg_wal, or a copy begun earlier.
            if self._aside.is_symlink():
                self._aside.unlink()
            files.make_folder(self._aside, self._process.owner)
            return self._aside
        if files.make_folder(target, self._process.owner):
            steps.note("made", str(target))
        # Ours by its mark, or as the place that an unfinished move had just left.
        leads_there = self._aside.is_symlink() and self._aside.resolve() == target
        if not (files.is_empty(target) or self._marker(target).exists() or leads_there):
            raise PlaceError(f"{target} is not empty", hint="Name an empty folder.")
        self._marker(target).touch(mode=0o600)
        if leads_there:
            self._aside.unlink()
        self._remove_aside()
        return target

    def _switch(
        self, target: Path, folder: Path, startup: Startup, steps: Steps, shield: Shield
    ) -> None:
        """With the server down, copy the rest and let the names change places."""
        current = Path(self.here())
        if not self._process.is_clean(startup):
            raise PlaceError(
                "the server was not shut down in a clean way; its WAL stays where it was",
                hint="See its log, then try again.",
            )
        steps.at("copy the rest")
        control = self._control_digest()

        def beat(count: int) -> None:
            steps.beat(count)
            shield.raise_if_asked()

        try:
            files.mirror(current, folder, beat=beat, live=False, keep=self._marker_name())
            differ = files.differences(current, folder, keep=self._marker_name())
            if differ:
                raise PlaceError(f"the copy in {folder} differs: {', '.join(differ[:5])}")
            if folder != self._aside:
                self._aside.symlink_to(folder)
                files.sync_folder(self._data)
            # From these two notes a later attempt knows that the switch was made, and whether
            # the server has been up since.
            steps.note("control", control)
            steps.note("going_to", str(target))
            steps.at("switch")
            shield.raise_if_asked()
            self._exchange(control)
        except OSError as error:
            raise PlaceError(
                f"could not move the WAL to {folder}: {error.strerror}",
                hint="The server runs with its WAL where it was.",
            ) from error

    def _exchange(self, control: str) -> None:
        """Let the names change places, unless a server has been there since pg_control was so.

        One that runs has files of pg_wal open and would go on with them wherever the name
        leads; one that has run meanwhile may have written what was copied before.  From the
        file that pid() reads to the first look at pg_wal a start takes milliseconds.
        """
        self._process.refuse_if_started()
        if self._control_digest() != control:
            raise PlaceError(
                "somebody else started and stopped the server while it was to be down",
                hint="Pause what looks after it. Its WAL stays where it was.",
            )
        files.exchange(self._wal, self._aside)

    def _finish(self, startup: Startup, steps: Steps) -> None:
        """Start the server if it is down, see that it works, and remove the former copy."""
        self._start_checked(startup, steps)
        steps.at("remove the former copy")
        self._remove_aside()
        self._clean_up(steps)

    def _start_checked(self, startup: Startup, steps: Steps) -> None:
        """Start the server, see that it works, or go back to where its WAL was."""
        steps.try_at("start the server")
        with Shield(steps.listener):
            try:
                self._process.start(startup)
                steps.try_at("check")
                self._check()
            except PlaceError as error:
                if steps.record.notes.get("going_to") != self.here():
                    raise  # it was never switched, so that is not the reason
                self._roll_back(startup, steps, error)

    def _check(self) -> None:
        """See that the server takes connections and can write WAL."""
        deadline = time.monotonic() + _PING_S
        conninfo = self._dsn.encode()
        while (answer := pq.PGconn.ping(conninfo)) != pq.Ping.OK:
            if self._process.pid() is None:
                raise PlaceError("the server has ended")
            if time.monotonic() > deadline:
                raise PlaceError(
                    f"the server takes no connections ({pq.Ping(answer).name.lower()})"
                )
            time.sleep(0.1)
        cluster = try_cluster(self._dsn)
        if cluster is None:
            return  # it answers, but has no connection left for us: that is no fault of the WAL
        with cluster:
            if not cluster.is_standby:
                with said_no("write to the WAL"):
                    session = cluster.session()
                    # A standby that has to confirm may not be back yet.
                    session.execute("set synchronous_commit = local")
                    session.execute("begin read write")
                    session.execute("select pg_logical_emit_message(true, 'pgflash', 'moved')")
                    session.execute("commit")

    # ---- back

    def _roll_back(self, startup: Startup, steps: Steps, reason: PlaceError) -> None:
        """Give the server its WAL where it was before the switch; always raises."""
        if not self._aside.is_symlink() and not self._aside.is_dir():
            raise reason
        former, now = self._aside.resolve(), Path(self.here())
        steps.try_at("go back")
        self._process.stop_at_once(startup)
        control = self._control_digest()
        if control != steps.record.notes.get("control"):
            # It came so far that the WAL in the new place is the one that counts.
            try:
                files.mirror(now, former, beat=steps.beat, live=False, keep=self._marker_name())
            except OSError as error:
                raise PlaceError(
                    f"{reason.message}; the WAL stays in {now}, as it could not be copied back: "
                    f"{error.strerror}",
                    hint=reason.hint,
                ) from error
        self._exchange(control)
        self._process.start(startup)
        raise PlaceError(
            f"{reason.message}; it is up again with its WAL in {self.here()}", hint=reason.hint
        ) from reason

    # ---- clean up

    def _remove_aside(self) -> None:
        """Remove the copy that pg_wal does not lead to."""
        if self._aside.is_symlink():
            former = self._aside.resolve()
            if former.is_dir() and former != Path(self.here()):
                _remove_wal_files(former)
            self._aside.unlink()
        elif self._aside.is_dir():
            files.remove_tree(self._aside)
        files.sync_folder(self._data)

    def _clean_up(self, steps: Steps) -> None:
        """Remove our mark, and the folder of a move that was undone if we had made it."""
        target, here = Path(self.target()), Path(self.here())
        if target.is_dir() and self._marker(target).exists():
            if target != here:
                _remove_wal_files(target)
            self._marker(target).unlink()
        if target != here and steps.record.notes.get("made") == str(target):
            with contextlib.suppress(OSError):
                target.rmdir()
        for name in ("startup", "control", "going_to"):
            steps.drop_note(name)

    # ---- helpers

    def _marker_name(self) -> str:
        return ".pgflash-wal"

    def _marker(self, folder: Path) -> Path:
        return folder / self._marker_name()

    def _control_digest(self) -> str:
        return hashlib.sha256((self._data / "global" / "pg_control").read_bytes()).hexdigest()

    def _checkpoint(self) -> None:
        """Leave little to do for the checkpoint of the shutdown, if we may."""
        if self._cluster is not None:
            with contextlib.suppress(psycopg.Error):
                self._cluster.session().execute("checkpoint")

    def _forget_sessions(self) -> None:
        if self._cluster is not None:
            self._cluster.forget()


def _remove_wal_files(folder: Path) -> None:
    """Remove from a folder that is no WAL any more what PostgreSQL had put there."""
    for path in sorted(folder.iterdir()):
        if _WAL_NAME.fullmatch(path.name):
            if path.is_dir() and not path.is_symlink():
                files.remove_tree(path)
            else:
                path.unlink()
    files.sync_folder(folder)


def _largest(folder: Path) -> Path | None:
    """Return the largest file of a folder."""
    found = [path for path in folder.iterdir() if path.is_file()]
    return max(found, key=lambda path: path.stat().st_size, default=None)
