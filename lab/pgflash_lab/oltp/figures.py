# SPDX-License-Identifier: PostgreSQL
"""The results from pgbench's log, in the report's terms."""

from collections.abc import Iterable

from pgflash_lab.model.run import Latency, Second
from pgflash_lab.oltp.model import SecondPoint, TransactionLatency


def report_latency(one: TransactionLatency, *, name: str) -> Latency:
    """Return response times under this name."""
    return Latency(
        transaction=name,
        count=one.count,
        mean_ms=one.mean_ms,
        p50_ms=one.p50_ms,
        p90_ms=one.p90_ms,
        p95_ms=one.p95_ms,
        p99_ms=one.p99_ms,
        max_ms=one.max_ms,
    )


def report_seconds(points: Iterable[SecondPoint], *, window_s: float) -> tuple[Second, ...]:
    """Return the whole seconds of the measured window."""
    return tuple(
        Second(
            at_s=one.at_s,
            transactions=one.transactions,
            mean_ms=one.mean_ms,
            p95_ms=one.p95_ms,
        )
        for one in points
        if 0 <= one.at_s < int(window_s)
    )
