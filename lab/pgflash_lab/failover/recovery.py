# SPDX-License-Identifier: PostgreSQL
"""What the clients saw of a failover, from the moments at which their transactions ended.

Pure: numbers in, numbers out.  Moments come in microseconds since 1970, times leave in seconds.

A throughput counts as reached again at the end of the first second, counted from the promotion,
with which SUSTAINED_S seconds begin that have it in the mean: one good second is not a recovery,
and one bad second after it is not a relapse.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pgflash_lab.workload import MeasureError

#: The share of the throughput before that counts as recovered.
RECOVERED = 0.9
#: How long it must last.
SUSTAINED_S = 3
#: An answer that the leader sent may be read this long after the leader was killed.
_LATE_ANSWER_US = 5_000_000
_S_US = 1_000_000
_REPORT = "This cannot be: keep the run's folder and report it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """When things happened."""

    #: The measured window.
    begin_us: int
    end_us: int
    #: The leader began to end: it was killed, or Patroni was asked.
    fault_us: int
    #: It had ended: from now on it cannot acknowledge anything.
    ended_us: int
    #: A server accepted a client that wants to write.
    promoted_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the clients saw."""

    #: Since the window's begin.
    fault_s: float
    promoted_s: float
    #: From the last commit before to the first one after.
    without_commit_s: float
    before_tps: float
    #: From the promotion to the throughput before; None if it was not reached in the window.
    recovery_s: float | None
    #: From the promotion to the window's end.
    watched_s: float
    #: Transactions that ended after the promotion.
    transactions_after: int


def see(ends_us: Sequence[int], moments: Moments) -> Seen:
    """Return what the clients saw; raise if it cannot have been so."""
    begin, fault, promoted = moments.begin_us, moments.fault_us, moments.promoted_us
    if not begin < fault <= moments.ended_us <= promoted < moments.end_us:
        raise MeasureError("the moments of the failover are not in their order", hint=_REPORT)
    before = [end for end in ends_us if begin < end <= fault]
    late = [end for end in ends_us if moments.ended_us + _LATE_ANSWER_US < end < promoted]
    after = [end for end in ends_us if end >= promoted]
    if late:
        raise MeasureError(
            f"{len(late)} transactions were acknowledged while no server accepted writes",
            hint=_REPORT,
        )
    if not before:
        raise MeasureError(
            "no transaction ended before the leader did", hint="Measure longer: --set before_s=N."
        )
    if not after:
        raise MeasureError(
            "no transaction ended after the promotion", hint="Measure longer: --set measure_s=N."
        )
    last = max(end for end in ends_us if end < promoted)
    before_tps = len(before) * _S_US / (fault - begin)
    return Seen(
        fault_s=(fault - begin) / _S_US,
        promoted_s=(promoted - begin) / _S_US,
        without_commit_s=(min(after) - last) / _S_US,
        before_tps=before_tps,
        recovery_s=recovery_s(
            per_second(after, begin_us=promoted, end_us=moments.end_us), before_tps
        ),
        watched_s=(moments.end_us - promoted) / _S_US,
        transactions_after=len(after),
    )


def per_second(ends_us: Sequence[int], *, begin_us: int, end_us: int) -> list[int]:
    """Return how many ended in each whole second between two moments."""
    counts = [0] * ((end_us - begin_us) // _S_US)
    for end in ends_us:
        second = (end - begin_us) // _S_US
        if 0 <= second < len(counts):
            counts[second] += 1
    return counts


def recovery_s(counts: Sequence[int], before_tps: float) -> float | None:
    """Return the seconds until the throughput before was reached for long enough; None if not."""
    wanted = RECOVERED * before_tps * SUSTAINED_S
    for second in range(len(counts) - SUSTAINED_S + 1):
        if sum(counts[second : second + SUSTAINED_S]) >= wanted:
            return float(second + 1)
    return None
