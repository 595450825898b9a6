# SPDX-License-Identifier: PostgreSQL
"""Hours of the live page in a few seconds: memory stays flat, viewers return, servers change.

The collector's own loop reads as fast as it can from an invented server, whose clocks advance by a
second with each reading.
"""

import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from pgflash.live import collector as collecting
from pgflash.live.collector import Collector
from pgflash.live.notices import changes
from pgflash.live.ring import MESSAGES_MAX, Ring
from pgflash.live.segments import INTERVALS_MAX
from pgflash.model.live import (
    DatabaseCounts,
    FileChange,
    Flow,
    LiveServer,
    Reading,
    Sample,
    WaitTime,
)
from pgflash.session import Connection, SessionError, UnreachableError
from pgflash.web.details import WAITING_MAX, Details
from support.patience import PATIENCE_S, until
from support.served import served

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
SERVER = LiveServer(
    version_num=180_006,
    system_identifier="7000000000000000001",
    started_at=START,
    in_recovery=False,
    database="app",
    role="watcher",
    extension_version="0.1",
    schema="public",
    sampler=True,
    cores=2,
)
FILES = 10


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files read each time: hours pass in seconds here."""
    monkeypatch.setattr(collecting, "FILES_PART", 0)


class Session:
    """A session with an invented server."""

    broken = False

    def close(self) -> None:
        pass


class Hours:
    """A server that counts; each reading finds it a second later."""

    def __init__(self, script: Mapping[int, Callable[[], None]] | None = None) -> None:
        self.server = SERVER
        self.seconds = 0
        self.ends_at = 0
        self.done = threading.Event()
        #: The events and the second of each.
        self.script = dict(script or {})

    def make(self, _connection: Connection) -> "Hours":
        return self

    def look_again(self) -> bool:
        return False

    def read(self) -> Reading:
        if self.seconds >= self.ends_at:
            self.done.set()
            raise SessionError("the script is at its end")
        self.seconds += 1
        happens = self.script.pop(self.seconds, None)
        if happens is not None:
            happens()
        n = self.seconds
        return Reading(
            at=START + timedelta(seconds=n),
            monotonic_s=float(n),
            started_at=self.server.started_at,
            sessions=20,
            active=5 + n % 7,
            databases={"5": DatabaseCounts(name="app", commits=100 * n, rollbacks=n)},
            wal_bytes=n * 1_000_000,
            flows={
                name: Flow(calls=50.0 * n, bytes=409_600.0 * n, time_ms=9.0 * n)
                for name in ("page cache", "flash", "disk", "disk writes", "wal", "temp")
            },
            latencies={"disk": {2.0**i: float(i * n) for i in range(20)}},
            # Another event every second, as a server with many has them.
            waits=(
                WaitTime(wait_class="CPU", event="CPU", seconds=2.0),
                WaitTime(wait_class="User I/O", event=f"IO:Event{n % 500}", seconds=1.0),
            ),
            covered_s=1.0,
            cache={"mode": "serve", "hits": 40.0 * n, "misses": 10.0 * n},
        )

    def collector(self, files: "Callable[[Hours], Files] | None" = None) -> Collector:
        return Collector(
            "",
            Ring(),
            interval_s=0.0,
            connect=lambda _dsn: cast("Connection", Session()),
            reader=self.make,
            files=lambda _connection: (files or Files)(self),
        )


class Files:
    """New files all the time, as of temporary tables; each takes the place of one that went."""

    def __init__(self, hours: Hours) -> None:
        self.hours = hours

    def read(self, _server: LiveServer) -> list[FileChange]:
        now = float(self.hours.seconds)
        first = self.hours.seconds // 10
        return [
            (number % FILES, (1663, 5, number), (now, 0.0, 0.0, now, 0.0, 0.0, 0.0))
            for number in range(first, first + FILES)
        ]


def is_flat(early: int, late: int) -> bool:
    """Tell whether memory has not grown; some sentences get longer as numbers do."""
    return late - early < 0.02 * early + 64 * 1024


def drive(hours: Hours, collector: Collector, seconds: int) -> None:
    """Let this many seconds pass."""
    hours.done.clear()
    hours.ends_at = hours.seconds + seconds
    while hours.seconds < hours.ends_at:
        try:
            collector._serve()
        except SessionError:
            assert hours.seconds == hours.ends_at


def test_memory_is_flat_over_hours() -> None:
    hours = Hours()
    collector = hours.collector()
    with collector.watched():
        drive(hours, collector, 1500)
        tracemalloc.start()
        try:
            drive(hours, collector, 1500)  # all that is kept was made while it was traced
            early, _peak = tracemalloc.get_traced_memory()
            drive(hours, collector, 2 * 3600)
            late, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert is_flat(early, late)
    assert peak < 2 * early + 1024 * 1024
    messages, gap = collector.ring.after(0)
    assert (len(messages), gap) == (MESSAGES_MAX, True)
    assert max(len(one.data) for one in messages) < 4096
    assert len(collector.segments._intervals) == INTERVALS_MAX
    assert set(collector.waited_s) == {"CPU", "User I/O"}
    assert not collector._untold


def test_nothing_is_subtracted_from_what_another_view_has_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The extension was created while the page was open: it has counted since the start."""
    monkeypatch.setattr(collecting, "LOOK_AGAIN_S", 0)

    class Created(Hours):
        def look_again(self) -> bool:
            return self.seconds == 3

        def read(self) -> Reading:
            reading = super().read()
            names = ("disk",) if self.seconds <= 3 else ("disk", "page cache")
            return replace(reading, flows={name: reading.flows[name] for name in names})

    hours = Created()
    collector = hours.collector()
    told: list[tuple[Reading | None, Reading]] = []
    monkeypatch.setattr(collector, "_publish", lambda *readings: told.append(readings))
    drive(hours, collector, 6)
    assert len(told) == 6
    between = [set(before.flows) == set(after.flows) for before, after in told if before]
    assert between == 4 * [True]


def test_a_leak_would_be_found() -> None:
    """Where one reading a second is kept, it is kept for minutes only."""
    kept = []

    class Leaking(Hours):
        def read(self) -> Reading:
            reading = super().read()
            kept.append(reading)
            return reading

    hours = Leaking()
    collector = hours.collector()
    tracemalloc.start()
    try:
        drive(hours, collector, 1500)
        early, _peak = tracemalloc.get_traced_memory()
        drive(hours, collector, 300)
        late, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not is_flat(early, late)


def test_a_sleeper_comes_back_after_minutes_and_after_hours() -> None:
    hours = Hours()
    collector = hours.collector()
    drive(hours, collector, 1000)
    left = collector.ring.newest
    drive(hours, collector, 600)
    messages, gap = collector.ring.after(left)
    assert not gap
    assert [one.number for one in messages] == list(range(left + 1, collector.ring.newest + 1))
    drive(hours, collector, 2 * 3600)
    messages, gap = collector.ring.after(left)
    assert gap
    assert len(messages) == MESSAGES_MAX
    assert messages[-1].number == collector.ring.newest
    # The viewer gets complete data of the last quarter of an hour.
    first = json.loads(next(one for one in messages if one.kind == "sample").data)
    age = START + timedelta(seconds=hours.seconds) - datetime.fromisoformat(first["at"])
    assert age <= timedelta(seconds=MESSAGES_MAX)


def test_many_listeners_who_come_and_go_leave_nothing() -> None:
    ring = Ring()
    rung: list[int] = []
    for number in range(5000):

        def listener(number: int = number) -> None:
            rung.append(number)

        ring.listen(listener)
        if number % 1000 == 0:
            ring.append("status", lambda _number: {})
        ring.forget(listener)
    assert rung == [0, 1000, 2000, 3000, 4000]
    assert ring._listeners == []


# ---- the server is another one


def told(collector: Collector) -> list[str]:
    messages, _gap = collector.ring.after(0)
    return [json.loads(one.data)["sentence"] for one in messages if one.kind == "notice"]


def rates(collector: Collector) -> list[dict[str, Any]]:
    messages, _gap = collector.ring.after(0)
    return [json.loads(one.data) for one in messages if one.kind == "sample"]


def test_a_failover_is_said_and_nothing_is_made_of_the_difference() -> None:
    hours = Hours()
    collector = hours.collector()
    with collector.watched():
        drive(hours, collector, 60)
        assert collector.segments.within(START, START + timedelta(days=1))
        other = START + timedelta(seconds=55)
        hours.server = replace(SERVER, system_identifier="7000000000000000002", started_at=other)
        drive(hours, collector, 2)
        assert told(collector) == [
            "Another server answers now: earlier counts belong to a different one."
        ]
        # Its files are not the other's, although their numbers are.
        kept = collector.segments._intervals
        assert all(first >= START + timedelta(seconds=60) for first, _last, _counts in kept)
        drive(hours, collector, 60)
    assert len(told(collector)) == 1
    assert len(rates(collector)) == 59 + 1 + 59
    assert all(one["commits_s"] == pytest.approx(100) for one in rates(collector))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"started_at": START + timedelta(hours=1)}, "The server restarted"),
        ({"version_num": 180_007}, "from PostgreSQL 18.6 to 18.7"),
        ({"in_recovery": True}, "is a standby now"),
        ({"extension_version": "0.2"}, "updated from 0.1 to 0.2"),
        ({"extension_version": "", "schema": "", "sampler": False}, "was dropped"),
        ({"schema": "other"}, "moved to another schema"),
        ({"sampler": False}, "sampler was stopped"),
        ({"database": "other"}, 'is "other" now'),
        ({"system_identifier": "2", "version_num": 170_001}, "Another server answers"),
    ],
)
def test_each_change_is_one_sentence_there_and_back(
    change: dict[str, object], sentence: str
) -> None:
    other = replace(SERVER, **change)  # type: ignore[arg-type]
    (said,) = changes(SERVER, other)
    assert sentence in said
    assert len(list(changes(other, SERVER))) == 1
    assert list(changes(SERVER, SERVER)) == []


def test_files_that_cannot_be_looked_at_cost_only_the_segments() -> None:
    hours = Hours()
    calls = []

    class Untold(Files):
        def read(self, _server: LiveServer) -> list[FileChange]:
            calls.append(1)
            raise SessionError("function pgflash_io_relation_changes(bigint) does not exist")

    collector = hours.collector(Untold)
    with collector.watched():
        drive(hours, collector, 100)
    assert len(rates(collector)) == 99
    newest = [one for one in collector.ring.after(0)[0] if one.kind == "sample"][-1]
    assert msgspec.json.decode(newest.data, type=Sample).headline
    assert calls == [1]
    assert collector.status.state in ("live", "late")


def test_files_that_took_too_long_once_are_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collecting, "FILES_AGAIN_S", 0.001)
    calls = []

    class Slow(Files):
        def read(self, server: LiveServer) -> list[FileChange]:
            calls.append(1)
            if len(calls) == 1:
                raise UnreachableError("canceling statement due to statement timeout")
            return super().read(server)

    hours = Hours()
    collector = hours.collector(Slow)
    with collector.watched():
        drive(hours, collector, 100)
    assert len(calls) > 1
    assert collector.segments.within(START, START + timedelta(hours=1))


@pytest.mark.parametrize(("part", "few"), [(500, True), (0, False)])
def test_files_that_take_long_to_look_at_are_looked_at_less_often(
    monkeypatch: pytest.MonkeyPatch, part: int, few: bool
) -> None:
    """Except for the first reading, which reports all files."""
    monkeypatch.setattr(collecting, "FILES_PART", part)
    calls = []

    class Many(Files):
        def read(self, server: LiveServer) -> list[FileChange]:
            calls.append(1)
            time.sleep(0.01)
            return super().read(server)

    hours = Hours()
    collector = hours.collector(Many)
    with collector.watched():
        drive(hours, collector, 50)
    assert (len(calls) == 2) == few
    assert len(calls) >= 2


def test_clocks_that_step_harm_nothing() -> None:
    """The server's clock goes back an hour; order and lengths are by ours."""

    class Stepping(Hours):
        def read(self) -> Reading:
            reading = super().read()
            return replace(reading, at=reading.at - timedelta(hours=self.seconds > 30))

    hours = Stepping()
    collector = hours.collector()
    with collector.watched():
        drive(hours, collector, 60)
    found = rates(collector)
    assert len(found) == 59
    assert all(one["elapsed_s"] == 1.0 for one in found)
    assert all(one["commits_s"] == 100 for one in found)
    assert [one["number"] for one in found] == sorted(one["number"] for one in found)


def test_a_loop_that_waits_is_woken_to_stop() -> None:
    hours = Hours()
    hours.ends_at = 10**6
    collector = hours.collector()
    collector.interval_s = 3600.0
    collector.start()
    until(lambda: collector.newest is not None)
    collector.stop()
    assert not collector._thread.is_alive()


def test_a_retired_collector_leaves_its_ring_to_the_next() -> None:
    """The new one reads into the same ring, while the old one's last query fails or returns."""
    hours = Hours()
    hours.ends_at = 10
    collector = hours.collector()
    hours.script = {5: lambda: collector.retire("The server is at another address now.")}
    collector._run()
    collector._introduce(SERVER)  # it has connected after all
    collector._say(collector._lost(SessionError("the server does not answer")))
    messages, _gap = collector.ring.after(0)
    assert [one.kind for one in messages] == ["server", "status", *["sample"] * 3, "status"]
    assert collector.status.sentence == "The server is at another address now."


def test_who_waits_for_a_slow_server_keeps_nobody_else_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One query at a time: some wait, more are refused; no server is needed for the others."""
    gate = threading.Event()
    monkeypatch.setattr(Details, "_ask", lambda *_asked: gate.wait(3600))
    with served() as page:
        page.collector.server = SERVER
        codes: list[int] = []
        path = "/live/history?from=2026-11-01&to=2026-11-02"
        askers = [
            threading.Thread(target=lambda: codes.append(page.ask(path).code))
            for _ in range(WAITING_MAX + 5)
        ]
        for one in askers:
            one.start()
        try:
            until(lambda: len(codes) >= 5)
            assert codes == [503] * 5
            # While the gate is closed: a viewer that waited for it would wait longer than we do.
            assert page.ask("/live/lab").code == 200
            assert page.ask("/health").code == 200
            assert len(codes) == 5
        finally:
            gate.set()
        for one in askers:
            one.join(PATIENCE_S)
    assert sorted(codes) == [200] * WAITING_MAX + [503] * 5
