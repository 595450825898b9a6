# SPDX-License-Identifier: PostgreSQL
"""Rules about file systems: their mount options, and whether they keep what is written.

Oracle mounts its flash with nobarrier, since the card preserves its cache over a power cut.  On any
device that does not, commits are lost; so what Oracle recommends is a finding here.
"""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_option
from pgflash.advise.doctor.rules import (
    KERNEL_EXT4,
    ORACLE_FLASH,
    Rule,
    found,
    good,
    holds_database,
    host_of,
    is_fast,
    postgres,
    where,
)
from pgflash.model.device import DeviceFacts, Media
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome

_NO_BARRIER = frozenset({"nobarrier", "barrier=0", "barrier=none"})
_NFS = frozenset({"nfs", "nfs4"})
_SOFT = frozenset({"soft", "softerr"})
_EXT = frozenset({"ext3", "ext4"})


def access_times(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether reading a file writes to it."""
    for device in _mounted(facts):
        options = set(device.mount_options)
        if "noatime" in options:
            yield good("noatime", where(device), "Reading a file does not write to it.")
        elif "relatime" in options:
            yield good(
                "noatime",
                where(device),
                "Reading a file writes its access time once a day at most.",
            )
        else:
            yield found(
                "noatime",
                Outcome.WARNING,
                where(device),
                "Every read of a file writes its access time.",
                reason="PostgreSQL has no use for it, and it wears flash.",
                source=ORACLE_FLASH,
                commands=set_option(host_of(facts), device.mount_point, "noatime"),
            )


def barriers(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether a sync reaches the medium."""
    for device in _mounted(facts):
        if not holds_database(device) or device.media is Media.MEMORY:
            continue
        off = _NO_BARRIER & set(device.mount_options)
        if not off:
            yield good("barriers", where(device), "A sync empties the drive's write cache.")
            continue
        yield found(
            "barriers",
            Outcome.CRITICAL,
            where(device),
            f"It is mounted with {', '.join(sorted(off))}: a sync leaves data in the drive's "
            "write cache.",
            reason="Unless that cache outlives a power cut (a capacitor, a battery), committed "
            "transactions are lost with it and files may be damaged. Oracle sets it for a card "
            "that has one.",
            source=f"{postgres('Reliability')}; {KERNEL_EXT4}; {ORACLE_FLASH}",
            commands=set_option(
                host_of(facts),
                device.mount_point,
                "barrier=1" if device.file_system in _EXT else "barrier",
            ),
        )


def synchronous(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether every write waits for the medium."""
    for device in _mounted(facts):
        if "sync" in device.mount_options:
            yield found(
                "sync-mount",
                Outcome.WARNING,
                where(device),
                "It is mounted with sync: every write waits for the medium.",
                reason="PostgreSQL syncs what must be synced by itself; the rest need not wait.",
                source=postgres("Reliability"),
                commands=set_option(host_of(facts), device.mount_point, "async"),
            )


def batch_times(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether ext4 holds syncs back on flash."""
    rule = "max-batch-time"
    for device in _mounted(facts):
        if device.file_system != "ext4" or not holds_database(device):
            continue
        if "max_batch_time=0" in device.mount_options:
            yield good(rule, where(device), "It holds no sync back.")
        elif not is_fast(device):
            yield good(
                rule, where(device), "It may gather syncs, which is right if it is not flash."
            )
        else:
            yield found(
                rule,
                Outcome.NOTE,
                where(device),
                "It may hold a sync back for as long as one takes, to gather others.",
                reason="On flash a sync is over before another comes, and PostgreSQL gathers "
                "commits by itself. It concerns syncs of files that have grown, or are new.",
                source=f"{ORACLE_FLASH} (max_batch_time=0); {KERNEL_EXT4}",
                commands=set_option(host_of(facts), device.mount_point, "max_batch_time=0"),
            )


def keeps(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether data that must survive is on a medium that survives."""
    for device in facts.devices:
        if not holds_database(device) or not device.mount_point:
            continue
        rule, subject = "lasting", where(device)
        parts = ", ".join(device.parts)
        if device.media is Media.MEMORY:
            yield found(
                rule,
                Outcome.CRITICAL,
                subject,
                f"It holds {parts}, and is memory.",
                reason="It is gone when the machine stops; and without one of its tablespaces a "
                "server may not start.",
                source=postgres("Tablespaces"),
                commands=(f"# move {parts} to a device that lasts: pgflash place --help",),
            )
        elif device.file_system in ("overlay", "aufs"):
            yield found(
                rule,
                Outcome.CRITICAL,
                subject,
                f"It holds {parts}, and is the container's own layer.",
                reason="It is gone with the container, and the first write to a file copies the "
                "whole file.",
                source="Docker documentation, Use the OverlayFS storage driver",
                commands=("docker run --volume pgdata:/var/lib/postgresql/data ...",),
            )
        elif device.file_system in _NFS and (soft := _SOFT & set(device.mount_options)):
            yield found(
                rule,
                Outcome.CRITICAL,
                subject,
                f"It is NFS, mounted with {min(soft)}.",
                reason="Where the other side does not answer in time a write fails, and is lost.",
                source=postgres("Creating a Database Cluster, File Systems, NFS"),
                commands=(
                    "# write hard instead where it is mounted (/etc/fstab); stop the "
                    "server, unmount, mount",
                ),
            )
        else:
            yield good(rule, subject, f"{device.file_system} keeps what it takes.")


def _mounted(facts: DoctorFacts) -> Iterator[DeviceFacts]:
    """Yield the known devices that are more than memory or a layer."""
    for device in facts.devices:
        if device.mount_point and device.media is not Media.MEMORY:
            yield device


MOUNT_RULES: tuple[Rule, ...] = (access_times, barriers, synchronous, batch_times, keeps)
