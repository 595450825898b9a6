# SPDX-License-Identifier: PostgreSQL
"""Follow a mount down to the disks below it, through /sys.

A file system is on a block device, and that is on a partition, a volume, a mapping, an array or
a file; each is followed to the disks at the bottom, which have a scheduler and a queue.
    partition   its folder is inside the disk's, and has a beginning
    dm, md      `slaves` names their components: LVM, multipath, encryption, RAID
    loop        a file, which is in turn on a mount
    btrfs       has no device number of its own; /sys/fs/btrfs names its devices
    nvme        with multipath is already one disk for all of its paths
If the disks cannot be found (a container's overlay, ZFS, network, a hypervisor's disk), `unknown`
has the reason.

The kernel knows a disk's medium (`rotational`) if the drive answers for itself.  A hypervisor's
disk reports what its host was told to report.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pgflash.machine.host import SECTOR_BYTES
from pgflash.machine.mounts import Mount, mount_of
from pgflash.machine.tree import Machine
from pgflash.model.device import DiskFacts, Link, Media

#: Partitioning tools align to this; larger alignments are not distinguished.
ALIGNMENT_MAX = 2**20

#: How many layers are followed; more suggests a loop.
_LAYERS_MAX = 16

_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "beegfs", "afs"}
    | {f"fuse.{name}" for name in ("glusterfs", "sshfs", "s3fs", "cephfs", "juicefs")}
)
_DARK = {
    "overlay": "a container's overlay: only the host knows what is below it; put data on a volume",
    "aufs": "a container's overlay: only the host knows what is below it; put data on a volume",
    "zfs": "ZFS does not show the disks of a pool: use zpool status",
    "9p": "a folder of the host: only the host knows its device",
    "virtiofs": "a folder of the host: only the host knows its device",
}
#: Model names of disks that a hypervisor presents.
_VIRTUAL_MODELS = re.compile(
    r"qemu|virtual|vbox|vmware|amazon elastic|persistentdisk|msft|microsoft nvme direct|xen", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """What is below a mount."""

    media: Media
    #: The kernel's name of what is mounted: "dm-0", "nvme0n1p1"; "" if there is none.
    block: str = ""
    #: The name of a mapping: "vg-data"; "" if it is none.
    mapping: str = ""
    disks: tuple[DiskFacts, ...] = ()
    alignment_bytes: int | None = None
    read_ahead_bytes: int | None = None
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Walk:
    """The devices met on the way down."""

    disks: dict[str, DiskFacts] = field(default_factory=dict)
    alignments: list[int] = field(default_factory=list)
    media: list[Media] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def below(machine: Machine, mounts: Sequence[Mount], mount: Mount) -> Below:
    """Return what is below a mount."""
    kind = mount.file_system
    read_ahead = machine.number(f"/sys/class/bdi/{mount.device}/read_ahead_kb")
    if kind in _MEMORY:
        return Below(media=Media.MEMORY, unknown=_no_disk("memory has no disk"))
    if kind in _NETWORK:
        return Below(
            media=Media.NETWORK,
            read_ahead_bytes=None if read_ahead is None else read_ahead * 1024,
            unknown=_no_disk("the disks are those of another machine"),
        )
    folders = list(_block_folders(machine, mount))
    if not folders:
        why = _DARK.get(kind) or _why_no_block(mount)
        return Below(media=Media.UNKNOWN, unknown={"media": why, **_no_disk(why)})
    walk = _Walk()
    for folder in folders:
        _descend(machine, mounts, folder, walk, layers=0)
    top = read_ahead if read_ahead is not None else _read_ahead_kb(machine, folders[0])
    if kind == "btrfs":
        top = None  # not its disk's; which of /sys/class/bdi/btrfs-* is its own, nobody tells
    found = _result(walk, read_ahead_kb=top)
    mapping = machine.text(f"{folders[0]}/dm/name") or ""
    return replace(found, block=_name(folders[0]), mapping=mapping)


def _result(walk: _Walk, *, read_ahead_kb: int | None) -> Below:
    unknown: dict[str, str] = {}
    kinds = set(walk.media)
    media = kinds.pop() if len(kinds) == 1 else Media.UNKNOWN
    if walk.reasons:
        unknown["media"] = "; ".join(dict.fromkeys(walk.reasons))
    elif media is Media.UNKNOWN:
        unknown["media"] = f"it is made of {' and '.join(sorted(set(walk.media)))}"
    if not walk.alignments:
        unknown["alignment_bytes"] = "no partition was found"
    if not walk.disks:
        unknown |= {"scheduler": "no disk was found", "queue_depth": "no disk was found"}
    if read_ahead_kb is None:
        unknown["read_ahead_bytes"] = "the kernel does not show it"
    return Below(
        media=media,
        disks=tuple(walk.disks.values()),
        alignment_bytes=min(walk.alignments, default=None),
        read_ahead_bytes=None if read_ahead_kb is None else read_ahead_kb * 1024,
        unknown=unknown,
    )


def _no_disk(why: str) -> dict[str, str]:
    return dict.fromkeys(("scheduler", "queue_depth", "read_ahead_bytes", "alignment_bytes"), why)


def _why_no_block(mount: Mount) -> str:
    if mount.device.startswith("0:"):
        return f"{mount.file_system} is on no block device known to the kernel"
    return f"/sys does not show the block device {mount.device}"


def _name(folder: str) -> str:
    return folder.rsplit("/", 1)[-1]


# ---- the block devices of a mount


def _block_folders(machine: Machine, mount: Mount) -> Iterator[str]:
    """Yield the folder in /sys of each block device that a mount is on."""
    if not mount.device.startswith("0:"):
        found = machine.resolve(f"/sys/dev/block/{mount.device}")
        if found is not None:
            yield found
            return
    # btrfs, bcachefs and others: use the name of the source, "/dev/sda:/dev/sdb" if there are
    # several.
    named = [
        folder
        for source in mount.source.split(":")
        if source.startswith("/dev/") and (folder := _folder_of(machine, source)) is not None
    ]
    if mount.file_system == "btrfs" and named:
        named = list(_btrfs_devices(machine, named[0])) or named
    yield from named


def _folder_of(machine: Machine, source: str) -> str | None:
    name = (machine.resolve(source) or source).removeprefix("/dev/").replace("/", "!")
    return machine.resolve(f"/sys/class/block/{name}")


def _btrfs_devices(machine: Machine, folder: str) -> Iterator[str]:
    """Yield all devices of the file system that one of its devices belongs to."""
    for uuid in machine.names("/sys/fs/btrfs"):
        names = machine.names(f"/sys/fs/btrfs/{uuid}/devices")
        if _name(folder) in names:
            for name in names:
                found = machine.resolve(f"/sys/class/block/{name}")
                if found is not None:
                    yield found


# ---- the way down


def _descend(
    machine: Machine, mounts: Sequence[Mount], folder: str, walk: _Walk, *, layers: int
) -> None:
    """Follow a block device to its disks."""
    if layers > _LAYERS_MAX:
        walk.reasons.append(f"{_name(folder)} is made of too many layers to follow")
        return
    if machine.exists(f"{folder}/partition"):
        walk.alignments.append(_alignment(machine, folder))
        folder = folder.rsplit("/", 1)[0]
    slaves = [machine.resolve(f"{folder}/slaves/{name}") for name in _slaves(machine, folder)]
    backing = machine.text(f"{folder}/loop/backing_file")
    if slaves:
        for slave in filter(None, slaves):
            _descend(machine, mounts, slave, walk, layers=layers + 1)
    elif backing:
        _descend_into_file(machine, mounts, backing, walk, layers=layers + 1)
    else:
        _arrive(machine, folder, walk, partitioned=bool(walk.alignments))


def _slaves(machine: Machine, folder: str) -> tuple[str, ...]:
    return machine.names(f"{folder}/slaves")


def _descend_into_file(
    machine: Machine, mounts: Sequence[Mount], path: str, walk: _Walk, *, layers: int
) -> None:
    mount = mount_of(machine, mounts, path.removesuffix(" (deleted)"))
    folders = [] if mount is None else list(_block_folders(machine, mount))
    if mount is not None and mount.file_system in _MEMORY:
        walk.media.append(Media.MEMORY)
    elif not folders:
        walk.media.append(Media.UNKNOWN)
        walk.reasons.append(f'a loop device over "{path}", whose device is not seen from here')
    for folder in folders:
        _descend(machine, mounts, folder, walk, layers=layers)


def _alignment(machine: Machine, folder: str) -> int:
    """Return the alignment of the beginning of a partition."""
    begins = (machine.number(f"{folder}/start") or 0) * SECTOR_BYTES
    # The distance of the beginning from the place where the drive would have it.
    off = machine.number(f"{folder}/alignment_offset") or 0
    return min(_power(begins), _power(off))


def _power(place: int) -> int:
    """Return the largest power of two up to 1 MB that divides a place."""
    return min(place & -place, ALIGNMENT_MAX) if place > 0 else ALIGNMENT_MAX


def _arrive(machine: Machine, folder: str, walk: _Walk, *, partitioned: bool) -> None:
    """Record a disk."""
    name = _name(folder)
    if not partitioned:
        walk.alignments.append(ALIGNMENT_MAX)  # it begins where the disk does
    if name in walk.disks:
        return
    disk, why = read_disk(machine, folder)
    walk.disks[name] = disk
    walk.media.append(disk.media)
    if why:
        walk.reasons.append(why)


# ---- a disk


def read_disk(machine: Machine, folder: str) -> tuple[DiskFacts, str]:
    """Return what /sys says of a disk and, if its medium is unknown, why."""
    name = _name(folder)
    model = " ".join(
        filter(None, (machine.text(f"{folder}/device/{word}") for word in ("vendor", "model")))
    )
    if "/virtio" in folder:  # its vendor is a number
        model = "virtio"
    media, why = _media(machine, folder, name, model)
    chosen, offered = _schedulers(machine.text(f"{folder}/queue/scheduler") or "")
    sectors = machine.number(f"{folder}/size")
    discard = machine.number(f"{folder}/queue/discard_max_bytes")
    disk = DiskFacts(
        name=name,
        media=media,
        model=" ".join(model.split()),
        wwid=_first(machine, folder, "wwid", "device/wwid"),
        size_bytes=None if sectors is None else sectors * SECTOR_BYTES,
        logical_bytes=machine.number(f"{folder}/queue/logical_block_size"),
        physical_bytes=machine.number(f"{folder}/queue/physical_block_size"),
        write_cache=machine.text(f"{folder}/queue/write_cache") or "",
        own_write_cache=_own_write_cache(machine, folder),
        link=_link(machine, folder),
        wear=_wear(machine.text(f"{folder}/device/life_time") or ""),
        scheduler=chosen,
        schedulers=offered,
        queue_requests=machine.number(f"{folder}/queue/nr_requests"),
        queue_depth=machine.number(f"{folder}/device/queue_depth"),
        discards=None if discard is None else discard > 0,
        virtual=_virtual(folder, model),
    )
    return disk, why


def _media(machine: Machine, folder: str, name: str, model: str) -> tuple[Media, str]:
    if name.startswith(("zram", "ram")):
        return Media.MEMORY, ""
    if name.startswith("pmem"):  # it keeps its bytes without power, and is as fast as flash
        return Media.FLASH, ""
    if name.startswith(("nbd", "rbd", "drbd")) or re.search(r"/(session|rport-)\d", folder):
        return Media.NETWORK, ""
    if _transports(machine, folder) & {"tcp", "rdma", "fc"}:
        return Media.NETWORK, ""
    if _virtual(folder, model):
        return Media.UNKNOWN, (
            f"{name} is a virtual disk: only its host knows what is behind it (pgflash devices "
            f"probe measures it)"
        )
    if name.startswith(("nvme", "mmcblk")):
        return Media.FLASH, ""
    turns = machine.number(f"{folder}/queue/rotational")
    if turns is None:
        return Media.UNKNOWN, f"the kernel does not show what {name} consists of"
    return (Media.HDD if turns else Media.FLASH), ""


def _virtual(folder: str, model: str) -> bool:
    return bool(re.search(r"/virtio\d|/vbd-", folder)) or _VIRTUAL_MODELS.search(model) is not None


def _transports(machine: Machine, folder: str) -> set[str]:
    """Return how an NVMe disk is connected; with multipath, for each of its controllers."""
    own = machine.text(f"{folder}/device/transport")
    controllers = [
        machine.text(f"{folder}/device/{name}/transport")
        for name in machine.names(f"{folder}/device")
        if re.fullmatch(r"nvme\d+", name)
    ]
    return {word for word in (own, *controllers) if word}


def _first(machine: Machine, folder: str, *names: str) -> str:
    """Return the text of the first of these files that there is."""
    return next(filter(None, (machine.text(f"{folder}/{name}") for name in names)), "")


def _own_write_cache(machine: Machine, folder: str) -> str:
    """Return what a SCSI or SATA drive answered when the kernel asked for its cache."""
    for name in machine.names(f"{folder}/device/scsi_disk"):
        return machine.text(f"{folder}/device/scsi_disk/{name}/cache_type") or ""
    return ""


#: 1 is up to 10 % of an eMMC drive's life, 2 up to 20 %, 11 all of it.
_LIVES = 11


def _wear(text: str) -> float | None:
    """Return how much of an eMMC drive's life is used up, by the worse of its two estimates."""
    numbers = [int(word, 16) for word in re.findall(r"0x[0-9a-f]+", text)]
    known = [number for number in numbers if 0 < number <= _LIVES]
    return min(max(known) / 10, 1.0) if known else None


def _link(machine: Machine, folder: str) -> Link | None:
    """Return how an NVMe drive is connected; one of several ways, if it has several."""
    if not _name(folder).startswith("nvme"):
        return None
    ways = [
        machine.resolve(f"{folder}/device/{name}")
        for name in machine.names(f"{folder}/device")
        if re.fullmatch(r"nvme\d+", name)
    ]
    for place in filter(None, (folder, *ways)):
        found = _link_above(machine, place)
        if found is not None:
            return found
    return None


def _link_above(machine: Machine, place: str) -> Link | None:
    while place and not machine.exists(f"{place}/current_link_width"):
        place = place.rpartition("/")[0]
    lanes, lanes_max = (machine.number(f"{place}/{one}_link_width") for one in ("current", "max"))
    speed, speed_max = (
        re.match(r"[\d.]+", machine.text(f"{place}/{one}_link_speed") or "")
        for one in ("current", "max")
    )
    if not lanes or not lanes_max or not speed or not speed_max:
        return None
    return Link(
        address=_name(place),
        lanes=lanes,
        lanes_max=lanes_max,
        speed=float(speed[0]),
        speed_max=float(speed_max[0]),
    )


def _schedulers(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the scheduler in brackets, and all of them."""
    words = text.split()
    chosen = next((word.strip("[]") for word in words if word.startswith("[")), "")
    if not chosen and len(words) == 1:
        chosen = words[0]
    return chosen, tuple(word.strip("[]") for word in words)


def _read_ahead_kb(machine: Machine, folder: str) -> int | None:
    """Return the read-ahead of a block device; a partition has that of its disk."""
    for place in (folder, folder.rsplit("/", 1)[0]):
        found = machine.number(f"{place}/queue/read_ahead_kb")
        if found is not None:
            return found
    return None
