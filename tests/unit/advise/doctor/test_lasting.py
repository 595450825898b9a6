# SPDX-License-Identifier: PostgreSQL
"""The doctor's commands, run by a real shell on a tree of files: they take effect, and last."""

import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pgflash.advise.doctor.lasting import (
    set_disk,
    set_file,
    set_limit,
    set_option,
    set_read_ahead,
    set_sysctl,
)
from pgflash.model.device import DeviceFacts, DiskFacts, Media
from pgflash.model.doctor import HostSettings

DISK = DiskFacts(name="sdb", media=Media.FLASH)
HOST = HostSettings(cores=1, postmaster_user="postgres", fstab=frozenset({"/pg", "/my data"}))


def run(root: Path, *commands: str) -> None:
    """Run commands on a tree of files instead of this machine's."""
    for command in commands:
        inside = re.sub(r"(?<![\w.])/(etc|sys)/", rf"{root}/\1/", command)
        subprocess.run(["bash", "-eu", "-c", inside], check=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("etc/sysctl.d", "etc/tmpfiles.d", "etc/udev/rules.d", "etc/security/limits.d",
                   "sys/block/sdb/queue", "sys/block/dm-3/queue",
                   "sys/kernel/mm/transparent_hugepage"):  # fmt: skip
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def test_a_kernel_setting_is_read_last_by_sysctl(root: Path) -> None:
    (root / "etc/sysctl.d/99-sysctl.conf").write_text("net.ipv4.tcp_wmem = 1 2 3\n")
    run(root, set_sysctl("net.ipv4.tcp_wmem", "4096 16384 4194304")[1])
    last = sorted((root / "etc/sysctl.d").iterdir())[-1]
    assert last.read_text() == "net.ipv4.tcp_wmem = 4096 16384 4194304\n"


def test_a_file_of_sys_is_written_by_tmpfiles_at_every_start(root: Path) -> None:
    enabled = "/sys/kernel/mm/transparent_hugepage/enabled"
    run(root, *set_file(enabled, "madvise"))
    assert (root / enabled.lstrip("/")).read_text() == "madvise\n"
    (kept,) = (root / "etc/tmpfiles.d").iterdir()
    # Lines of tmpfiles.d(5): type, path, mode, user, group, age, argument.
    words = kept.read_text().replace(str(root), "").split()
    assert words == ["w", enabled, "-", "-", "-", "-", "madvise"]
    if shutil.which("systemd-tmpfiles"):
        (root / enabled.lstrip("/")).write_text("always\n")
        subprocess.run(["systemd-tmpfiles", "--create", kept], check=True)
        assert (root / enabled.lstrip("/")).read_text().strip() == "madvise"


def rules(root: Path) -> list[tuple[str, str]]:
    """Return udev's rules in the order in which they are read."""
    return [(one.name, one.read_text()) for one in sorted((root / "etc/udev/rules.d").iterdir())]


def test_a_scheduler_is_set_before_the_length_of_its_queue(root: Path) -> None:
    run(root, *set_disk(DISK, "queue/nr_requests", "512"))
    run(root, *set_disk(DISK, "queue/scheduler", "mq-deadline"))
    assert (root / "sys/block/sdb/queue/nr_requests").read_text() == "512\n"
    first, second = rules(root)
    assert 'ATTR{queue/scheduler}="mq-deadline"' in first[1]
    assert 'KERNEL=="sdb", ATTR{queue/nr_requests}="512"' in second[1]
    assert first[0] > "99-distribution.rules"


def test_a_disk_is_known_by_its_own_name_whatever_that_is(root: Path) -> None:
    odd = replace(DISK, wwid='t10.ATA  O\'Neill "$(reboot)"; [x]*')
    run(root, *set_disk(odd, "queue/write_cache", "write back"))
    assert (root / "sys/block/sdb/queue/write_cache").read_text() == "write back\n"
    ((_name, rule),) = rules(root)
    assert rule == (
        'ACTION=="add|change", ENV{DEVTYPE}=="disk", '
        'ATTRS{wwid}=="t10.ATA  O?Neill ???reboot???  ?x??", ATTR{queue/write_cache}="write back"\n'
    ).replace("???  ", "??? ")


def test_read_ahead_is_that_of_the_mapping_or_of_the_disk_of_a_partition(root: Path) -> None:
    def device(kernel_name: str, mapping: str = "") -> DeviceFacts:
        return DeviceFacts(
            name="x", mount_point="/my pg", kernel_name=kernel_name, mapping=mapping, disks=(DISK,)
        )

    run(root, *set_read_ahead(device("dm-3", "vg-data"), 4096))
    run(root, *set_read_ahead(device("sdb2"), 1024))
    assert (root / "sys/block/dm-3/queue/read_ahead_kb").read_text() == "4096\n"
    assert (root / "sys/block/sdb/queue/read_ahead_kb").read_text() == "1024\n"
    by_mapping, by_disk = (rule for _name, rule in rules(root))
    assert 'ENV{DM_NAME}=="vg-data"' in by_mapping
    assert 'KERNEL=="sdb"' in by_disk
    network = set_read_ahead(device(""), 1024)[0]
    assert "$(mountpoint -d '/my pg')" in network


FSTAB = """\
# /pg is where the data is; this line stays
UUID=1-2 /          ext4 defaults 0 1
UUID=3-4  /pg  \t xfs   rw,relatime   0 2
/dev/sdc1 /my\\040data ext4 nobarrier
/dev/sdd1 /pg/18 ext4 defaults
"""


def options(fstab: Path, mount_point: str) -> str:
    """Return the options of a mount as mount(8) reads them."""
    words = ["findmnt", "--tab-file", str(fstab), "-no", "OPTIONS", "--target", mount_point]
    told = subprocess.run(words, check=True, capture_output=True, text=True)
    return told.stdout.strip()


def test_one_more_option_is_all_that_changes_in_fstab(root: Path) -> None:
    fstab = root / "etc/fstab"
    fstab.write_text(FSTAB)
    for point, option in (("/pg", "noatime"), ("/pg", "nodiscard"), ("/my data", "barrier=1")):
        now, then = set_option(HOST, point, option)
        assert shlex.split(now) == ["mount", "-o", f"remount,{option}", point]
        run(root, then)
    expected = FSTAB.replace("rw,relatime", "rw,relatime,noatime,nodiscard")
    assert fstab.read_text() == expected.replace("nobarrier", "nobarrier,barrier=1")
    if shutil.which("findmnt"):
        assert options(fstab, "/pg") == "rw,relatime,noatime,nodiscard"
        assert options(fstab, "/my data") == "nobarrier,barrier=1"


def test_a_mount_that_fstab_does_not_name_is_left_to_its_owner() -> None:
    _now, then = set_option(HOST, "/elsewhere", "noatime")
    assert then.startswith("# ")
    assert "fstab" not in then


def test_a_limit_is_set_where_the_server_gets_its_limits_from(root: Path) -> None:
    unit = replace(HOST, unit="postgresql@18-main.service")
    made = [one for one in set_limit(unit, "nofile", 65536) if one.startswith(("mkdir", "printf"))]
    run(root, *made)
    folder = root / "etc/systemd/system/postgresql@18-main.service.d"
    (kept,) = folder.iterdir()
    assert kept.read_text() == "[Service]\nLimitNOFILE=65536\n"
    run(root, set_limit(HOST, "stack", 8 * 2**20)[0])
    (kept,) = (root / "etc/security/limits.d").iterdir()
    assert kept.read_text() == "postgres - stack 8192\n"  # limits.conf(5) has kB
    assert "--ulimit" in set_limit(replace(HOST, container="Docker"), "nproc", 1)[0]


def test_a_partition_reads_ahead_as_its_disk_or_array_does() -> None:
    def path(kernel_name: str, *disks: str) -> str:
        device = DeviceFacts(
            name=kernel_name,
            mount_point="/pg",
            kernel_name=kernel_name,
            disks=tuple(DiskFacts(name=name, media=Media.FLASH) for name in disks),
        )
        return set_read_ahead(device, 1024)[0].partition("/sys/block/")[2].partition("/")[0]

    assert path("sda1", "sda") == "sda"
    assert path("nvme0n1p2", "nvme0n1") == "nvme0n1"
    assert path("md0p1", "sda", "sdb") == "md0"
    assert path("md127", "sda", "sdb") == "md127"
    # Not the disk whose name is the beginning of another's.
    assert path("sdaa1", "sda", "sdaa") == "sdaa"
