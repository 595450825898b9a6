# SPDX-License-Identifier: PostgreSQL
"""The machine, from /proc: the figures of vmstat and iostat.

The extension reads the same figures in C (extension/src/snapshot/snapshot_host.c).  Counters are
the kernel's own, since the machine started.  Only whole disks count.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pgflash.collect.memory_limit import memory_limit_bytes
from pgflash.model.snapshot import Row, Section, SectionKind, Value

#: diskstats counts in these sectors, whatever the disk's own sector size.
SECTOR_BYTES = 512

#: Columns and their position after the name in /proc/diskstats.
_DISK_FIELDS = (
    ("reads", 0),
    ("reads_merged", 1),
    ("read_bytes", 2),
    ("read_time_ms", 3),
    ("writes", 4),
    ("writes_merged", 5),
    ("write_bytes", 6),
    ("write_time_ms", 7),
    ("io_time_ms", 9),
    ("weighted_time_ms", 10),
    ("discards", 11),
    ("discard_bytes", 13),
    ("flushes", 15),
    ("flush_time_ms", 16),
)

_CPU = ("user_s", "nice_s", "system_s", "idle_s", "iowait_s", "irq_s", "softirq_s", "steal_s")

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

Reader = Callable[[str], str]


def read_proc(name: str) -> str:
    """Return a file of /proc."""
    return (Path("/proc") / name).read_text()


def is_whole_disk(name: str) -> bool:
    """Tell a disk from a partition or from something that is not a disk."""
    return (
        not name.startswith(("loop", "ram"))
        and (Path("/sys/block") / name.replace("/", "!")).exists()
    )


def host_sections(
    read: Reader = read_proc, whole: Callable[[str], bool] = is_whole_disk
) -> Iterator[Section]:
    """Yield the sections of this machine; OSError if /proc cannot be read."""
    stat = read("stat")
    yield _one(SectionKind.COUNTER, "host_cpu", _cpu(stat))
    vmstat = read("vmstat")
    memory = {column: _number(vmstat, word) for column, word in _VMSTAT}
    memory |= {column: _number(stat, word) for column, word in _STAT}
    yield _one(SectionKind.COUNTER, "host_memory", memory)
    yield Section(
        name="host_disks",
        kind=SectionKind.COUNTER,
        columns=("disk", *(name for name, _place in _DISK_FIELDS)),
        rows=tuple(_disks(read("diskstats"), whole)),
    )
    yield _one(SectionKind.GAUGE, "host_state", _state(stat, read("meminfo"), read("loadavg")))


def _one(kind: SectionKind, name: str, values: Mapping[str, Value]) -> Section:
    return Section(name=name, kind=kind, columns=tuple(values), rows=(tuple(values.values()),))


def _number(text: str, word: str) -> int | None:
    found = re.search(rf"^{word}:?\s+(\d+)", text, re.M)
    return int(found[1]) if found else None


def _cpu(stat: str) -> dict[str, Value]:
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    numbers = stat.split("\n", 1)[0].split()[1:]
    return {
        name: int(word) / ticks_per_s
        for name, word in zip(_CPU, [*numbers, *["0"] * len(_CPU)], strict=False)
    }


def _state(stat: str, meminfo: str, loadavg: str) -> dict[str, Value]:
    loads = [float(word) for word in loadavg.split()[:3]]
    memory = {column: _number(meminfo, word) for column, word in _MEMINFO}
    return {
        "running": _number(stat, "procs_running"),
        "blocked": _number(stat, "procs_blocked"),
        **dict(zip(("load_1", "load_5", "load_15"), loads, strict=True)),
        **{column: None if kb is None else kb * 1024 for column, kb in memory.items()},
    }


def _disks(diskstats: str, whole: Callable[[str], bool]) -> Iterator[Row]:
    for line in diskstats.splitlines():
        words = line.split()
        if len(words) < 14 or not whole(words[2]):
            continue
        numbers = [int(word) for word in words[3:]]
        yield (
            words[2],
            *(
                (numbers[place] if place < len(numbers) else 0)
                * (SECTOR_BYTES if name.endswith("_bytes") else 1)
                for name, place in _DISK_FIELDS
            ),
        )


def core_count() -> int:
    """Return how many processors the machine has."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the memory that may be used here: the machine's, or the container's part of it."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    return min(machine, memory_limit_bytes() or machine)
