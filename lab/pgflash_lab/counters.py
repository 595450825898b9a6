# SPDX-License-Identifier: PostgreSQL
"""The counters of the devices and the host, as iostat and vmstat read them.

Emulated devices count in the emulator's own memory; real ones in /proc/diskstats, by the block
device under a folder.  To the kernel, an emulated device's delay is a sleep, so the waiting
processes are not "blocked" there: code that shows them asks the server instead.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash_lab.emulator import DeviceStats, Emulator, OperationStats
from pgflash_lab.model.run import DiskSecond

_SECTOR_BYTES = 512
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCounts:
    """A device's counters."""

    reads: int = 0
    read_bytes: int = 0
    read_time_ms: float = 0.0
    writes: int = 0
    write_bytes: int = 0
    write_time_ms: float = 0.0
    busy_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounts:
    """The kernel's counters, and how many threads run or are blocked now."""

    context_switches: int
    interrupts: int
    runnable: int
    blocked: int


class DeviceReader:
    """Reads the counts of a run's devices, by role."""

    def __init__(self, emulator: Emulator | None, folders: Mapping[str, Path]) -> None:
        """Read the emulated devices or, without them, those under the folders."""
        self._emulator = emulator
        self._numbers = {} if emulator else {role: _number(path) for role, path in folders.items()}

    @property
    def emulated(self) -> bool:
        """Whether the devices are emulated."""
        return self._emulator is not None

    def read(self) -> dict[str, DeviceCounts]:
        """Return the counts now, without devices that have none."""
        if self._emulator is not None:
            stats = self._emulator.stats()
            return {one.name: emulated_counts(one, stats.elapsed_s) for one in stats.devices}
        table = parse_diskstats(Path("/proc/diskstats").read_text())
        return {role: table[number] for role, number in self._numbers.items() if number in table}


def emulated_counts(stats: DeviceStats, elapsed_s: float) -> DeviceCounts:
    """Return an emulated device's counts.

    The log's writes reach the device at its syncs, as one request each.
    """
    operations = stats.operations
    log_syncs, log_writes = operations["log_sync"], operations["log_write"]
    return DeviceCounts(
        reads=stats.reads.count,
        read_bytes=stats.reads.bytes,
        read_time_ms=stats.reads.latency_ms,
        writes=stats.writes.count + log_syncs.count,
        write_bytes=_bytes(stats.writes, log_writes, log_syncs),
        write_time_ms=stats.writes.latency_ms + log_syncs.latency_ms,
        busy_ms=1000 * stats.utilisation * elapsed_s,
    )


def _bytes(*operations: OperationStats) -> int:
    return sum(one.bytes for one in operations)


def parse_diskstats(text: str) -> dict[str, DeviceCounts]:
    """Return /proc/diskstats by device number, "8:1"."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 13:
            continue
        reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, _, busy_ms = (
            int(word) for word in words[3:13]
        )
        found[f"{words[0]}:{words[1]}"] = DeviceCounts(
            reads=reads,
            read_bytes=read_sectors * _SECTOR_BYTES,
            read_time_ms=read_ms,
            writes=writes,
            write_bytes=write_sectors * _SECTOR_BYTES,
            write_time_ms=write_ms,
            busy_ms=busy_ms,
        )
    return found


def parse_host(stat: str) -> HostCounts:
    """Return what /proc/stat says of the whole host."""
    lines = {words[0]: words[1] for words in (line.split() for line in stat.splitlines()) if words}
    return HostCounts(
        context_switches=int(lines["ctxt"]),
        interrupts=int(lines["intr"]),
        runnable=int(lines["procs_running"]),
        blocked=int(lines["procs_blocked"]),
    )


def parse_paged_bytes(vmstat: str) -> tuple[int, int]:
    """Return the bytes read from and written to all block devices, from /proc/vmstat."""
    lines = dict(line.split() for line in vmstat.splitlines())
    return int(lines["pgpgin"]) * _KIB, int(lines["pgpgout"]) * _KIB


def disk_second(
    role: str, before: DeviceCounts, after: DeviceCounts, *, at_s: float, elapsed_s: float
) -> DiskSecond:
    """Return what a device did between two readings."""
    reads, writes = after.reads - before.reads, after.writes - before.writes
    read_time_ms = after.read_time_ms - before.read_time_ms
    write_time_ms = after.write_time_ms - before.write_time_ms
    busy_ms = after.busy_ms - before.busy_ms
    return DiskSecond(
        at_s=at_s,
        elapsed_s=elapsed_s,
        role=role,
        reads=reads,
        read_bytes=after.read_bytes - before.read_bytes,
        writes=writes,
        write_bytes=after.write_bytes - before.write_bytes,
        read_ms=max(read_time_ms, 0.0) / reads if reads else 0.0,
        write_ms=max(write_time_ms, 0.0) / writes if writes else 0.0,
        utilisation=min(max(busy_ms / (1000 * elapsed_s), 0.0), 1.0) if elapsed_s > 0 else 0.0,
    )


def _number(folder: Path) -> str:
    """Return the number of the block device under a folder."""
    device = folder.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"
