# SPDX-License-Identifier: PostgreSQL
"""The same figures from real views of PostgreSQL 15 to 19 (tests/golden/data).

Each sample holds the views before and after work of known size, and describes that work.
"""

import json
from typing import Any

import pytest

from pgflash.analyze import Period, make_report
from pgflash.analyze.figures import buffer_writes, checkpoints, databases, stock_io, wal
from pgflash.analyze.parts import db_time
from pgflash.analyze.period import make_period
from pgflash.model.awr import AwrReport, plain
from support.cluster import REPOSITORY
from support.periods import Rows, Shelf

DATA = REPOSITORY / "tests" / "golden" / "data"

MAJORS = (15, 16, 17, 18, 19)


class Sample:
    """A major version's sample as a period, with the work done in it."""

    def __init__(self, major: int) -> None:
        found: dict[str, Any] = json.loads((DATA / f"stock-{major}.json").read_text())
        self.major = major
        self.did: dict[str, int] = found["did"]
        store = Shelf(version_num=found["before"]["server_version_num"])
        settings: Rows = [
            {"name": "track_io_timing", "setting": "on"},
            {"name": "track_wal_io_timing", "setting": "on"},
        ]
        for minute, when in ((0, "before"), (1, "after")):
            sections = {
                name: [dict(zip(one["columns"], row, strict=True)) for row in one["rows"]]
                for name, one in found[when]["sections"].items()
            }
            store.put(minute, {**sections, "settings": settings})
        self.period: Period = make_period(store, 1, 2)
        self.report: AwrReport = make_report(self.period)


@pytest.fixture(scope="module", params=MAJORS)
def sample(request: pytest.FixtureRequest) -> Sample:
    return Sample(request.param)


def test_transactions_and_blocks_are_those_that_were_made(sample: Sample) -> None:
    found = databases(sample.period)
    assert found is not None
    at_least = sample.did["commits_at_least"]
    assert at_least <= found.commits <= at_least + 30  # the looks themselves are a few
    assert found.rollbacks == 0
    assert found.rows_updated == at_least
    # Each scan finds at most what shared_buffers can hold; catalogs are read, too.
    blocks, buffers = sample.did["table_blocks"], sample.did["buffers"]
    scans = sample.did["scans"]
    assert scans * (blocks - buffers) <= found.blocks_read <= scans * blocks + buffers
    assert found.temp_bytes > sample.did["table_blocks"] * 8192 / 2


def test_time_at_work_holds_the_sleep(sample: Sample) -> None:
    found = databases(sample.period)
    assert found is not None
    assert found.active_s * 1000 >= sample.did["active_ms_at_least"]
    assert db_time(sample.period).client_s == found.active_s


def test_the_checkpoint_has_one_name_on_all_majors(sample: Sample) -> None:
    found = checkpoints(sample.period)
    assert found is not None
    assert found.requested == sample.did["checkpoints"]
    assert found.timed == 0
    assert found.buffers_written > 0


def test_every_major_tells_who_wrote_dirty_buffers(sample: Sample) -> None:
    found, done = buffer_writes(sample.period), checkpoints(sample.period)
    assert found is not None
    assert done is not None
    # The table is larger than shared_buffers, and each scan needs buffers for it.
    assert found.allocated > 0
    assert found.by_clients is not None
    assert (done.done is not None) == (sample.major >= 18)
    assert (done.restartpoints is not None) == (sample.major >= 17)
    rows = {row.cells[0] for row in sample.report.table("checkpoints").rows}
    assert ("blocks written by clients" in rows) == (sample.major >= 16)


def test_the_wal_is_what_its_position_says(sample: Sample) -> None:
    found = wal(sample.period, timed=True)
    assert found is not None
    # Positions include page headers; and the WAL of the samples themselves is only in the counters.
    assert 0.8 * sample.did["wal_bytes"] <= found.bytes <= 1.2 * sample.did["wal_bytes"] + 4096
    assert found.syncs is not None
    assert found.syncs >= sample.did["commits_at_least"]
    assert found.writes is not None
    assert found.writes >= sample.did["commits_at_least"]
    assert found.sync_s is not None
    assert found.sync_s > 0
    assert (found.write_bytes is not None) == (sample.major >= 18)


def test_filling_a_new_segment_with_zeros_is_no_writing_of_wal() -> None:
    calls = {"normal": (1_000, 8_192_000), "init": (40, 40 * 16 * 2**20)}
    after: Rows = [
        {
            "backend_type": "client backend",
            "object": "wal",
            "context": context,
            "writes": writes,
            "write_bytes": size,
            "write_time": 2.0 * writes,
            "fsyncs": writes,
            "fsync_time": 5.0 * writes,
        }
        for context, (writes, size) in calls.items()
    ]
    before: Rows = [
        {name: 0 if isinstance(value, (int, float)) else value for name, value in one.items()}
        for one in after
    ]
    store = Shelf(version_num=180_000)
    store.put(0, {"stat_io": before, "stat_wal": [{"wal_bytes": 0}]})
    store.put(1, {"stat_io": after, "stat_wal": [{"wal_bytes": 8_000_000}]})
    period = make_period(store, 1, 2)
    found = wal(period, timed=True)
    assert found is not None
    assert (found.writes, found.write_bytes, found.write_s) == (1_000, 8_192_000, 2.0)
    assert (found.syncs, found.sync_s) == (1_000, 5.0)
    by_object = {io.object: io for io in stock_io(period, timed=True, wal_timed=True)}
    assert by_object["wal"].write_bytes == 8_192_000
    assert by_object["wal init"].write_bytes == 40 * 16 * 2**20
    assert by_object["wal init"].write_s == pytest.approx(0.08)
    assert all(io.write_s is None for io in stock_io(period, timed=True, wal_timed=False))


def test_the_bytes_of_full_page_images_are_a_part_of_the_wal_from_19_on(sample: Sample) -> None:
    found = wal(sample.period, timed=True)
    assert found is not None
    if sample.major < 19:
        assert found.full_page_image_bytes is None
        return
    assert found.full_page_image_bytes is not None
    # The hole in the middle of a page is omitted.
    assert 0 < found.full_page_image_bytes < min(found.bytes, 8192 * found.full_page_images)
    assert "size of full-page images" in sample.report.table("wal").values("name")


def test_a_wait_for_a_lock_is_counted_from_19_on(sample: Sample) -> None:
    table = sample.report.table("locks-long")
    if sample.major < 19:
        assert table.missing_reason
        return
    (row,) = table.rows
    kind, waits, total_s, mean_ms, sessions, _slow = (plain(cell) for cell in row.cells)
    assert (kind, waits) == ("relation", 1)
    assert isinstance(total_s, float)
    assert total_s * 1000 >= sample.did["locked_ms_at_least"]
    assert mean_ms == pytest.approx(total_s * 1000)
    assert sessions == pytest.approx(total_s / sample.period.elapsed_s)


def test_times_that_were_not_taken_are_not_zero_but_unknown(sample: Sample) -> None:
    found = wal(sample.period, timed=False)
    assert found is not None
    assert found.sync_s is None
    for io in stock_io(sample.period, timed=False, wal_timed=False):
        assert (io.read_s, io.write_s, io.sync_s) == (None, None, None)


def test_clients_reads_are_blocks_times_their_size_on_all_majors(sample: Sample) -> None:
    found = stock_io(sample.period, timed=True, wal_timed=True)
    if sample.major == 15:
        assert found == ()
        return
    (client,) = [
        io for io in found if (io.backend_type, io.object) == ("client backend", "relation")
    ]
    counted = databases(sample.period)
    assert counted is not None
    assert client.read_bytes == pytest.approx(8192 * counted.blocks_read, rel=0.1)
    # From 18 on a request may be of many blocks.
    blocks_per_request = client.read_bytes / 8192 / client.reads
    assert blocks_per_request == 1.0 if sample.major < 18 else blocks_per_request > 1.0
    assert client.read_s is not None
    assert client.read_s > 0


def test_nothing_is_below_nothing(sample: Sample) -> None:
    for section in sample.period.totals.values():
        for row in section.rows:
            for value in row:
                if isinstance(value, (int, float)):
                    assert value >= 0, section.name
    assert sample.period.resets == ()


def test_a_stock_server_gets_a_report_that_says_what_it_lacks(sample: Sample) -> None:
    report = sample.report
    for table_id in ("read-latency", "io-tablespaces", "flash-cache", "aas-over-time"):
        assert report.table(table_id).missing_reason
    events = report.table("top-events").values("event")
    reads = "data file read, all processes" if sample.major == 15 else "data file read"
    assert reads in events
    assert bool(report.table("io-function-filetype").rows) == (sample.major > 15)
    assert report.table("wal").rows


def test_the_clients_wal_syncs_are_their_commit_waits_from_18_on(sample: Sample) -> None:
    events = sample.report.table("top-events").values("event")
    assert ("WAL sync" in events) == (sample.major >= 18)
