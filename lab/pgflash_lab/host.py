# SPDX-License-Identifier: PostgreSQL
"""The users of the processors' time, and what a reader must know about the machine.

The server's CPU time is the sum over its live processes and, through the postmaster, over those it
has reaped.  Foreign CPU time is the machine's busy time less the server's, our own and our
programs'; time stolen by the hypervisor counts as foreign, since we could not use it.
"""

import contextlib
import platform
import resource
from dataclasses import dataclass
from pathlib import Path

from pgflash.machine.host import core_count, processor
from pgflash.machine.mounts import mount_of, read_mounts
from pgflash.machine.processes import Process
from pgflash.machine.tree import HERE, numbers
from pgflash.model.words import size

#: The fact about the machine that names the file system of a run's files.
FILES_ON = "file system of the lab's files"

#: How often the list of processes is read until it is stable.
_STEADY_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """CPU seconds of some processes."""

    user_s: float
    system_s: float


def server_cpu(postmaster_pid: int) -> CpuTime:
    """Return the CPU time of a server's processes, dead ones included.

    A process that ends between two readings would be missed or counted twice, so the reading is
    repeated until the processes before and after it are the same.
    """
    for _ in range(_STEADY_TRIES):
        before = _children(postmaster_pid)
        times = [_cpu_of(pid) for pid in (postmaster_pid, *before)]
        if _children(postmaster_pid) == before:
            break
    return CpuTime(user_s=sum(t.user_s for t in times), system_s=sum(t.system_s for t in times))


def own_cpu() -> float:
    """Return the CPU seconds of this process and of the programs it has waited for."""
    us = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return us.ru_utime + us.ru_stime + children.ru_utime + children.ru_stime


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return Process(pid).children()
    return []


def _cpu_of(pid: int) -> CpuTime:
    """Return the CPU time of a process and of those it has reaped; zero if it is gone."""
    try:
        stat = Process(pid).stat()
    except OSError:
        return CpuTime(user_s=0.0, system_s=0.0)
    return CpuTime(
        user_s=stat.user_s + stat.reaped_user_s, system_s=stat.system_s + stat.reaped_system_s
    )


def machine_facts(folder: Path) -> dict[str, str]:
    """Return what a reader must know about the machine, without naming it."""
    memory_kb = numbers(HERE.text("/proc/meminfo") or "").get("MemTotal")
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "cores": str(core_count()),
        "memory": "unknown" if memory_kb is None else size(1024 * memory_kb),
        FILES_ON: file_system(folder),
    }


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder."""
    mount = mount_of(HERE, read_mounts(), str(folder.absolute()))
    return "unknown" if mount is None else mount.file_system
