# SPDX-License-Identifier: PostgreSQL
"""A run of a scenario: what was asked for, on what it ran, and the results.

A run holds attempts, one for each approach and repeat, in the order in which they were made.  It
keeps raw counts rather than ratios, so that a later report can ask new questions; derived values
(medians, shares, ratios) are computed in summary.py.  Times are in the unit that ends the name;
at_s counts from the start of measuring.
"""

import re
from dataclasses import dataclass, field

from pgflash.model.waits import WaitCount

#: Changes whenever stored runs of the older form can no longer be read.
FORMAT = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def is_name(text: str) -> bool:
    """Say whether a text can name a run, a scenario or an approach: it becomes a file's name."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A place for files, and its hardware."""

    role: str  # array or flash
    name: str
    emulated: bool
    #: One line for people: spindles, seek, rotation, transfer.
    summary: str
    #: Every number of the profile, as text, in the profile's own order.
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Return the name, which says "emulated" if the device is."""
        return f"{self.name} (emulated)" if self.emulated else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Approach:
    """What is on which device, and whether there is a flash cache.

    Devices are named by their roles: array or flash.
    """

    name: str
    title: str
    #: The device that holds the data directory.
    data: str = "array"
    #: Empty: with the data.
    wal: str = ""
    #: Device of temp_tablespaces; empty: with the data.
    temp: str = ""
    #: Device of the folder into which WAL is archived; empty: nothing is archived.
    archive: str = ""
    #: Tables that move to flash with their indexes; ("auto",): those that the advice ranks first
    #: from the baseline's own report.
    objects: tuple[str, ...] = ()
    cache: bool = False
    #: Number of files, each on its own device, over which the flash cache is spread.
    cache_files: int = 1
    #: Tables that, with their indexes, have the cache policy keep.
    keep: tuple[str, ...] = ()
    #: Name of the approach that this one is compared with; empty: baseline.
    base: str = ""
    #: Scenario parameters that differ in this approach, as texts.
    changes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set the WAL's device if it was not named."""
        if not self.wal:
            object.__setattr__(self, "wal", self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Response times of one transaction type, or of all ("")."""

    transaction: str
    count: int
    mean_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """One second of measuring."""

    at_s: int
    transactions: int
    mean_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSecond:
    """How the processors were used for about a second, as shares of all of them."""

    at_s: float
    user: float
    system: float
    iowait: float
    idle: float
    #: Taken by the hypervisor; part of system.
    steal: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSecond:
    """The flash cache's counters up to a moment of measuring (cumulative)."""

    at_s: float
    hits: int
    misses: int
    page_cache_reads: int
    used_slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSecond:
    """What one device did in about a second, as iostat would show it."""

    at_s: float
    #: Length of that second.
    elapsed_s: float
    role: str
    reads: int
    read_bytes: int
    writes: int
    write_bytes: int
    #: Mean time of one request, queueing included.
    read_ms: float
    write_ms: float
    #: Share of the time in which the device was busy; emulated: its spindles, or the largest share
    #: of a limit that was used.
    utilisation: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSecond:
    """What the host did in about a second, as vmstat would show it."""

    at_s: float
    #: Threads that ran or were ready to run (vmstat's r).
    runnable: int
    #: Threads that wait for a device (vmstat's b).
    blocked: int
    #: "kernel": processes in uninterruptible sleep; "sessions": with emulated devices, whose waits
    #: are plain sleeps to the kernel, server processes in a wait for I/O.
    blocked_from: str
    context_switches_per_s: float
    interrupts_per_s: float
    #: From and to devices, including emulated ones (vmstat's bi and bo).
    in_bytes_per_s: float
    out_bytes_per_s: float
    #: vmstat's memory (swpd, free, buff, cache) and its si and so; runs of 0.1 have none.
    swapped_bytes: int | None = None
    free_bytes: int | None = None
    buffers_bytes: int | None = None
    cache_bytes: int | None = None
    swap_in_bytes_per_s: float | None = None
    swap_out_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A query of a stream, or a phase of a load."""

    name: str
    #: Time since the start of measuring.
    started_s: float
    elapsed_s: float
    rows: int = 0
    #: CPU time and waits of all its processes together, if counted.
    db_time_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """CPU seconds during measuring, by their user."""

    cores: int
    elapsed_s: float
    server_user_s: float
    server_system_s: float
    driver_s: float
    foreign_s: float

    @property
    def server_s(self) -> float:
        """Return the server's CPU seconds."""
        return self.server_user_s + self.server_system_s

    @property
    def foreign_share(self) -> float:
        """Return the share of the machine that other programs used."""
        capacity_s = self.cores * self.elapsed_s
        return self.foreign_s / capacity_s if capacity_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Blocks that were not in shared_buffers, and where they were found."""

    #: All blocks read during measuring, and how long clients waited for them.
    blocks: int
    wait_ms: float
    #: The sources of these blocks; "disk" includes the page cache's share if nothing can tell them
    #: apart, and "flash" is whatever flash served: the cache, or the device that holds the data.
    page_cache: int
    flash: int
    disk: int
    page_cache_known: bool

    @property
    def mean_ms(self) -> float:
        """Return the mean wait of a client for one block, from whatever source."""
        return self.wait_ms / self.blocks if self.blocks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """The flash cache's own account of the measured phase."""

    mode: str
    mode_reason: str
    size_bytes: int
    slots: int
    used_slots: int
    #: Increase of the counters during measuring, by the names of the view pgflash_cache.
    counters: dict[str, int] = field(default_factory=dict)
    #: Means and constants, as in the view at the end.
    gauges: dict[str, float] = field(default_factory=dict)

    @property
    def hit_ratio(self) -> float | None:
        """Return hits over hits and misses, or None if there were neither."""
        hits, misses = self.counters.get("hits", 0), self.counters.get("misses", 0)
        return hits / (hits + misses) if hits + misses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One measurement of one approach.

    A transaction is whatever the workload counts: a query, a batch of a load.
    """

    approach: str
    repeat: int
    started_at: str  # ISO 8601, UTC
    warmup_s: float
    measured_s: float
    clients: int
    #: In the measured window, to which tpm, nopm and the response times refer.
    transactions: int
    #: Including the ramp-up: processors, reads, waits and the cache are counted from the load's
    #: first second on.
    transactions_all: int
    tpm: float
    nopm: float
    #: The same, from the database's own order numbers; must agree with nopm.
    nopm_counted: float
    latency: Latency
    by_transaction: tuple[Latency, ...] = ()
    seconds: tuple[Second, ...] = ()
    cpu: CpuUse
    cpu_seconds: tuple[CpuSecond, ...] = ()
    reads: Reads
    cache: CacheUse | None = None
    cache_seconds: tuple[CacheSecond, ...] = ()
    waits: tuple[WaitCount, ...] = ()
    wait_rounds: int = 0
    wait_hz: float = 0.0
    wal_bytes: int = 0
    #: Emulated devices' own statistics during measuring, by role.
    devices: dict[str, dict[str, float]] = field(default_factory=dict)
    #: The workload: oltp, warehouse, micro, load or pgbench.
    workload: str = "oltp"
    #: How long work of a fixed amount took; 0 if the time was fixed.
    duration_s: float = 0.0
    #: Queries of a stream, or phases of a load, in order.
    steps: tuple[Step, ...] = ()
    #: Figures of the workload without a field of their own, units last in the name.
    facts: dict[str, float] = field(default_factory=dict)
    disk_seconds: tuple[DiskSecond, ...] = ()
    host_seconds: tuple[HostSecond, ...] = ()
    #: Consistency conditions that were checked and held.
    consistency: tuple[str, ...] = ()
    #: Why the figures cannot be trusted; empty if they can.
    polluted: str = ""
    #: Replaced by a later attempt of the same approach and repeat.
    superseded: bool = False

    @property
    def reading_transactions(self) -> int:
        """Return the transactions whose reads are counted: after a failover, the later ones."""
        return max(int(self.facts.get("transactions_after", self.transactions_all)), 1)

    @property
    def server_cpu_ms_per_transaction(self) -> float:
        """Return the server's CPU cost of one transaction."""
        return 1000 * self.cpu.server_s / max(self.transactions_all, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A scenario that was carried out, wholly or in part."""

    id: str
    format: int = FORMAT
    scenario: str
    title: str
    preset: str
    #: Number of the paper that the scenario follows, or empty.
    paper: str = ""
    started_at: str
    ended_at: str = ""
    #: Why it was not finished; empty if it was.
    stopped: str = ""
    pgflash_version: str
    postgres_version: str
    #: kernel, cores, memory, processor, file system of the lab's files.
    machine: dict[str, str] = field(default_factory=dict)
    #: The scenario's numbers as text: warehouses, clients, seconds, ...
    parameters: dict[str, str] = field(default_factory=dict)
    #: Digests of files that parameters name.
    files: dict[str, str] = field(default_factory=dict)
    #: PostgreSQL settings, the same for all approaches.
    settings: dict[str, str] = field(default_factory=dict)
    database_bytes: int = 0
    devices: tuple[Device, ...] = ()
    approaches: tuple[Approach, ...] = ()
    attempts: tuple[Attempt, ...] = ()

    @property
    def emulated_devices(self) -> tuple[Device, ...]:
        """Return the devices that were emulated."""
        return tuple(device for device in self.devices if device.emulated)
