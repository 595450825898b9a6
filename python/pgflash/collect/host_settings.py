# SPDX-License-Identifier: PostgreSQL
"""The machine's settings, from /proc and /sys; nothing is changed.

In a container most of these are the host's, and only the host can change them; so the kind of
container is noted if it can be recognized.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pgflash.machine.cgroup import memory_limit_bytes
from pgflash.machine.processes import Process, system_service
from pgflash.machine.tree import HERE, Machine, numbers
from pgflash.model.doctor import UNLIMITED, HostSettings, Node

_SYSCTLS = (
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_background_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    "vm.overcommit_kbytes",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.zone_reclaim_mode",
    "kernel.numa_balancing",
    "kernel.shmmax",
    "kernel.shmall",
    "fs.aio-max-nr",
    "fs.aio-nr",
    "fs.file-max",
    "fs.nr_open",
    "net.core.somaxconn",
)
_SYSCTL_LISTS = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.ip_local_port_range")
#: Ports, and ranges of them: "8080,9000-9010".
_RESERVED = "net.ipv4.ip_local_reserved_ports"

#: Files by which containers can be recognized.
_CONTAINERS = (
    ("/.dockerenv", "Docker"),
    ("/run/.containerenv", "Podman"),
    ("/var/run/secrets/kubernetes.io", "Kubernetes"),
)

#: Where a container's manager that follows systemd's interface writes its name.
_MANAGERS = ("/run/systemd/container", "/run/host/container-manager")

#: The title of the process that writes to flash, and the mapping of its queue.
_WRITER, _QUEUE = b"pgflash writer", "/[aio]"


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
    found = HostSettings(
        cores=cores or os.cpu_count() or 1,
        memory_bytes=_kilobytes(memory, "MemTotal"),
        available_bytes=_kilobytes(memory, "MemAvailable"),
        swap_bytes=_kilobytes(memory, "SwapTotal"),
        committed_bytes=_kilobytes(memory, "Committed_AS"),
        nodes=tuple(_nodes(machine)),
        sysctls={
            name: value for name in _SYSCTLS if (value := machine.number(_sysctl(name))) is not None
        },
        sysctl_lists={
            name: tuple(map(int, words))
            for name in _SYSCTL_LISTS
            if (words := (machine.text(_sysctl(name)) or "").split())
        },
        reserved_ports=machine.text(_sysctl(_RESERVED)),
        huge_page_bytes=_kilobytes(memory, "Hugepagesize"),
        huge_pages=memory.get("HugePages_Total"),
        huge_pages_free=_free_huge_pages(memory),
        transparent_huge_pages=_chosen(
            machine.text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
        ),
        shm_bytes=_shm_bytes(machine, size_of),
        remove_ipc=_remove_ipc(machine),
        fstab=frozenset(_fstab(machine.text("/etc/fstab") or "")),
        tuned_profile=_tuned_profile(machine),
        tuned_profiles=tuple(_tuned_profiles(machine)),
        container=_container(machine),
    )
    return found if postmaster_pid is None else _with_process(found, machine, postmaster_pid)


def _free_huge_pages(memory: Mapping[str, int]) -> int | None:
    free, reserved = memory.get("HugePages_Free"), memory.get("HugePages_Rsvd")
    return None if free is None or reserved is None else free - reserved


def _with_process(host: HostSettings, machine: Machine, pid: int) -> HostSettings:
    """Return the settings with those of the server's process."""
    process = f"/proc/{pid}"
    uid = numbers(machine.text(f"{process}/status") or "").get("Uid")
    programs = ""
    with contextlib.suppress(OSError):  # only its own user and root may see it
        programs = str(Process(pid, machine).program().parent)
    return replace(
        host,
        memory_limit_bytes=memory_limit_bytes(machine, pid),
        limits=_limits(machine.text(f"{process}/limits") or ""),
        postmaster_uid=uid,
        postmaster_user=_user(machine, uid),
        programs=programs,
        has_aio=_has_aio(machine, pid),
        unit=system_service(machine.text(f"{process}/cgroup") or ""),
    )


def _has_aio(machine: Machine, postmaster: int) -> bool | None:
    """Say whether the process that writes to flash has a queue of AIO; None: it is not seen."""
    with contextlib.suppress(OSError, ValueError):
        for pid in Process(postmaster, machine).children():
            child = Process(pid, machine)
            if _WRITER in child.command_line():
                return any(
                    name.startswith(_QUEUE) for _device, _inode, name in child.mapped_files()
                )
    return None


def _user(machine: Machine, uid: int | None) -> str:
    for line in (machine.text("/etc/passwd") or "").splitlines():
        words = line.split(":")
        if len(words) > 2 and words[2] == str(uid):
            return words[0]
    return ""


def _sysctl(name: str) -> str:
    return f"/proc/sys/{name.replace('.', '/')}"


def _nodes(machine: Machine) -> Iterator[Node]:
    """Yield the memory of each NUMA node."""
    huge_page_bytes = _kilobytes(numbers(machine.text("/proc/meminfo") or ""), "Hugepagesize") or 0
    folder = "/sys/devices/system/node"
    for name in machine.names(folder):
        # A line is "Node 0 MemTotal:  123 kB".
        text = machine.text(f"{folder}/{name}/meminfo") or ""
        memory = numbers(re.sub(r"(?m)^\s*Node \d+ ", "", text))
        total = _kilobytes(memory, "MemTotal")
        if total:
            held = sum(_kilobytes(memory, word) or 0 for word in ("AnonPages", "Shmem"))
            huge = memory.get("HugePages_Total", 0) * huge_page_bytes
            yield Node(name=name, total_bytes=total, held_bytes=held + huge)


def _fstab(text: str) -> Iterator[str]:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 4 and not words[0].startswith("#"):
            yield words[1].replace(r"\040", " ")


def _tuned_profile(machine: Machine) -> str:
    if not machine.exists("/run/tuned/tuned.pid"):
        return ""
    return machine.text("/etc/tuned/active_profile") or ""


def _tuned_profiles(machine: Machine) -> Iterator[str]:
    for folder in (
        "/usr/lib/tuned",
        "/usr/lib/tuned/profiles",
        "/etc/tuned",
        "/etc/tuned/profiles",
    ):
        for name in machine.names(folder):
            if machine.exists(f"{folder}/{name}/tuned.conf"):
                yield name


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
    for name in _MANAGERS:
        if manager := machine.text(name):
            return manager
    groups = machine.text("/proc/1/cgroup") or ""
    found = re.search(r"kubepods|docker|lxc|containerd", groups)
    return found[0] if found else ""
