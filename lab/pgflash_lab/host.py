# SPDX-License-Identifier: PostgreSQL
"""How the machine's processors were used, and by whom, from /proc.

The server's CPU time is the sum over its live processes and, through the postmaster, over those it
has reaped.  Foreign CPU time is the machine's busy time less the server's, our own and our
programs'; time stolen by the hypervisor counts as foreign, since we could not use it.
"""

import os
import platform
import re
import resource
from dataclasses import dataclass
from pathlib import Path

from pgflash.machine.cgroup import memory_limit_bytes
from pgflash.model.sizes import size

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: How often the list of processes is read until it is stable.
_STEADY_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCpu:
    """Seconds since boot that all processors together spent in each state."""

    user_s: float
    system_s: float
    iowait_s: float
    idle_s: float
    steal_s: float

    @property
    def busy_s(self) -> float:
        """Return the time that was not idle; waits for I/O count as idle."""
        return self.user_s + self.system_s + self.steal_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """CPU seconds of some processes."""

    user_s: float
    system_s: float


def parse_machine_cpu(stat: str) -> MachineCpu:
    """Return the first line of /proc/stat as seconds."""
    numbers = [int(word) / TICKS_PER_S for word in stat.split("\n", 1)[0].split()[1:]]
    user, nice, system, idle, iowait, irq, softirq, steal = (numbers + [0.0] * 8)[:8]
    return MachineCpu(
        user_s=user + nice,
        system_s=system + irq + softirq,
        iowait_s=iowait,
        idle_s=idle,
        steal_s=steal,
    )


def machine_cpu() -> MachineCpu:
    """Return the machine's CPU time now."""
    return parse_machine_cpu(Path("/proc/stat").read_text())


def parse_process_cpu(stat: str, *, buried: bool) -> CpuTime:
    """Return a process's CPU time from its stat line, if BURIED with its reaped children's."""
    # The name in brackets may contain anything, so count after the last bracket.
    fields = stat[stat.rindex(")") + 2 :].split()
    user, system, child_user, child_system = (int(word) for word in fields[11:15])
    return CpuTime(
        user_s=(user + (child_user if buried else 0)) / TICKS_PER_S,
        system_s=(system + (child_system if buried else 0)) / TICKS_PER_S,
    )


def server_cpu(postmaster_pid: int) -> CpuTime:
    """Return the CPU time of a server's processes, dead ones included.

    A process that ends between two readings would be missed or counted twice, so the reading is
    repeated until the processes before and after it are the same.
    """
    for _ in range(_STEADY_TRIES):
        before = _children(postmaster_pid)
        times = [_cpu_of(postmaster_pid, buried=True)]
        times += [_cpu_of(pid, buried=True) for pid in before]
        if _children(postmaster_pid) == before:
            break
    return CpuTime(user_s=sum(t.user_s for t in times), system_s=sum(t.system_s for t in times))


def own_cpu() -> float:
    """Return the CPU seconds of this process and of the programs it has waited for."""
    us = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return us.ru_utime + us.ru_stime + children.ru_utime + children.ru_stime


def _children(pid: int) -> list[int]:
    """Return a process's children from /proc, where the kernel lists them by thread."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return sorted(int(word) for word in text.split())


def _cpu_of(pid: int, *, buried: bool) -> CpuTime:
    """Return the CPU time of a process; zero if it is gone."""
    try:
        return parse_process_cpu(Path(f"/proc/{pid}/stat").read_text(), buried=buried)
    except OSError:
        return CpuTime(user_s=0.0, system_s=0.0)


def machine_facts(folder: Path) -> dict[str, str]:
    """Return what a reader must know about the machine, without naming it."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        "processor": model[1] if model else platform.machine(),
        "cores": str(core_count()),
        "memory": size(1024 * int(memory[1])) if memory else "unknown",
        "file system of the lab's files": file_system(folder),
    }


def core_count() -> int:
    """Return the number of processors that /proc/stat sums up."""
    stat = Path("/proc/stat").read_text()
    return len(re.findall(r"^cpu\d+ ", stat, flags=re.MULTILINE)) or 1


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds a folder."""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[2] == wanted:
            return words[words.index("-") + 1]
    return "unknown"


def available_memory_bytes() -> int:
    """Return the memory that is available to new programs."""
    found = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    available = int(found[1]) * 1024 if found else 0
    return min(available, memory_limit_bytes() or available)
