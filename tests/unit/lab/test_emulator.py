# SPDX-License-Identifier: PostgreSQL
"""Device profiles: what is read from a file, and the messages when one is refused."""

from pathlib import Path

import pytest

from pgflash_lab.emulator import (
    DeviceProfile,
    EmulatedDevice,
    Emulator,
    EmulatorError,
    ProfileError,
    emulator_folder,
    list_profiles,
)

DISK: dict[str, object] = {
    "kind": "disk",
    "description": "a disk",
    "layout": "raid10",
    "spindles": 6,
    "stripe_kb": 64,
    "seek_ms": [1.0, 4.0],
    "rotation_ms": 4.0,
    "bandwidth_mb_s": 150.0,
    "log_sync_ms": [2, 7],
}
FLASH: dict[str, object] = {
    "kind": "flash",
    "description": "a drive",
    "channels": 8,
    "stripe_kb": 16,
    "read_us": [60.0, 120.0],
    "write_us": [40.0, 80.0],
    "bandwidth_mb_s": 400.0,
    "log_sync_ms": [0.06, 0.12],
}
CACHE: dict[str, object] = {
    "size_mb": 256,
    "latency_us": 50.0,
    "destage_factor": 0.5,
    "destage_share": 0.1,
    "fsync_destages": 0.0,
}

needs_build = pytest.mark.skipif(
    not (emulator_folder() / "build" / "pgflash-emulator").exists(),
    reason="the emulator is not built",
)


def profile(content: dict[str, object], **changes: object) -> DeviceProfile:
    return DeviceProfile.from_mapping("test", {**content, **changes})


def test_a_disk_positions_by_seek_and_half_a_rotation() -> None:
    assert profile(DISK).service_ms == 4.5


def test_a_flash_drive_positions_by_its_latency() -> None:
    assert profile(FLASH).service_ms == pytest.approx(0.09)


def test_people_s_units_become_nanoseconds_and_bytes() -> None:
    lines = profile(DISK, write_cache=CACHE, limit={"mb_s": 40, "iops": 3000}).lines()
    assert "read_position_min_ns = 1000000" in lines
    assert "rotation_max_ns = 4000000" in lines
    assert "stripe_bytes = 65536" in lines
    assert "cache_bytes = 268435456" in lines
    assert "destage_factor_ppm = 500000" in lines
    assert "limit_bytes_s = 41943040" in lines
    assert "limit_iops = 3000" in lines


def test_without_a_cache_and_limits_they_are_zero() -> None:
    lines = profile(FLASH).lines()
    assert "cache_bytes = 0" in lines
    assert "limit_iops = 0" in lines


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "tape"}, "kind must be one of disk, flash"),
        ({"layout": "raid6"}, "layout must be one of stripe, raid10, raid5"),
        ({"spindles": 0}, "spindles must be an integer from 1 to 64"),
        ({"spindles": True}, "spindles must be an integer from 1 to 64"),
        ({"spindles": 5}, "spindles must be even with layout raid10"),
        ({"layout": "raid5", "spindles": 2}, "spindles must be at least 3 with layout raid5"),
        ({"seek_ms": 3.0}, "seek_ms must be a pair"),
        ({"seek_ms": [4.0, 1.0]}, "seek_ms must not be turned round"),
        ({"seek_ms": [1.0, "four"]}, "seek_ms must be a number"),
        ({"bandwidth_mb_s": 0}, "bandwidth_mb_s must be a number from 0.1"),
        ({"rotation_ms": float("nan")}, "rotation_ms must be a number"),
        ({"description": ""}, "description must be a text"),
        ({"colour": "red"}, "colour is not a field"),
        ({"write_cache": 5}, "write_cache must be a table"),
        ({"write_cache": {**CACHE, "destage_share": 1.0}}, "write_cache.destage_share must be"),
        ({"write_cache": {"size_mb": 1}}, "write_cache.latency_us is missing"),
        ({"limit": {"iop": 5}}, "limit.iop is not a field"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        profile(DISK, **changes)
    assert 'device profile "test"' in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("key", sorted(DISK))
def test_a_missing_field_is_named(key: str) -> None:
    content = {name: value for name, value in DISK.items() if name != key}
    with pytest.raises(ProfileError, match=f"{key} is missing"):
        DeviceProfile.from_mapping("test", content)


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(ProfileError, match="sas15k-raid10-6"):
        DeviceProfile.named("no-such-device")


def test_a_file_that_is_not_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("kind = \n", encoding="utf-8")
    with pytest.raises(ProfileError, match="could not read device profile"):
        DeviceProfile.load(path)


def test_every_profile_that_comes_with_the_emulator_can_be_read() -> None:
    names = {one.name for one in list_profiles()}
    assert {
        "cloud-volume-3000iops",
        "nvme",
        "san-40mb",
        "sas15k-array-24-full",
        "sas15k-array-24-short",
        "sas15k-raid10-6",
        "sas15k-raid5-8",
        "sata-ssd",
    } <= names


def test_every_profile_says_where_its_figures_come_from() -> None:
    for path in (emulator_folder() / "profiles").glob("*.toml"):
        comment = [
            line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")
        ]
        assert len(comment) >= 4, path


@needs_build
def test_the_control_tool_accepts_every_profile(tmp_path: Path) -> None:
    for number, one in enumerate(list_profiles()):
        folder = tmp_path / f"device{number}"
        folder.mkdir()
        state_path = tmp_path / f"state{number}"
        device = EmulatedDevice(name="device", profile=one, paths=(folder,))
        with Emulator.create(state_path, devices=[device]) as emulator:
            stats = emulator.stats().device("device")
            assert (stats.profile, stats.servers) == (one.name, one.servers)
            assert stats.reads.count == 0
        assert not state_path.exists()


@needs_build
def test_delays_are_switched_and_reported(tmp_path: Path) -> None:
    device = EmulatedDevice(name="disk", profile=profile(DISK), paths=(tmp_path,))
    with Emulator.create(tmp_path / "state", devices=[device], delays_on=False) as emulator:
        assert not emulator.stats().delays_on
        emulator.on()
        assert emulator.stats().delays_on
        emulator.off()
        assert not emulator.stats().delays_on


@needs_build
def test_a_device_is_stalled_and_slowed_and_both_are_reported(tmp_path: Path) -> None:
    device = EmulatedDevice(name="disk", profile=profile(DISK), paths=(tmp_path,))
    with Emulator.create(tmp_path / "state", devices=[device]) as emulator:
        sound = emulator.stats().device("disk")
        assert (sound.stalled_s, sound.slowness) == (0, 1)
        emulator.stall("disk", seconds=100)
        emulator.slow("disk", factor=2.5)
        ill = emulator.stats().device("disk")
        assert 50 < ill.stalled_s <= 100
        assert ill.slowness == 2.5
        emulator.stall("disk", seconds=0)
        emulator.slow("disk", factor=1)
        assert emulator.stats().device("disk") == sound
        with pytest.raises(EmulatorError, match='no device "tape"'):
            emulator.stall("tape", seconds=1)


@needs_build
def test_what_the_control_tool_refuses_is_an_error_with_its_words(tmp_path: Path) -> None:
    device = EmulatedDevice(name="disk", profile=profile(DISK), paths=(tmp_path / "absent",))
    with pytest.raises(EmulatorError, match="does not exist"):
        Emulator.create(tmp_path / "state", devices=[device])
    assert list(tmp_path.iterdir()) == []


@needs_build
def test_an_absent_device_of_the_statistics_is_an_error(tmp_path: Path) -> None:
    device = EmulatedDevice(name="disk", profile=profile(DISK), paths=(tmp_path,))
    with (
        Emulator.create(tmp_path / "state", devices=[device]) as emulator,
        pytest.raises(EmulatorError, match='no emulated device "tape"'),
    ):
        emulator.stats().device("tape")


def test_an_emulator_that_is_not_built_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGFLASH_EMULATOR_FOLDER", str(tmp_path))
    device = EmulatedDevice(name="disk", profile=profile(DISK), paths=(tmp_path,))
    with pytest.raises(EmulatorError, match="make -C emulator"):
        Emulator.create(tmp_path / "state", devices=[device])


def test_the_emulator_of_a_package_is_found_where_there_is_no_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "usr/lib/pgflash-lab/emulator"
    monkeypatch.delenv("PGFLASH_EMULATOR_FOLDER", raising=False)
    monkeypatch.setattr("sys.prefix", str(tmp_path / "usr"))
    assert emulator_folder() != packaged  # there is none yet
    packaged.mkdir(parents=True)
    assert emulator_folder() != packaged  # the clone's comes first
    monkeypatch.setattr(
        "pgflash_lab.emulator.__file__", str(tmp_path / "usr/lib/python3/site/pgflash_lab/x.py")
    )
    assert emulator_folder() == packaged
