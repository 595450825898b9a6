# SPDX-License-Identifier: PostgreSQL
"""How much memory a process may have: the machine's, or less if a control group limits it.

The rules are those of the server's library, extension/src/server/memory_limit.c, which explains
them; tests run both on the same cases.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from pgflash.machine.mounts import read_mounts
from pgflash.machine.tree import HERE, Machine, numbers


def memory_limit_bytes(machine: Machine = HERE, process: int | None = None) -> int | None:
    """Return what control groups allow a process, or this one; None if they set no limit."""
    name = "self" if process is None else process
    return min(_limits(machine, f"/proc/{name}/cgroup"), default=None)


def _limits(machine: Machine, groups: str) -> Iterator[int]:
    for line in (machine.text(groups) or "").splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, colon, group = rest.partition(":")
        if not colon:
            continue
        if not controllers:
            yield from _of_hierarchy(machine, group, "cgroup2", "", "memory.max")
        elif "memory" in controllers.split(","):
            name = "memory.limit_in_bytes"
            yield from _of_hierarchy(machine, group, "cgroup", "memory", name)


def _of_hierarchy(machine: Machine, group: str, kind: str, option: str, name: str) -> Iterator[int]:
    """Yield the limits of a group and of its ancestors, wherever its hierarchy is mounted."""
    for mount in read_mounts(machine):
        if mount.file_system == kind and (not option or option in mount.options):
            yield from _from_directory(machine, mount.mount_point, _below(group, mount.root), name)


def _below(group: str, part: str) -> PurePosixPath:
    """Return the part of a group's path below the visible part of the hierarchy."""
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(part):
        return PurePosixPath()
    return path.relative_to(part)


def _from_directory(machine: Machine, place: str, group: PurePosixPath, name: str) -> Iterator[int]:
    stat = numbers(machine.text(f"{place}/{group}/memory.stat") or "")
    if (limit := stat.get("hierarchical_memory_limit")) is not None:
        yield limit
    for one in (group, *group.parents):
        number = machine.number(f"{place}/{one}/{name}")
        if number is not None:
            yield number
