# SPDX-License-Identifier: PostgreSQL
"""Segments add up to all reads, and the Buffer Pool Advisory to what flash would serve."""

import math

import pytest

from pgflash.advise.awr_objects import (
    OTHERS,
    advisory_curve,
    block_bytes,
    buffer_cache_bytes,
    extended,
    read_segments,
)
from pgflash.advise.awr_tables import read_awr
from pgflash.advise.work import CurvePoint, Reads
from support.awr_reports import ADVISORY_11, CACHE_SIZES, SEGMENTS_11, SEGMENTS_19

GB = 2**30
READS = Reads(count=1_000.0, seconds=10.0)


@pytest.mark.parametrize(("text", "listed"), [(SEGMENTS_11, 0.55), (SEGMENTS_19, 0.30)])
def test_all_segments_together_have_all_reads(text: str, listed: float) -> None:
    segments = read_segments(*read_awr(text), READS, 50.0)
    assert math.fsum(one.reads for one in segments) == pytest.approx(READS.count)
    assert math.fsum(one.read_s for one in segments) == pytest.approx(READS.seconds)
    assert math.fsum(one.writes for one in segments) == pytest.approx(50.0)
    assert segments[-1].name == OTHERS
    assert segments[-1].reads == pytest.approx((1 - listed) * READS.count)


def test_without_a_total_the_printed_shares_say_it() -> None:
    tables, _words = read_awr(SEGMENTS_11)
    segments = read_segments(tables, "", READS, 0.0)
    assert segments[-1].reads == pytest.approx(0.45 * READS.count)


def test_shares_of_what_was_captured_are_not_shares_of_all_reads() -> None:
    # As Statspack prints them: of 216,000 captured reads, where the load profile has 720,000.
    text = SEGMENTS_11.partition("ORDERS               2021")[0].rpartition("\n")[0]
    text = text.replace("-> Total Physical Reads:       2,160,000\n", "").replace("20.00", "100.0")
    (first, rest) = read_segments(*read_awr(text + "\n"), READS, 0.0, blocks_read=4_320_000.0)
    assert first.reads == pytest.approx(0.1 * READS.count)
    assert rest.reads == pytest.approx(0.9 * READS.count)


def test_writes_belong_to_segments_whose_reads_are_known() -> None:
    written = SEGMENTS_11.replace("Physical Reads", "Physical Writes").replace(" Reads", "Writes")
    written = written.replace("STOCK_LOB", "LOG_TABLE")
    segments = read_segments(*read_awr(SEGMENTS_11 + written), READS, 100.0)
    writes = {one.name: one.writes for one in segments}
    assert writes["SHOP.ORDERS"] == pytest.approx(20)
    assert writes["SHOP.STOCK_LOB"] == 0
    assert "SHOP.LOG_TABLE" not in writes
    assert writes[OTHERS] == pytest.approx(100 - 50)


def test_sizes_are_read() -> None:
    assert buffer_cache_bytes(CACHE_SIZES) == 4 * GB
    assert block_bytes(CACHE_SIZES) == 8_192
    assert buffer_cache_bytes("nothing") is None


def test_the_advisory_begins_at_the_present_size() -> None:
    tables, _words = read_awr(ADVISORY_11)
    for buffers in (4.0 * GB, None):
        curve = advisory_curve(tables, buffers)
        assert [point.size_bytes / GB for point in curve] == [2, 4]
        assert [point.hit_ratio for point in curve] == pytest.approx([0.4, 0.6])
    assert advisory_curve([], 4.0 * GB) == ()


def test_a_curve_is_continued_to_the_database_and_never_falls() -> None:
    curve = (CurvePoint(size_bytes=4.0 * GB, hit_ratio=0.6),)
    sizes = [8.0 * GB, 52.0 * GB, 500.0 * GB]
    found = extended(curve, database_bytes=104.0 * GB, buffers_bytes=4.0 * GB, sizes=sizes)
    assert [point.size_bytes / GB for point in found] == [4, 8, 52, 100]
    ratios = [point.hit_ratio for point in found]
    assert ratios == sorted(ratios)
    assert ratios[-1] == 0.98
    # A database that the buffers hold nearly: there is little to serve, and nothing beyond.
    small = extended(curve, database_bytes=5.0 * GB, buffers_bytes=4.0 * GB, sizes=sizes)
    assert [point.size_bytes / GB for point in small] == [1]
