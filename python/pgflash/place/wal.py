# SPDX-License-Identifier: PostgreSQL
"""Move pg_wal to another device: copy, stop, copy the rest, switch, start, check, clean up.

Most is copied while the server runs.  The server is down for a shutdown, the copy of the segments
written meanwhile, and a start.  The switch is one system call that swaps two names in the data
directory: `pg_wal`, and `pg_wal.pgflash`, which leads to the copy before and to the former place
afterwards.

What is always true: **`pg_wal` leads to all of the WAL**, and anything else is a copy.  So if
pgflash is killed at any step and leaves the server stopped, anybody can start it, with pgflash or
without, and nothing is lost; and go() may remove or overwrite whatever `pg_wal` does not lead to.

If the server does not come up with the WAL in its new place, the names are swapped back.  A server
that got far enough to change pg_control may have written WAL there: then the former place is first
made the image of the new one.

A standby's WAL is its own; to its standbys, a primary that moves its WAL looks like one that was
restarted.  Replication slots, prepared transactions and unarchived segments are files that either
move with the rest or do not move.

We mark the new folder with a file while we fill it, so that another program's files are never
mistaken for ours; a folder that is neither empty nor marked is refused.

WalMover decides; WalFolders works on the files, as their owner.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import pq

from pgflash.machine.mounts import read_mounts
from pgflash.model.plan import Move
from pgflash.place import files
from pgflash.place.cluster import Cluster, said_no, try_cluster
from pgflash.place.control import ServerProcess, Startup
from pgflash.place.errors import PlaceError
from pgflash.place.journal import Shield, Steps
from pgflash.place.mover import Look, Room
from pgflash.place.owner import make_folder, refuse_folder, remove_folder
from pgflash.place.speed import Estimate, estimate, rate_of, read_speeds, write_speeds
from pgflash.place.walfolders import WalFolders
from pgflash.standbys import read_standbys

#: The minimum duration of a shutdown and a start, for the forecast.
_RESTART_S = 1.0
_RESTART_MOST_S = 20.0
_PING_S = 60.0

#: How long a killed pgflash's child may take to end and release its lock.
_LOCK_WAIT_S = 20.0


class WalMover:
    """Moves the WAL of a cluster on this machine; the server may be down."""

    def __init__(self, dsn: str, cluster: Cluster | None, move: Move, data: Path) -> None:
        """Prepare to move the WAL of the cluster in DATA; without CLUSTER its server is down."""
        self._dsn = dsn
        self._cluster = cluster
        self._move = move
        self._process = ServerProcess(data)
        self._owner = self._process.owner
        self._folders = WalFolders(self._process.data)
        self._data = self._process.data

    def here(self) -> str:
        """Return the folder that the WAL is in."""
        return self._owner.do(self._folders.here)

    def target(self) -> str:
        """Return the folder to which it moves."""
        return str(Path(self._move.to).resolve())

    # ---- look

    def look(self) -> Look:
        """Return the effects of the move, or refuse it."""
        here, there = Path(self.here()), Path(self.target())
        current_bytes = self._owner.do(files.folder_bytes, here)
        if here == there:
            return Look(
                here=str(here),
                there=str(there),
                bytes=current_bytes,
                lock="",
                estimate=Estimate(),
                is_there=True,
            )
        self.refuse()
        startup = self._startup()
        how = "by your commands" if startup.stop_command else "by pg_ctl"
        return Look(
            here=str(here),
            there=str(there),
            bytes=current_bytes,
            lock=f"The server is stopped and started ({how}): every session ends. Most of the "
            f"WAL is copied before; the server is down for its shutdown, the copy of the "
            f"segments written meanwhile, and its start.",
            estimate=self._estimate(current_bytes, there),
            warnings=tuple(self._warnings(there)),
        )

    def _estimate(self, count: int, there: Path) -> Estimate:
        """Return how long the copy takes, and a restart with its checkpoints."""
        cluster = self._cluster
        assert cluster is not None
        reads = rate_of(self._owner.do(lambda: read_speeds(self._folders.largest())))
        writes = rate_of(write_speeds(there, self._owner))
        buffers = int(cluster.value("select pg_size_bytes(current_setting('shared_buffers'))"))
        flush = estimate(buffers, writes=cluster.write_rate(self._data))
        copy = estimate(count, writes=writes, reads=reads)
        return copy.later(_RESTART_S, _RESTART_MOST_S + flush.most_s)

    def refuse(self) -> None:
        """Refuse a move that must not be made."""
        cluster, there = self._cluster, Path(self.target())
        if there == Path(self.here()):
            return
        if cluster is None:
            raise PlaceError(
                f"no server answers, and no server runs in {self._data}",
                hint="Start the server first.",
            )
        self._process.rehearse(self._startup())
        if self._owner.do(files.is_inside, there, self._data):
            raise PlaceError(
                f"{there} is inside the data directory", hint="Name a folder on another device."
            )
        if self._owner.do(files.is_inside, there, Path(self.here())):
            raise PlaceError(f"{there} is inside {self.here()}, where the WAL is now")
        if not self._owner.do(self._folders.is_ours, there):
            raise PlaceError(
                f"{there} is not empty",
                hint="Name a folder that is empty or does not exist yet; below a mount point, "
                "not the mount point itself.",
            )
        refuse_folder(Path(self._move.to), self._owner)
        self._refuse_loss(cluster, there)
        if any(one.mount_point == str(self._folders.wal) for one in read_mounts()):
            raise PlaceError(
                f"{self._folders.wal} is a mount point, and a mount point cannot be renamed",
                hint="Move it by hand: stop the server, copy the WAL, unmount the folder, put a "
                "symbolic link in its place, start.",
            )
        if not self._owner.do(files.can_exchange, self._data):
            raise PlaceError(
                f"the file system of {self._data} cannot exchange two names at once, so a kill "
                f"could leave a cluster without WAL",
                hint="Move it by hand: stop the server, copy pg_wal, put a symbolic link in its "
                "place, start.",
            )
        if cluster.value("select count(*) from pg_stat_progress_basebackup"):
            raise PlaceError("a base backup is being taken", hint="Wait until it is done.")

    def _refuse_loss(self, cluster: Cluster, there: Path) -> None:
        """Refuse what is empty after a stop, unless a standby has every commit."""
        why = cluster.why_lost(str(there))
        if not why:
            return
        standbys = read_standbys(cluster.session())
        alone = standbys.why_alone()
        if alone and not standbys.is_standby:
            raise PlaceError(
                f"{there} is empty after a stop of the machine ({why}), and {alone}",
                hint="A stop would lose committed transactions, and the server could not start "
                "without its WAL. Let a synchronous standby confirm commits, with "
                "synchronous_commit = on; or put the WAL on a drive that lasts.",
            )

    def room(self, place: str) -> Room:
        """Say how much the WAL may grow to: if it fills its device, the server ends.

        What an interrupted move has copied is there already.
        """
        if self._cluster is None or place == self.here():
            return Room()
        wanted_bytes = self._wanted_bytes(self._cluster)
        copied_bytes = self._owner.do(self._folders.copied_bytes, Path(place))
        return Room(stays={place: max(wanted_bytes - copied_bytes, 0)})

    def _wanted_bytes(self, cluster: Cluster) -> int:
        max_bytes = cluster.value("select pg_size_bytes(current_setting('max_wal_size'))")
        return max(self._owner.do(files.folder_bytes, Path(self.here())), int(max_bytes))

    def _warnings(self, there: Path) -> Iterator[str]:
        cluster = self._cluster
        assert cluster is not None
        if cluster.why_lost(str(there)):
            yield (
                "The folder is empty after a stop of the machine: then this server has to be "
                "rebuilt from another member. Commits are safe only while a synchronous standby "
                "confirms them."
            )
        (wanted_bytes,) = self.room(str(there)).stays.values()
        if why := files.why_no_room(there, wanted_bytes, "The WAL (max_wal_size)"):
            yield f"{why}."
        if files.same_device(there, Path(self.here())):
            yield "Both folders are on the same device: nothing will be gained."
        sessions, senders, prepared = cluster.rows(
            "select (select count(*) from pg_stat_activity where backend_type = 'client backend' "
            "and pid <> pg_backend_pid()), (select count(*) from pg_stat_replication), "
            "(select count(*) from pg_prepared_xacts)"
        )[0]
        if sessions:
            yield (
                f"{sessions} sessions will be disconnected, and their transactions are rolled back."
            )
        if senders:
            yield f"{senders} standbys or receivers will lose the connection and reconnect."
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
        return folder / "pgflash-start.log"

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
        """Start the server if an interrupted move had stopped it."""
        with self._only_one():
            self._bring_up(steps)

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        """Lock this WAL against other processes; the kernel releases the lock with the process."""
        with files.locked(self._data, wait_s=_LOCK_WAIT_S) as is_locked:
            if not is_locked:
                raise PlaceError(f"another pgflash is moving the WAL of {self._data}")
            yield

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

    def _noted_startup(self, steps: Steps) -> Startup | None:
        text = steps.record.notes.get("startup")
        if text is None:
            return None
        startup = Startup.from_json(text)
        if startup.uid not in {None, self._owner.uid}:
            # One user's server's start command must not run as another user.
            raise PlaceError(
                f"{self._data} belongs to {self._owner.name} now, and did not when the server was "
                "stopped",
                hint="Find out what changed that, and start the server yourself.",
            )
        # Those that were given since count: with the noted ones it may not have started.
        options = self._move.options
        return replace(
            startup,
            stop_command=options.get("stop_command", startup.stop_command),
            start_command=options.get("start_command", startup.start_command),
        )

    def _move_to(self, target: Path, steps: Steps) -> None:
        """Copy, stop, copy the rest, switch; then finish."""
        startup = self._startup()
        self._process.rehearse(startup)
        steps.note("startup", startup.to_json())
        folder = self._prepare(target, steps)
        current = Path(self.here())
        steps.at("copy while the server runs", work=self._owner.do(files.folder_bytes, current))
        try:
            self._owner.do(self._folders.copy, current, folder, live=True, beat=steps.beat)
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
                # Whatever the failure: pg_wal leads to all of the WAL.
                if self._process.pid() is None:
                    self._process.start(startup)
                raise
            self._finish(startup, steps)
            steps.note("down_s", str(round(time.monotonic() - begun, 2)))

    def _prepare(self, target: Path, steps: Steps) -> Path:
        """Return the folder to copy into: the target, or, if that is pg_wal, one beside it."""
        folders = self._folders
        if target == folders.wal:
            # Anything aside that is not a link is the former pg_wal, or an interrupted copy.
            self._owner.do(folders.unlink_aside)
            make_folder(folders.aside, self._owner, was_asked_for=False)
            return folders.aside
        was_asked_for = str(target) == self.target()
        named = Path(self._move.to) if was_asked_for else target
        if make_folder(named, self._owner, was_asked_for=was_asked_for):
            steps.note("made", str(target))
        if not self._owner.do(folders.claim, target):
            raise PlaceError(f"{target} is not empty", hint="Name an empty folder.")
        return target

    def _switch(
        self, target: Path, folder: Path, startup: Startup, steps: Steps, shield: Shield
    ) -> None:
        """With the server down, copy the rest and swap the names."""
        current = Path(self.here())
        if not self._process.is_clean(startup):
            raise PlaceError(
                "the server was not shut down cleanly; its WAL stays where it was",
                hint="See its log, then try again.",
            )
        steps.at("copy the rest")
        control = self._control_digest()

        def beat(count: int) -> None:
            steps.beat(count)
            shield.raise_if_asked()

        try:
            self._owner.do(self._folders.copy, current, folder, live=False, beat=beat)
            self._owner.do(self._folders.lead_aside_to, folder)
            # These two notes tell a later attempt that the switch was made, and whether the server
            # has been up since.
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
        """Swap the names, unless a server has been running since pg_control had this content.

        A running server has files of pg_wal open and would keep using them wherever the name leads;
        one that ran meanwhile may have rewritten files that were already copied.  A start takes
        milliseconds from the file that pid() reads to the first look at pg_wal.
        """
        self._process.refuse_if_started()
        if self._control_digest() != control:
            raise PlaceError(
                "something else started and stopped the server during the move",
                hint="Pause its cluster manager. Its WAL stays where it was.",
            )
        self._owner.do(files.exchange, self._folders.wal, self._folders.aside)

    def _finish(self, startup: Startup, steps: Steps) -> None:
        """Start the server if it is down, check that it works, and remove the previous copy."""
        self._start_checked(startup, steps)
        steps.at("remove the previous copy")
        self._owner.do(self._folders.remove_aside)
        is_empty = self._owner.do(self._folders.clean_up, Path(self.target()))
        if is_empty and steps.record.notes.get("made") == self.target():
            remove_folder(Path(self._move.to), self._owner)
        for name in ("startup", "control", "going_to"):
            steps.drop_note(name)

    def _start_checked(self, startup: Startup, steps: Steps) -> None:
        """Start the server and check that it works, or return its WAL to where it was."""
        steps.try_at("start the server")
        with Shield(steps.listener):
            try:
                self._process.start(startup)
                steps.try_at("check")
                self._check()
            except PlaceError as error:
                if steps.record.notes.get("going_to") != self.here():
                    raise  # the switch was never made, so it is not the reason
                self._roll_back(startup, steps, error)

    def _check(self) -> None:
        """Check that the server takes connections and can write WAL."""
        deadline = time.monotonic() + _PING_S
        conninfo = self._dsn.encode()
        while (answer := pq.PGconn.ping(conninfo)) != pq.Ping.OK:
            if self._process.pid() is None:
                raise PlaceError("the server has ended")
            if time.monotonic() > deadline:
                raise PlaceError(
                    f"the server accepts no connections ({pq.Ping(answer).name.lower()})"
                )
            time.sleep(0.1)
        cluster = try_cluster(self._dsn)
        if cluster is None:
            return  # it answers, but has no free connection: that is no fault of the WAL
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
        former, now = self._owner.do(self._folders.former), Path(steps.record.notes["going_to"])
        if former is None:
            raise reason
        steps.try_at("go back")
        self._process.stop_at_once(startup)
        control = self._control_digest()
        if control != steps.record.notes.get("control"):
            # It got so far that the WAL in the new place is the one that counts.
            try:
                copy = self._folders.copy
                self._owner.do(copy, now, Path(former), live=False, beat=steps.beat)
            except OSError as error:
                raise PlaceError(
                    f"{reason.message}; the WAL stays in {now}, as it could not be copied back: "
                    f"{error.strerror}",
                    hint=reason.hint,
                ) from error
        self._exchange(control)
        self._process.start(startup)
        raise PlaceError(
            f"{reason.message}; it is running again with its WAL in {self.here()}", hint=reason.hint
        ) from reason

    # ---- helpers

    def _control_digest(self) -> str:
        return self._owner.do(self._folders.control_digest)

    def _checkpoint(self) -> None:
        """Leave little for the shutdown's checkpoint to do, if we may."""
        if self._cluster is not None:
            with contextlib.suppress(psycopg.Error):
                self._cluster.session().execute("checkpoint")

    def _forget_sessions(self) -> None:
        if self._cluster is not None:
            self._cluster.forget()
