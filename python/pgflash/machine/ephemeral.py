# SPDX-License-Identifier: PostgreSQL
"""What is empty after a stop of the machine: memory, instance stores, local SSDs of a cloud.

The kernel shows no such property of a drive.  Two things tell: the model under which a cloud
presents its local drives, and a file of `pgflash-ephemeral` that names the mount point
(docs/guide/ephemeral.md, which also says how to name one by hand).  A local drive of another cloud,
or one hidden below a hypervisor's generic disk, is recognized only by such a file.
"""

import re
from collections.abc import Iterable, Sequence

from pgflash.machine.disks import below
from pgflash.machine.mounts import Mount, mount_of, read_mounts
from pgflash.machine.tree import HERE, Machine
from pgflash.model.device import DiskFacts, Media

#: Where an administrator names them; only root can write there.
NAMED = "/etc/pgflash/ephemeral"

#: Models of Amazon EC2, Google Compute Engine (NVMe, SCSI) and Microsoft Azure.
_MODELS = re.compile(
    r"amazon ec2 nvme instance storage|nvme_card|google ephemeraldisk"
    r"|microsoft nvme direct disk( v\d+)?",
    re.IGNORECASE,
)


def why_ephemeral(machine: Machine, mount: Mount, disks: Iterable[DiskFacts]) -> str:
    """Return why what is on a mount is lost when its machine stops; "" if it is not, or unknown."""
    for disk in disks:
        if _MODELS.fullmatch(disk.model):
            return f"{disk.name} is of the model {disk.model}"
    for name in machine.names(NAMED):
        file = f"{NAMED}/{name}"
        if name.endswith(".conf") and mount.mount_point in _mount_points(machine.text(file)):
            return f"{file} names it"
    return ""


def ephemeral_at(path: str, machine: Machine = HERE) -> str:
    """Return why what is at a path is lost when its machine stops: as why_ephemeral(), or memory.

    A path that does not exist yet is where the folder above it is.
    """
    mounts = read_mounts(machine)
    mount = _mount_above(machine, mounts, path)
    if mount is None:
        return ""
    found = below(machine, mounts, mount)
    if found.media is Media.MEMORY:
        return f"{mount.mount_point} is memory"
    return why_ephemeral(machine, mount, found.disks)


def _mount_above(machine: Machine, mounts: Sequence[Mount], path: str) -> Mount | None:
    """Return the mount of a path, or of the first folder above it that exists."""
    while not machine.exists(path) and path not in ("", "/"):
        path = path.rpartition("/")[0] or "/"
    return mount_of(machine, mounts, path)


def _mount_points(text: str | None) -> set[str]:
    found = re.findall(r"^[ \t]*MOUNT=(.*)$", text or "", re.MULTILINE)
    return {word.strip().strip("\"'").rstrip("/") for word in found}
