# SPDX-License-Identifier: PostgreSQL
"""The sources of the parts of DB time; nothing is counted twice."""

from datetime import timedelta

import pytest

from pgflash.advise.work import work_of_report
from pgflash.analyze import Period, make_period, make_report
from pgflash.analyze.dbtime import TimePart
from pgflash.analyze.parts import DbTime, db_time
from pgflash.model.awr import RowMark, Source
from pgflash.model.snapshot import Value
from pgflash.model.waits import WaitClass
from support.periods import EPOCH, Rows, Shelf

CLIENT, WORKER = "client backend", "parallel worker"
LOOKS = 600


def call(
    file_class: str,
    operation: str,
    *,
    calls: int,
    time_ms: float,
    source: str = "disk",
    backend_type: str = CLIENT,
    **more: Value,
) -> dict[str, Value]:
    """Return a row of pgflash_io."""
    return {
        "backend_type": backend_type,
        "file_class": file_class,
        "operation": operation,
        "source": source,
        "calls": calls,
        "bytes": 8192 * calls,
        "time_ms": time_ms,
        **more,
    }


def samples(*seen: tuple[str, str | None, str | None, int], minutes: int = 10) -> dict[str, Rows]:
    """Return what was seen in each of MINUTES of 600 samples."""
    buckets = [(EPOCH + timedelta(minutes=n)).isoformat() for n in range(minutes)]
    return {
        "sample_looks": [{"bucket": b, "looks": LOOKS, "missed": 0} for b in buckets],
        "samples": [
            {
                "bucket": bucket,
                "backend_type": backend_type,
                "wait_event_type": kind,
                "wait_event": event,
                "samples": count,
            }
            for bucket in buckets
            for backend_type, kind, event, count in seen
        ],
    }


def period(
    *,
    active_s: float = 100.0,
    major: int = 17,
    io: Rows = (),
    settings: dict[str, str] | None = None,
    cpu: dict[str, float] | None = None,
    seen: dict[str, Rows] | None = None,
    in_flight_ms: tuple[float, float] = (0.0, 0.0),
    more: dict[str, Rows] | None = None,
) -> Period:
    """Return ten minutes in which all this happened."""
    store = Shelf(version_num=10_000 * major)
    for after in (0, 1):
        sections: dict[str, Rows] = {
            "database": [
                {"datid": "5", "xact_commit": 10 * after, "active_time": 1e3 * active_s * after}
            ],
            "server": [{"cores": 2, "active_in_flight_ms": in_flight_ms[after]}],
            "settings": [{"name": n, "setting": s} for n, s in (settings or {}).items()],
        }
        if io:
            sections["io"] = [_times(row, after) for row in io]
        if cpu is not None:
            sections["backend_cpu"] = [
                {"backend_type": kind, "cpu_seconds": seconds * after}
                for kind, seconds in cpu.items()
            ]
        for name, rows in (more or {}).items():
            sections[name] = [_times(row, after) for row in rows]
        if after:
            sections |= seen or {}
        store.put(10 * after, sections)
    return make_period(store, 1, 2)


def _times(row: object, factor: int) -> dict[str, Value]:
    assert isinstance(row, dict)
    return {
        name: value * factor if isinstance(value, (int, float)) else value
        for name, value in row.items()
    }


def parts(found: DbTime) -> dict[str, TimePart]:
    return {part.event: part for part in found.composition.parts}


def counted(found: DbTime) -> dict[str, float]:
    """Return the seconds of the parts that count, to the microsecond."""
    return {part.event: round(part.total_s, 6) for part in found.composition.counted}


# ---- DB time -----------------------------------------------------------------------------


def test_db_time_has_what_running_statements_used_up() -> None:
    # 4 s of the statements that ran at the beginning were before the period.
    found = db_time(period(active_s=100.0, in_flight_ms=(4_000.0, 9_000.0)))
    assert found.client_s == pytest.approx(105.0)
    assert found.composition.db_time_source is Source.EXACT


def test_parallel_workers_time_is_sampled_and_added() -> None:
    found = db_time(period(seen=samples((WORKER, None, None, 60))))
    assert found.client_s == pytest.approx(100.0)
    assert found.parallel_s == pytest.approx(60 / LOOKS * 600)
    assert found.composition.db_time_s == pytest.approx(160.0)
    assert found.composition.db_time_source is Source.SAMPLED


def test_parallel_workers_calls_count_only_where_their_time_is_known() -> None:
    io = [call("data", "read", calls=10, time_ms=5_000.0, backend_type=WORKER)]
    assert db_time(period(io=io)).composition.counted == ()
    found = db_time(period(io=io, seen=samples((WORKER, None, None, 60))))
    assert parts(found)["data file read, disk"].total_s == pytest.approx(5.0)


def test_without_tracked_activities_db_time_is_sampled() -> None:
    seen = samples((CLIENT, None, None, 30), (CLIENT, "Client", "ClientRead", 500))
    found = db_time(period(active_s=0.0, settings={"track_activities": "off"}, seen=seen))
    assert found.client_s == pytest.approx(30.0)
    assert found.composition.db_time_source is Source.SAMPLED


# ---- I/O ---------------------------------------------------------------------------------


def test_timed_calls_take_the_place_of_their_samples() -> None:
    found = db_time(
        period(
            io=[
                call("data", "read", calls=100, time_ms=20_000.0),
                call("wal", "sync", calls=50, time_ms=5_000.0),
            ],
            seen=samples(
                (CLIENT, "IO", "DataFileRead", 60),
                (CLIENT, "IO", "WalSync", 60),
                (CLIENT, "IO", "BufFileWrite", 60),
                (CLIENT, "Extension", "FlashCacheRead", 60),
                (CLIENT, "LWLock", "WALWrite", 6),
                (CLIENT, "IPC", "BufferIO", 12),
            ),
        )
    )
    assert counted(found) == {
        "data file read, disk": 20.0,
        "WAL sync": 5.0,
        "LWLock:WALWrite": 6.0,
        "IPC:BufferIO": 12.0,
        "CPU, or waiting for a processor": 0.0,
    }


@pytest.mark.parametrize("event", ["DataFilePrefetch", "DataFileFlush", "DataFileTruncate"])
def test_samples_of_calls_that_nobody_times_stay(event: str) -> None:
    found = db_time(
        period(
            io=[call("data", "read", calls=1, time_ms=1.0)],
            seen=samples((CLIENT, "IO", event, 60)),
        )
    )
    assert counted(found)[f"IO:{event}"] == 60.0


def test_what_io_workers_read_for_a_session_is_the_devices_time_and_stands_apart() -> None:
    found = db_time(
        period(
            major=18,
            io=[
                call(
                    "data",
                    "read",
                    calls=100,
                    time_ms=50_000.0,
                    worker_calls=80,
                    worker_time_ms=45_000.0,
                )
            ],
            seen=samples((CLIENT, "IO", "AioIoCompletion", 30), (CLIENT, "IO", "DataFileRead", 5)),
        )
    )
    by_event = parts(found)
    own = by_event["data file read, disk"]
    assert (own.waits, round(own.total_s, 6), own.apart) == (20, 5.0, False)
    of_workers = by_event["data file read, disk, asynchronous"]
    assert (of_workers.waits, round(of_workers.total_s, 6)) == (80, 45.0)
    assert of_workers.apart
    assert counted(found)["IO:AioIoCompletion"] == 30.0
    assert "IO:DataFileRead" not in by_event
    assert by_event["IO:AioIoCompletion"].source is Source.SAMPLED


def test_writes_of_a_client_are_what_settings_could_avoid() -> None:
    found = db_time(
        period(
            io=[
                call("data", "write", calls=10, time_ms=1_000.0),
                call("data", "extend", calls=10, time_ms=1_000.0),
                call("wal", "write", calls=10, time_ms=1_000.0),
                call("wal init", "write", calls=10, time_ms=1_000.0),
                call("temp", "write", calls=10, time_ms=1_000.0),
                call("control", "read", calls=10, time_ms=1_000.0),
                call("data", "write", calls=10, time_ms=1_000.0, backend_type="checkpointer"),
            ]
        )
    )
    assert {part.event: part.wait_class for part in found.composition.parts} == {
        "data file write": WaitClass.CONFIGURATION,
        "data file extend": WaitClass.USER_IO,
        "WAL write": WaitClass.COMMIT,
        "new WAL segment write": WaitClass.CONFIGURATION,
        "temporary file write": WaitClass.USER_IO,
        "control file read, disk": WaitClass.OTHER,
        "checkpointer: data file write": WaitClass.SYSTEM_IO,
    }


def test_reads_whose_source_was_told_by_their_times_are_called_modelled() -> None:
    row = call("data", "read", calls=1600, time_ms=1_000.0, told_calls=100)
    assert parts(db_time(period(io=[row])))["data file read, disk"].source is Source.MODELLED
    asked = {**row, "told_calls": 1600}
    assert parts(db_time(period(io=[asked])))["data file read, disk"].source is Source.EXACT
    report = make_report(period(io=[row]))
    latency = report.table("latency-over-time")
    assert latency.columns[latency.index("disk_ms")].source is Source.MODELLED
    assert latency.columns[latency.index("wal_sync_ms")].source is Source.EXACT


def test_an_event_has_one_row_however_its_reads_were_divided() -> None:
    # The cache served only a part of the period, and parallel workers ran only in that part.
    of_clients = call("data", "read", calls=1_000, time_ms=500_000.0, told_calls=100)
    of_workers = call("data", "read", calls=10, time_ms=5_000.0, told_calls=10, backend_type=WORKER)
    both = period(io=[of_clients, of_workers], seen=samples((WORKER, None, None, 60)))
    (row,) = [one for one in db_time(both).composition.parts if one.event == "data file read, disk"]
    assert (row.waits, row.total_s, row.source) == (1_010, 505.0, Source.MODELLED)
    reads = work_of_report(make_report(both)).reads
    assert reads.count == 1_010
    assert reads.seconds == pytest.approx(505.0)


def test_without_the_extension_postgresqls_own_times_count() -> None:
    stock: Rows = [
        {
            "backend_type": CLIENT,
            "object": "relation",
            "context": "normal",
            "reads": 100,
            "read_time": 20_000.0,
            "op_bytes": 8192,
        }
    ]
    seen = samples((CLIENT, "IO", "DataFileRead", 60), (CLIENT, "IO", "WalSync", 6))
    timed = db_time(period(settings={"track_io_timing": "on"}, more={"stat_io": stock}, seen=seen))
    assert counted(timed)["data file read"] == 20.0
    assert "IO:DataFileRead" not in parts(timed)
    assert counted(timed)["IO:WalSync"] == 6.0  # nobody timed that
    untimed = db_time(period(more={"stat_io": stock}, seen=seen))
    assert counted(untimed)["IO:DataFileRead"] == 60.0
    assert "data file read" not in parts(untimed)
    # Turned on within the period: the time is that of a part of the reads.
    now_on: Rows = [{"name": "track_io_timing", "setting": "on"}]
    turned_on = period(more={"stat_io": stock}, seen=seen | {"settings": now_on})
    assert counted(db_time(turned_on)) == counted(untimed)
    (finding,) = [one for one in make_report(turned_on).findings if one.rule == "io-not-timed"]
    assert "track_io_timing was off for a part of the period" in finding.sentence


# ---- processors --------------------------------------------------------------------------


def test_measured_cpu_and_the_rest_of_the_samples_at_work() -> None:
    found = db_time(
        period(cpu={CLIENT: 10.0, "checkpointer": 99.0}, seen=samples((CLIENT, None, None, 40)))
    )
    assert counted(found) == {"DB CPU": 10.0, "waiting for a processor": 30.0}
    by_event = parts(found)
    assert by_event["DB CPU"].source is Source.EXACT
    assert by_event["waiting for a processor"].source is Source.SAMPLED


def test_cpu_of_sessions_that_ended_is_no_waiting_for_a_processor() -> None:
    cpu = {CLIENT: 10.0, "unattributed": 12.0}
    found = db_time(period(cpu=cpu, seen=samples((CLIENT, None, None, 40))))
    assert counted(found) == {
        "DB CPU": 10.0,
        "DB CPU of sessions that ended, at most": 12.0,
        "waiting for a processor": 18.0,
    }
    much = db_time(
        period(cpu={**cpu, "unattributed": 99.0}, seen=samples((CLIENT, None, None, 40)))
    )
    assert counted(much) == {"DB CPU": 10.0, "DB CPU of sessions that ended, at most": 30.0}


def test_unmeasured_cpu_is_sampled() -> None:
    found = db_time(period(seen=samples((CLIENT, None, None, 40))))
    assert counted(found) == {"CPU, or waiting for a processor": 40.0}


def test_copies_from_the_page_cache_are_cpu_where_cpu_is_measured() -> None:
    copies = [call("data", "read", source="page cache", calls=1_000_000, time_ms=4_000.0)]
    measured = db_time(period(io=copies, cpu={CLIENT: 10.0}, seen=samples((CLIENT, None, None, 6))))
    # 6 s at work and 4 s within calls are the 10 s of CPU: nobody waited for a processor.
    assert counted(measured) == {"DB CPU": 10.0}
    assert parts(measured)["data file read, page cache"].apart
    waited = db_time(period(io=copies, cpu={CLIENT: 10.0}, seen=samples((CLIENT, None, None, 20))))
    # Of 20 s at work, 6 s were on a processor outside of such calls.
    assert counted(waited) == {"DB CPU": 10.0, "waiting for a processor": 14.0}
    sampled_only = db_time(period(io=copies, seen=samples((CLIENT, None, None, 6))))
    assert counted(sampled_only)["data file read, page cache"] == 4.0


def test_copies_by_io_workers_are_not_in_the_processor_time_of_the_session() -> None:
    copies = call(
        "data",
        "read",
        source="page cache",
        calls=1_000_000,
        time_ms=5_000.0,
        worker_calls=800_000,
        worker_time_ms=4_000.0,
    )
    # Of its 10.5 s of CPU, the session used 1 s for its own copies, and the rest at work: 9 s, as
    # far as samples can tell.
    at_work = samples((CLIENT, None, None, 9))
    found = db_time(period(major=18, io=[copies], cpu={CLIENT: 10.5}, seen=at_work))
    assert counted(found) == {"DB CPU": 10.5}


def test_cpu_beyond_the_samples_at_work_was_used_where_no_statement_ran() -> None:
    # 60 of 600 looks a minute saw it at work; its CPU time is twice as much.
    found = db_time(period(cpu={CLIENT: 120.0}, seen=samples((CLIENT, None, None, 60))))
    assert counted(found) == {"DB CPU": 60.0}
    outside = parts(found)["DB CPU within file calls or between statements"]
    assert (round(outside.total_s, 6), outside.apart) == (60.0, True)
    assert found.cpu_s == 120.0


def test_cpu_that_a_few_looks_missed_is_within_statements() -> None:
    # 40 samples are 4 s, give or take 0.6 s: no reason to doubt the 5 s that were measured.
    found = db_time(period(cpu={CLIENT: 5.0}, seen=samples((CLIENT, None, None, 40), minutes=1)))
    assert counted(found) == {"DB CPU": 5.0}
    assert parts(found)["DB CPU"].source is Source.EXACT


def test_a_session_between_two_statements_is_idle() -> None:
    seen = samples((CLIENT, None, None, 30))
    seen["samples"] = [{**row, "wait_class": "Idle"} for row in seen["samples"]]
    found = db_time(period(seen=seen))
    assert found.sampled_s == 0.0
    assert {p.wait_class for p in found.composition.parts} == {WaitClass.IDLE, WaitClass.CPU}


def test_the_time_that_looks_stand_for_is_what_the_sampler_says() -> None:
    # It was off for half of the only minute: its 300 samples represent 30 s.
    bucket = EPOCH.isoformat()
    seen: dict[str, Rows] = {
        "sample_looks": [{"bucket": bucket, "looks": 300, "missed": 300, "seconds": 30.0}],
        "samples": [{"bucket": bucket, "backend_type": CLIENT, "samples": 150, "seconds": 15.0}],
    }
    found = db_time(period(seen=seen))
    assert found.samples is not None
    assert found.samples.covered_s == 30.0
    assert found.sampled_s == 15.0
    assert found.samples.minutes[0].sessions == {WaitClass.CPU: 0.5}


def test_slow_reads_from_the_page_cache_are_no_copies() -> None:
    slow = [call("data", "read", source="page cache", calls=1_000, time_ms=4_000.0)]
    found = db_time(period(io=slow, cpu={CLIENT: 1.0}))
    assert counted(found)["data file read, page cache"] == 4.0


# ---- samples -----------------------------------------------------------------------------


def test_minutes_without_a_look_are_no_idle_spell() -> None:
    found = db_time(period(seen=samples((CLIENT, "Lock", "tuple", 60), minutes=5)))
    assert found.samples is not None
    assert found.samples.covered_s == 300
    assert counted(found)["Lock:tuple"] == 30.0  # 60 of 600 looks, in five minutes
    assert found.composition.residual_s == pytest.approx(70.0)
    report = make_report(period(seen=samples((CLIENT, "Lock", "tuple", 60), minutes=5)))
    rules = {finding.rule: finding for finding in report.findings}
    assert "covered only 50 % of the period" in rules["sampler-gaps"].sentence
    assert len(report.table("aas-over-time").rows) == 5


def test_looks_of_another_time_are_none() -> None:
    # The clock was set back: the sampler's data is from before the period.
    before = (EPOCH - timedelta(hours=1)).isoformat()
    seen: dict[str, Rows] = {
        "sample_looks": [{"bucket": before, "looks": LOOKS, "missed": 0}],
        "samples": [{"bucket": before, "backend_type": CLIENT, "samples": 60}],
    }
    one = period(seen=seen)
    assert db_time(one).samples is None
    assert make_report(one).table("aas-over-time").missing_reason


def test_a_minute_that_two_intervals_share_is_shared() -> None:
    store = Shelf()
    bucket = EPOCH.isoformat()

    def at(active_ms: float, looks: int, seen: int) -> dict[str, Rows]:
        return {
            "database": [{"datid": "5", "active_time": active_ms}],
            "sample_looks": [{"bucket": bucket, "looks": looks, "missed": 0}],
            "samples": [
                {"bucket": bucket, "backend_type": CLIENT, "wait_event": None, "samples": seen}
            ],
        }

    store.put(0, at(0, 0, 0))
    store.put(0.25, at(10_000, 150, 150))  # 15 s, all of them at work
    store.put(1, at(20_000, 450, 0))
    found = db_time(make_period(store, 1, 3))
    assert found.samples is not None
    assert found.samples.covered_s == 60
    assert found.sampled_s == pytest.approx(15.0)


def test_intervals_shorter_than_a_minute_have_a_row_each() -> None:
    # From 40 s to 80 s and to 120 s: a minute begins within the first, and is cut by its end.
    store = Shelf()
    for minutes in (40 / 60, 80 / 60, 2):
        looked: Rows = [
            {"bucket": (EPOCH + timedelta(minutes=n)).isoformat(), "looks": LOOKS, "missed": 0}
            for n in range(2)
        ]
        store.put(minutes, {"sample_looks": [] if minutes < 1 else looked, "samples": []})
    table = make_report(make_period(store, 1, 3)).table("aas-over-time")
    assert table.values("elapsed_s") == (40.0, 40.0)


def test_a_large_residual_is_said() -> None:
    report = make_report(period(seen=samples((CLIENT, None, None, 1))))
    (finding,) = [one for one in report.findings if one.rule == "unexplained"]
    assert finding.sentence.startswith("99 % of DB time is not explained by any row:")
    table = report.table("db-time")
    (row,) = [one for one in table.rows if one.mark is RowMark.RESIDUAL]
    assert row.cells[table.index("total_s")] == pytest.approx(99.0)
