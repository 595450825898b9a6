# SPDX-License-Identifier: PostgreSQL
"""An advice as plain values: what is the bottleneck, and what would flash bring where.

All predictions are modelled; what they are compared with is measured.
"""

import statistics
from dataclasses import dataclass

from pgflash.model.awr import Column, ReportTable, Row, Source, Unit
from pgflash.model.sizes import GB
from pgflash.model.words import change, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """What limits the throughput."""

    #: storage, commits, processors, locks, other, nothing.
    kind: str
    is_storage: bool
    sentence: str
    #: Shares of DB time, the largest first: what, share.
    shares: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproachAdvice:
    """One way to use flash, and what it would bring."""

    name: str
    title: str
    #: Whether it is worth its place; the reason says why.
    fits: bool
    reason: str
    #: Throughput relative to the present's.
    ratio: float
    per_s: float
    db_time_ms: float
    cpu_ms: float
    disk_ms: float
    flash_ms: float
    commit_ms: float
    other_ms: float
    #: What then takes most of the time, or is at its limit.
    limit: str
    flash_bytes: float | None = None
    hit_ratio: float | None = None
    #: Cost of the storage for 1,000 transactions a minute; None without prices.
    cost_per_1000_tpm: float | None = None
    currency: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotObject:
    """A table or an index, and what a place on flash would bring it."""

    name: str
    database: str
    kind: str
    bytes: float | None
    reads: float
    read_bytes: float
    writes: float
    #: Wait time of the period that it would save.
    saved_s: float
    #: Share of all read time of the period.
    share: float
    #: move, keep, leave.
    verdict: str
    reason: str

    @property
    def saved_s_per_gb(self) -> float | None:
        """Return what a gigabyte of flash brings."""
        return self.saved_s / (self.bytes / GB) if self.bytes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The complete advice on a period."""

    #: The answer, in one sentence.
    sentence: str
    source: str
    bottleneck: Bottleneck
    approaches: tuple[ApproachAdvice, ...]
    objects: tuple[HotObject, ...]
    #: Name of the recommended approach; "" for none.
    recommended: str
    array: str
    flash: str
    sessions: float
    per_s: float
    db_time_ms: float
    flash_bytes: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionCheck:
    """One approach: its prediction and its measurement."""

    case: str
    title: str
    #: Throughput relative to the baseline's.
    predicted: float | None
    measured: float
    #: How it was predicted, or why it was not.
    note: str = ""

    @property
    def error(self) -> float | None:
        """Return the prediction's error as a part of the measured value."""
        return None if self.predicted is None else self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionChecks:
    """Predictions beside measurements."""

    rows: tuple[PredictionCheck, ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """Return the sizes of all errors."""
        return tuple(abs(row.error) for row in self.rows if row.error is not None)

    @property
    def median_error(self) -> float | None:
        """Return the median of the errors' sizes."""
        return statistics.median(self.errors) if self.errors else None

    @property
    def worst(self) -> PredictionCheck | None:
        """Return the prediction that is furthest off."""
        known = [row for row in self.rows if row.error is not None]
        return max(known, key=lambda row: abs(row.error or 0.0)) if known else None

    @property
    def sentence(self) -> str:
        """Say how good the predictions are."""
        worst = self.worst
        if self.median_error is None or worst is None or worst.error is None:
            return "Nothing could be predicted."
        if len(self.errors) == 1:
            return f"The error of the only prediction is {change(worst.error)} ({worst.title})."
        return (
            f"The median error of {len(self.errors)} predictions is "
            f"{percent(self.median_error)}, the worst is {change(worst.error)} "
            f"({worst.title})."
        )

    def table(self) -> ReportTable:
        """Return it as a table, for a page, a terminal or a file."""
        return ReportTable(
            id="predictions",
            title="Predicted and measured throughput, over the baseline's",
            columns=(
                Column(name="case", title="Approach", unit=Unit.TEXT),
                Column(
                    name="predicted", title="Predicted", unit=Unit.RATIO, source=Source.MODELLED
                ),
                Column(name="measured", title="Measured", unit=Unit.RATIO),
                Column(name="error", title="Error", unit=Unit.SHARE, source=Source.MODELLED),
                Column(name="note", title="How", unit=Unit.TEXT),
            ),
            rows=tuple(
                Row(cells=(row.title, row.predicted, row.measured, row.error, row.note))
                for row in self.rows
            ),
            key=("case",),
            measure="error",
            note=self.sentence,
            missing_reason="" if self.rows else "There is no approach beside the baseline.",
        )
