# SPDX-License-Identifier: PostgreSQL
"""The whole machine: the kernel's texts, as its documentation (proc(5), iostats) describes them."""

import os
from pathlib import Path

import pytest

from pgflash.machine.host import (
    TICKS_PER_S,
    CpuTimes,
    DiskCounts,
    available_memory_bytes,
    core_count,
    is_whole_disk,
    memory_bytes,
    read_cpu,
    read_disks,
)
from pgflash.machine.tree import Machine, numbers

#: Of the kernel's documentation: reads, merged, sectors, ms; writes likewise; now, ms, weighted;
#: discards, merged, sectors, ms; flushes, ms.  Old kernels have fewer.
DISKSTATS = """\
   8       0 sda 100 7 1600 450 20 3 480 90 0 300 540 5 1 16 2 4 9
   8       1 sda1 60 0 960 200 20 3 480 90 0 250 290
   7       0 loop0
"""


def machine(tmp_path: Path, **files: str) -> Machine:
    (tmp_path / "proc").mkdir()
    for name, text in files.items():
        (tmp_path / "proc" / name).write_text(text)
    return Machine(root=tmp_path)


def test_the_first_line_of_proc_stat_is_seconds_by_state(tmp_path: Path) -> None:
    ticks = [n * TICKS_PER_S for n in (10, 2, 5, 100, 7, 1, 3, 4, 50, 50)]
    line = "cpu  " + " ".join(map(str, ticks)) + "\ncpu0 1 2 3\n"
    found = read_cpu(machine(tmp_path, stat=line))
    assert found == CpuTimes(
        user_s=10, nice_s=2, system_s=5, idle_s=100, iowait_s=7, irq_s=1, softirq_s=3, steal_s=4
    )
    assert (found.all_user_s, found.all_system_s, found.busy_s) == (12, 9, 25)


def test_an_old_kernels_short_line_is_read(tmp_path: Path) -> None:
    line = f"cpu {TICKS_PER_S} 0 {TICKS_PER_S} {TICKS_PER_S}\n"
    found = read_cpu(machine(tmp_path, stat=line))
    assert found == CpuTimes(user_s=1, system_s=1, idle_s=1)


def test_a_machine_that_shows_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_cpu(Machine(root=tmp_path))


def test_disks_have_a_number_a_name_and_counts(tmp_path: Path) -> None:
    whole, part = read_disks(machine(tmp_path, diskstats=DISKSTATS))
    assert whole == (
        "8:0",
        "sda",
        DiskCounts(
            reads=100,
            reads_merged=7,
            read_bytes=1600 * 512,
            read_time_ms=450,
            writes=20,
            writes_merged=3,
            write_bytes=480 * 512,
            write_time_ms=90,
            io_time_ms=300,
            weighted_time_ms=540,
            discards=5,
            discard_bytes=16 * 512,
            flushes=4,
            flush_time_ms=9,
        ),
    )
    assert part[:2] == ("8:1", "sda1")
    assert (part[2].weighted_time_ms, part[2].discards, part[2].flushes) == (290, 0, 0)


def test_a_partition_is_no_whole_disk(tmp_path: Path) -> None:
    for name in ("sda", "loop0", "cciss!c0d0"):
        (tmp_path / "sys/block" / name).mkdir(parents=True)
    whole = [
        name
        for name in ("sda", "sda1", "loop0", "cciss/c0d0")
        if is_whole_disk(name, Machine(root=tmp_path))
    ]
    assert whole == ["sda", "cciss/c0d0"]


def test_lines_of_a_word_and_a_number_are_read() -> None:
    text = "MemTotal:  12 kB\nintr 5 6 7\nName: postgres\npgpgin 3\n\nUid:\t70\t71\n"
    assert numbers(text) == {"MemTotal": 12, "intr": 5, "pgpgin": 3, "Uid": 70}


def test_this_machine_is_known() -> None:
    assert core_count() == os.cpu_count()
    assert 2**20 < available_memory_bytes() <= memory_bytes()
