# SPDX-License-Identifier: PostgreSQL
"""A disk returns a wrong block once: PostgreSQL refuses it, and a second read is right.

The same must hold with the cache: a block that was read wrongly must not be served from flash once
the disk returns the right one.  The tables are in a tablespace, whose reads the library
tests/crash/faults.c spoils; no hit is compared with its file here, for that would find the wrong
block by itself.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgflash_lab.postgres import PgInstall
from support.cached import CachedServer, create_cached
from support.cluster import ClusterFactory
from support.faults import Call, Fault, Faults, Kind
from support.patience import eventually
from support.uring import call_settings

Session = psycopg.Connection[Any]

BLOCK = 8192

#: Blocks of the table, each of one row; with those below OTHERS shared_buffers are filled.
BLOCKS = 600
OTHERS = 400

#: Where in a page its flags are, and where its free space ends: 0 in a page that is new.
FLAGS_AT = 10
UPPER_AT = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A server, and the faults of its disk."""

    cached: CachedServer
    faults: Faults

    @classmethod
    def build(cls, factory: ClusterFactory, install: PgInstall) -> "Disk":
        """Start a server whose tables nothing has read since it was started."""
        cached = create_cached(
            factory,
            install,
            settings={
                "pgflash.verify": "off",
                "pgflash.warm_restart": "off",
                **call_settings(install),
            },
            start=False,
        )
        faults = Faults.build(cached.server.base)
        cached.preloads = (faults.library,)
        cached.preload_env = faults.env(cached.space)
        disk = cls(cached=cached, faults=faults)
        cached.start()
        cached.create_extension()
        with disk.session() as session:
            session.execute(f"create tablespace space location '{cached.space}'")
            for table, blocks in (("item", BLOCKS), ("run", 30), ("tail", 3)):
                session.execute(f"create table {table} (id int, pad text) tablespace space")
                session.execute(f"alter table {table} alter pad set storage plain")
                session.execute(
                    f"insert into {table} select n, repeat('x', 7000)"
                    f" from generate_series(0, {blocks - 1}) n"
                )
                # No reader writes hint bits afterwards.
                session.execute(f"vacuum (freeze) {table}")
            session.execute("checkpoint")
        disk.start_again()
        return disk

    def start_again(self) -> None:
        """Restart with an empty cache that serves."""
        self.faults.stop()
        self.cached.server.stop()
        self.cached.start()
        assert eventually(lambda: self.cached.view()["mode"] == "serve")

    def session(self) -> Session:
        """Return a session that is in no transaction after an error."""
        session = self.cached.server.connect()
        session.autocommit = True
        return session

    def flip_once(self, block: int) -> None:
        """Let the next read of this block bring a wrong bit."""
        where = (block * BLOCK, (block + 1) * BLOCK)
        self.faults.strike(Fault(calls=Call.READ, kind=Kind.FLIP, where=where, times=1))

    def refused(self) -> int:
        """Return how many blocks were not cached because they were not valid."""
        return int(self.cached.view()["insert_skip_invalid"])

    def file(self, table: str) -> Path:
        """Return the table's file."""
        with self.session() as session:
            row = session.execute("select pg_relation_filepath(%s)", [table]).fetchone()
        assert row is not None
        return self.cached.server.data / str(row[0])


@pytest.fixture(scope="module")
def shared_disk(pgflash_install: PgInstall) -> Iterator[Disk]:
    """One server for all tests here."""
    factory = ClusterFactory(pgflash_install)
    yield Disk.build(factory, pgflash_install)
    factory.close()


@pytest.fixture
def disk(shared_disk: Disk) -> Disk:
    """The server with an empty cache."""
    shared_disk.start_again()
    return shared_disk


def read(session: Session, block: int) -> list[tuple[int, str]]:
    """Read the row of one block."""
    return session.execute("select id, pad from item where ctid = %s", [f"({block},1)"]).fetchall()


def whole(block: int) -> list[tuple[int, str]]:
    """Return what must be read of the block."""
    return [(block, "x" * 7000)]


def forget(session: Session) -> None:
    """Read enough other blocks that no block above them is left in shared_buffers."""
    # By themselves: a sequential scan would use but a few buffers.
    session.execute("set enable_seqscan = off")
    tids = [f"({block},1)" for block in range(OTHERS)]
    row = session.execute(
        "select count(pad) from item where ctid = any(%s::tid[])", [tids]
    ).fetchone()
    assert row == (OTHERS,)


def scan(session: Session) -> tuple[Any, ...] | None:
    """Read all rows of the table RUN."""
    return session.execute("select count(*), min(pad), max(pad) from run").fetchone()


def relation(session: Session, table: str) -> tuple[int, int]:
    """Return how often the table was served from flash, and how many of its blocks are there."""
    row = session.execute(
        "select hits, cached_blocks from pgflash_relations"
        " where relation = %s::regclass and fork = 'main'",
        [table],
    ).fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


# ---- once


def fail_once(disk: Disk, session: Session, block: int) -> None:
    """Have PostgreSQL read a block that the disk returns wrongly this time."""
    disk.flip_once(block)
    with pytest.raises(psycopg.errors.DataCorrupted, match=f"invalid page in block {block} "):
        read(session, block)
    assert disk.faults.count == 1


@pytest.mark.extension
def test_a_block_that_the_disk_gave_wrong_is_right_the_next_time(disk: Disk) -> None:
    with disk.session() as session:
        fail_once(disk, session, 500)
        assert disk.refused() == 1
        assert relation(session, "item")[1] == 0
        assert read(session, 500) == whole(500)

        def served_from_flash() -> bool:
            forget(session)
            hits = relation(session, "item")[0]
            assert read(session, 500) == whole(500)
            return relation(session, "item")[0] > hits

        # At once, unless the staging ring was full just then.
        assert eventually(served_from_flash)
    assert disk.refused() == 1


@pytest.mark.extension
def test_a_run_of_blocks_one_of_which_was_wrong_is_right_the_next_time(disk: Disk) -> None:
    # The third read of a scan: of several blocks on PostgreSQL 17 and 18.
    disk.faults.strike(Fault(calls=Call.READ, kind=Kind.FLIP, skip=2, times=1))
    with disk.session() as session:
        with pytest.raises(psycopg.errors.DataCorrupted, match="invalid page in block"):
            scan(session)
        assert disk.faults.count == 1
        assert disk.refused() == 1

        def cached_whole() -> bool:
            assert scan(session) == (30, "x" * 7000, "x" * 7000)
            forget(session)
            return relation(session, "run")[1] == 30

        assert eventually(cached_whole)
        assert cached_whole()
    assert disk.refused() == 1


def test_it_is_the_same_without_pgflash(disk: Disk) -> None:
    server = disk.cached.server
    server.stop()
    server.configure({"shared_preload_libraries": ""})
    try:
        disk.cached.start()
        with disk.session() as session:
            fail_once(disk, session, 500)
            assert read(session, 500) == whole(500)
    finally:
        server.configure({"shared_preload_libraries": "pgflash"})


def test_a_library_that_caches_what_is_not_valid_is_caught(
    cluster: ClusterFactory, broken_install: Callable[[str], PgInstall]
) -> None:
    disk = Disk.build(cluster, broken_install("INVALID_PAGE"))
    with disk.session() as session:

        def fails_again(block: int) -> bool:
            fail_once(disk, session, block)
            try:
                return read(session, block) != whole(block)
            except psycopg.errors.DataCorrupted:
                return True

        # Not all of them: while the staging ring is full nothing is cached.
        assert any(fails_again(block) for block in range(500, 520))
        assert relation(session, "item")[0] > 0


# ---- for good, or not at all


def exchange(path: Path, offset: int, new: bytes) -> bytes:
    """Write bytes into the file; return those that were there."""
    fd = os.open(path, os.O_RDWR)
    try:
        old = os.pread(fd, len(new), offset)
        os.pwrite(fd, new, offset)
    finally:
        os.close(fd)
    return old


def flip_on_disk(path: Path, offset: int) -> None:
    """Flip a bit of the file itself; a second call restores it."""
    (byte,) = exchange(path, offset, b"\0")
    exchange(path, offset, bytes([byte ^ 0x10]))


@pytest.mark.parametrize("setting", ["ignore_checksum_failure", "zero_damaged_pages"])
def test_what_a_setting_lets_through_is_not_cached(disk: Disk, setting: str) -> None:
    """PostgreSQL is told to ignore a wrong block; then the disk is repaired."""
    path = disk.file("item")
    flip_on_disk(path, 501 * BLOCK + 4000)
    with disk.session() as session:
        for count in (1, 2):
            with pytest.raises(psycopg.errors.DataCorrupted):
                read(session, 501)
            assert disk.refused() == count
        session.execute(f"set {setting} = on")
        assert read(session, 501) != whole(501)
        assert disk.refused() == 3
        flip_on_disk(path, 501 * BLOCK + 4000)
        forget(session)
        assert read(session, 501) == whole(501)


def test_blocks_of_zeros_are_cached(disk: Disk) -> None:
    """A file is extended by them; a run that holds one must not go to the disk for ever."""
    path = disk.file("tail")
    os.truncate(path, 5 * BLOCK)
    with disk.session() as session:

        def served_from_flash() -> bool:
            hits = relation(session, "tail")[0]
            assert session.execute("select count(*) from tail").fetchone() == (3,)
            forget(session)
            return relation(session, "tail")[0] == hits + 5

        assert eventually(served_from_flash)
    assert disk.refused() == 0


def test_a_block_that_is_new_by_its_header_only_is_not_cached(disk: Disk) -> None:
    """PostgreSQL expects no checksum of a new page, but that all of it is zero."""
    path = disk.file("item")
    upper_at = 503 * BLOCK + UPPER_AT
    upper = exchange(path, upper_at, b"\0\0")
    with disk.session() as session:
        with pytest.raises(psycopg.errors.DataCorrupted, match="invalid page in block 503 "):
            read(session, 503)
        assert disk.refused() == 1
        exchange(path, upper_at, upper)
        assert read(session, 503) == whole(503)


def test_without_data_checksums_the_header_has_to_be_right(disk: Disk) -> None:
    server = disk.cached.server
    server.stop()
    server.run(["pg_checksums", "--disable", "--no-sync", "-D", server.data])
    try:
        disk.start_again()
        path = disk.file("item")
        flip_on_disk(path, 502 * BLOCK + FLAGS_AT)
        with disk.session() as session:
            with pytest.raises(psycopg.errors.DataCorrupted, match="invalid page in block 502 "):
                read(session, 502)
            assert disk.refused() == 1
            flip_on_disk(path, 502 * BLOCK + FLAGS_AT)
            assert read(session, 502) == whole(502)
    finally:
        server.stop()
        server.run(["pg_checksums", "--enable", "--no-sync", "-D", server.data])
