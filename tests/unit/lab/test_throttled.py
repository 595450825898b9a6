# SPDX-License-Identifier: PostgreSQL
"""A volume that the kernel limits: a real one, and the files of version 2 in a made-up tree."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgflash.machine.tree import Machine
from pgflash_lab.throttled import ThrottleError, Volume, make_group, throttled_volume

MB = 1 << 20
READS = 200
READS_A_SECOND = 100

#: Reads distinct blocks past the page cache.
READER = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
memory = mmap.mmap(-1, 4096)
for i in range(int(sys.argv[2])):
    assert os.preadv(fd, [memory], i * 65536) == 4096
"""

VERSION_1 = """\
31 23 0:29 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
32 23 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"""
VERSION_2 = "30 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    with contextlib.ExitStack() as stack:
        yield entered(stack, tmp_path)


def entered(stack: contextlib.ExitStack, path: Path) -> Volume:
    """Make a volume, or skip the test where there can be none; what fails later fails the test."""
    try:
        return stack.enter_context(throttled_volume(path, size_bytes=64 * MB, memory_bytes=64 * MB))
    except ThrottleError as error:
        pytest.skip(str(error))


def reading_s(volume: Volume) -> float:
    """Read blocks in a process of the group; return its time."""
    began = time.monotonic()
    with volume.entered():
        reader = subprocess.Popen([sys.executable, "-c", READER, volume.path / "file", str(READS)])
    assert reader.wait() == 0
    return time.monotonic() - began


def test_reads_of_the_group_are_limited_and_counted(volume: Volume) -> None:
    (volume.path / "file").write_bytes(os.urandom(READS * 65536))
    subprocess.run(["sync", "--file-system", volume.path], check=True)
    before = volume.reads()
    volume.limit(read_iops=READS_A_SECOND)
    # The first slice of time is a present of the kernel's.
    assert reading_s(volume) > 0.8 * READS / READS_A_SECOND
    assert volume.reads() - before >= READS
    # At one read a second it would take 200 s: a busy machine is faster than half of that.
    volume.limit(read_iops=1)
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", READER, volume.path / "file", str(READS)], check=True)
    assert time.monotonic() - began < READS / 2
    volume.limit(read_iops=None)
    assert reading_s(volume) < READS / 2


def test_a_process_is_back_in_its_own_group(volume: Volume) -> None:
    before = Path("/proc/self/cgroup").read_text()
    with volume.entered():
        inside = Path("/proc/self/cgroup").read_text()
    assert inside != before
    assert Path("/proc/self/cgroup").read_text() == before


def test_nothing_is_left(tmp_path: Path) -> None:
    def left(name: str) -> list[str]:
        # Other tests make and remove groups meanwhile, which os.walk() does not mind.
        folders = [folder for folder, _names, _files in os.walk("/sys/fs/cgroup")]
        groups = [folder for folder in folders if Path(folder).name == name]
        return [*groups, *re.findall(f".*{name}.*", Path("/proc/mounts").read_text())]

    name = ""
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        made = entered(stack, tmp_path)
        name = made.path.parent.name
        assert made.path.is_mount()
        assert len(left(name)) >= 2
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    assert left(name) == []


def tree(root: Path, files: dict[str, str]) -> Machine:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Machine(root=root)


def test_version_2_has_one_folder_and_its_own_words(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            "proc/self/mountinfo": VERSION_2,
            "proc/self/cgroup": "0::/user.slice/shell",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids",
            "sys/fs/cgroup/cgroup.subtree_control": "cpu",
            "sys/fs/cgroup/user.slice/shell/cgroup.procs": "",
        },
    )
    root = tmp_path / "sys/fs/cgroup"
    group = make_group("made", machine)
    assert (root / "cgroup.subtree_control").read_text() == "+io +memory"
    group.limit_reads("7:0", 500)
    assert (root / "made/io.max").read_text() == "7:0 riops=500"
    group.limit_reads("7:0", None)
    assert (root / "made/io.max").read_text() == "7:0 riops=max"
    group.limit_memory(MB)
    assert (root / "made/memory.max").read_text() == str(MB)
    with group.entered():
        assert (root / "made/cgroup.procs").read_text() == str(os.getpid())
        assert (root / "user.slice/shell/cgroup.procs").read_text() == ""
    assert (root / "user.slice/shell/cgroup.procs").read_text() == str(os.getpid())


def test_a_group_for_memory_leaves_devices_to_the_one_above(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            "proc/self/mountinfo": VERSION_1,
            "proc/self/cgroup": "4:blkio:/\n3:memory:/",
            "sys/fs/cgroup/blkio/cgroup.procs": "",
            "sys/fs/cgroup/memory/cgroup.procs": "",
        },
    )
    root = tmp_path / "sys/fs/cgroup"
    group = make_group("made", machine, only_memory=True)
    with group.entered():
        assert (root / "memory/made/cgroup.procs").read_text() == str(os.getpid())
    assert (root / "blkio/cgroup.procs").read_text() == ""
    assert not (root / "blkio/made").exists()


def test_a_group_for_memory_asks_version_2_for_nothing_else(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            "proc/self/mountinfo": VERSION_2,
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory",
            "sys/fs/cgroup/cgroup.subtree_control": "",
        },
    )
    make_group("made", machine, only_memory=True)
    assert (tmp_path / "sys/fs/cgroup/cgroup.subtree_control").read_text() == "+memory"


def test_of_two_groups_neither_is_left_if_one_cannot_be_made(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            "proc/self/mountinfo": VERSION_1,
            "proc/self/cgroup": "4:blkio:/\n3:memory:/",
            "sys/fs/cgroup/blkio/cgroup.procs": "",
        },
    )
    with pytest.raises(ThrottleError, match="could not make the control group"):
        make_group("made", machine)
    assert not (tmp_path / "sys/fs/cgroup/blkio/made").exists()
    (tmp_path / "sys/fs/cgroup/memory").mkdir()
    make_group("made", machine)
    assert (tmp_path / "sys/fs/cgroup/blkio/made").is_dir()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    machine = tree(
        tmp_path,
        {
            "proc/self/mountinfo": VERSION_2,
            "proc/self/cgroup": "0::/",
            "sys/fs/cgroup/cgroup.controllers": "cpu pids",
        },
    )
    with pytest.raises(ThrottleError, match="no control groups that limit block devices"):
        make_group("made", machine)
    if os.geteuid() != 0:
        with (
            pytest.raises(ThrottleError, match="only root"),
            throttled_volume(tmp_path, size_bytes=MB, memory_bytes=MB),
        ):
            pass
