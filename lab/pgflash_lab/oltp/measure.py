# SPDX-License-Identifier: PostgreSQL
"""Turn single transactions into throughput, percentiles and time lines.

Pure: numbers in, numbers out.  Latencies come in microseconds and leave in milliseconds.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import sqrt

from pgflash.analyze.ranks import percentile
from pgflash_lab.oltp.model import SecondPoint, TransactionLatency, ValidityFigure, Verdict

#: Upper bounds of the histogram's buckets in ms: 0.125 to 64 s in steps of the square root of two.
HISTOGRAM_BOUNDS_MS = tuple(round(0.125 * 2 ** (step / 2), 3) for step in range(39))

#: A deviation of more than this many standard errors is not chance (1 in 1,000).
CHANCE_ERRORS = 3.3


def summarize(transaction: str, latencies_us: Sequence[int]) -> TransactionLatency | None:
    """Return the response times of one transaction type, or None if it did not occur."""
    if not latencies_us:
        return None
    ascending = sorted(latencies_us)

    def at(share: float) -> float:
        return percentile(ascending, share) / 1_000

    return TransactionLatency(
        transaction=transaction,
        count=len(ascending),
        mean_ms=sum(ascending) / len(ascending) / 1_000,
        p50_ms=at(0.5),
        p90_ms=at(0.9),
        p95_ms=at(0.95),
        p99_ms=at(0.99),
        p999_ms=at(0.999),
        max_ms=ascending[-1] / 1_000,
        histogram=histogram(ascending),
    )


def histogram(latencies_us: Sequence[int]) -> tuple[tuple[float, int], ...]:
    """Return (upper bound, count) of each bucket up to the last one used.

    A value belongs to the first bucket whose bound it does not exceed; the last bucket also takes
    values beyond all bounds.
    """
    counts = [0] * len(HISTOGRAM_BOUNDS_MS)
    for latency in latencies_us:
        bucket = bisect_left(HISTOGRAM_BOUNDS_MS, latency / 1_000)
        counts[min(bucket, len(counts) - 1)] += 1
    while counts and counts[-1] == 0:
        counts.pop()
    return tuple(zip(HISTOGRAM_BOUNDS_MS, counts, strict=False))


def time_line(
    ends_us: Sequence[int],
    latencies_us: Sequence[int],
    is_new_order: Sequence[bool],
    *,
    zero_us: int,
) -> tuple[SecondPoint, ...]:
    """Return one point for each second from the first to the last, empty ones included."""
    buckets: dict[int, list[int]] = {}
    new_orders: dict[int, int] = {}
    for end, latency, is_new in zip(ends_us, latencies_us, is_new_order, strict=True):
        second = (end - zero_us) // 1_000_000
        buckets.setdefault(second, []).append(latency)
        if is_new:
            new_orders[second] = new_orders.get(second, 0) + 1
    if not buckets:
        return ()
    points = []
    for second in range(min(buckets), max(buckets) + 1):
        ascending = sorted(buckets.get(second, ()))
        points.append(
            SecondPoint(
                at_s=second,
                transactions=len(ascending),
                new_orders=new_orders.get(second, 0),
                mean_ms=sum(ascending) / len(ascending) / 1_000 if ascending else 0.0,
                p95_ms=percentile(ascending, 0.95) / 1_000 if ascending else 0.0,
                max_ms=ascending[-1] / 1_000 if ascending else 0.0,
            )
        )
    return tuple(points)


def judge_share(name: str, *, hits: int, sample: int, least: float, most: float) -> ValidityFigure:
    """Judge a share of a sample against the bounds of the specification."""
    if sample == 0:
        return _figure(name, 0.0, least, most, 0, Verdict.NOT_APPLICABLE)
    share = hits / sample
    # The error to expect if the true value were the bound that the share exceeds.
    bound = least if share < least else most
    error = sqrt(bound * (1 - bound) / sample)
    return _figure(name, share, least, most, sample, _verdict(share, least, most, error))


def judge_mean(
    name: str, *, mean: float, deviation: float, sample: int, least: float, most: float
) -> ValidityFigure:
    """Judge a mean whose values have a known standard deviation."""
    if sample == 0:
        return _figure(name, 0.0, least, most, 0, Verdict.NOT_APPLICABLE)
    error = deviation / sqrt(sample)
    return _figure(name, mean, least, most, sample, _verdict(mean, least, most, error))


def _verdict(value: float, least: float, most: float, error: float) -> Verdict:
    if least <= value <= most:
        return Verdict.OK
    beyond = max(least - value, value - most)
    return Verdict.SMALL_SAMPLE if beyond <= CHANCE_ERRORS * error else Verdict.VIOLATED


def _figure(
    name: str, value: float, least: float, most: float, sample: int, verdict: Verdict
) -> ValidityFigure:
    return ValidityFigure(
        name=name, value=value, least=least, most=most, sample=sample, verdict=verdict
    )
