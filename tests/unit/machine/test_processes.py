# SPDX-License-Identifier: PostgreSQL
"""One process: this one, and some with hostile names."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgflash.machine.host import TICKS_PER_S
from pgflash.machine.processes import Process, processes
from pgflash.machine.tree import Machine


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    fields = ["S", "1", *["0"] * 9, *(str(n * TICKS_PER_S) for n in (3, 2, 1, 5)), *"0000", "77"]
    folder = tmp_path / "proc" / "42"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"42 (a) b (c d) {' '.join(fields)} 0\n")
    found = Process(42, Machine(root=tmp_path)).stat()
    assert (found.state, found.parent, found.start_ticks) == ("S", 1, 77)
    assert (found.user_s, found.system_s) == (3, 2)
    assert (found.reaped_user_s, found.reaped_system_s) == (1, 5)


def test_this_process_is_as_the_system_says() -> None:
    ours = Process(os.getpid())
    assert ours.stat().parent == os.getppid()
    assert ours.started_at() <= time.time()
    assert ours.folder() == Path.cwd()
    assert os.path.samestat(ours.folder_status(), Path.cwd().stat())
    assert ours.program() == Path(sys.executable).resolve()
    assert ours.users()[:3] == os.getresuid()
    assert not ours.is_ending()
    assert ours in list(processes())


def test_what_is_mapped_is_known_by_its_device_and_inode(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_bytes(b"x")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        mapped = [
            inode
            for _device, inode, name in Process(os.getpid()).mapped_files()
            if name == str(path)
        ]
    assert mapped == [path.stat().st_ino]


def test_a_process_that_has_ended_is_told_from_one_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        one = Process(child.pid)
        assert child.pid in Process(os.getpid()).children()
        assert not one.stat().has_ended
        assert child.stdin is not None
        child.stdin.close()
        # Ended, and not reaped yet.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert one.stat().has_ended
        assert one.is_ending()
    with pytest.raises(FileNotFoundError):
        one.stat()
    assert not one.is_ending()


def test_what_a_process_has_read_and_written_is_counted(tmp_path: Path) -> None:
    ours, path = Process(os.getpid()), tmp_path / "file"
    before = ours.io()
    path.write_bytes(bytes(100_000))
    path.read_bytes()
    after = ours.io()
    assert after["wchar"] - before["wchar"] >= 100_000
    assert after["rchar"] - before["rchar"] >= 100_000
