# SPDX-License-Identifier: PostgreSQL
"""The machine's settings, from /proc and /sys; nothing is changed.

In a container most of these are the host's, and only the host can change them; so the kind of
container is noted if it can be recognized.
"""

import os
import re
from collections.abc import Callable, Mapping

from pgflash.machine.tree import HERE, Machine, numbers
from pgflash.model.doctor import UNLIMITED, HostSettings

_SYSCTLS = (
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_background_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    "vm.overcommit_memory",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "kernel.shmmax",
    "kernel.shmall",
    "fs.aio-max-nr",
    "fs.aio-nr",
    "fs.file-max",
)

#: Files by which containers can be recognized.
_CONTAINERS = (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman"))


def _size_of(path: str) -> int:
    told = os.statvfs(path)
    return told.f_blocks * told.f_frsize


def read_host(
    postmaster_pid: int | None,
    *,
    machine: Machine = HERE,
    cores: int | None = None,
    size_of: Callable[[str], int] = _size_of,
) -> HostSettings:
    """Return this machine's settings, and the limits of the server's postmaster."""
    memory = numbers(machine.text("/proc/meminfo") or "")
    process = "" if postmaster_pid is None else f"/proc/{postmaster_pid}"
    return HostSettings(
        cores=cores or os.cpu_count() or 1,
        memory_bytes=_kilobytes(memory, "MemTotal"),
        swap_bytes=_kilobytes(memory, "SwapTotal"),
        committed_bytes=_kilobytes(memory, "Committed_AS"),
        sysctls={
            name: value
            for name in _SYSCTLS
            if (value := machine.number(f"/proc/sys/{name.replace('.', '/')}")) is not None
        },
        huge_page_bytes=_kilobytes(memory, "Hugepagesize"),
        huge_pages=memory.get("HugePages_Total"),
        transparent_huge_pages=_chosen(
            machine.text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
        ),
        shm_bytes=_shm_bytes(machine, size_of),
        limits=_limits(machine.text(f"{process}/limits") or "") if process else {},
        postmaster_uid=numbers(machine.text(f"{process}/status") or "").get("Uid")
        if process
        else None,
        remove_ipc=_remove_ipc(machine),
        container=_container(machine),
    )


def _kilobytes(memory: Mapping[str, int], word: str) -> int | None:
    return 1024 * memory[word] if word in memory else None


def _chosen(text: str) -> str:
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else ""


def _shm_bytes(machine: Machine, size_of: Callable[[str], int]) -> int | None:
    try:
        return size_of(str(machine.path("/dev/shm")))
    except OSError:
        return None


def _limits(text: str) -> dict[str, float]:
    """Return the soft limits: name, two or more blanks, soft, hard, unit."""
    limits = {}
    for line in text.splitlines()[1:]:
        words = re.split(r"\s{2,}", line.strip())
        if len(words) >= 3 and re.fullmatch(r"\d+|unlimited", words[1]):
            limits[words[0]] = UNLIMITED if words[1] == "unlimited" else float(words[1])
    return limits


def _remove_ipc(machine: Machine) -> bool | None:
    """Return systemd's RemoveIPC, which is on unless a file says otherwise."""
    if not machine.exists("/run/systemd/system"):
        return None
    folders = ("/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d")
    own = "/etc/systemd/logind.conf.d"
    files = [
        "/etc/systemd/logind.conf",
        *(f"{folder}/{name}" for folder in (*folders, own) for name in machine.names(folder)),
    ]
    value = True
    for name in files:
        for word in re.findall(r"^\s*RemoveIPC\s*=\s*(\w+)", machine.text(name) or "", re.M):
            value = word.lower() in ("yes", "true", "on", "1")
    return value


def _container(machine: Machine) -> str:
    for name, kind in _CONTAINERS:
        if machine.exists(name):
            return kind
    groups = machine.text("/proc/1/cgroup") or ""
    found = re.search(r"kubepods|docker|lxc|containerd", groups)
    return found[0] if found else ""
