# SPDX-License-Identifier: PostgreSQL
"""Percentiles, time lines and verdicts of the oltp workload."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash.analyze.ranks import percentile
from pgflash_lab.oltp.measure import (
    judge_mean,
    judge_share,
    summarize,
    time_line,
    whole_seconds,
)
from pgflash_lab.oltp.model import Verdict

LATENCIES = st.lists(st.integers(0, 100_000_000), min_size=1, max_size=200)
SHARES = st.sampled_from(["0.5", "0.9", "0.95", "0.99", "0.999", "1"])


@given(LATENCIES, SHARES)
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(
    values: list[int], share: str
) -> None:
    ascending = sorted(values)
    found = percentile(ascending, float(share))
    wanted = Fraction(share)
    at_most = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert found in values
    assert Fraction(at_most, len(values)) >= wanted
    assert Fraction(below, len(values)) < wanted


def test_percentiles_of_a_thousand_values_are_the_ranks_themselves() -> None:
    ascending = list(range(1, 1_001))
    assert [percentile(ascending, share) for share in (0.5, 0.9, 0.95, 0.99, 0.999)] == [
        500,
        900,
        950,
        990,
        999,
    ]


@given(LATENCIES)
def test_a_summary_is_ordered_and_counts_everything(values: list[int]) -> None:
    summary = summarize("all", values)
    assert summary is not None
    assert summary.count == len(values)
    assert (
        summary.p50_ms
        <= summary.p90_ms
        <= summary.p95_ms
        <= summary.p99_ms
        <= summary.max_ms
        == max(values) / 1_000
    )
    assert min(values) / 1_000 <= summary.mean_ms * 1.000001
    assert summary.mean_ms <= summary.max_ms * 1.000001


def test_what_did_not_occur_has_no_summary() -> None:
    assert summarize("delivery", []) is None


def test_the_time_line_has_a_point_for_each_second_and_for_empty_ones() -> None:
    zero = 1_000_000_000
    points = time_line(
        [zero - 1, zero, zero + 999_999, zero + 3_000_000],
        [5_000, 1_000, 3_000, 7_000],
        zero_us=zero,
    )
    assert [(p.at_s, p.transactions) for p in points] == [(-1, 1), (0, 2), (1, 0), (2, 0), (3, 1)]
    # The window's last second did not last to its end.
    assert [p.at_s for p in whole_seconds(points, window_s=2.9)] == [0, 1]
    assert points[1].mean_ms == 2.0
    assert points[1].p95_ms == 3.0
    assert points[2].mean_ms == 0.0


@given(st.lists(st.tuples(st.integers(0, 30_000_000), st.integers(1, 10**6))))
def test_the_time_line_counts_every_transaction_once(transactions: list[tuple[int, int]]) -> None:
    points = time_line(
        [end for end, _ in transactions],
        [latency for _, latency in transactions],
        zero_us=10_000_000,
    )
    assert sum(point.transactions for point in points) == len(transactions)


@pytest.mark.parametrize(
    ("hits", "sample", "verdict"),
    [
        (100, 10_000, Verdict.OK),
        (90, 10_000, Verdict.OK),
        (85, 10_000, Verdict.SMALL_SAMPLE),
        (2, 100, Verdict.SMALL_SAMPLE),
        (8_500, 1_000_000, Verdict.VIOLATED),
        (150, 10_000, Verdict.VIOLATED),
        (0, 0, Verdict.NOT_APPLICABLE),
    ],
)
def test_a_share_is_judged_with_the_size_of_its_sample(
    hits: int, sample: int, verdict: Verdict
) -> None:
    figure = judge_share("rollbacks", hits=hits, sample=sample, least=0.009, most=0.011)
    assert figure.verdict is verdict


@pytest.mark.parametrize(
    ("mean", "sample", "verdict"),
    [
        (10.0, 10, Verdict.OK),
        (10.6, 100, Verdict.SMALL_SAMPLE),
        (10.6, 100_000, Verdict.VIOLATED),
        (9.4, 100_000, Verdict.VIOLATED),
        (0.0, 0, Verdict.NOT_APPLICABLE),
    ],
)
def test_a_mean_is_judged_with_the_size_of_its_sample(
    mean: float, sample: int, verdict: Verdict
) -> None:
    figure = judge_mean("lines", mean=mean, deviation=3.2, sample=sample, least=9.5, most=10.5)
    assert figure.verdict is verdict
