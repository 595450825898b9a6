# SPDX-License-Identifier: PostgreSQL
"""How much memory a control group leaves: the command's reading and the library's, case by case."""

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pgflash.machine.cgroup import memory_limit_bytes
from pgflash.machine.tree import Machine
from support.cluster import REPOSITORY

SOURCE = REPOSITORY / "extension" / "src"
MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
MB = 2**20
#: Version 1's value for "no limit".
NONE = 9223372036854771712

PROGRAM = r"""
#include <stdio.h>
#include "server/memory_limit.h"
int main(int argc, char **argv)
{
	return printf("%llu", (unsigned long long) memory_limit_bytes(argv[argc - 1])) < 0;
}
"""

V2 = "30 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
CPU = "34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A machine: the group, the mounts, the hierarchy's files; and the limit, None if none."""

    name: str
    group: str
    mounts: tuple[str, ...]
    files: Mapping[str, object] = field(default_factory=dict)
    limit: int | None


CASES = (
    Case(name="no control groups at all", group="", mounts=(), limit=None),
    Case(
        name="version 2, the group's own",
        group="0::/a.slice/pg.service",
        mounts=(V2,),
        files={
            "/sys/fs/cgroup/a.slice/pg.service/memory.max": 64 * MB,
            "/sys/fs/cgroup/a.slice/memory.max": "max",
        },
        limit=64 * MB,
    ),
    Case(
        name="version 2, of a group around it",
        group="0::/kubepods/burstable/pod1/container",
        mounts=(V2,),
        files={
            "/sys/fs/cgroup/kubepods/burstable/pod1/container/memory.max": "max",
            "/sys/fs/cgroup/kubepods/burstable/pod1/memory.max": 300 * MB,
            "/sys/fs/cgroup/kubepods/memory.max": 200 * MB,
        },
        limit=200 * MB,
    ),
    Case(
        name="version 2, a container that sees its group as the root",
        group="0::/",
        mounts=(V2,),
        files={"/sys/fs/cgroup/memory.max": 80 * MB},
        limit=80 * MB,
    ),
    Case(
        name="version 2, no limit",
        group="0::/a",
        mounts=(V2,),
        files={"/sys/fs/cgroup/a/memory.max": "max"},
        limit=None,
    ),
    Case(
        name="version 2, more than the machine has",
        group="0::/a",
        mounts=(V2,),
        files={"/sys/fs/cgroup/a/memory.max": 2**50},
        limit=2**50,
    ),
    Case(
        name="version 1 beside version 2 without the controller",
        group="9:name=systemd:/\n4:memory:/a/b\n1:cpu,cpuacct:/c\n0::/d",
        mounts=(CPU, V1, V2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")),
        files={
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": NONE,
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": 50 * MB,
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": NONE,
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes": MB,
            "/sys/fs/cgroup/unified/d/cgroup.procs": "",
        },
        limit=50 * MB,
    ),
    Case(
        name="version 1 with other controllers in the same hierarchy",
        group="4:cpu,memory,pids:/a",
        mounts=(V1.replace("rw,memory", "rw,cpu,memory,pids"),),
        files={"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": 50 * MB},
        limit=50 * MB,
    ),
    Case(
        name="version 1, a container that sees the part of the hierarchy that is its own",
        group="4:memory:/docker/abc/inner",
        mounts=(V1.replace(" / /sys", " /docker/abc /sys"),),
        files={
            "/sys/fs/cgroup/memory/inner/memory.limit_in_bytes": NONE,
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": 70 * MB,
        },
        limit=70 * MB,
    ),
    Case(
        name="version 1, a limit of groups around that cannot be seen",
        group="4:memory:/docker/abc",
        mounts=(V1.replace(" / /sys", " /docker/abc /sys"),),
        files={
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": NONE,
            "/sys/fs/cgroup/memory/memory.stat": f"cache 1\nhierarchical_memory_limit {60 * MB}\n",
        },
        limit=60 * MB,
    ),
    Case(
        name="a group outside the part that is seen",
        group="4:memory:/other/group",
        mounts=(V1.replace(" / /sys", " /docker/abc /sys"),),
        files={"/sys/fs/cgroup/memory/memory.limit_in_bytes": 70 * MB},
        limit=70 * MB,
    ),
    Case(
        name="a group whose name only begins like the part that is seen",
        group="4:memory:/docker/abcdef",
        mounts=(V1.replace(" / /sys", " /docker/abc /sys"),),
        files={
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": 70 * MB,
            "/sys/fs/cgroup/memory/def/memory.limit_in_bytes": MB,
        },
        limit=70 * MB,
    ),
    Case(
        name="a group above the part that is seen",
        group="0::/../../elsewhere",
        mounts=(V2,),
        files={"/sys/fs/cgroup/memory.max": 90 * MB, "/elsewhere/memory.max": MB},
        limit=90 * MB,
    ),
    Case(
        name="a place with a blank in its name",
        group="0::/a b",
        mounts=(V2.replace("/sys/fs/cgroup ", "/my\\040groups "),),
        files={"/my groups/a b/memory.max": 40 * MB},
        limit=40 * MB,
    ),
    Case(
        name="broken lines",
        group="nonsense\n:\n0:memory\n4:memory:/a",
        mounts=("", "30 23 0:28", "1 2 3 4 5 -", "1 2 3 - cgroup cgroup rw,memory", V1),
        files={"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": 30 * MB},
        limit=30 * MB,
    ),
)


@pytest.fixture(scope="module")
def library_says(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], int]:
    """Return what asks the extension's own code."""
    program = tmp_path_factory.mktemp("limit") / "limit"
    subprocess.run(
        [
            *("gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"),
            *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", SOURCE),
            *("-o", program, "-x", "c", "-", SOURCE / "server" / "memory_limit.c"),
        ],
        input=PROGRAM,
        text=True,
        check=True,
    )
    return lambda root: int(subprocess.check_output([program, root]))


def make_machine(root: Path, case: Case) -> None:
    files = {
        "/proc/self/cgroup": case.group + "\n",
        "/proc/self/mountinfo": "".join(f"{line}\n" for line in case.mounts),
        **case.files,
    }
    for name, content in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_command_and_library_agree_on_what_a_group_may_have(
    case: Case, tmp_path: Path, library_says: Callable[[Path], int]
) -> None:
    make_machine(tmp_path, case)
    said = memory_limit_bytes(Machine(root=tmp_path))
    assert (said if said is None or said < NONE else None) == case.limit
    assert library_says(tmp_path) == min(MACHINE_BYTES, case.limit or MACHINE_BYTES)


def test_they_agree_on_this_machine(library_says: Callable[[Path], int]) -> None:
    assert library_says(Path("/")) == min(MACHINE_BYTES, memory_limit_bytes() or MACHINE_BYTES)


def test_a_machine_without_such_files_has_its_own_memory(
    tmp_path: Path, library_says: Callable[[Path], int]
) -> None:
    assert memory_limit_bytes(Machine(root=tmp_path)) is None
    assert library_says(tmp_path) == MACHINE_BYTES
