# SPDX-License-Identifier: PostgreSQL
"""What `pgflash top` shows fits a terminal of 80 columns and 24 lines."""

import pytest
from rich.console import Console

from pgflash.cli.top import WIDE, _page, _spent
from pgflash.errors import PgflashError
from pgflash.live.collector import Collector
from pgflash.live.ring import Ring
from pgflash.live.watch import FIRST_S, Watch
from pgflash.model.live import FLOWS, TIMED, CacheSecond, Quantiles, Sample, TimeRangeRow

CLASSES = ("CPU", "User I/O", "Commit", "Concurrency", "Network")

SAMPLE = Sample(
    number=7,
    at="2026-11-22T10:00:00.000+01:00",
    elapsed_s=1.0,
    aas=dict.fromkeys(CLASSES, 12.25),
    commits_s=123_456.0,
    rollbacks_s=1234.0,
    sessions=2500,
    active=1200,
    bytes_s=dict.fromkeys(FLOWS, 2.5e9),
    requests_s=dict.fromkeys(FLOWS, 123_456.0),
    latency=dict.fromkeys(TIMED, Quantiles(p50=0.5, p95=40.0, p99=12_345.678)),
    commit_ms=1234.56,
    wal_bytes_s=2.5e9,
    cache=CacheSecond(
        mode="passthrough", hit_ratio=0.987, hits_s=123_456.0, misses_s=1e5, inserts_s=1e5,
        evictions_s=1e5, used_bytes=1e12, saved_share=0.123,
    ),
    events=(),
)  # fmt: skip


def shown(sample: Sample, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as found:
        console.print(_page(Watch(Collector("", Ring())), sample, width=width))
    return found.get().splitlines()


def test_all_of_it_fits_80_columns_and_24_lines() -> None:
    lines = shown(SAMPLE, WIDE)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= WIDE
    text = "\n".join(lines)
    for word in ("Transactions", "Flash cache", "Requests", "Latency in ms", "12,346", *CLASSES,
                 *FLOWS, *TIMED):  # fmt: skip
        assert word in text, word
    assert "…" not in text


def test_narrower_ones_show_one_table_below_another() -> None:
    lines = shown(SAMPLE, WIDE - 1)
    titles = [line for line in lines if line.startswith(("Requests", "Latency in ms", "Average"))]
    assert len(titles) == 3
    assert "…" not in "\n".join(lines)


#: A statement that is wider than any window, and figures of every length.
STATEMENTS = tuple(
    TimeRangeRow(
        name=str(number), detail="select " + "a_long_name, " * 40, wait_class="Configuration",
        seconds=60 * 1234.5678 / 10**number, share=1 / 10**number,
    )
    for number in range(6)
)  # fmt: skip


@pytest.mark.parametrize("width", [40, 80, 140])
def test_figures_of_the_last_minute_are_whole_and_texts_are_cut(width: int) -> None:
    text = _spent(STATEMENTS, "Statement", width).plain
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    for words in ("1,234.57", "123.46", "12.35", "1.23", "100.0 %", "10.0 %", "1.0 %"):
        assert words in text
    assert sum("…" in line for line in lines) == len(STATEMENTS)
    if width >= 80:
        assert len(lines) == 1 + len(STATEMENTS)


def test_a_server_that_tells_little_leaves_gaps_out() -> None:
    little = Sample(
        number=1, at=SAMPLE.at, elapsed_s=1.0, aas=None, commits_s=1.0, rollbacks_s=0.0, sessions=1,
        active=1, bytes_s={"disk": 0.0}, requests_s={}, latency={}, commit_ms=None,
        wal_bytes_s=None, cache=None, events=(),
    )  # fmt: skip
    lines = shown(little, WIDE)
    assert len(lines) <= 12
    assert "Requests" in "\n".join(lines)


def test_the_first_sample_may_take_an_interval_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs two readings: with `--every 30` there is none for half a minute."""
    ring = Ring()
    waited: list[float] = []

    def wait(_after: int, seconds: float) -> bool:
        waited.append(seconds)
        return False

    monkeypatch.setattr(ring, "wait", wait)
    with pytest.raises(PgflashError, match=r"no data was read within 50\.0 s"):
        next(Watch(Collector("", ring, interval_s=30.0)))
    assert waited == [30.0 + FIRST_S]
