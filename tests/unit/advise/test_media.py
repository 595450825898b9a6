# SPDX-License-Identifier: PostgreSQL
"""Devices of the model: from an emulated profile, from a probe, from their class."""

from dataclasses import replace

import pytest

from pgflash.advise.media import DISK, FLASH, drive_of_facts
from pgflash.model.device import DepthPoint, DeviceFacts, Media, Probe
from pgflash_lab.analyze.drives import EMULATED_WAKE_MS, drive_of_run
from pgflash_lab.emulator import DeviceProfile, list_profiles
from pgflash_lab.model.run import Device

PROBE = Probe(
    random_reads=(
        DepthPoint(depth=1, iops=2_500.0, mean_ms=0.4, p99_ms=0.6),
        DepthPoint(depth=32, iops=20_000.0, mean_ms=1.6, p99_ms=3.0),
    ),
    read_bytes_s=500e6,
    write_bytes_s=400e6,
    sync_ms=0.2,
    sync_p99_ms=0.5,
    by="fio 3.33",
    at="2026-11-22T10:00:00+00:00",
)


def emulated(name: str) -> Device:
    """Return a device of a run, with every number of a profile as text."""
    profile = DeviceProfile.named(name)
    facts = dict(line.split(" = ", 1) for line in profile.lines())
    role = "array" if profile.kind == "disk" else "flash"
    return Device(role=role, name=name, emulated=True, summary="", facts=facts)


def test_an_array_of_mirrored_pairs_is_as_its_profile_says() -> None:
    drive = drive_of_run(emulated("sas15k-raid10-8"))
    # A seek of 1-4 ms and half a revolution of 4 ms; 8 kB at 150 MB/s.
    assert drive.read_ms == pytest.approx(4.5)
    assert drive.service_ms(8192) == pytest.approx(4.5 + 8192 / (150 * 1024 * 1024) * 1000)
    assert (drive.servers, drive.copies, drive.groups) == (8, 2, 4)
    # Both copies, sorted: half of the positioning.
    assert drive.write_ms == pytest.approx(2 * 4.5 * 0.5)
    assert drive.write_share == pytest.approx(0.1)
    assert drive.cache_bytes == 2**30
    assert drive.log_ms == pytest.approx(4.5)
    assert not drive.flash


def test_raid_5_reads_and_writes_data_and_parity() -> None:
    assert drive_of_run(emulated("sas15k-raid5-8")).write_ms == pytest.approx(4 * 4.5 * 0.5)


def test_emulated_flash_is_late_by_the_waking_of_a_process() -> None:
    drive = drive_of_run(emulated("nvme"))
    assert drive.read_ms == pytest.approx(0.085 + EMULATED_WAKE_MS)
    assert drive.log_ms == pytest.approx(0.03 + EMULATED_WAKE_MS)
    assert drive.flash


def test_a_wide_request_is_spread_over_stripes_and_no_more_than_all_servers() -> None:
    drive = replace(drive_of_run(emulated("nvme")), pipe_bytes_s=None)
    one = drive.service_ms(16 * 1024) - drive.read_ms
    assert drive.service_ms(8 * 16 * 1024) - drive.read_ms == pytest.approx(one)
    # 48 channels: 96 stripes take twice as long as 48.
    assert drive.service_ms(96 * 16 * 1024) - drive.read_ms == pytest.approx(2 * one)


def test_a_wide_request_passes_the_pipe_at_its_rate() -> None:
    drive = drive_of_run(emulated("nvme"))
    # 48 channels of 1,200 MB/s, behind 3,200 MB/s.
    transfer_ms = drive.service_ms(48 * 16 * 1024) - drive.read_ms
    assert transfer_ms == pytest.approx(1000 * 48 * 16 * 1024 / 3200e6, rel=0.05)


def test_a_stream_needs_no_positioning() -> None:
    drive = drive_of_run(emulated("nvme"))
    alone_ms, streamed_ms = drive.service_ms(8192), drive.service_ms(8192, streamed=1.0)
    assert alone_ms - streamed_ms == pytest.approx(drive.read_ms)
    assert drive.service_ms(8192, streamed=0.5) == pytest.approx((alone_ms + streamed_ms) / 2)


def test_limits_are_taken_over() -> None:
    assert drive_of_run(emulated("san-40mb")).pipe_bytes_s == 40 * 1024 * 1024
    assert drive_of_run(emulated("cloud-volume-3000iops")).iops_max == 3000
    assert drive_of_run(emulated("sas15k-raid10-8")).pipe_bytes_s is None


@pytest.mark.parametrize("name", [profile.name for profile in list_profiles()])
def test_every_profile_makes_a_device(name: str) -> None:
    drive = drive_of_run(emulated(name))
    assert drive.known
    assert drive.service_ms(8192) > 0
    assert drive.groups >= 1


def test_a_probe_says_latency_alone_and_how_many_reads_go_at_once() -> None:
    facts = DeviceFacts(name="sda", mount_point="/mnt", media=Media.FLASH, probe=PROBE)
    drive = drive_of_facts(facts)
    # 20,000 reads a second of 0.4 ms each are 8 at a time.
    assert drive.servers == 8
    assert drive.service_ms(8192) == pytest.approx(0.4)
    assert drive.log_ms == 0.2
    assert drive.pipe_bytes_s == 500e6
    assert drive.known
    assert "fio 3.33" in drive.source


def test_of_a_device_that_nobody_probed_the_class_is_taken() -> None:
    disk = drive_of_facts(DeviceFacts(name="sdb", mount_point="/a", media=Media.HDD))
    assert (disk.name, disk.read_ms, disk.known) == ("sdb", DISK.read_ms, False)
    flash = drive_of_facts(DeviceFacts(name="sdc", mount_point="/b", media=Media.FLASH))
    assert (flash.name, flash.read_ms) == ("sdc", FLASH.read_ms)
    real = drive_of_run(Device(role="flash", name="/mnt/f", emulated=False, summary=""))
    assert (real.name, real.flash) == ("/mnt/f", True)
