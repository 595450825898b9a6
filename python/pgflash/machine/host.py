# SPDX-License-Identifier: PostgreSQL
"""The whole machine: what vmstat and iostat read, and what its processors and memory are.

The extension reads the same figures in C (extension/src/snapshot/snapshot_host.c).  Counters are
the kernel's own, since the machine started.
"""

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pgflash.machine.cgroup import memory_limit_bytes
from pgflash.machine.tree import HERE, Machine, numbers

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: diskstats and /sys count in these sectors, whatever the disk's own sector size.
SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes:
    """Seconds since boot that all processors together spent in each state."""

    user_s: float = 0.0
    nice_s: float = 0.0
    system_s: float = 0.0
    idle_s: float = 0.0
    iowait_s: float = 0.0
    irq_s: float = 0.0
    softirq_s: float = 0.0
    steal_s: float = 0.0

    @property
    def all_user_s(self) -> float:
        """Return the time of programs, those of low priority included."""
        return self.user_s + self.nice_s

    @property
    def all_system_s(self) -> float:
        """Return the time of the kernel, interrupts included."""
        return self.system_s + self.irq_s + self.softirq_s

    @property
    def busy_s(self) -> float:
        """Return the time that was not idle; waits for I/O count as idle."""
        return self.all_user_s + self.all_system_s + self.steal_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounts:
    """What a disk or partition did since boot; an old kernel does not count the last ones."""

    reads: int
    reads_merged: int
    read_bytes: int
    read_time_ms: int
    writes: int
    writes_merged: int
    write_bytes: int
    write_time_ms: int
    io_time_ms: int
    weighted_time_ms: int
    discards: int = 0
    discard_bytes: int = 0
    flushes: int = 0
    flush_time_ms: int = 0


#: The place of each count in a line of diskstats, after the name.
_DISK_PLACES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 15, 16)
_DISK_NAMES = DiskCounts.__slots__


def read_cpu(machine: Machine = HERE) -> CpuTimes:
    """Return the processors' time up to now; OSError if /proc cannot be read."""
    words = machine.read("/proc/stat").split("\n", 1)[0].split()[1:]
    seconds = (int(word) / TICKS_PER_S for word in words)
    return CpuTimes(**dict(zip(CpuTimes.__slots__, seconds, strict=False)))


def read_disks(machine: Machine = HERE) -> Iterator[tuple[str, str, DiskCounts]]:
    """Yield each disk's and partition's number ("8:1"), its name and its counts."""
    for line in machine.read("/proc/diskstats").splitlines():
        words = line.split()
        if len(words) < 14:
            continue
        counts = [int(word) for word in words[3:]]
        found = {
            name: counts[place] * (SECTOR_BYTES if name.endswith("_bytes") else 1)
            for name, place in zip(_DISK_NAMES, _DISK_PLACES, strict=True)
            if place < len(counts)
        }
        yield f"{words[0]}:{words[1]}", words[2], DiskCounts(**found)


def is_whole_disk(name: str, machine: Machine = HERE) -> bool:
    """Tell a disk from a partition or from something that is not a disk."""
    return not name.startswith(("loop", "ram")) and machine.exists(
        f"/sys/block/{name.replace('/', '!')}"
    )


def core_count() -> int:
    """Return how many processors the machine has."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the memory that may be used here: the machine's, or the container's part of it."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    return min(machine, memory_limit_bytes() or machine)


def available_memory_bytes() -> int:
    """Return the memory that is available to new programs."""
    available = 1024 * numbers(HERE.read("/proc/meminfo")).get("MemAvailable", 0)
    return min(available, memory_limit_bytes() or available)


def kernel() -> str:
    """Return the kernel's name and version, and the machine's kind."""
    return f"{platform.system()} {platform.release()} {platform.machine()}"


def processor() -> str:
    """Return the processors' model."""
    model = re.search(r"model name\s*: (.+)", HERE.text("/proc/cpuinfo") or "")
    return model[1] if model else platform.machine()
