# SPDX-License-Identifier: PostgreSQL
"""A file of snapshots returns what was stored, and refuses foreign files."""

import os
import sqlite3
import stat
import threading
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash.errors import PgflashError
from pgflash.model.collected import Counted, NewSnapshot
from pgflash.model.snapshot import FORMAT, Section, SectionKind, SnapshotError
from pgflash.store import FileStore, open_store

NOON = datetime(2026, 11, 22, 12, 0, 0, 123457, tzinfo=UTC)


def section(name: str = "io", calls: int = 1) -> Section:
    return Section(
        name=name,
        kind=SectionKind.DELTA,
        columns=("who", "calls", "buckets", "at"),
        rows=(("ägypten \x01", calls, (1, None, 2**62), None), (None, 0.25, (), True)),
    )


def snapshot(*, minute: int = 0, previous: int | None = None, calls: int = 1) -> NewSnapshot:
    return NewSnapshot(
        taken_at=NOON + timedelta(minutes=minute),
        started_at=NOON,
        previous_id=previous,
        took_ms=1.5,
        origin="command",
        server_version_num=180_006,
        system_identifier="7",
        sections=(section(calls=calls), section("slru")),
        remembered={"io": {(1, -(2**62)): Counted(values=(1.0, 0.5), birth="x", labels=("t",))}},
        queries={-5: "select 1", 6: "select 2"},
    )


def add(store: FileStore, **options: int) -> int:
    with store.adding("7") as last:
        return store.add(snapshot(previous=last.id if last else None, **options))


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "app.snapshots"
    with FileStore.create(path) as store:
        first, second, third = (add(store, minute=n, calls=n) for n in range(3))
    with open_store(path=path) as read:
        heads = read.list()
        assert [head.id for head in heads] == [first, second, third]
        assert [head.previous_id for head in heads] == [None, first, second]
        assert heads[1].taken_at == NOON + timedelta(minutes=1)
        assert heads[0].started_at == NOON
        assert read.sections(second) == {"io": section(calls=1), "slru": section("slru")}
        between = read.sections_between(first, third, "io")
        assert [(head.id, one) for head, one in between] == [
            (second, section(calls=1)),
            (third, section(calls=2)),
        ]
        assert read.sections_between(first, third, "nothing") == ()
        assert read.queries([-5, 99]) == {-5: "select 1"}
        with pytest.raises(SnapshotError, match="no snapshot 99"):
            read.sections(99)


def test_the_last_one_is_remembered_for_the_next(tmp_path: Path) -> None:
    with FileStore.create(tmp_path / "s") as store:
        with store.adding("7") as last:
            assert last is None
            taken = store.add(snapshot())
        with store.adding("7") as last:
            assert last is not None
            assert (last.id, last.started_at) == (taken, NOON)
            assert last.remembered == snapshot().remembered


def test_one_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    with FileStore.create(tmp_path / "s") as store:
        first = add(store)

        def fail_halfway() -> None:
            with store.adding("7"):
                store.add(snapshot(minute=1))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_halfway()
        assert [head.id for head in store.list()] == [first]
        with store.adding("7") as last:
            assert last is not None
            assert last.id == first


def test_two_at_once_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "s"
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with FileStore.create(path) as other, other.adding("7"):
            other.add(snapshot())
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    FileStore.create(path).close()
    thread.start()
    assert entered.wait(10)
    threading.Timer(0.2, leave.set).start()
    with FileStore.create(path) as store, store.adding("7") as last:
        # It waited for the other one, so it sees what that had added.
        assert last is not None
        store.add(snapshot(previous=last.id))
    thread.join()
    with open_store(path=path) as read:
        assert len(read.list()) == 2


def test_old_ones_are_dropped_with_all_they_have(tmp_path: Path) -> None:
    with FileStore.create(tmp_path / "s") as store:
        for minute in range(3):
            add(store, minute=minute)
        assert store.drop(NOON + timedelta(minutes=2)) == 2
        assert [head.id for head in store.list()] == [3]
        assert store.drop(NOON + timedelta(minutes=2)) == 0
    with sqlite3.connect(tmp_path / "s") as connection:
        kept = connection.execute("select distinct snapshot_id from snapshot_sections").fetchall()
        assert kept == [(3,)]


def statements(*query_ids: int) -> Section:
    return Section(
        name="statements",
        kind=SectionKind.DELTA,
        columns=("query_id", "calls"),
        rows=(*((one, 1) for one in query_ids), (None, 9)),
    )


def test_a_baseline_keeps_its_snapshots_and_the_texts_that_they_name(tmp_path: Path) -> None:
    path = tmp_path / "s"
    late = NOON + timedelta(days=999)
    with FileStore.create(path) as store:
        assert store.baselines() == ()
        for minute, query_id in enumerate((-5, 6, 6, -5)):
            with store.adding("7"):
                made = snapshot(minute=minute)
                store.add(replace(made, sections=(*made.sections, statements(query_id))))
        store.keep("monday", 2, 3)
        store.keep("one more", 3, 4)
        kept = [(one.name, one.begin_id, one.end_id) for one in store.baselines()]
        assert kept == [("monday", 2, 3), ("one more", 3, 4)]
        assert store.drop(late) == 1
        assert [head.id for head in store.list()] == [2, 3, 4]
        assert store.queries([-5, 6]) == {-5: "select 1", 6: "select 2"}
        with pytest.raises(SnapshotError, match="UNIQUE"):
            store.keep("monday", 2, 4)

        store.release("one more")
        assert store.drop(late) == 1
        assert [head.id for head in store.list()] == [2, 3]
        assert store.queries([-5, 6]) == {6: "select 2"}
        # Another snapshot that names the statement does not make its text any older.
        with store.adding("7"):
            store.add(snapshot(minute=9))
        store.drop(late)
        assert store.queries([6]) == {6: "select 2"}
        store.release("monday")
        store.drop(late)
        assert (store.list(), store.queries([6])) == ((), {})


def test_a_file_with_baselines_is_none_for_a_version_that_would_drop_them(tmp_path: Path) -> None:
    path = tmp_path / "s"

    def version() -> int:
        with sqlite3.connect(path) as connection:
            return int(connection.execute("pragma user_version").fetchone()[0])

    with FileStore.create(path) as store:
        first, second = add(store), add(store, minute=1)
        assert version() == FORMAT - 1
        store.keep("monday", first, second)
    assert version() == FORMAT


def test_a_file_belongs_to_one_server(tmp_path: Path) -> None:
    with FileStore.create(tmp_path / "s") as store:
        add(store)
        with pytest.raises(SnapshotError, match="of another server"), store.adding("8"):
            pass


def test_what_is_no_file_of_snapshots_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("nothing of ours " * 100)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("create table t (a)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(SnapshotError, match=path.name):
            FileStore.create(path)
        assert path.read_bytes() == before


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    FileStore.create(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"pragma user_version = {FORMAT + 1}")
    with pytest.raises(SnapshotError, match="newer pgflash") as caught:
        open_store(path=path)
    assert caught.value.exit_code == 1


def test_a_file_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with pytest.raises(PgflashError, match="there is no file"):
        open_store(path=path)
    assert not path.exists()
    with pytest.raises(PgflashError, match="could not open"):
        FileStore.create(tmp_path / "no" / "such" / "folder")


def test_damage_is_said(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with FileStore.create(path) as store:
        taken = add(store)
    with sqlite3.connect(path) as connection:
        connection.execute("update snapshot_sections set content = x'00ff'")
    with open_store(path=path) as read, pytest.raises(SnapshotError, match="damaged"):
        read.sections(taken)


@pytest.mark.parametrize("content", [b"\x00\xff", zlib.compress(b"[[1]]"), zlib.compress(b"{")])
def test_a_reading_that_is_damaged_is_no_reading(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s"
    with FileStore.create(path) as store:
        add(store)
    with sqlite3.connect(path) as connection:
        connection.execute("update snapshot_last set content = ?", (content,))
    with FileStore.create(path) as store, store.adding("7") as last:
        assert last is not None
        assert last.remembered == {}


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    before = os.umask(0)
    try:
        FileStore.create(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_times_are_kept_to_the_microsecond(moment: datetime) -> None:
    """started_at tells one life of a server from another, so it must come back the same."""
    assert datetime.fromtimestamp(float(repr(moment.timestamp())), UTC) == moment
