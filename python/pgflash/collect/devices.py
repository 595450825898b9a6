# SPDX-License-Identifier: PostgreSQL
"""The devices that hold a cluster's parts: where the parts are, and the disks below.

Two mount points of one file system (a bind mount, a subvolume) are one device: its space exists
only once.  A part whose place is unknown is on a device without a name, which says why.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from pgflash.collect.places import Place
from pgflash.machine.disks import Below, below
from pgflash.machine.ephemeral import why_ephemeral
from pgflash.machine.mounts import Mount, mount_of, read_mounts
from pgflash.machine.tree import HERE, Machine
from pgflash.model.device import DeviceFacts, Media

#: Returns the size and free bytes of the file system that a path is on.
Space = Callable[[str], tuple[int, int]]

#: Mounts that no part of a cluster could be on: disc images, and the kernel's own.
_NO_HOME = frozenset({"squashfs", "iso9660", "udf", "cramfs", "erofs"})
_NETWORK_HOME = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "zfs", "btrfs", "bcachefs"})

UNKNOWN = "unknown"


def space_of(path: str) -> tuple[int, int]:
    """Return the size and the free bytes that a user other than root may use."""
    told = os.statvfs(path)
    return told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize


def devices_of(
    places: Iterable[Place],
    *,
    machine: Machine = HERE,
    space: Space = space_of,
    every: bool = False,
) -> tuple[DeviceFacts, ...]:
    """Return the devices of these parts and, with EVERY, the machine's other devices."""
    mounts = read_mounts(machine)
    parts: dict[str, list[str]] = {}
    homes: dict[str, tuple[Mount, str]] = {}
    lost: dict[str, list[str]] = {}
    for place in places:
        mount, why = _mount_of(machine, mounts, place)
        if mount is None:
            lost.setdefault(why, []).append(place.part)
            continue
        homes.setdefault(mount.device, (mount, place.path))
        named = parts.setdefault(mount.device, [])
        if place.part not in named:
            named.append(place.part)
    if every:
        for mount in mounts:
            if _is_home(mount):
                homes.setdefault(mount.device, (mount, mount.mount_point))
    found = [
        _facts(machine, mounts, mount, path, tuple(parts.get(device, ())), space)
        for device, (mount, path) in homes.items()
    ]
    return (*found, *_lost(lost))


def _mount_of(machine: Machine, mounts: Sequence[Mount], place: Place) -> tuple[Mount | None, str]:
    """Return the mount that a part is on, or why it is not known."""
    if not place.path:
        return None, place.why
    if not mounts:
        return None, "/proc/self/mountinfo cannot be read"
    mount = mount_of(machine, mounts, place.path)
    return mount, "" if mount is not None else f'no mount point holds "{place.path}"'


def _is_home(mount: Mount) -> bool:
    """Tell whether a cluster's files could be put there."""
    if mount.file_system in _NO_HOME or "ro" in mount.options:
        return False
    return not mount.device.startswith("0:") or mount.file_system in _NETWORK_HOME


def _lost(lost: dict[str, list[str]]) -> Iterator[DeviceFacts]:
    for why, parts in lost.items():
        yield DeviceFacts(
            name=UNKNOWN,
            mount_point="",
            parts=tuple(dict.fromkeys(parts)),
            unknown={"mount_point": why, "media": why},
        )


def _facts(
    machine: Machine,
    mounts: Sequence[Mount],
    mount: Mount,
    path: str,
    parts: tuple[str, ...],
    space: Space,
) -> DeviceFacts:
    found = below(machine, mounts, mount)
    unknown = dict(found.unknown)
    size_bytes: int | None
    free_bytes: int | None
    try:
        size_bytes, free_bytes = space(path)
    except OSError:
        try:
            size_bytes, free_bytes = space(mount.mount_point)
        except OSError as error:
            size_bytes = free_bytes = None
            unknown |= dict.fromkeys(("size_bytes", "free_bytes"), str(error.strerror))
    queues = [one.queue_requests for one in found.disks if one.queue_requests is not None]
    if found.disks and not queues:
        unknown["queue_depth"] = "the kernel does not show it"
    schedulers = sorted({one.scheduler for one in found.disks if one.scheduler})
    if found.disks and not schedulers:
        unknown["scheduler"] = "the kernel does not show it"
    return DeviceFacts(
        name=_name(mount, found),
        mount_point=mount.mount_point,
        kernel_name=found.block,
        mapping=found.mapping,
        parts=parts,
        block_device=_block_device(mount, found),
        media=found.media,
        ephemeral=why_ephemeral(machine, mount, found.disks),
        file_system=mount.file_system,
        size_bytes=size_bytes,
        free_bytes=free_bytes,
        scheduler=", ".join(schedulers),
        queue_depth=min(queues, default=None),
        read_ahead_bytes=found.read_ahead_bytes,
        mount_options=mount.options,
        alignment_bytes=found.alignment_bytes if found.media is not Media.MEMORY else None,
        disks=found.disks,
        unknown=unknown,
    )


def _block_device(mount: Mount, found: Below) -> str:
    if not found.block:
        return ""
    # The source of the first root file system is a name that leads nowhere.
    named = mount.source.startswith("/dev/") and mount.source != "/dev/root"
    return mount.source if named else f"/dev/{found.block.replace('!', '/')}"


def _name(mount: Mount, found: Below) -> str:
    """Return a short name: that of the volume, of the export, or of the kind of memory."""
    device = _block_device(mount, found)
    return device.rsplit("/", 1)[-1] if device else (mount.source or mount.file_system)
