# SPDX-License-Identifier: PostgreSQL
"""For any counts of servers: periods compose, nothing is below zero, shares add up to one."""

import math
from collections.abc import Mapping
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgflash.analyze import Period, compare, make_period, make_report
from pgflash.analyze.consistency import contradictions_of
from pgflash.analyze.period import period_of
from pgflash.model.awr import AwrReport, RowMark, plain
from pgflash.model.snapshot import Value
from pgflash.model.waits import WaitClass
from support.periods import EPOCH, Rows, Shelf

SNAPSHOTS = 4

counts = st.integers(min_value=0, max_value=10**12)
milliseconds = st.floats(min_value=0, max_value=1e9, allow_nan=False)

#: What backends wait for, one of each way that the report treats them.
EVENTS = (
    (None, None),
    ("IO", "DataFileRead"),
    ("IO", "AioIoCompletion"),
    ("LWLock", "WALWrite"),
    ("Lock", "transactionid"),
    ("Client", "ClientRead"),
    ("Timeout", "VacuumDelay"),
)
IO_ROWS = (
    ("client backend", "data", "read", "disk"),
    ("client backend", "data", "read", "page cache"),
    ("client backend", "wal", "sync", "disk"),
    ("parallel worker", "data", "read", "flash"),
    ("checkpointer", "data", "write", "disk"),
)


@st.composite
def stores(draw: st.DrawFn) -> Shelf:
    """Return snapshots whose counters grow, are reset, come and go."""
    store = Shelf(version_num=draw(st.sampled_from((150000, 160000, 170000, 180000))))
    databases: dict[str, list[float]] = {}
    stamp = 0
    io = {key: [0, 0.0] for key in IO_ROWS}
    has_io, has_samples = draw(st.booleans()), draw(st.booleans())
    has_cpu = draw(st.booleans())
    cpu_s = 0.0
    minute = 0
    for number in range(SNAPSHOTS):
        minutes = draw(st.integers(min_value=1, max_value=20))
        minute += minutes if number else 0
        for oid in draw(st.sets(st.sampled_from(("1", "2", "3")))):
            if oid in databases and draw(st.integers(0, 4)) == 0:
                del databases[oid]  # dropped
            else:
                grown = databases.setdefault(oid, [0, 0.0])
                grown[0] += draw(counts)
                grown[1] += draw(milliseconds)
        if draw(st.integers(0, 5)) == 0:
            stamp += 1
            databases = {oid: [draw(counts), draw(milliseconds)] for oid in databases}
        for value in io.values():
            value[0] += draw(counts)
            value[1] += draw(milliseconds)
        cpu_s += draw(milliseconds) / 1000
        sections: dict[str, Rows] = {
            "database": [
                {
                    "datid": oid,
                    "xact_commit": commits,
                    "active_time": active_ms,
                    "stats_reset": f"reset {stamp}",
                }
                for oid, (commits, active_ms) in databases.items()
            ]
        }
        if has_io:
            sections["io"] = [_io_row(key, int(n), ms) for key, (n, ms) in io.items()]
        if has_cpu:
            sections["backend_cpu"] = [{"backend_type": "client backend", "cpu_seconds": cpu_s}]
        if has_samples and number:
            sections |= draw(sampled(minute - minutes, minute))
        store.put(minute, sections)
    return store


def _io_row(key: tuple[str, str, str, str], calls: int, time_ms: float) -> Mapping[str, Value]:
    names = ("backend_type", "file_class", "operation", "source")
    return {
        **dict(zip(names, key, strict=True)),
        "calls": calls,
        "bytes": 8192 * calls,
        "time_ms": time_ms,
        "worker_calls": calls // 3,
        "worker_time_ms": time_ms / 3,
    }


@st.composite
def sampled(draw: st.DrawFn, begin: int, end: int) -> dict[str, Rows]:
    """Return samples of some of the minutes."""
    looks: list[Mapping[str, Value]] = []
    samples: list[Mapping[str, Value]] = []
    for minute in range(begin, end):
        if draw(st.integers(0, 3)) == 0:
            continue  # the sampler was out
        bucket = (EPOCH + timedelta(minutes=minute)).isoformat()
        looks.append({"bucket": bucket, "looks": draw(st.integers(1, 600)), "missed": 0})
        for kind, event in draw(st.sets(st.sampled_from(EVENTS))):
            samples.append(
                {
                    "bucket": bucket,
                    "backend_type": draw(
                        st.sampled_from(("client backend", "parallel worker", "checkpointer"))
                    ),
                    "wait_event_type": kind,
                    "wait_event": event,
                    "samples": draw(st.integers(1, 6000)),
                }
            )
    return {"sample_looks": looks, "samples": samples}


def whole(store: Shelf) -> Period:
    return make_period(store, 1, SNAPSHOTS)


def same(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return one == other


@given(store=stores(), middle=st.integers(2, SNAPSHOTS - 1))
@settings(max_examples=40)
def test_two_periods_that_follow_one_another_come_to_the_whole(store: Shelf, middle: int) -> None:
    first, second = make_period(store, 1, middle), make_period(store, middle, SNAPSHOTS)
    joined = period_of(
        [*first.intervals, *second.intervals],
        begin_gauges=first.begin_gauges,
        end_gauges=second.end_gauges,
    )
    direct = whole(store)
    assert direct.elapsed_s == first.elapsed_s + second.elapsed_s
    assert len(direct.resets) == len(first.resets) + len(second.resets)
    for name, section in direct.totals.items():
        assert joined.totals[name] == section
        for column in ("calls", "time_ms", "xact_commit", "active_time", "samples", "looks"):
            of_all = sum(_numbers(direct, name, column))
            of_parts = sum(_numbers(first, name, column)) + sum(_numbers(second, name, column))
            assert same(float(of_all), of_parts), (name, column)


def _numbers(period: Period, name: str, column: str) -> list[float]:
    values = [record.get(column) for record in period.records(name)]
    return [value for value in values if isinstance(value, (int, float))]


@given(store=stores())
@settings(max_examples=40)
def test_nothing_that_is_counted_is_below_nothing(store: Shelf) -> None:
    period = whole(store)
    for section in period.totals.values():
        for row in section.rows:
            for value in row:
                assert not isinstance(value, (int, float)) or value >= 0
    report = make_report(period)
    for table in report.tables:
        for one in table.rows:
            if one.mark is RowMark.RESIDUAL:
                continue
            for cell in one.cells:
                value = plain(cell)
                if isinstance(value, (int, float)):
                    assert value >= 0, (table.id, one)
                    assert math.isfinite(value)


@given(store=stores())
@settings(max_examples=40)
def test_db_time_is_its_parts_and_the_residual(store: Shelf) -> None:
    report = make_report(whole(store))
    for table_id in ("top-events", "wait-classes"):
        assert contradictions_of(report.table(table_id)) == ()
        shares = _shares(report, table_id)
        if shares is not None:
            scale = max(1.0, max(map(abs, shares)))
            assert sum(shares) == pytest.approx(1.0, abs=1e-9 * scale)


def _shares(report: AwrReport, table_id: str) -> list[float] | None:
    """Return the shares that must come to one; None if there is no DB time."""
    table = report.table(table_id)
    place = table.index("share")
    shares = []
    for row in table.rows:
        if row.mark in (RowMark.PLAIN, RowMark.REST, RowMark.RESIDUAL):
            share = plain(row.cells[place])
            if not isinstance(share, (int, float)):
                return None
            shares.append(float(share))
    return shares


@given(store=stores())
@settings(max_examples=40)
def test_a_class_is_the_sum_of_its_events(store: Shelf) -> None:
    report = make_report(whole(store), rows_max=None)
    events, classes = report.table("top-events"), report.table("wait-classes")
    sums: dict[object, float] = {}
    for row in events.rows:
        if row.mark is RowMark.PLAIN:
            of_class = row.cells[events.index("wait_class")]
            sums[of_class] = sums.get(of_class, 0) + float(str(row.cells[2]))
    of_classes = {
        row.cells[0]: float(str(row.cells[2])) for row in classes.rows if row.mark is RowMark.PLAIN
    }
    assert set(of_classes) == set(sums)
    for name, seconds in sums.items():
        assert same(of_classes[str(name)], seconds)
        assert WaitClass(str(name)).counts


@given(store=stores())
@settings(max_examples=25)
def test_a_period_compared_with_itself_did_not_change(store: Shelf) -> None:
    report = make_report(whole(store), rows_max=None)
    for table in compare(report, report).tables:
        assert not [row for row in table.rows if row.mark in (RowMark.NEW, RowMark.GONE)]
        if table.measure and table.rows:
            assert all(not value for value in table.values("change"))
