# SPDX-License-Identifier: PostgreSQL
"""What the clients saw of a failover, on series made by hand."""

import dataclasses

import pytest

from pgflash_lab.failover.recovery import Moments, per_second, recovery_s, see
from pgflash_lab.workload import MeasureError

S = 1_000_000
#: Measured from second 100; the leader ends at 110 and at 130 there is a new one.
MOMENTS = Moments(
    begin_us=100 * S, fault_us=110 * S, ended_us=110 * S, promoted_us=130 * S, end_us=150 * S
)
#: Ten transactions a second until the leader ends.
BEFORE = [100 * S + (number + 1) * S // 10 for number in range(100)]


def after(*counts: int) -> list[int]:
    """Return transactions by second from the promotion on, each in the middle of its second."""
    return [130 * S + at * S + S // 2 for at, count in enumerate(counts) for _ in range(count)]


def test_the_outage_is_from_the_last_commit_to_the_first_one_after() -> None:
    seen = see(BEFORE + after(0, 4, *[10] * 18), MOMENTS)
    assert seen.without_commit_s == pytest.approx(131.5 - 110.0)
    assert (seen.fault_s, seen.promoted_s) == (10.0, 30.0)
    assert seen.before_tps == pytest.approx(10.0)
    assert seen.watched_s == 20.0
    assert seen.transactions_after == 4 + 180


def test_a_throughput_is_back_at_the_end_of_the_second_from_which_it_lasts() -> None:
    assert recovery_s([9, 9, 9], 10.0) == 1.0
    assert recovery_s([0, 0, 9, 9, 9], 10.0) == 3.0
    assert recovery_s([2, 4, 8, 10, 9], 10.0) == 3.0  # 27 in three seconds


def test_one_good_second_is_no_recovery() -> None:
    assert recovery_s([0, 20, 0, 0, 0, 9, 9, 9, 9], 10.0) == 6.0


def test_a_recovery_that_is_not_seen_is_not_guessed() -> None:
    assert recovery_s([8] * 60, 10.0) is None
    assert recovery_s([9, 9], 10.0) is None  # too short to know
    assert see(BEFORE + after(*[8] * 20), MOMENTS).recovery_s is None


def test_only_whole_seconds_of_the_window_count() -> None:
    ends = [S - 1, S, S + 1, 2 * S - 1, 2 * S, 4 * S - 1, 4 * S]
    assert per_second(ends, begin_us=S, end_us=3 * S + S // 2) == [3, 1]


def test_an_answer_while_no_server_leads_is_refused() -> None:
    with pytest.raises(MeasureError, match="1 transactions were acknowledged while no server"):
        see([*BEFORE, 120 * S, *after(*[10] * 20)], MOMENTS)


def test_an_answer_that_was_under_way_when_the_leader_was_killed_is_none_of_these() -> None:
    seen = see([*BEFORE, 110 * S + S // 2, *after(*[10] * 20)], MOMENTS)
    assert seen.without_commit_s == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("changed", "ends", "error"),
    [
        ({"promoted_us": 105 * S}, BEFORE, "order"),
        ({"fault_us": 99 * S}, BEFORE, "order"),
        ({"end_us": 130 * S}, BEFORE, "order"),
        ({}, after(*[10] * 20), "before the leader did"),
        ({}, BEFORE, "after the promotion"),
    ],
)
def test_what_cannot_have_been_is_refused(
    changed: dict[str, int], ends: list[int], error: str
) -> None:
    with pytest.raises(MeasureError, match=error):
        see(ends, dataclasses.replace(MOMENTS, **changed))
