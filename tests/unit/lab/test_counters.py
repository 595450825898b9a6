# SPDX-License-Identifier: PostgreSQL
"""What iostat and vmstat read, from the kernel's texts."""

import os
from pathlib import Path

from pgflash.machine.tree import Machine
from pgflash_lab.counters import (
    DeviceCounts,
    DeviceReader,
    disk_second,
    read_host,
    read_paged_bytes,
)

STAT = """\
cpu  1 2 3 4
cpu0 1 2 3 4
intr 123456 0 9
ctxt 98765
btime 1700000000
processes 42
procs_running 5
procs_blocked 3
softirq 7 1
"""

MEMORY = """\
MemTotal:       1000 kB
MemFree:         700 kB
Buffers:           8 kB
Cached:           90 kB
SwapTotal:       100 kB
SwapFree:         76 kB
"""


def test_a_second_is_what_was_done_between_two_readings() -> None:
    before = DeviceCounts(reads=100, read_bytes=1000, read_time_ms=450, busy_ms=(300,))
    after = DeviceCounts(
        reads=300, read_bytes=5000, read_time_ms=1450, writes=5, write_time_ms=10, busy_ms=(1300,)
    )
    second = disk_second("array", before, after, at_s=7.0, elapsed_s=2.0)
    assert (second.reads, second.read_bytes, second.read_ms) == (200, 4000, 5.0)
    assert (second.writes, second.write_ms, second.utilisation) == (5, 2.0, 0.5)
    still = disk_second("array", after, after, at_s=8.0, elapsed_s=1.0)
    assert (still.reads, still.read_ms, still.write_ms, still.utilisation) == (0, 0.0, 0.0, 0.0)


def test_a_device_is_as_busy_as_the_busiest_of_its_bottlenecks() -> None:
    spindles_first = DeviceCounts(busy_ms=(5_000.0, 100.0, 0.0))
    then_its_limit = DeviceCounts(busy_ms=(5_080.0, 1_000.0, 0.0))
    second = disk_second("array", spindles_first, then_its_limit, at_s=7.0, elapsed_s=1.0)
    assert second.utilisation == 0.9


def test_the_host_s_counts_are_those_of_all_processors(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(STAT)
    (tmp_path / "proc/vmstat").write_text("pgpgin 12\npswpin 3\npswpout 5\n")
    (tmp_path / "proc/meminfo").write_text(MEMORY)
    host = read_host(Machine(root=tmp_path))
    assert (host.context_switches, host.interrupts) == (98765, 123456)
    assert (host.runnable, host.blocked) == (5, 3)
    page = os.sysconf("SC_PAGESIZE")
    assert (host.swap_in_bytes, host.swap_out_bytes) == (3 * page, 5 * page)
    assert (host.swapped_bytes, host.free_bytes) == (24 * 1024, 700 * 1024)
    assert (host.buffers_bytes, host.cache_bytes) == (8 * 1024, 90 * 1024)


def test_paged_bytes_are_kept_in_kilobytes(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/vmstat").write_text("nr_free_pages 1\npgpgin 12\npgpgout 34\n")
    assert read_paged_bytes(Machine(root=tmp_path)) == (12_288, 34_816)


def test_a_folder_on_no_block_device_has_no_counts() -> None:
    reader = DeviceReader(None, {"array": Path("/proc")})
    assert not reader.emulated
    assert reader.read() == {}
