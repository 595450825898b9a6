# SPDX-License-Identifier: PostgreSQL
"""The counters of the devices and the host, as iostat and vmstat read them.

Emulated devices count in the emulator's own memory; real ones in the kernel, by the block device
under a folder.  To the kernel, an emulated device's delay is a sleep, so the waiting
processes are not "blocked" there: code that shows them asks the server instead.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgflash.machine.host import DiskCounts, read_disks
from pgflash.machine.tree import HERE, Machine, numbers
from pgflash_lab.emulator import DeviceStats, Emulator, OperationStats
from pgflash_lab.model.run import DiskSecond

_KIB = 1024
_PAGE = os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCounts:
    """A device's counters."""

    reads: int = 0
    read_bytes: int = 0
    read_time_ms: float = 0.0
    writes: int = 0
    write_bytes: int = 0
    write_time_ms: float = 0.0
    #: Of each bottleneck: of a real device the kernel's busy time alone.
    busy_ms: tuple[float, ...] = (0.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCounts:
    """The kernel's counters, and how many threads run or are blocked, and its memory, now."""

    context_switches: int
    interrupts: int
    runnable: int
    blocked: int
    swap_in_bytes: int
    swap_out_bytes: int
    swapped_bytes: int
    free_bytes: int
    buffers_bytes: int
    cache_bytes: int


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
            return {one.name: emulated_counts(one) for one in stats.devices}
        table = {number: counts for number, _name, counts in read_disks()}
        return {
            role: _real_counts(table[number])
            for role, number in self._numbers.items()
            if number in table
        }


def emulated_counts(stats: DeviceStats) -> DeviceCounts:
    """Return an emulated device's counts.

    The log's writes reach the device at its syncs, as one request each.  It is busy by the model:
    its mean spindle, or what its limit of bytes or of requests a second allows.
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
        busy_ms=tuple(1000 * one for one in stats.busy_s),
    )


def _bytes(*operations: OperationStats) -> int:
    return sum(one.bytes for one in operations)


def _real_counts(counts: DiskCounts) -> DeviceCounts:
    return DeviceCounts(
        reads=counts.reads,
        read_bytes=counts.read_bytes,
        read_time_ms=counts.read_time_ms,
        writes=counts.writes,
        write_bytes=counts.write_bytes,
        write_time_ms=counts.write_time_ms,
        busy_ms=(counts.io_time_ms,),
    )


def read_host(machine: Machine = HERE) -> HostCounts:
    """Return what the kernel says of the whole host."""
    stat = numbers(machine.read("/proc/stat"))
    swaps = numbers(machine.read("/proc/vmstat"))
    memory = numbers(machine.read("/proc/meminfo"))
    return HostCounts(
        context_switches=stat["ctxt"],
        interrupts=stat["intr"],
        runnable=stat["procs_running"],
        blocked=stat["procs_blocked"],
        swap_in_bytes=swaps["pswpin"] * _PAGE,
        swap_out_bytes=swaps["pswpout"] * _PAGE,
        swapped_bytes=(memory["SwapTotal"] - memory["SwapFree"]) * _KIB,
        free_bytes=memory["MemFree"] * _KIB,
        buffers_bytes=memory["Buffers"] * _KIB,
        cache_bytes=memory["Cached"] * _KIB,
    )


def read_paged_bytes(machine: Machine = HERE) -> tuple[int, int]:
    """Return the bytes read from and written to all block devices."""
    vmstat = numbers(machine.read("/proc/vmstat"))
    return vmstat["pgpgin"] * _KIB, vmstat["pgpgout"] * _KIB


def disk_second(
    role: str, before: DeviceCounts, after: DeviceCounts, *, at_s: float, elapsed_s: float
) -> DiskSecond:
    """Return what a device did between two readings; it was as busy as its busiest bottleneck."""
    reads, writes = after.reads - before.reads, after.writes - before.writes
    read_time_ms = after.read_time_ms - before.read_time_ms
    write_time_ms = after.write_time_ms - before.write_time_ms
    busy_ms = max(late - early for late, early in zip(after.busy_ms, before.busy_ms, strict=True))
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
