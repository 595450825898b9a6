# SPDX-License-Identifier: PostgreSQL
"""A server's life story by dice: lives with the cache and without, ends, rollbacks, histories.

A Story has one table and, as a dict, its expected content.  Each life is drawn at random: with this
cache file or, for some lives in a row, without it; fsync and full_page_writes; whether the server
continues as a primary, is a standby that replays what another server has archived, or is promoted
or recovered to a point in that archive.  A life changes some rows, has pages written without a
checkpoint, and ends: in a clean shutdown, an immediate shutdown, kill -9, or a power cut that loses
bytes or only inodes.  While the server is down, files are rolled back to an older copy in each way
that keeps or changes inodes, checksums are switched, the log is reset, the machine boots, or an
older copy of the cache file is restored.

In each life the table is read by sequential scan, by index and by an index-only scan, and all must
match the dict; in a life with a cache every hit is verified, and at its end every cached block.

What PostgreSQL itself does not survive is left out: no power cut occurs in a life without fsync,
and files are synced before fsync is switched on again; pages are not torn while a log without full
pages may be replayed.

The seed determines what is drawn.  A server's background work has its own timing.
"""

import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psycopg

from pgflash_lab.account import make_server_dir
from pgflash_lab.leftovers import forget_memory, remove_data
from pgflash_lab.postgres import PgInstall
from pgflash_lab.server import Server
from support.cached import CachedServer
from support.cluster import FAST_SETTINGS, ClusterFactory
from support.lives import WITHOUT, Without, evict
from support.patience import eventually
from support.power import PIECES, KeepsBytes, Lost, PowerCut
from support.uring import uring_settings
from support.warm import ROWS, create_warm, until_cached

#: Maximum number of rows changed in a life.
CHANGES_MAX = 30

#: Parts of the log that a standby receives one by one.
PARTS_MAX = 3

#: Weights of the ways in which a life ends; COMES_BACK is for the last of some lives without the
#: cache.
ENDS = (6, 2, 2, 10)
COMES_BACK = (10, 1, 1, 1)

#: Settings to replay from an archive soon after a file is there.
FOLLOWS = {"wal_retrieve_retry_interval": "100ms", "restore_command": "cp {archive}/%f %p"}

Table = dict[int, int]


class StaleError(AssertionError):
    """Flash and the files differ."""


class Power(Protocol):
    """Cuts the power: a model (PowerCut) or a real file system (Disk)."""

    def cut(self, server: Server, choice: random.Random, *, pieces: Sequence[int] = PIECES) -> Lost:
        """Kill the server, lose what was not synced, boot."""

    def sync(self) -> None:
        """Put everything on disk that a stopped server wrote."""

    def boot(self, choice: random.Random) -> None:
        """Boot the machine."""


@dataclass(slots=True, kw_only=True)
class Copy:
    """A copy of the data directory, with the table's content."""

    folder: Path
    table: Table
    tears: bool
    in_order: bool
    can_follow: bool
    times: dict[Path, int]


@dataclass(slots=True, kw_only=True)
class Part:
    """A part of another server's log: its file, its end, and the table's content at that point."""

    name: str
    file: Path
    lsn: str
    table: Table


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of what occurred, so that a test can tell whether it was meaningful."""

    lives: int = 0
    cuts: int = 0
    lost: Lost = field(default_factory=Lost)
    starts: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    compared: int = 0

    def __str__(self) -> str:
        return (
            f"{self.lives} lives, {self.cuts} power cuts that lost {self.lost},"
            f" {self.compared} hits compared; starts: {dict(self.starts)};"
            f" between them: {dict(self.events)}"
        )


class Story:
    """One server, and everything that happens to it."""

    def __init__(
        self, cluster: ClusterFactory, cached: CachedServer, power: Power, seed: int
    ) -> None:
        """Continue with a stopped server whose table is as create_warm() leaves it."""
        self.choice = random.Random(seed)
        self.tally = Tally()
        self.cluster = cluster
        self.cached = cached
        self.server = cached.server
        self.power = power
        #: Future lives without the cache, each with its way.
        self.absences: list[Without] = []
        self.table: Table = dict.fromkeys(range(1, ROWS + 1), 0)
        #: The server was shut down cleanly, as a primary.
        self.in_order = True
        #: ... and has saved a map.
        self.is_saved = False
        #: According to the control file, there is a log with what a standby needs.
        self.can_follow = True
        #: A full page in the log repairs a torn page.
        self.tears = True
        self.copies: list[Copy] = []
        self.parts: list[Part] = []
        self.archive = make_server_dir(self.server.base / "archive")
        self.cached.start()
        until_cached(self.cached)
        self.server.stop()

    def go_on(self, cuts: int) -> None:
        """Live until the power was cut this often, then one more life with a clean end."""
        target = self.tally.cuts + cuts
        while self.tally.cuts < target:
            self.happen()
            self.live()
        self.live(end=self.shut_down)

    # ---- a life

    def live(self, *, end: Callable[[], None] | None = None) -> None:
        """Begin, read, change, read, end."""
        choice = self.choice
        if not self.absences and self.is_saved and choice.random() < 0.6:
            self.absences = [choice.choice(WITHOUT)] * choice.randrange(2, 4)
        without = self.absences.pop() if self.absences else nullcontext
        comes_back = without is not nullcontext and not self.absences
        ends = [self.shut_down, self.shut_down_at_once, self.kill, self.lose_power]
        end = end or choice.choices(ends, COMES_BACK if comes_back else ENDS)[0]
        syncs = end == self.lose_power or choice.random() < 0.85
        full_pages = choice.random() < 0.5
        changes = choice.random() < (0.25 if comes_back else 0.75)
        self.tears = self.tears and full_pages
        self.tally.lives += 1
        self.server.configure(
            {
                "fsync": "on" if syncs else "off",
                "full_page_writes": "on" if full_pages else "off",
            }
        )
        with without(self.cached):
            has_cache = self._has_cache()
            follows = self._begin()
            self._look(has_cache=has_cache)
            open_session = self._change() if changes and not follows else None
            if choice.random() < 0.9:
                evict(self.cached)
            if choice.random() < 0.1:
                self._run("checkpoint")
            if has_cache:
                self._look(has_cache=has_cache)
            self.in_order = self.is_saved = False
            end()
            if open_session is not None:
                open_session.close()
        if not syncs:
            self.power.sync()
        self.is_saved = self.in_order and syncs and without is nullcontext
        self.in_order = self.in_order and not follows
        self.tears = self.tears or (self.in_order and full_pages)

    def _has_cache(self) -> bool:
        settings = self.server.settings
        file = Path(settings["pgflash.cache_file"])
        return settings["shared_preload_libraries"] == "pgflash" and file.parent.exists()

    def _begin(self) -> bool:
        """Start in the role that the dice choose; say whether it is a standby."""
        choice = self.choice
        if not self.parts:
            # A promotion works without anybody to follow.
            if choice.random() < 0.1 and self.can_follow:
                self._follow("standby.signal")
                self._promote()
                return False
            self.cached.start()
            self.can_follow = True
            return False
        part = self.parts.pop(0)
        # A part can be more than one file of the log.
        for file in part.file.parent.iterdir():
            if file.name <= part.file.name:
                copy_tree(file, self.archive / file.name)
        self.table = dict(part.table)
        if part.name and choice.random() < 0.2:
            # To the point that it names, and no further.
            self.tally.events["recovery to a point"] += 1
            self.server.configure(
                {"recovery_target_name": part.name, "recovery_target_action": "promote"}
            )
            (self.server.data / "standby.signal").unlink(missing_ok=True)
            self._follow("recovery.signal")
            self._leave_history()
            return False
        self._follow("standby.signal")
        replayed = f"select pg_last_wal_replay_lsn() >= '{part.lsn}'"
        assert eventually(lambda: self._run(replayed) == [(True,)])
        if self.parts or choice.random() < 0.5:
            if not self.parts:
                # It may be a standby for some more lives, and is beyond that point.
                self.parts = [replace(part, name="")]
            return True
        self._promote()
        return False

    def _follow(self, signal: str) -> None:
        archive = {name: value.format(archive=self.archive) for name, value in FOLLOWS.items()}
        self.server.configure(archive)
        self._touch(signal)
        self.cached.start()

    def _promote(self) -> None:
        self.tally.events["promotion"] += 1
        assert self._run("select pg_promote()") == [(True,)]
        self._leave_history()

    def _leave_history(self) -> None:
        """Continue independently, with a history of its own."""
        assert eventually(lambda: self._run("select pg_is_in_recovery()") == [(False,)])
        self.parts = []
        for path in self.archive.iterdir():
            path.unlink()
        settings = (*FOLLOWS, "recovery_target_name", "recovery_target_action")
        self.server.configure(dict.fromkeys(settings))

    def _touch(self, name: str) -> None:
        path = self.server.data / name
        path.touch()
        owner = self.server.data.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    # ---- what it does

    def _run(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self.server.connect() as session:
            cursor = session.execute(query.encode(), arguments or None)
            return cursor.fetchall() if cursor.description is not None else []

    def _change(self) -> psycopg.Connection[tuple[Any, ...]] | None:
        """Delete, update and insert rows; perhaps leave some changes uncommitted."""
        choice = self.choice
        change_rows(self.server, self.table, choice)
        if choice.random() < 0.4:
            self._run(choice.choice(["vacuum item", "vacuum (freeze) item"]))
            change_rows(self.server, self.table, choice)
        if choice.random() < 0.7:
            return None
        session = self.server.connect(autocommit=False)
        rows = choice.sample(sorted(self.table), CHANGES_MAX)
        session.execute("delete from item where i = any(%s)", [rows])
        return session

    def _look(self, *, has_cache: bool) -> None:
        """Read the table in three ways, and verify the cached blocks."""
        ways = {
            "seqscan": ("indexscan", "indexonlyscan", "bitmapscan"),
            "indexscan": ("seqscan", "bitmapscan", "sort"),
        }
        with self.server.connect() as session:
            for way, others in ways.items():
                # Reading by an index marks its dead entries: a stale block could hide behind that.
                if way == "indexscan" and not has_cache:
                    continue
                for other in others:
                    session.execute(f"set enable_{other} = off".encode())
                if way == "indexscan":
                    keys = session.execute("select i from item where i > 0 order by i").fetchall()
                    assert [key for (key,) in keys] == sorted(self.table), "by index only"
                rows = session.execute("select i, v from item where i > 0 order by i").fetchall()
                session.execute("reset all")
                assert dict(rows) == self.table, f"by {way}"
        if has_cache:
            self._verify()

    def _verify(self) -> None:
        _, mismatched = self.cached.verify()
        view = self.cached.view()
        if mismatched or view["verify_mismatches"]:
            raise StaleError(f"{mismatched} cached blocks are not their file's: {view}")
        self.tally.compared += int(view["verify_compared"])
        self.tally.starts[str(view["start_reason"])] += 1

    # ---- ends

    def shut_down(self) -> None:
        """End in a clean shutdown."""
        self.server.stop()
        self.in_order = True

    def shut_down_at_once(self) -> None:
        """End without a checkpoint."""
        self.server.stop("immediate")

    def kill(self) -> None:
        """End by kill -9 of the postmaster."""
        self.server.kill_postmaster()

    def lose_power(self) -> None:
        """Lose the power: bytes and inodes, or only the written state of inodes."""
        choice = self.choice
        dice = KeepsBytes() if choice.random() < 0.75 else random.Random(choice.getrandbits(32))
        pieces = PIECES if self.tears else (8192,)
        self.tally.lost.add(self.power.cut(self.server, dice, pieces=pieces))
        self.tally.cuts += 1
        # The boot id alone must reveal it.
        if choice.random() < 0.5:
            forget_memory(self.server.data)

    # ---- between two lives

    def happen(self) -> None:
        """Do to a stopped server's files what the dice say, or nothing."""
        choice = self.choice
        if choice.random() < 0.5:
            return
        events: list[Callable[[], None]] = [self.boot, self.keep_flash]
        if (self.server.base / "flash-copy").exists():
            events.append(self.put_flash_back)
        if not self.parts:
            events += [self.copy_data]
            if self.copies:
                ways = [replace_files, write_over]
                # A disk of its own is mounted there, with its own inodes.
                if isinstance(self.power, PowerCut):
                    ways += [replace_folder, restore_snapshot]
                events += [partial(self.roll_back, way) for way in ways]
            if self.in_order:
                events += [self.switch_checksums, self.reset_log]
                events += [self.write_history] if self.can_follow else []
        event = choice.choice(events)
        name = event.args[0].__name__ if isinstance(event, partial) else event.__name__
        self.tally.events[name] += 1
        event()

    def boot(self) -> None:
        """Restart the machine normally."""
        self.power.boot(self.choice)
        self.power.sync()
        forget_memory(self.server.data)

    def keep_flash(self) -> None:
        """Take a copy of the cache file."""
        copy = self.server.base / "flash-copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy_tree(self.cached.cache_file.parent, copy)

    def put_flash_back(self) -> None:
        """Restore the copy of the cache file."""
        shutil.rmtree(self.cached.cache_file.parent)
        copy_tree(self.server.base / "flash-copy", self.cached.cache_file.parent)

    def copy_data(self) -> None:
        """Take a copy of the data directory, in whatever state it is."""
        folder = self.server.base / f"copy-{len(self.copies)}"
        copy_tree(self.server.data, folder / "data")
        times = {}
        if isinstance(self.power, PowerCut):
            times = self.power.change_times_ns(self.server.data)
            # A second name keeps a file that will be dropped, and changes its change time.
            for path in times:
                link = folder / "files" / path.relative_to(self.server.data)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.hardlink_to(path)
            self.power.report_times(times)
        self.copies.append(
            Copy(
                folder=folder,
                table=dict(self.table),
                tears=self.tears,
                in_order=self.in_order,
                can_follow=self.can_follow,
                times=times,
            )
        )

    def roll_back(self, way: "Callable[[Story, Copy], None]") -> None:
        """Replace the data directory by a copy."""
        copy = self.choice.choice(self.copies)
        way(self, copy)
        (self.server.data / "postmaster.pid").unlink(missing_ok=True)
        self.table = dict(copy.table)
        self.tears, self.in_order = copy.tears, copy.in_order
        self.can_follow = copy.can_follow
        self.power.sync()

    def switch_checksums(self) -> None:
        """Switch data checksums off or on."""
        version = "Data page checksum version"
        said = self.server.run(["pg_controldata", self.server.data]).stdout
        are_on = any(
            line.startswith(version) and not line.endswith(" 0") for line in said.splitlines()
        )
        self.server.run(
            ["pg_checksums", "--disable" if are_on else "--enable", "--pgdata", self.server.data]
        )

    def reset_log(self) -> None:
        """Discard the log, and with it what a standby could follow."""
        self.can_follow = False
        self.server.run(["pg_resetwal", "--pgdata", self.server.data])

    def write_history(self) -> None:
        """Let a copy of the server write and archive a log that this one will replay."""
        base = make_server_dir(self.server.base / "author")
        remove_data(base / "data")
        for folder in (self.archive, base / "archive"):
            shutil.rmtree(folder, ignore_errors=True)
            make_server_dir(folder)
        copy_tree(self.server.data, base / "data")
        archive = f"cp %p {base}/archive/%f"
        install = self.server.install
        settings = {
            **FAST_SETTINGS,
            **uring_settings(install),
            "archive_mode": "on",
            "archive_command": archive,
        }
        author = self.cluster.adopt(Server.open(install, base, settings=settings))
        author.start()
        table = dict(self.table)
        self.parts = []
        for number in range(self.choice.randrange(1, PARTS_MAX + 1)):
            change_rows(author, table, self.choice)
            with author.connect() as session:
                name = f"part{number}"
                session.execute("select pg_create_restore_point(%s)", [name])
                row = session.execute(
                    "select pg_walfile_name(lsn), lsn::text from (select pg_switch_wal() lsn) s"
                ).fetchone()
            assert row is not None
            file = base / "archive" / str(row[0])
            assert eventually(partial(has_archived, author, file.name))
            self.parts.append(Part(name=name, file=file, lsn=str(row[1]), table=dict(table)))
        author.stop("immediate")


# ---- helpers


def create_story(cluster: ClusterFactory, install: PgInstall, seed: int) -> Story:
    """Return the story of a new server on a machine whose power cuts are modelled."""
    cached = create_warm(cluster, install)
    cached.server.stop()
    base = cached.server.base
    power = PowerCut.build(base, watched=[cached.server.data, cached.cache_file.parent])
    cached.preloads = (power.library,)
    cached.preload_env = power.env
    return Story(cluster, cached, power, seed)


def change_rows(server: Server, table: Table, choice: random.Random) -> None:
    """Delete, update and insert some rows, each in a transaction of its own."""
    with server.connect() as session:
        for _ in range(choice.randrange(1, CHANGES_MAX)):
            i, v = choice.randrange(1, ROWS + 1), choice.randrange(1000)
            if i not in table:
                session.execute("insert into item values (%s, %s, repeat('z', 1800))", [i, v])
                table[i] = v
            elif choice.random() < 0.5:
                session.execute("delete from item where i = %s", [i])
                del table[i]
            else:
                session.execute("update item set v = %s where i = %s", [v, i])
                table[i] = v


def has_archived(server: Server, name: str) -> bool:
    """Say whether a file of the log has been archived."""
    with server.connect() as session:
        row = session.execute(
            "select last_archived_wal >= %s from pg_stat_archiver", [name]
        ).fetchone()
    return row == (True,)


def copy_tree(source: Path, dest: Path) -> None:
    """Copy a folder or a file with all its attributes; DEST must not exist yet."""
    dest.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--sparse=always", source, dest], check=True)


# ---- ways to roll back


def replace_folder(story: Story, copy: Copy) -> None:
    """Another directory, by cp -a."""
    remove_data(story.server.data)
    copy_tree(copy.folder / "data", story.server.data)


def replace_files(story: Story, copy: Copy) -> None:
    """Other files in the same directory, by cp -a."""
    for path in story.server.data.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for path in (copy.folder / "data").iterdir():
        copy_tree(path, story.server.data / path.name)


def write_over(story: Story, copy: Copy) -> None:
    """The same files with older bytes, where they differ, as rsync --inplace --checksum does."""
    _write_over(story, copy)


def restore_snapshot(story: Story, copy: Copy) -> None:
    """The same files with older bytes, inodes and times, as a file system's snapshot has them."""
    links = copy.folder / "files"
    for path in copy.times:
        link = links / path.relative_to(story.server.data)
        if not path.exists() or path.stat().st_ino != link.stat().st_ino:
            path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.hardlink_to(link)
    _write_over(story, copy)
    assert isinstance(story.power, PowerCut)
    story.power.report_times(
        {path: time for path, time in copy.times.items() if path.name != "postmaster.pid"}
    )


def _write_over(story: Story, copy: Copy) -> None:
    data = story.server.data
    source = copy.folder / "data"
    there = {path.relative_to(data) for path in data.rglob("*") if not path.is_dir()}
    wanted = {path.relative_to(source) for path in source.rglob("*") if not path.is_dir()}
    for name in there - wanted:
        (data / name).unlink()
    for name in sorted(path.relative_to(source) for path in source.rglob("*") if path.is_dir()):
        if not (data / name).exists():
            subprocess.run(
                ["cp", "-a", "--no-target-directory", source / name, data / name], check=True
            )
    for name in wanted:
        old, new = source / name, data / name
        if not new.exists():
            copy_tree(old, new)
        elif new.read_bytes() != old.read_bytes():
            with new.open("r+b") as file:
                file.write(old.read_bytes())
                file.truncate()
