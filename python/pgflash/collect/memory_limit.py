# SPDX-License-Identifier: PostgreSQL
"""How much memory a process may have: the machine's, or less if a control group limits it.

The rules are those of the server's library, extension/src/server/memory_limit.c, which explains
them; tests run both on the same cases.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pgflash.collect.machine import Machine

_OCTAL = re.compile(r"\\([0-7]{3})")


def memory_limit_bytes(machine: Machine | None = None, process: str = "self") -> int | None:
    """Return how much a process's control groups allow it, or None if they set no limit."""
    machine = machine or Machine()
    return min(_limits(machine, process), default=None)


def _limits(machine: Machine, process: str) -> Iterator[int]:
    for line in (machine.text(f"/proc/{process}/cgroup") or "").splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, colon, group = rest.partition(":")
        if not colon:
            continue
        if not controllers:
            yield from _of_hierarchy(machine, process, group, "cgroup2", "", "memory.max")
        elif "memory" in controllers.split(","):
            name = "memory.limit_in_bytes"
            yield from _of_hierarchy(machine, process, group, "cgroup", "memory", name)


def _of_hierarchy(
    machine: Machine, process: str, group: str, kind: str, option: str, name: str
) -> Iterator[int]:
    """Yield the limits of a group and of its ancestors, wherever its hierarchy is mounted."""
    for line in (machine.text(f"/proc/{process}/mountinfo") or "").splitlines():
        mounted, dash, rest = line.partition(" - ")
        words, (found, *more) = mounted.split(), rest.split() or [""]
        options = more[1].split(",") if len(more) > 1 else []
        if not dash or len(words) < 5 or found != kind or (option and option not in options):
            continue
        part, place = (_OCTAL.sub(lambda found: chr(int(found[1], 8)), word) for word in words[3:5])
        yield from _from_directory(machine, place, _below(group, part), name)


def _below(group: str, part: str) -> PurePosixPath:
    """Return the part of a group's path below the visible part of the hierarchy."""
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(part):
        return PurePosixPath()
    return path.relative_to(part)


def _from_directory(machine: Machine, place: str, group: PurePosixPath, name: str) -> Iterator[int]:
    stat = machine.text(f"{place}/{group}/memory.stat") or ""
    if found := re.search(r"^hierarchical_memory_limit (\d+)$", stat, re.MULTILINE):
        yield int(found[1])
    for one in (group, *group.parents):
        number = machine.number(f"{place}/{one}/{name}")
        if number is not None:
            yield number
