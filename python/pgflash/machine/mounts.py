# SPDX-License-Identifier: PostgreSQL
"""Which mount a path is on, from /proc/self/mountinfo.

Mounts hide one another, bind mounts show a folder twice, and names contain escapes.  So for a path
of this machine we ask the kernel: fdinfo has the number of the mount by which it opened the path.
In a test's tree, and if the path may not be opened, we take the mount with the longest matching
mount point; of several, the one mounted last.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgflash.machine.tree import HERE, Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A line of mountinfo."""

    number: int
    #: Major and minor number of the file system; major 0 means no block device.
    device: str
    #: The folder of the file system that is mounted.
    root: str
    mount_point: str
    file_system: str
    source: str
    #: Options of the mount and of the file system, each once.
    options: tuple[str, ...]


def read_mounts(machine: Machine = HERE) -> tuple[Mount, ...]:
    """Return the mounts that this process sees; none if /proc does not show them."""
    text = machine.text("/proc/self/mountinfo") or ""
    return tuple(mount for line in text.splitlines() if (mount := _mount(line)) is not None)


def mount_of(machine: Machine, mounts: Sequence[Mount], path: str) -> Mount | None:
    """Return the mount that an absolute path is on, or None if that is unknown."""
    number = _number_by_kernel(path) if machine.root == Path("/") else None
    for mount in mounts:
        if mount.number == number:
            return mount
    return _longest(mounts, machine.resolve(path) or path)


def _longest(mounts: Sequence[Mount], path: str) -> Mount | None:
    best = None
    wanted = PurePosixPath(path)
    for mount in mounts:
        if wanted.is_relative_to(mount.mount_point) and (
            best is None or len(mount.mount_point) >= len(best.mount_point)
        ):
            best = mount
    return best


def _number_by_kernel(path: str) -> int | None:
    """Return the number of the mount by which the kernel reaches a path."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        told = Path(f"/proc/self/fdinfo/{opened}").read_text()
    except OSError:
        return None
    finally:
        os.close(opened)
    found = re.search(r"^mnt_id:\s*(\d+)$", told, re.MULTILINE)
    return int(found[1]) if found else None


def _mount(line: str) -> Mount | None:
    """Return what a line says: 36 35 98:0 /root /mount options [tags] - type source options."""
    before, dash, after = line.partition(" - ")
    first, last = before.split(" "), after.split(" ")
    if not dash or len(first) < 6 or len(last) < 2 or not first[0].isdecimal():
        return None
    options = [*first[5].split(","), *(last[2].split(",") if len(last) > 2 else [])]
    return Mount(
        number=int(first[0]),
        device=first[2],
        root=_unescaped(first[3]),
        mount_point=_unescaped(first[4]),
        file_system=last[0],
        source=_unescaped(last[1]),
        options=tuple(dict.fromkeys(filter(None, options))),
    )


def _unescaped(word: str) -> str:
    """Return a word with its octal escapes (of a blank, for example) decoded."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), word)
