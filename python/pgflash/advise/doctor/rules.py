# SPDX-License-Identifier: PostgreSQL
"""Helpers of the doctor's rules: diagnoses, sources, and properties of devices."""

from collections.abc import Callable, Iterator

from pgflash.model.device import DeviceFacts, DiskFacts, Media
from pgflash.model.doctor import Diagnosis, DoctorFacts, HostSettings, Outcome

Rule = Callable[[DoctorFacts], Iterator[Diagnosis]]

MACHINE = "machine"
SERVER = "server"

# ---- sources

ORACLE_FLASH = "Oracle 2014, Optimizing Oracle Database Performance on Oracle Linux with Flash"
_SANDISK = "SanDisk, Boost Oracle Data Warehouse Performance Using SanDisk Solid State Drives"
SANDISK_FLASH = f"{_SANDISK}, flash optimization"
SANDISK_SYSTEM = f"{_SANDISK}, operating system configuration"
CZUPRYNSKI = "J. Czuprynski, Oracle 11gR2 I/O Performance Tuning: Using Solid State Drives"
KERNEL_VM = "Linux documentation, admin-guide/sysctl/vm"
KERNEL_THP = "Linux documentation, admin-guide/mm/transhuge"
KERNEL_FS = "Linux documentation, admin-guide/sysctl/fs"
KERNEL_QUEUE = "Linux documentation, ABI/stable/sysfs-block"
KERNEL_EXT4 = "Linux documentation, admin-guide/ext4"
KERNEL_SCHEDULER = "Linux documentation, block/switching-sched"
KERNEL_SYSCTL = "Linux documentation, admin-guide/sysctl/kernel"
KERNEL_NET = "Linux documentation, networking/ip-sysctl"


def postgres(chapter: str) -> str:
    """Return a chapter of PostgreSQL's documentation as a source."""
    return f"PostgreSQL documentation, {chapter}"


# ---- answers


def good(rule: str, subject: str, sentence: str) -> Diagnosis:
    """Say that all is well."""
    return Diagnosis(rule=rule, outcome=Outcome.GOOD, subject=subject, sentence=sentence)


def unknown(rule: str, subject: str, sentence: str) -> Diagnosis:
    """Say that it could not be checked, and why."""
    return Diagnosis(rule=rule, outcome=Outcome.UNKNOWN, subject=subject, sentence=sentence)


def found(
    rule: str,
    outcome: Outcome,
    subject: str,
    sentence: str,
    *,
    reason: str,
    source: str,
    commands: tuple[str, ...] = (),
) -> Diagnosis:
    """Say what should be different."""
    return Diagnosis(
        rule=rule,
        outcome=outcome,
        subject=subject,
        sentence=sentence,
        reason=reason,
        source=source,
        commands=commands,
    )


# ---- facts


def host_of(facts: DoctorFacts) -> HostSettings:
    """Return the machine's settings, for rules that run only if it was examined."""
    assert facts.host is not None
    return facts.host


def disks_of(facts: DoctorFacts) -> Iterator[tuple[DeviceFacts, DiskFacts]]:
    """Yield each disk once, with the first device that is on it."""
    seen: set[str] = set()
    for device in facts.devices:
        for disk in device.disks:
            if disk.name not in seen:
                seen.add(disk.name)
                yield device, disk


#: A medium that reads at random faster than this does not rotate: half a turn at 15,000 a minute
#: takes 2 ms.
TURNING_MS = 2.0


def is_fast(device: DeviceFacts) -> bool | None:
    """Tell whether a device reads at random like flash, or None if that is not known.

    A probe is better evidence than a label: behind a hypervisor or a network, only the speed
    counts.
    """
    read_ms = device.probe.read_ms(1) if device.probe is not None else None
    if read_ms is not None:
        return read_ms < TURNING_MS
    if device.media in (Media.FLASH, Media.MEMORY):
        return True
    return False if device.media is Media.HDD else None


def holds_database(device: DeviceFacts) -> bool:
    """Tell whether a device holds data that must not be lost: data, WAL or a tablespace."""
    return any(part in ("data", "wal") or part.startswith("tablespace") for part in device.parts)


def where(device: DeviceFacts) -> str:
    """Return the name of a device in a sentence."""
    return device.mount_point or device.name
