# SPDX-License-Identifier: PostgreSQL
"""Machines as trees of files: /proc/self/mountinfo and as much of /sys as a test needs.

The content of the files follows the kernel's documentation of sysfs (ABI/stable/sysfs-block and
admin-guide on each kind of device), not the code of our readers.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from pgflash.machine.tree import Machine


class FakeMachine:
    """A tree of files that grows by one device or mount at a time."""

    def __init__(self, root: Path) -> None:
        """Begin with an empty tree."""
        self.root = root
        self._mounts: list[str] = []
        for folder in ("sys/dev/block", "sys/class/block", "sys/block", "dev/mapper", "proc/self"):
            (root / folder).mkdir(parents=True)

    @property
    def machine(self) -> Machine:
        """Return the Machine that reads the tree."""
        return Machine(root=self.root)

    def write(self, name: str, text: str) -> None:
        """Write one of the kernel's files."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def mount(
        self,
        device: str,
        point: str,
        file_system: str,
        source: str,
        *,
        options: str = "rw,relatime",
        super_options: str = "rw",
    ) -> None:
        """Add a mount."""
        number = len(self._mounts) + 20
        self._mounts.append(
            f"{number} 1 {device} / {point} {options} shared:1 - "
            f"{file_system} {source} {super_options}"
        )
        self.write("proc/self/mountinfo", "\n".join(self._mounts))

    def disk(
        self,
        name: str,
        number: str,
        *,
        bus: str = "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block",
        rotational: int | None = 0,
        scheduler: str = "[none] mq-deadline",
        requests: int | None = 64,
        read_ahead_kb: int = 128,
        size_sectors: int = 2_000_000_000,
        discard: int = 2**31,
        model: str = "",
        vendor: str = "",
        depth: int | None = None,
        slaves: Sequence[str] = (),
    ) -> Path:
        """Add a whole block device and return its folder."""
        folder = self.root / "sys/devices" / bus / name
        queue = {
            "rotational": rotational,
            "scheduler": scheduler,
            "nr_requests": requests,
            "read_ahead_kb": read_ahead_kb,
            "discard_max_bytes": discard,
        }
        inside = str(folder.relative_to(self.root))
        for key, value in queue.items():
            if value is not None:
                self.write(f"{inside}/queue/{key}", str(value))
        self.write(f"{inside}/size", str(size_sectors))
        for key, word in (("model", model), ("vendor", vendor)):
            if word:
                self.write(f"{inside}/device/{key}", word)
        if depth is not None:
            self.write(f"{inside}/device/queue_depth", str(depth))
        self._link(folder, name, number)
        (self.root / "sys/block" / name).symlink_to(_relative(folder, self.root / "sys/block"))
        for slave in slaves:
            made = (self.root / "sys/class/block" / slave).resolve(strict=True)
            (folder / "slaves").mkdir(exist_ok=True)
            (folder / "slaves" / slave).symlink_to(_relative(made, folder / "slaves"))
        return folder

    def virtual(self, name: str, number: str, *, slaves: Sequence[str] = ()) -> Path:
        """Add a device that consists of others: dm, md, loop."""
        return self.disk(
            name, number, bus="virtual/block", slaves=slaves, scheduler="none", rotational=1
        )

    def partition(
        self, disk: Path, name: str, number: str, *, start: int, offset: int | None = None
    ) -> Path:
        """Add a partition of a disk, which begins at a sector of 512 bytes."""
        folder = disk / name
        inside = str(folder.relative_to(self.root))
        self.write(f"{inside}/partition", "1")
        self.write(f"{inside}/start", str(start))
        if offset is not None:
            self.write(f"{inside}/alignment_offset", str(offset))
        self._link(folder, name, number)
        return folder

    def _link(self, folder: Path, name: str, number: str) -> None:
        for place in (f"sys/dev/block/{number}", f"sys/class/block/{name}"):
            link = self.root / place
            link.symlink_to(_relative(folder, link.parent))
        (self.root / "dev" / name).touch()


def _relative(target: Path, folder: Path) -> str:
    return os.path.relpath(target, folder)
