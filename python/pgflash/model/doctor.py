# SPDX-License-Identifier: PostgreSQL
"""What `pgflash doctor` examines, and what it reports.

Facts are collected first (pgflash.collect), all at once, and do not change afterwards; rules
(pgflash.advise.doctor) examine them and report what they find.  A fact that could not be collected
is None or absent, and a rule that needs it says that it does not know.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from pgflash.model.device import DeviceFacts
from pgflash.model.standbys import Standbys
from pgflash.model.versions import Versions


class Outcome(enum.StrEnum):
    """How a check ended, the worst first."""

    CRITICAL = "critical"  # data may be lost
    WARNING = "warning"
    NOTE = "note"
    UNKNOWN = "unknown"  # it could not be checked
    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One check of one thing."""

    #: The rule: stable, for programs.
    rule: str
    outcome: Outcome
    #: What was checked: a disk, a mount point, a tablespace, the machine, the server.
    subject: str
    #: The state found.
    sentence: str
    #: Why it matters; "" if all is well.
    reason: str = ""
    #: The authority: a vendor's paper, PostgreSQL's documentation, the kernel's.
    source: str = ""
    #: Commands that would change it, verbatim; nothing runs them.
    commands: tuple[str, ...] = ()


#: No limit.
UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The memory of one NUMA node."""

    name: str
    total_bytes: int
    #: Memory that cannot be freed: programs' memory, shared memory, huge pages.
    held_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """The settings of the server's machine."""

    cores: int
    memory_bytes: int | None = None
    #: The limit of the server's control group; None: no limit.
    memory_limit_bytes: int | None = None
    #: Memory that new programs can have.
    available_bytes: int | None = None
    swap_bytes: int | None = None
    #: Memory that the kernel has promised.
    committed_bytes: int | None = None
    nodes: tuple[Node, ...] = ()
    #: By name ("vm.swappiness"), if present.
    sysctls: Mapping[str, int] = field(default_factory=dict)
    #: Those that have several numbers.
    sysctl_lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: Ports that the kernel gives to no program unasked: "5432,8000-8010".
    reserved_ports: str | None = None
    huge_page_bytes: int | None = None
    huge_pages: int | None = None
    #: Those that no process uses or has reserved.
    huge_pages_free: int | None = None
    #: The word in brackets: always, madvise, never; "" if it is not known.
    transparent_huge_pages: str = ""
    #: Size of /dev/shm.
    shm_bytes: int | None = None
    #: The postmaster's soft limits by the kernel's names ("Max open files").
    limits: Mapping[str, float] = field(default_factory=dict)
    postmaster_uid: int | None = None
    postmaster_user: str = ""
    #: The folder of the server's programs; "" if it may not be seen.
    programs: str = ""
    #: Whether the process that writes to flash has a queue of AIO; None: it is not seen.
    has_aio: bool | None = None
    #: The systemd unit that started the server; "" if none did.
    unit: str = ""
    #: Whether systemd removes a user's files in /dev/shm when the user logs out; None: no systemd.
    remove_ipc: bool | None = None
    #: Mount points that /etc/fstab names.
    fstab: frozenset[str] = frozenset()
    #: The profile that tuned has set, if it runs, and those that it offers.
    tuned_profile: str = ""
    tuned_profiles: tuple[str, ...] = ()
    #: The kind of container; "" if none was recognized.
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablespaceSettings:
    """A tablespace and its own parameters."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> str:
        """Return its name among a device's parts."""
        return "data" if self.name == "pg_default" else f"tablespace {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Checkpoints and WAL since the server's statistics were reset."""

    #: Because it was time, and because something asked for them: mostly max_wal_size.
    timed: float
    requested: float
    since_s: float
    wal_bytes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The server's settings: values in the base units of pg_settings."""

    version_num: int
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Units of the settings that have one: "8kB", "ms".
    units: Mapping[str, str] = field(default_factory=dict)
    tablespaces: tuple[TablespaceSettings, ...] = ()
    #: Publications of this database that include the extension's tables, or would include them.
    publications: tuple[str, ...] = ()

    #: None: they may not be seen.
    checkpoints: Checkpoints | None = None
    #: None: it was not asked for them.
    standbys: Standbys | None = None
    #: Sessions of clients on other machines; None: they may not be seen.
    remote_sessions: int | None = None

    @property
    def major(self) -> int:
        """Return the server's major version."""
        return self.version_num // 10_000

    def number(self, name: str) -> float | None:
        """Return a setting's number, or None if it is not there."""
        try:
            return float(self.settings[name])
        except (KeyError, ValueError):
            return None

    def size_bytes(self, name: str) -> int | None:
        """Return a setting that is a size, or None if it is not there."""
        number = self.number(name)
        factor = {"B": 1, "kB": 1024, "8kB": 8192, "MB": 2**20, "": 1}.get(self.units.get(name, ""))
        return None if number is None or factor is None else int(number * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTimes:
    """Reads that one source served since the server started."""

    calls: float
    seconds: float

    @property
    def mean_s(self) -> float:
        """Return the mean time of a read in seconds; 0 if there was none."""
        return self.seconds / self.calls if self.calls else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFacts:
    """The extension's views of the flash cache: rows by column."""

    #: The row of pgflash_cache.
    cache: Mapping[str, object]
    #: The rows of pgflash_cache_devices.
    devices: tuple[Mapping[str, object], ...] = ()
    #: The row of pgflash_cache_benefit for the time since the start; None if there is none.
    benefit: Mapping[str, object] | None = None
    #: The library's background workers that should run and do not, but for the writer.
    missing_workers: tuple[str, ...] = ()

    def text(self, column: str) -> str:
        """Return a column of pgflash_cache as text, "" for null."""
        return str(self.cache.get(column) or "")

    def number(self, column: str) -> float:
        """Return a column of pgflash_cache as a number, 0 for null."""
        return float(str(self.cache.get(column) or 0))

    def reads(self, source: str) -> ReadTimes:
        """Return the reads that flash or disk served."""
        row = self.benefit or {}
        return ReadTimes(
            calls=float(str(row.get(f"{source}_reads") or 0)),
            seconds=float(str(row.get(f"{source}_read_ms") or 0)) / 1000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFacts:
    """Everything that the rules use."""

    server: ServerSettings
    #: None: it could not be examined; the other field says why.
    host: HostSettings | None
    why_no_host: str = ""
    #: The devices that hold a part of the cluster.
    devices: tuple[DeviceFacts, ...] = ()
    #: None: the views could not be read; the other field says why.
    cache: CacheFacts | None = None
    why_no_cache: str = ""
    #: None: there is none, or the server takes none.
    snapshot_age_s: float | None = None
    #: Of the library and the extension; None: they were not requested.
    versions: Versions | None = None

    def device_of(self, part: str) -> DeviceFacts | None:
        """Return the device that holds a part, or None if it is not known."""
        return next((one for one in self.devices if part in one.parts), None)
