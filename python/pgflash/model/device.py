# SPDX-License-Identifier: PostgreSQL
"""A device: the storage behind one mount point, what it is, what it does, what it costs.

What is known comes from three sides, each of which may be absent: the machine tells what
stands behind a mount point (DeviceFacts, DiskFacts), a probe tells how fast it is (Probe),
and a person tells what it costs (Price, in a file that pgflash.model.prices reads).

Nothing here is guessed.  What could not be found out is None or empty, media UNKNOWN, and
`unknown` says why, field by field: below a container's overlay, a pool of ZFS or a
hypervisor's virtual disk no kernel can see.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Media(enum.StrEnum):
    """What a device keeps its bytes in."""

    FLASH = "flash"
    HDD = "hdd"
    MEMORY = "memory"
    NETWORK = "network"
    UNKNOWN = "unknown"


class Raid(enum.StrEnum):
    """How the drives of a device are put together."""

    NONE = "none"  # a drive, or striped
    RAID10 = "raid10"
    RAID5 = "raid5"


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """Random 8 kB reads with so many at once."""

    depth: int
    iops: float
    mean_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was measured on a file of the device, past the page cache."""

    #: By rising depth.
    random_reads: tuple[DepthPoint, ...]
    #: Sequential, in large requests.
    read_bytes_s: float
    write_bytes_s: float
    #: A write of 8 kB and fdatasync, as a commit does.
    sync_ms: float
    sync_p99_ms: float
    #: Which program measured: "fio 3.33", "pgflash".
    by: str
    #: When, in ISO 8601.
    at: str

    def read_ms(self, depth: int = 1) -> float | None:
        """Return the mean time of a random read at a depth, or None if it was not probed."""
        return next((one.mean_ms for one in self.random_reads if one.depth == depth), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a device costs; computing with it is the business of pgflash.advise.cost."""

    drives: int
    raid: Raid
    #: Of one drive.
    unit_price: float
    enclosure_price: float = 0.0
    currency: str = "USD"
    #: Of one drive; None: not told.
    capacity_bytes: int | None = None
    iops: float | None = None
    #: Who says so: a file, a paper.
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """A disk as the kernel sees it, below partitions, volumes and mappings."""

    #: As in /sys/block: "nvme0n1".
    name: str
    media: Media
    model: str = ""
    size_bytes: int | None = None
    #: The scheduler in use, and those there are.
    scheduler: str = ""
    schedulers: tuple[str, ...] = ()
    #: Requests that the kernel holds (nr_requests), and that the drive takes at once.
    queue_requests: int | None = None
    queue_depth: int | None = None
    discards: bool | None = None
    #: Presented by a hypervisor: what it stands for only the host knows.
    virtual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The device behind a mount point."""

    name: str
    mount_point: str
    #: What of the cluster is on it: "data", "wal", "tablespace NAME", "archive", "temp", "cache".
    parts: tuple[str, ...] = ()
    #: What is mounted: "/dev/mapper/vg-data"; "" where it is no block device.
    block_device: str = ""
    media: Media = Media.UNKNOWN
    emulated: bool = False
    file_system: str = ""
    size_bytes: int | None = None
    #: For who may not use the superuser's reserve.
    free_bytes: int | None = None
    #: Of its disks; "" if unknown, several if they differ.
    scheduler: str = ""
    #: The smallest of its disks' nr_requests.
    queue_depth: int | None = None
    read_ahead_bytes: int | None = None
    mount_options: tuple[str, ...] = ()
    #: The largest power of two, up to 1 MB, that the beginning of each partition is a multiple of.
    alignment_bytes: int | None = None
    disks: tuple[DiskFacts, ...] = ()
    probe: Probe | None = None
    price: Price | None = None
    #: Why a field is empty or unknown, by its name.
    unknown: Mapping[str, str] = field(default_factory=dict)
