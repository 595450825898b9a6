# SPDX-License-Identifier: PostgreSQL
"""What a page about the lab shows: the runs of a store, and one in progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSecond:
    """What a load did in about a second, as it is measured."""

    #: Since the load began.
    at_s: float
    #: The workload's count; None while it is unknown.
    per_s: float | None
    latency_ms: float | None
    #: Read and written, by device.
    bytes_per_s: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The state of a run in progress."""

    began_at: str
    stage: str
    stage_began_at: str
    stage_expected_s: float
    #: None: not known yet.
    left_s: float | None
    #: Of the whole run, 0 to 1.
    share: float | None
    attempt_notes: tuple[str, ...] = ()
    #: The attempt that is measured, or was last; what is counted; its last seconds.
    attempt: str = ""
    counted: str = ""
    seconds: tuple[RunSecond, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunApproach:
    """An approach's result."""

    name: str
    title: str
    attempts: int
    tpm: float
    duration_s: float
    p95_ms: float
    read_ms: float
    hit_ratio: float | None
    #: Relative to the approach that it is compared with; None for that one itself.
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLink:
    """A file of a run."""

    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A stored run."""

    id: str
    #: finished, running, stopped, not finished (it was killed) or unreadable.
    state: str
    why: str = ""
    scenario: str = ""
    title: str = ""
    preset: str = ""
    paper: str = ""
    started_at: str = ""
    ended_at: str = ""
    attempts: int = 0
    planned: int = 0
    emulated: bool = False
    sentences: tuple[str, ...] = ()
    approaches: tuple[RunApproach, ...] = ()
    pages: tuple[RunLink, ...] = ()
    files: tuple[RunLink, ...] = ()
    progress: RunProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabView:
    """The runs of a store."""

    store: str
    runs_all: int
    #: The newest first.
    runs: tuple[RunView, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
