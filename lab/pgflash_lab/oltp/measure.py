# SPDX-License-Identifier: PostgreSQL
"""Turn single transactions into throughput, percentiles and time lines.

Pure: numbers in, numbers out.  Latencies come in microseconds and leave in milliseconds.
"""

from collections.abc import Sequence
from math import sqrt

from pgflash.analyze.ranks import percentile
from pgflash_lab.model.run import Latency, Second
from pgflash_lab.oltp.model import ValidityFigure, Verdict

#: A deviation of more than this many standard errors is not chance (1 in 1,000).
CHANCE_ERRORS = 3.3


def summarize(transaction: str, latencies_us: Sequence[int]) -> Latency | None:
    """Return the response times of one transaction type, or None if it did not occur.

    Percentiles are nearest-rank: values that were measured, without interpolation.
    """
    if not latencies_us:
        return None
    ascending = sorted(latencies_us)

    def at(share: float) -> float:
        return percentile(ascending, share) / 1_000

    return Latency(
        transaction=transaction,
        count=len(ascending),
        mean_ms=sum(ascending) / len(ascending) / 1_000,
        p50_ms=at(0.5),
        p90_ms=at(0.9),
        p95_ms=at(0.95),
        p99_ms=at(0.99),
        max_ms=ascending[-1] / 1_000,
    )


def time_line(
    ends_us: Sequence[int], latencies_us: Sequence[int], *, zero_us: int
) -> tuple[Second, ...]:
    """Return each second from the first to the last, empty ones included.

    They count from ZERO_US, so that those of the ramp-up are negative.
    """
    buckets: dict[int, list[int]] = {}
    for end, latency in zip(ends_us, latencies_us, strict=True):
        buckets.setdefault((end - zero_us) // 1_000_000, []).append(latency)
    if not buckets:
        return ()
    seconds = []
    for second in range(min(buckets), max(buckets) + 1):
        ascending = sorted(buckets.get(second, ()))
        seconds.append(
            Second(
                at_s=second,
                transactions=len(ascending),
                mean_ms=sum(ascending) / len(ascending) / 1_000 if ascending else 0.0,
                p95_ms=percentile(ascending, 0.95) / 1_000 if ascending else 0.0,
            )
        )
    return tuple(seconds)


def whole_seconds(seconds: Sequence[Second], *, window_s: float) -> tuple[Second, ...]:
    """Return those that are entirely within the measured window."""
    return tuple(one for one in seconds if 0 <= one.at_s < int(window_s))


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
