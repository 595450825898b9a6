# SPDX-License-Identifier: PostgreSQL
"""How many snapshots are used to draw a long range, and how a snapshot's rows count."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from pgflash.collect.history import ROWS_MAX, flow_of, thinned, unknown_between
from pgflash.model.live import Reading

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("count", [2, 3, ROWS_MAX, ROWS_MAX + 1, ROWS_MAX + 2, 1000, 4464])
def test_a_long_range_passes_over_snapshots_and_keeps_its_ends(count: int) -> None:
    heads = [(n, START + n * timedelta(minutes=10), START) for n in range(count)]
    found = thinned(heads)
    assert (found[0], found[-1]) == (heads[0], heads[-1])
    assert len(found) <= ROWS_MAX + 2
    assert len(found) >= min(count, ROWS_MAX // 2)
    assert sorted(set(found)) == found


def test_both_sides_of_a_restart_are_kept() -> None:
    restart = START + timedelta(days=3)
    heads = [
        (n, at, START if at < restart else restart)
        for n in range(1000)
        for at in [START + n * timedelta(minutes=10)]
    ]
    found = thinned(heads)
    crossing = [(one, two) for one, two in itertools.pairwise(found) if one[2] != two[2]]
    ((before, after),) = crossing
    assert after[0] == before[0] + 1


def test_a_clock_that_was_set_back_is_no_restart() -> None:
    def reading(minute: int, started_at: datetime) -> Reading:
        at = START + timedelta(minutes=minute)
        return Reading(
            at=at, monotonic_s=at.timestamp(), started_at=started_at, sessions=1, active=0
        )

    set_back = unknown_between(reading(30, START), reading(10, START))
    assert set_back.startswith("the server's clock was set back between")
    restarted = unknown_between(reading(10, START), reading(30, START + timedelta(minutes=20)))
    assert restarted.startswith("the server restarted between")


@pytest.mark.parametrize(
    ("row", "flow"),
    [
        (("data", "read", "flash"), "flash"),
        (("data", "read", "page cache"), "page cache"),
        (("data", "write", "disk"), "disk writes"),
        (("data", "extend", "disk"), "disk writes"),
        (("data", "sync", "disk"), "disk writes"),
        (("temp", "write", "disk"), "temp"),
        (("temp relation", "read", "disk"), "temp"),
        (("wal", "write", "disk"), "wal"),
        (("wal", "sync", "disk"), ""),
        (("wal", "read", "disk"), ""),  # of a standby, or for one
        (("wal init", "write", "disk"), ""),
        (("slru", "read", "disk"), ""),
    ],
)
def test_a_row_of_the_accounting_is_of_one_flow(row: tuple[str, str, str], flow: str) -> None:
    assert flow_of(*row) == flow
