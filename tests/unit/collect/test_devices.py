# SPDX-License-Identifier: PostgreSQL
"""From a path to the disks below it, on machines that are trees of files."""

import shutil
from pathlib import Path

import pytest

from pgflash.collect.devices import devices_of
from pgflash.collect.places import Place
from pgflash.model.device import DeviceFacts, Media
from support.machines import FakeMachine

NVME = "pci0000:00/0000:00:02.0/nvme/nvme0"
MIB = 2**20


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def devices(fake: FakeMachine, *paths: str, every: bool = False) -> tuple[DeviceFacts, ...]:
    """Return the devices of parts that are named after their paths."""
    places = [Place(part=path, path=path) for path in paths]
    return devices_of(places, machine=fake.machine, space=lambda _path: (1000, 400), every=every)


def device(fake: FakeMachine, path: str) -> DeviceFacts:
    (one,) = devices(fake, path)
    return one


def test_a_partition_of_a_drive_has_its_disk_its_queue_and_its_alignment(
    fake: FakeMachine,
) -> None:
    disk = fake.disk(
        "sda", "8:0", rotational=1, scheduler="none [mq-deadline] bfq", requests=256,
        read_ahead_kb=4096, model="ST4000NM", vendor="ATA", depth=32,
    )  # fmt: skip
    fake.partition(disk, "sda1", "8:1", start=2048)
    fake.mount("8:1", "/", "ext4", "/dev/sda1", options="rw,noatime", super_options="rw,barrier=0")
    found = device(fake, "/srv/data")
    assert (found.name, found.block_device, found.mount_point) == ("sda1", "/dev/sda1", "/")
    assert (found.media, found.file_system) == (Media.HDD, "ext4")
    assert (found.scheduler, found.queue_depth) == ("mq-deadline", 256)
    assert (found.read_ahead_bytes, found.alignment_bytes) == (4096 * 1024, MIB)
    assert found.mount_options == ("rw", "noatime", "barrier=0")
    assert (found.size_bytes, found.free_bytes) == (1000, 400)
    (one,) = found.disks
    assert (one.model, one.queue_depth, one.virtual) == ("ATA ST4000NM", 32, False)
    assert one.schedulers == ("none", "mq-deadline", "bfq")
    assert found.unknown == {}


@pytest.mark.parametrize(
    ("vendor", "model", "ephemeral"),
    [
        ("", "Amazon EC2 NVMe Instance Storage", True),
        ("", "Amazon Elastic Block Store", False),
        ("", "nvme_card", True),
        ("", "nvme_card-pd", False),
        ("Google", "EphemeralDisk", True),
        ("Google", "PersistentDisk", False),
        ("", "Microsoft NVMe Direct Disk v2", True),
        ("", "MSFT NVMe Accelerator v1.0", False),
        ("", "Samsung SSD 990 PRO 2TB", False),
    ],
)
def test_a_cloud_s_local_drive_is_known_by_its_model(
    fake: FakeMachine, vendor: str, model: str, ephemeral: bool
) -> None:
    disk = fake.disk("nvme0n1", "259:0", bus=NVME, vendor=vendor, model=model)
    fake.partition(disk, "nvme0n1p1", "259:1", start=2048)
    fake.mount("259:1", "/nvme", "ext4", "/dev/nvme0n1p1")
    assert bool(device(fake, "/nvme/wal").ephemeral) is ephemeral


def test_any_drive_can_be_named_that_is_empty_after_a_stop(fake: FakeMachine) -> None:
    for number, name in enumerate(("vda", "vdb")):
        fake.disk(name, f"252:{number}", bus=f"pci0000:00/0000:00:0{number}.0/virtio1/block")
        fake.mount(f"252:{number}", f"/{name}", "ext4", f"/dev/{name}")
    fake.write("etc/pgflash/ephemeral/one.conf", "DEVICE=/dev/vdb\nMOUNT=/vdb\nCACHE=cache")
    fake.write("etc/pgflash/ephemeral/one.conf.old", "MOUNT=/vda")
    lasting, ephemeral = devices(fake, "/vda/data", "/vdb/wal")
    assert lasting.ephemeral == ""
    assert ephemeral.ephemeral == "/etc/pgflash/ephemeral/one.conf names it"


@pytest.mark.parametrize(
    ("start", "offset", "aligned"),
    [(63, None, 512), (2048, None, MIB), (1032, None, 4096), (2048, 3584, 512), (4096, 0, MIB)],
)
def test_alignment_is_that_of_the_partitions_beginning(
    fake: FakeMachine, start: int, offset: int | None, aligned: int
) -> None:
    fake.partition(fake.disk("sda", "8:0"), "sda1", "8:1", start=start, offset=offset)
    fake.mount("8:1", "/", "xfs", "/dev/sda1")
    assert device(fake, "/").alignment_bytes == aligned


def test_a_volume_over_an_array_is_followed_to_all_its_disks(fake: FakeMachine) -> None:
    for number, (name, start) in enumerate((("sda", 2048), ("sdb", 63))):
        disk = fake.disk(name, f"8:{16 * number}", rotational=1, requests=256 - 128 * number)
        fake.partition(disk, f"{name}1", f"8:{16 * number + 1}", start=start)
    fake.virtual("md0", "9:0", slaves=("sda1", "sdb1"))
    fake.virtual("dm-3", "253:3", slaves=("md0",))
    fake.mount("253:3", "/pg", "xfs", "/dev/mapper/vg-pg")
    found = device(fake, "/pg/data")
    assert [one.name for one in found.disks] == ["sda", "sdb"]
    assert (found.name, found.media) == ("vg-pg", Media.HDD)
    # The worst of them counts: one partition off its place, one short queue.
    assert (found.alignment_bytes, found.queue_depth) == (512, 128)


def test_a_device_of_flash_and_disks_is_neither(fake: FakeMachine) -> None:
    fake.disk("sda", "8:0", rotational=1)
    fake.disk("nvme0n1", "259:0", bus=NVME)
    fake.virtual("bcache0", "252:0", slaves=("sda", "nvme0n1"))
    fake.mount("252:0", "/pg", "ext4", "/dev/bcache0")
    found = device(fake, "/pg")
    assert found.media is Media.UNKNOWN
    assert found.unknown["media"] == "it is made of flash and hdd"


def test_nvme_with_multipath_is_flash_and_over_a_network_it_is_not(fake: FakeMachine) -> None:
    head = fake.disk("nvme0n1", "259:0", bus="virtual/nvme-subsystem/nvme-subsys0")
    fake.mount("259:0", "/a", "xfs", "/dev/nvme0n1")
    fake.write(f"{head.relative_to(fake.root)}/device/nvme0/transport", "pcie")
    assert device(fake, "/a").media is Media.FLASH
    fake.write(f"{head.relative_to(fake.root)}/device/nvme1/transport", "tcp")
    assert device(fake, "/a").media is Media.NETWORK


@pytest.mark.parametrize(
    ("name", "bus", "model", "media", "virtual"),
    [
        ("vda", "pci0000:00/0000:00:02.0/virtio1/block", "", Media.UNKNOWN, True),
        ("xvda", "vbd-51712/block", "", Media.UNKNOWN, True),
        ("sda", "pci/host0/block", "QEMU HARDDISK", Media.UNKNOWN, True),
        ("nvme0n1", NVME, "Amazon Elastic Block Store", Media.UNKNOWN, True),
        ("nvme0n1", NVME, "Amazon EC2 NVMe Instance Storage", Media.FLASH, False),
        ("sdb", "platform/host3/session1/target3:0:0/3:0:0:1/block", "", Media.NETWORK, False),
        ("sdc", "pci/host0/rport-0:0-1/target0:0:1/0:0:1:0/block", "", Media.NETWORK, False),
        ("nbd0", "virtual/block", "", Media.NETWORK, False),
        ("zram0", "virtual/block", "", Media.MEMORY, False),
        ("pmem0", "platform/ndbus0/region0/namespace0.0/block", "", Media.FLASH, False),
        ("mmcblk0", "platform/mmc0/block", "", Media.FLASH, False),
    ],
)
def test_what_a_disk_is_made_of_is_said_only_where_the_kernel_can_know(
    fake: FakeMachine, name: str, bus: str, model: str, media: Media, virtual: bool
) -> None:
    fake.disk(name, "8:0", bus=bus, model=model, rotational=0)
    fake.mount("8:0", "/", "ext4", f"/dev/{name}")
    found = device(fake, "/")
    assert (found.media, found.disks[0].virtual) == (media, virtual)
    assert ("media" in found.unknown) == (media is Media.UNKNOWN)


def test_a_kernel_that_does_not_tell_leaves_the_field_empty_with_a_reason(
    fake: FakeMachine,
) -> None:
    fake.disk("sda", "8:0", rotational=None, requests=None, scheduler="")
    fake.mount("8:0", "/", "ext4", "/dev/sda")
    found = device(fake, "/")
    assert (found.media, found.queue_depth, found.scheduler) == (Media.UNKNOWN, None, "")
    assert found.unknown["media"] == "the kernel does not show what sda consists of"
    assert {"queue_depth", "scheduler"} <= set(found.unknown)


def test_a_loop_device_is_followed_into_its_file(fake: FakeMachine) -> None:
    fake.disk("sda", "8:0", rotational=1)
    fake.mount("8:0", "/", "ext4", "/dev/sda")
    folder = fake.virtual("loop0", "7:0")
    fake.write(f"{folder.relative_to(fake.root)}/loop/backing_file", "/srv/disk.img")
    fake.mount("7:0", "/pg", "ext4", "/dev/loop0")
    found = device(fake, "/pg")
    assert ([one.name for one in found.disks], found.media) == (["sda"], Media.HDD)


def test_loop_devices_in_a_ring_end(fake: FakeMachine) -> None:
    folder = fake.virtual("loop0", "7:0")
    fake.write(f"{folder.relative_to(fake.root)}/loop/backing_file", "/pg/disk.img")
    fake.mount("7:0", "/pg", "ext4", "/dev/loop0")
    found = device(fake, "/pg")
    assert found.media is Media.UNKNOWN
    assert "too many layers" in found.unknown["media"]


def test_btrfs_is_found_by_its_source_and_its_other_devices_by_sys(fake: FakeMachine) -> None:
    for name, number in (("dm-1", "253:1"), ("sdb", "8:16")):
        fake.disk(name, number, rotational=1)
        (fake.root / "sys/fs/btrfs/1234/devices" / name).mkdir(parents=True)
    (fake.root / "dev/mapper/vg-pg").symlink_to("../dm-1")
    fake.mount("0:45", "/", "btrfs", "/dev/mapper/vg-pg", super_options="rw,subvol=/root")
    fake.mount("0:45", "/pg", "btrfs", "/dev/mapper/vg-pg", super_options="rw,subvol=/pg")
    fake.write("sys/class/bdi/btrfs-1/read_ahead_kb", "4096")
    fake.write("sys/class/block/dm-1/queue/read_ahead_kb", "128")
    # Two subvolumes are one file system, whose space is there once.
    (found,) = devices(fake, "/pg/data", "/var/log")
    assert found.parts == ("/pg/data", "/var/log")
    assert sorted(one.name for one in found.disks) == ["dm-1", "sdb"]
    assert found.name == "vg-pg"
    # It does not read ahead as its disks do.
    assert found.read_ahead_bytes is None
    assert "read_ahead_bytes" in found.unknown


@pytest.mark.parametrize(
    ("file_system", "source", "media", "reason"),
    [
        ("overlay", "overlay", Media.UNKNOWN, "put data on a volume"),
        ("zfs", "tank/pg", Media.UNKNOWN, "zpool status"),
        ("virtiofs", "share", Media.UNKNOWN, "folder of the host"),
        ("fuse.odd", "odd", Media.UNKNOWN, "no block device"),
        ("btrfs", "/dev/gone", Media.UNKNOWN, "no block device"),
        ("tmpfs", "tmpfs", Media.MEMORY, ""),
        ("nfs4", "filer:/pg", Media.NETWORK, ""),
    ],
)
def test_where_nothing_can_be_seen_below_the_reason_is_said(
    fake: FakeMachine, file_system: str, source: str, media: Media, reason: str
) -> None:
    fake.mount("0:50", "/", file_system, source)
    found = device(fake, "/pg")
    assert (found.media, found.disks, found.block_device) == (media, (), "")
    assert found.name == source
    assert reason in found.unknown.get("media", "")
    assert set(found.unknown) >= {"scheduler", "queue_depth", "alignment_bytes"}


def test_a_container_that_does_not_see_sys_says_which_device_it_misses(fake: FakeMachine) -> None:
    fake.mount("259:4", "/pg", "ext4", "/dev/nvme0n1p4")
    found = device(fake, "/pg")
    assert found.media is Media.UNKNOWN
    assert found.unknown["media"] == "/sys does not show the block device 259:4"


def test_the_deepest_mount_and_the_last_one_of_a_place_count(fake: FakeMachine) -> None:
    for name, number, point in (
        ("sda", "8:0", "/"), ("sdb", "8:16", "/pg"), ("sdc", "8:32", "/pg"), ("sdd", "8:48", "/p"),
    ):  # fmt: skip
        fake.disk(name, number)
        fake.mount(number, point, "ext4", f"/dev/{name}")
    assert device(fake, "/pg/data").name == "sdc"
    assert device(fake, "/pgx").name == "sda"


def test_a_mount_point_with_a_blank_in_its_name_is_found(fake: FakeMachine) -> None:
    fake.disk("sda", "8:0")
    fake.mount("8:0", r"/my\040disk", "ext4", "/dev/sda")
    assert device(fake, "/my disk/data").mount_point == "/my disk"


def test_the_root_file_system_is_named_by_its_disk(fake: FakeMachine) -> None:
    fake.disk("sda", "8:0")
    fake.mount("8:0", "/", "ext4", "/dev/root")
    assert device(fake, "/").block_device == "/dev/sda"


def test_every_other_place_for_files_is_listed_on_request(fake: FakeMachine) -> None:
    for name, number, point, kind in (
        ("sda", "8:0", "/", "ext4"), ("nvme0n1", "259:0", "/flash", "xfs"),
        ("loop3", "7:3", "/snap/x", "squashfs"),
    ):  # fmt: skip
        fake.disk(name, number)
        fake.mount(number, point, kind, f"/dev/{name}")
    fake.mount("0:21", "/proc", "proc", "proc")
    fake.mount("0:44", "/net", "nfs", "filer:/x")
    found = devices(fake, "/pg", every=True)
    assert [(one.mount_point, one.parts) for one in found] == [
        ("/", ("/pg",)),
        ("/flash", ()),
        ("/net", ()),
    ]


def test_a_place_that_is_not_known_is_listed_with_its_reason(fake: FakeMachine) -> None:
    fake.disk("sda", "8:0")
    fake.mount("8:0", "/srv", "ext4", "/dev/sda")
    places = [
        Place(part="archive", why='archive_command calls "pgbackrest"'),
        Place(part="wal", path="/elsewhere"),
    ]
    found = devices_of(places, machine=fake.machine)
    assert [(one.name, one.parts) for one in found] == [
        ("unknown", ("archive",)),
        ("unknown", ("wal",)),
    ]
    assert found[0].unknown["mount_point"] == 'archive_command calls "pgbackrest"'
    assert found[1].unknown["mount_point"] == 'no mount point holds "/elsewhere"'


def test_a_machine_without_proc_says_so(tmp_path: Path) -> None:
    fake = FakeMachine(tmp_path)
    found = device(fake, "/pg")
    assert found.unknown["mount_point"] == "/proc/self/mountinfo cannot be read"


def test_space_that_may_not_be_asked_for_is_unknown(fake: FakeMachine) -> None:
    def refuse(_path: str) -> tuple[int, int]:
        raise PermissionError(13, "Permission denied")

    fake.disk("sda", "8:0")
    fake.mount("8:0", "/", "ext4", "/dev/sda")
    (found,) = devices_of([Place(part="data", path="/pg")], machine=fake.machine, space=refuse)
    assert found.size_bytes is None
    assert found.unknown["free_bytes"] == "Permission denied"


def test_this_machine_answers_for_its_own_folders(tmp_path: Path) -> None:
    shared = "/dev/shm"
    found = devices_of([Place(part="a", path=str(tmp_path)), Place(part="b", path=shared)])
    by_part = {part: one for one in found for part in one.parts}
    assert by_part["a"].free_bytes is not None
    assert by_part["a"].size_bytes == shutil.disk_usage(tmp_path).total
    assert by_part["b"].media is Media.MEMORY


# ---- what a drive reports about itself


def below(folder: Path, fake: FakeMachine) -> str:
    return str(folder.relative_to(fake.root))


def test_a_drives_own_name_sectors_and_cache_are_read(fake: FakeMachine) -> None:
    disk = fake.disk("sda", "8:0")
    inside = below(disk, fake)
    fake.write(f"{inside}/device/wwid", "naa.5000c500a1b2c3d4")
    fake.write(f"{inside}/device/scsi_disk/0:0:0:0/cache_type", "write back")
    fake.write(f"{inside}/queue/write_cache", "write through")
    fake.write(f"{inside}/queue/logical_block_size", "512")
    fake.write(f"{inside}/queue/physical_block_size", "4096")
    fake.mount("8:0", "/", "ext4", "/dev/sda")
    (one,) = device(fake, "/").disks
    assert one.wwid == "naa.5000c500a1b2c3d4"
    assert (one.logical_bytes, one.physical_bytes) == (512, 4096)
    assert (one.write_cache, one.own_write_cache) == ("write through", "write back")
    assert (one.link, one.wear) == (None, None)


def test_what_is_mounted_has_the_kernels_name_and_that_of_its_mapping(fake: FakeMachine) -> None:
    fake.partition(fake.disk("sda", "8:0"), "sda1", "8:1", start=2048)
    fake.write(f"{below(fake.virtual('dm-3', '253:3', slaves=('sda1',)), fake)}/dm/name", "vg-pg")
    fake.mount("8:1", "/", "ext4", "/dev/sda1")
    fake.mount("253:3", "/pg", "xfs", "/dev/mapper/vg-pg")
    root, data = devices(fake, "/", "/pg")
    assert (root.kernel_name, root.mapping) == ("sda1", "")
    assert (data.kernel_name, data.mapping) == ("dm-3", "vg-pg")


def test_an_nvme_drives_link_is_that_of_its_card_and_not_of_the_bridge_above(
    fake: FakeMachine,
) -> None:
    def connect(place: str, lanes: object, speed: str) -> None:
        for name, most, fastest in (("current", lanes, speed), ("max", 4, "16.0 GT/s PCIe")):
            fake.write(f"sys/devices/{place}/{name}_link_width", str(most))
            fake.write(f"sys/devices/{place}/{name}_link_speed", fastest)

    bridge = "pci0000:00/0000:00:01.0"
    connect(bridge, 4, "16.0 GT/s PCIe")
    connect(f"{bridge}/0000:01:00.0", 2, "8.0 GT/s PCIe")
    connect(f"{bridge}/0000:02:00.0", 0, "Unknown")
    fake.disk("nvme0n1", "259:0", bus=f"{bridge}/0000:01:00.0/nvme/nvme0")
    fake.disk("nvme1n1", "259:1", bus=f"{bridge}/0000:02:00.0/nvme/nvme1")
    # With multipath the disk is below its subsystem, which names the ways to it.
    shared = fake.disk("nvme2n1", "259:2", bus="virtual/nvme-subsystem/nvme-subsys2")
    (shared / "device").mkdir()
    (shared / "device/nvme0").symlink_to(
        fake.root / f"sys/devices/{bridge}/0000:01:00.0/nvme/nvme0"
    )
    for number, name in enumerate(("nvme0n1", "nvme1n1", "nvme2n1")):
        fake.mount(f"259:{number}", f"/{name}", "xfs", f"/dev/{name}")
    plain, unknown, several = devices(fake, "/nvme0n1", "/nvme1n1", "/nvme2n1")
    link = plain.disks[0].link
    assert link is not None
    assert (link.address, link.lanes, link.lanes_max) == ("0000:01:00.0", 2, 4)
    assert (link.speed, link.speed_max) == (8.0, 16.0)
    assert unknown.disks[0].link is None
    assert several.disks[0].link == link


@pytest.mark.parametrize(
    ("told", "wear"),
    # JEDEC's estimates of two kinds of blocks: tenths of the life; 0x0b is beyond its end.
    [("0x01 0x03", 0.3), ("0x0b 0x01", 1.0), ("0x00 0x00", None), ("", None)],
)
def test_an_emmc_drive_tells_how_much_of_its_life_is_used_up(
    fake: FakeMachine, told: str, wear: float | None
) -> None:
    disk = fake.disk("mmcblk0", "179:0", bus="platform/mmc0/mmc0:0001/block")
    fake.write(f"{below(disk, fake)}/device/life_time", told)
    fake.mount("179:0", "/", "ext4", "/dev/mmcblk0")
    assert device(fake, "/").disks[0].wear == wear
