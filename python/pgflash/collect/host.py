# SPDX-License-Identifier: PostgreSQL
"""A snapshot's sections of the machine: the figures of vmstat and iostat.

The extension's snapshots have the same sections (extension/src/snapshot/snapshot_host.c).  Only
whole disks count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, fields

from pgflash.machine.host import DiskCounts, is_whole_disk, read_cpu, read_disks
from pgflash.machine.tree import HERE, Machine, numbers
from pgflash.model.snapshot import Section, SectionKind, Value

_VMSTAT = (
    ("page_in_kb", "pgpgin"),
    ("page_out_kb", "pgpgout"),
    ("swap_in_pages", "pswpin"),
    ("swap_out_pages", "pswpout"),
    ("faults", "pgfault"),
    ("major_faults", "pgmajfault"),
)
_STAT = (("context_switches", "ctxt"), ("interrupts", "intr"), ("processes", "processes"))
_MEMINFO = (
    ("memory_bytes", "MemTotal"),
    ("free_bytes", "MemFree"),
    ("available_bytes", "MemAvailable"),
    ("buffers_bytes", "Buffers"),
    ("cached_bytes", "Cached"),
    ("swap_bytes", "SwapTotal"),
    ("swap_free_bytes", "SwapFree"),
)


def host_sections(machine: Machine = HERE) -> Iterator[Section]:
    """Yield the sections of this machine; OSError if /proc cannot be read."""
    yield _one(SectionKind.COUNTER, "host_cpu", asdict(read_cpu(machine)))
    stat = numbers(machine.read("/proc/stat"))
    vmstat = numbers(machine.read("/proc/vmstat"))
    memory = {column: vmstat.get(word) for column, word in _VMSTAT}
    memory |= {column: stat.get(word) for column, word in _STAT}
    yield _one(SectionKind.COUNTER, "host_memory", memory)
    yield Section(
        name="host_disks",
        kind=SectionKind.COUNTER,
        columns=("disk", *(field.name for field in fields(DiskCounts))),
        rows=tuple(
            (name, *astuple(counts))
            for _number, name, counts in read_disks(machine)
            if is_whole_disk(name, machine)
        ),
    )
    yield _one(SectionKind.GAUGE, "host_state", _state(machine, stat))


def _one(kind: SectionKind, name: str, values: Mapping[str, Value]) -> Section:
    return Section(name=name, kind=kind, columns=tuple(values), rows=(tuple(values.values()),))


def _state(machine: Machine, stat: Mapping[str, int]) -> dict[str, Value]:
    loads = map(float, machine.read("/proc/loadavg").split()[:3])
    meminfo = numbers(machine.read("/proc/meminfo"))
    return {
        "running": stat.get("procs_running"),
        "blocked": stat.get("procs_blocked"),
        **dict(zip(("load_1", "load_5", "load_15"), loads, strict=True)),
        **{column: 1024 * meminfo[word] if word in meminfo else None for column, word in _MEMINFO},
    }
