# SPDX-License-Identifier: PostgreSQL
"""What iostat and vmstat read, from the kernel's texts."""

from pathlib import Path

from pgflash_lab.counters import (
    DeviceCounts,
    DeviceReader,
    disk_second,
    parse_diskstats,
    parse_host,
    parse_paged_bytes,
)

#: Of the kernel's documentation: reads, merged, sectors, ms; writes likewise; now, ms, weighted.
DISKSTATS = """\
   8       0 sda 100 7 1600 450 20 3 480 90 0 300 540 0 0 0 0 4 9
   8       1 sda1 60 0 960 200 20 3 480 90 0 250 290
   7       0 loop0
"""

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


def test_a_disk_is_found_by_its_number() -> None:
    found = parse_diskstats(DISKSTATS)
    assert list(found) == ["8:0", "8:1"]
    assert found["8:0"] == DeviceCounts(
        reads=100,
        read_bytes=1600 * 512,
        read_time_ms=450,
        writes=20,
        write_bytes=480 * 512,
        write_time_ms=90,
        busy_ms=300,
    )


def test_a_second_is_what_was_done_between_two_readings() -> None:
    before = DeviceCounts(reads=100, read_bytes=1000, read_time_ms=450, busy_ms=300)
    after = DeviceCounts(
        reads=300, read_bytes=5000, read_time_ms=1450, writes=5, write_time_ms=10, busy_ms=1300
    )
    second = disk_second("array", before, after, at_s=7.0, elapsed_s=2.0)
    assert (second.reads, second.read_bytes, second.read_ms) == (200, 4000, 5.0)
    assert (second.writes, second.write_ms, second.utilisation) == (5, 2.0, 0.5)
    still = disk_second("array", after, after, at_s=8.0, elapsed_s=1.0)
    assert (still.reads, still.read_ms, still.write_ms, still.utilisation) == (0, 0.0, 0.0, 0.0)


def test_the_host_s_counts_are_those_of_all_processors() -> None:
    host = parse_host(STAT)
    assert (host.context_switches, host.interrupts) == (98765, 123456)
    assert (host.runnable, host.blocked) == (5, 3)


def test_paged_bytes_are_kept_in_kilobytes() -> None:
    assert parse_paged_bytes("nr_free_pages 1\npgpgin 12\npgpgout 34\n") == (12_288, 34_816)


def test_a_folder_on_no_block_device_has_no_counts() -> None:
    reader = DeviceReader(None, {"array": Path("/proc")})
    assert not reader.emulated
    assert reader.read() == {}
