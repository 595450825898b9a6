# SPDX-License-Identifier: PostgreSQL
"""A device: the storage behind one mount point, what it is, what it does, what it costs.

The facts have three sources, each of which may be absent: the machine says what is behind a mount
point (DeviceFacts, DiskFacts), a probe says how fast it is (Probe), and a person says what it costs
(Price, in a file that pgflash.model.prices reads).

Nothing here is guessed.  A fact that could not be found out is None or empty, the medium is
UNKNOWN, and `unknown` says why, field by field: no kernel can see below a container's overlay, a
pool of ZFS or a hypervisor's virtual disk.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Media(enum.StrEnum):
    """The medium on which a device keeps its bytes."""

    FLASH = "flash"
    HDD = "hdd"
    MEMORY = "memory"
    NETWORK = "network"
    UNKNOWN = "unknown"


class Raid(enum.StrEnum):
    """How the drives of a device are combined."""

    NONE = "none"  # one drive, or striped
    RAID10 = "raid10"
    RAID5 = "raid5"


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """Random 8 kB reads with this many requests at once."""

    depth: int
    iops: float
    mean_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was measured on a file of the device, bypassing the page cache."""

    #: In the order of rising depth.
    random_reads: tuple[DepthPoint, ...]
    #: Sequential, in large requests.
    read_bytes_s: float
    write_bytes_s: float
    #: A write of 8 kB with fdatasync, as in a commit.
    sync_ms: float
    sync_p99_ms: float
    #: The program that measured: "fio 3.33", "pgflash".
    by: str
    #: The time of measuring, in ISO 8601.
    at: str

    def read_ms(self, depth: int = 1) -> float | None:
        """Return the mean time of a random read at a depth, or None if it was not probed."""
        return next((one.mean_ms for one in self.random_reads if one.depth == depth), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a device costs; pgflash.advise.cost computes with it."""

    drives: int
    raid: Raid
    #: Price of one drive.
    unit_price: float
    enclosure_price: float = 0.0
    currency: str = "USD"
    #: Capacity of one drive; None: not given.
    capacity_bytes: int | None = None
    iops: float | None = None
    #: Power that one drive takes.
    watts: float | None = None
    #: The origin of the price: a file, an offer.
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How a drive is connected to its slot, and how it could be."""

    #: The drive's address: "0000:01:00.0".
    address: str
    lanes: int
    lanes_max: int
    #: Transfers a second of a lane, in billions.
    speed: float
    speed_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """A disk as the kernel sees it, below partitions, volumes and mappings."""

    #: As in /sys/block: "nvme0n1".
    name: str
    media: Media
    model: str = ""
    #: A name that the drive keeps wherever it is plugged in; "" if it has none.
    wwid: str = ""
    size_bytes: int | None = None
    #: What the drive takes in one piece, and what it writes in one piece.
    logical_bytes: int | None = None
    physical_bytes: int | None = None
    #: "write back" or "write through": what the kernel believes of the drive's cache, and what the
    #: drive says, if it is asked; "" if that is not known.
    write_cache: str = ""
    own_write_cache: str = ""
    #: PCI Express, if the kernel shows it.
    link: Link | None = None
    #: How much of its life is used up, if the kernel tells: 1 is all of it.
    wear: float | None = None
    #: The scheduler in use, and the available ones.
    scheduler: str = ""
    schedulers: tuple[str, ...] = ()
    #: How many requests the kernel holds (nr_requests), and how many the drive takes at once.
    queue_requests: int | None = None
    queue_depth: int | None = None
    discards: bool | None = None
    #: Presented by a hypervisor: only the host knows what is behind it.
    virtual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """The device behind a mount point."""

    name: str
    mount_point: str
    #: The kernel's name of what is mounted ("dm-0"), and that of a mapping ("vg-data").
    kernel_name: str = ""
    mapping: str = ""
    #: The cluster's parts on it: "data", "wal", "tablespace NAME", "archive", "temp", "cache".
    parts: tuple[str, ...] = ()
    #: The mounted device: "/dev/mapper/vg-data"; "" if it is not a block device.
    block_device: str = ""
    media: Media = Media.UNKNOWN
    emulated: bool = False
    #: Why what is on it is lost when its machine stops; "" if it is not, or if nothing shows it.
    ephemeral: str = ""
    file_system: str = ""
    size_bytes: int | None = None
    #: Free for users who may not use the superuser's reserve.
    free_bytes: int | None = None
    #: Of its disks; "" if unknown, several if they differ.
    scheduler: str = ""
    #: The smallest nr_requests of its disks.
    queue_depth: int | None = None
    read_ahead_bytes: int | None = None
    mount_options: tuple[str, ...] = ()
    #: The largest power of two, up to 1 MB, of which each partition's start is a multiple.
    alignment_bytes: int | None = None
    disks: tuple[DiskFacts, ...] = ()
    probe: Probe | None = None
    price: Price | None = None
    #: Why a field is empty or unknown, by the field's name.
    unknown: Mapping[str, str] = field(default_factory=dict)
