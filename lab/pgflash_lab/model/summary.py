# SPDX-License-Identifier: PostgreSQL
"""The results of a run: medians for each approach, and ratios to the baseline.

A superseded attempt never counts.  A polluted one counts only if an approach has no clean one, and
then the summary says so.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pgflash.model.waits import WaitClass
from pgflash_lab.model.run import Approach, Attempt, Run

BASELINE = "baseline"

#: The workload of three servers, one of which is ended.
FAILOVER = "failover"

#: What each workload counts.
COUNTED = {
    "oltp": "transactions",
    FAILOVER: "transactions",
    "warehouse": "queries",
    "micro": "operations",
    "load": "batches",
    "pgbench": "transactions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitShare:
    """One event's part of an approach's sampled time."""

    wait_class: WaitClass
    event: str
    samples: int
    #: Share of DB time; 0 for classes that are not DB time.
    share: float
    #: Average number of sessions in it.
    sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One approach: medians over its attempts."""

    approach: Approach
    attempts: tuple[Attempt, ...]
    polluted: bool
    tpm: float
    nopm: float
    nopm_counted: float
    #: How long work of a fixed amount took; 0 if the time was fixed.
    duration_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    read_ms: float
    reads_per_transaction: float
    hit_ratio: float | None
    server_cpu_ms_per_transaction: float
    server_cpu_user_ms_per_transaction: float
    server_cpu_system_ms_per_transaction: float
    server_cpu_share: float
    foreign_cpu_share: float
    #: Highest TPM of the attempts divided by the lowest, less one.
    spread: float

    @property
    def middle(self) -> Attempt:
        """Return the attempt nearest to the median throughput: charts show this one."""
        return min(self.attempts, key=lambda attempt: abs(attempt.tpm - self.tpm))


def summarize(run: Run) -> tuple[Summary, ...]:
    """Return a summary of each measured approach, in the scenario's order."""
    found = ((approach, counted_attempts(run, approach.name)) for approach in run.approaches)
    return tuple(_summary(approach, attempts) for approach, attempts in found if attempts)


def counted_attempts(run: Run, approach: str) -> tuple[Attempt, ...]:
    """Return the attempts that count: the clean ones, or all if none is clean."""
    mine = [a for a in run.attempts if a.approach == approach and not a.superseded]
    clean = [attempt for attempt in mine if not attempt.polluted]
    return tuple(clean or mine)


def is_failover(run: Run) -> bool:
    """Tell whether a run has failovers in it."""
    return any(one.workload == FAILOVER for one in run.attempts)


def base_of(approach: Approach) -> str:
    """Return the name of the approach that this one is compared with."""
    return approach.base or BASELINE


def ratio(summaries: Iterable[Summary], over: str, under: str = "") -> float | None:
    """Return the throughput ratio of two approaches, or None if either is missing.

    The default for the second one is the approach that the first is compared with.
    """
    known = {summary.approach.name: summary for summary in summaries}
    if over not in known:
        return None
    bottom = known.get(under or base_of(known[over].approach))
    if bottom is None or bottom.tpm <= 0.0:
        return None
    return known[over].tpm / bottom.tpm


def paired_ratio(run: Run, over: str, under: str) -> float | None:
    """Return the median of the ratios within each repeat: drift of the machine cancels out."""
    tops = {attempt.repeat: attempt.tpm for attempt in counted_attempts(run, over)}
    bottoms = {attempt.repeat: attempt.tpm for attempt in counted_attempts(run, under)}
    pairs = [tops[r] / bottoms[r] for r in tops if bottoms.get(r, 0.0) > 0.0]
    return statistics.median(pairs) if pairs else None


def wait_profile(attempts: Iterable[Attempt]) -> tuple[WaitShare, ...]:
    """Return every sampled event, the most frequent first."""
    samples: dict[tuple[WaitClass, str], int] = {}
    rounds = 0
    for attempt in attempts:
        rounds += attempt.wait_rounds
        for wait in attempt.waits:
            key = (wait.wait_class, wait.event)
            samples[key] = samples.get(key, 0) + wait.samples
    db_time = sum(n for (wait_class, _), n in samples.items() if wait_class.counts)
    shares = [
        WaitShare(
            wait_class=wait_class,
            event=event,
            samples=n,
            share=n / db_time if wait_class.counts and db_time else 0.0,
            sessions=n / rounds if rounds else 0.0,
        )
        for (wait_class, event), n in samples.items()
    ]
    return tuple(sorted(shares, key=lambda share: (-share.samples, share.event)))


def class_profile(attempts: Iterable[Attempt]) -> dict[WaitClass, WaitShare]:
    """Return the same, summed by class, in the order of the classes."""
    profile = wait_profile(attempts)
    result = {}
    for wait_class in WaitClass:
        mine = [share for share in profile if share.wait_class is wait_class]
        if mine:
            result[wait_class] = WaitShare(
                wait_class=wait_class,
                event="",
                samples=sum(share.samples for share in mine),
                share=sum(share.share for share in mine),
                sessions=sum(share.sessions for share in mine),
            )
    return result


def _summary(approach: Approach, attempts: tuple[Attempt, ...]) -> Summary:
    """Take the medians of one approach."""

    def median(value: Callable[[Attempt], float]) -> float:
        return statistics.median(value(attempt) for attempt in attempts)

    hit_ratios = [a.cache.hit_ratio for a in attempts if a.cache and a.cache.hit_ratio is not None]
    tpms = [attempt.tpm for attempt in attempts]
    return Summary(
        approach=approach,
        attempts=attempts,
        polluted=any(attempt.polluted for attempt in attempts),
        tpm=statistics.median(tpms),
        nopm=median(lambda a: a.nopm),
        nopm_counted=median(lambda a: a.nopm_counted),
        duration_s=median(lambda a: a.duration_s),
        p50_ms=median(lambda a: a.latency.p50_ms),
        p95_ms=median(lambda a: a.latency.p95_ms),
        p99_ms=median(lambda a: a.latency.p99_ms),
        read_ms=median(lambda a: a.reads.mean_ms),
        reads_per_transaction=median(lambda a: a.reads.blocks / a.reading_transactions),
        hit_ratio=statistics.median(hit_ratios) if hit_ratios else None,
        server_cpu_ms_per_transaction=median(lambda a: a.server_cpu_ms_per_transaction),
        server_cpu_user_ms_per_transaction=median(
            lambda a: 1000 * a.cpu.server_user_s / max(a.transactions_all, 1)
        ),
        server_cpu_system_ms_per_transaction=median(
            lambda a: 1000 * a.cpu.server_system_s / max(a.transactions_all, 1)
        ),
        server_cpu_share=median(
            lambda a: a.cpu.server_s / max(a.cpu.cores * a.cpu.elapsed_s, 1e-9)
        ),
        foreign_cpu_share=median(lambda a: a.cpu.foreign_share),
        spread=max(tpms) / min(tpms) - 1 if min(tpms) > 0 else 0.0,
    )
