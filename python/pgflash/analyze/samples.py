# SPDX-License-Identifier: PostgreSQL
"""Convert samples to seconds.

The sampler samples all sessions at a steady pace.  For each minute it keeps the number of samples,
the time that they represent, and what they showed.  A session is in an event for the time of the
samples that show it there: an estimate with an error of about sqrt(samples).

Time without a sample is unknown, not idle.  The figures state how much of the period samples
represent (covered_s); the rest goes to the residual.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from pgflash.analyze.period import Interval, Period
from pgflash.analyze.sections import number
from pgflash.model.snapshot import Value, parse_time
from pgflash.model.waits import FOREGROUND, WaitClass, wait_class

BUCKET = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledWait:
    """Time that sessions of one kind spent in one event."""

    backend_type: str
    wait_class: WaitClass
    #: "Type:Event" as PostgreSQL names it, or "CPU".
    event: str
    query_id: int | None
    samples: int
    seconds: float

    @property
    def foreground(self) -> bool:
        """Tell whether a client waits for it."""
        return self.backend_type in FOREGROUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """A bucket of the sampler, or the part of it within the period."""

    at: datetime
    looks: int
    seconds: float
    #: Average foreground sessions, by class.
    sessions: Mapping[WaitClass, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What the sampler saw in a period."""

    waits: tuple[SampledWait, ...]
    minutes: tuple[Minute, ...]
    looks: int
    missed: int
    #: How much of the period samples represent.
    covered_s: float

    def seconds(self, waits: Iterable[SampledWait]) -> float:
        """Return the total seconds of some of the waits."""
        return sum(wait.seconds for wait in waits)

    @property
    def counted_s(self) -> float:
        """Return the total seconds of foreground waits that are DB time."""
        return self.seconds(w for w in self.waits if w.foreground and w.wait_class.counts)


def error_s(waits: Sequence[SampledWait]) -> float:
    """Return the standard error of some waits' total seconds.

    Samples are assumed to be independent, so it is the error of a count: its square root.
    """
    samples = sum(wait.samples for wait in waits)
    return sum(wait.seconds for wait in waits) / sqrt(samples) if samples > 0 else 0.0


def sampled(period: Period) -> Sampled | None:
    """Return what the sampler saw, or None if it did not look."""
    waits: dict[tuple[str, WaitClass, str, int | None], tuple[int, float]] = {}
    minutes: list[Minute] = []
    looks = missed = 0
    for interval in period.intervals:
        weights: dict[str, tuple[int, float]] = {}
        for record in interval.records("sample_looks"):
            if record.get("bucket") is None:
                continue
            bucket = str(record.get("bucket"))
            seen, seconds = int(number(record.get("looks"))), _covered_s(record, interval)
            missed += int(number(record.get("missed")))
            if seen and seconds > 0:
                looks += seen
                weights[bucket] = (seen, seconds)
        sessions: dict[str, dict[WaitClass, float]] = {bucket: {} for bucket in weights}
        for record in interval.records("samples"):
            bucket = str(record.get("bucket"))
            samples = int(number(record.get("samples")))
            if bucket not in weights:
                continue
            seen, covered_s = weights[bucket]
            seconds = samples / seen * covered_s
            if record.get("seconds") is not None:
                seconds = number(record.get("seconds"))
            key = _key(record)
            so_far = waits.get(key, (0, 0.0))
            waits[key] = (so_far[0] + samples, so_far[1] + seconds)
            backend_type, of_class = key[0], key[1]
            if backend_type in FOREGROUND:
                by_class = sessions[bucket]
                by_class[of_class] = by_class.get(of_class, 0.0) + seconds / covered_s
        minutes.extend(
            Minute(
                at=max(parse_time(bucket), interval.begin.taken_at),
                looks=seen,
                seconds=seconds,
                sessions=sessions[bucket],
            )
            for bucket, (seen, seconds) in weights.items()
        )
    if not minutes:
        return None
    return Sampled(
        waits=tuple(
            SampledWait(
                backend_type=backend_type,
                wait_class=of_class,
                event=event,
                query_id=query_id,
                samples=samples,
                seconds=seconds,
            )
            for (backend_type, of_class, event, query_id), (samples, seconds) in waits.items()
        ),
        minutes=tuple(sorted(minutes, key=lambda minute: minute.at)),
        looks=looks,
        missed=missed,
        covered_s=sum(minute.seconds for minute in minutes),
    )


def _key(record: Mapping[str, Value]) -> tuple[str, WaitClass, str, int | None]:
    backend_type = str(record.get("backend_type") or "")
    wait_type = str(record.get("wait_event_type") or "")
    event = str(record.get("wait_event") or "")
    query_id = record.get("query_id")
    of_class = wait_class(backend_type=backend_type, wait_type=wait_type, event=event)
    if not wait_type and record.get("wait_class") == WaitClass.IDLE:
        of_class = WaitClass.IDLE  # between two statements of a transaction
    return (
        backend_type,
        of_class,
        f"{wait_type}:{event}" if wait_type else "CPU",
        None if query_id is None else int(number(query_id)),
    )


def _covered_s(record: Mapping[str, Value], interval: Interval) -> float:
    """Return how much time a bucket's looks stand for; at most its part in the interval."""
    begin = parse_time(str(record.get("bucket")))
    inside = min(begin + BUCKET, interval.end.taken_at) - max(begin, interval.begin.taken_at)
    overlap_s = max(inside.total_seconds(), 0.0)
    known = record.get("seconds")
    return overlap_s if known is None else min(number(known), overlap_s)
