# SPDX-License-Identifier: PostgreSQL
"""How long a move may take: a range, from the devices' present speed."""

from pathlib import Path

import pytest

from pgflash.model.sizes import MB
from pgflash.place.speed import (
    ASSUMED,
    UNFORESEEN,
    Rate,
    _write_speeds,
    estimate,
    rate_of,
    read_speeds,
)

FAST = Rate(quick=400.0 * MB, slow=200.0 * MB)
BUSY = Rate(quick=100.0 * MB, slow=50.0 * MB)


def test_the_faster_and_the_slower_half_of_what_was_measured_are_told() -> None:
    # As long as the bytes take: at 100 MB/s, then 300 MB/s, that is 150 on average.
    found = rate_of([100.0, 300.0, 1000.0, 3000.0])
    assert found is not None
    assert (found.slow, found.quick) == pytest.approx((150.0, 1500.0))
    middle = rate_of([100.0, 200.0, 400.0])
    assert middle is not None
    assert (middle.slow, middle.quick) == pytest.approx((400 / 3, 800 / 3))
    assert rate_of(None) is None


def test_it_takes_no_less_than_writing_and_seldom_more_than_one_after_the_other() -> None:
    found = estimate(800 * MB, writes=FAST, reads=BUSY)
    assert found.least_s == pytest.approx(2.0)
    assert found.most_s == pytest.approx(UNFORESEEN * (800 / 200 + 800 / 50))
    assert found.basis == "measured now, 40.0 MB/s to 400 MB/s"
    logged = estimate(800 * MB, writes=FAST, reads=BUSY, log=BUSY)
    assert logged.least_s == found.least_s
    assert logged.most_s == pytest.approx(found.most_s + UNFORESEEN * 800 / 50)


def test_what_was_not_measured_is_assumed_and_said() -> None:
    assert estimate(MB, writes=None).basis.startswith("assumed, ")
    assert estimate(MB, writes=FAST, reads=None).basis.startswith("partly assumed, ")
    assert estimate(MB, writes=FAST, reads=FAST, log=ASSUMED).basis.startswith("partly assumed, ")


def test_what_comes_on_top_is_added() -> None:
    found = estimate(0, writes=FAST).later(1.0, 10.0)
    assert (found.least_s, found.most_s) == (1.0, 10.0)


def test_a_device_is_measured_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    written = _write_speeds(tmp_path)
    assert written is not None
    assert len(written) >= 3
    assert min(written) > 0
    assert list(tmp_path.iterdir()) == []
    file = tmp_path / "file"
    file.write_bytes(bytes(3 * MB))
    read = read_speeds(file)
    # A file system in memory may not be read directly.
    assert read is None or (len(read) >= 3 and min(read) > 0)


@pytest.mark.parametrize("content", [b"", b"short"])
def test_a_file_that_is_too_short_tells_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    assert read_speeds(file) is None
    assert read_speeds(tmp_path / "missing") is None
    assert read_speeds(None) is None
