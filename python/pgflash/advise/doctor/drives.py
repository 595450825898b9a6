# SPDX-License-Identifier: PostgreSQL
"""Rules about a drive itself: its write cache, sectors, connection, wear, and whether it lasts."""

from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_disk
from pgflash.advise.doctor.rules import (
    KERNEL_QUEUE,
    ORACLE_FLASH,
    Rule,
    disks_of,
    found,
    good,
    holds_database,
    postgres,
    unknown,
    where,
)
from pgflash.model.device import DiskFacts, Media
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome
from pgflash.model.standbys import Standbys
from pgflash.model.words import listed, percent

_KEEPS = "write through"

#: The share of a drive's life from which on it is to be replaced, and from which on soon.
WORN = 0.9
HALF_WORN = 0.7

#: A connection with less than this share of what the drive can do is worth a look.
LINK_SHARE = 0.9


def write_cache(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether a sync empties a drive's cache, if it has one that loses power."""
    rule = "write-cache"
    for device, disk in disks_of(facts):
        if not holds_database(device):
            continue
        if not disk.write_cache:
            yield unknown(rule, disk.name, "The kernel does not tell whether it caches writes.")
        elif disk.write_cache != _KEEPS:
            yield good(rule, disk.name, "It has a write cache, which the kernel empties at a sync.")
        elif not disk.own_write_cache.startswith("write back"):
            yield good(rule, disk.name, "What it has acknowledged is not lost with the power.")
        else:
            yield found(
                rule,
                Outcome.CRITICAL,
                disk.name,
                "It has a write cache, and the kernel was told that it has none.",
                reason="Then no sync empties that cache. Unless it outlives a power cut (a "
                "capacitor, a battery), committed transactions are lost with it and files may be "
                "damaged.",
                source=f"{postgres('Reliability')}; {KERNEL_QUEUE}",
                commands=set_disk(disk, "queue/write_cache", "write back"),
            )


def sectors(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check drives that take 512 bytes and write 4 kB."""
    rule = "sectors"
    for device, disk in disks_of(facts):
        takes, writes, aligned = disk.logical_bytes, disk.physical_bytes, device.alignment_bytes
        if takes is None or writes is None:
            yield unknown(rule, disk.name, "The kernel does not tell the size of its sectors.")
        elif takes >= writes:
            yield good(rule, disk.name, f"Its sectors have {takes} bytes.")
        elif aligned is None:
            yield unknown(
                rule, disk.name, "Whether partitions begin at its sectors' boundaries is not known."
            )
        elif aligned >= writes:
            yield good(
                rule,
                disk.name,
                f"It takes {takes} bytes and writes {writes}; its partitions begin at multiples of "
                "that, so blocks of 8 kB are whole sectors.",
            )
        else:
            yield found(
                rule,
                Outcome.WARNING,
                disk.name,
                f"It takes {takes} bytes and writes {writes}, and a partition begins within such a "
                "sector.",
                reason="Every block of 8 kB, of data or WAL, ends within two sectors: the drive "
                "reads both before it writes them.",
                source=f"{KERNEL_QUEUE}; {ORACLE_FLASH}",
                commands=(
                    f"parted /dev/{disk.name} unit s print",
                    "# move its files away (pgflash place); then create that partition again, with "
                    "its start at a multiple of 1MiB, and its file system",
                ),
            )


def link(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether an NVMe drive has all the lanes, and the speed, that it could have."""
    rule = "pcie-link"
    for _device, disk in disks_of(facts):
        one = disk.link
        if one is None:
            if _is_nvme_here(disk):
                yield unknown(rule, disk.name, "The kernel does not show how it is connected.")
            continue
        share = one.lanes * one.speed / (one.lanes_max * one.speed_max)
        now = f"{one.lanes} lanes of {one.speed:g} GT/s"
        if share >= LINK_SHARE:
            yield good(rule, disk.name, f"It is connected by {now}, all that it can use.")
            continue
        yield found(
            rule,
            Outcome.WARNING if share <= 0.5 else Outcome.NOTE,
            disk.name,
            f"It is connected by {now}; it could use {one.lanes_max} of {one.speed_max:g} GT/s.",
            reason="Scans, base backups and the cache's large reads end at that: "
            f"{percent(share)} of what the drive can do. The slot is a smaller one, or the drive "
            "is not seated well; some machines also save power so.",
            source="Linux documentation, ABI/testing/sysfs-bus-pci",
            commands=(f"lspci -vv -s {one.address} | grep -E 'LnkCap|LnkSta'",),
        )


def wear(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how much of a drive's life is used up."""
    rule = "drive-wear"
    for _device, disk in disks_of(facts):
        if disk.wear is None:
            if _is_nvme_here(disk):
                yield unknown(rule, disk.name, _ask_it(disk))
            continue
        sentence = f"{percent(disk.wear)} of its life is used up."
        if disk.wear < HALF_WORN:
            yield good(rule, disk.name, sentence)
            continue
        yield found(
            rule,
            Outcome.WARNING if disk.wear >= WORN else Outcome.NOTE,
            disk.name,
            sentence,
            reason="At its end a drive takes no more writes, or loses them.",
            source="Linux documentation, driver-api/mmc/mmc-dev-attrs (life_time)",
            commands=(
                f"# order its successor, and move its files there: {_place(facts, disk)}",
                "-- if it is the cache's: less pgflash.write_budget makes it last longer",
            ),
        )


def _is_nvme_here(disk: DiskFacts) -> bool:
    return disk.name.startswith("nvme") and not disk.virtual and disk.media is not Media.NETWORK


def _ask_it(disk: DiskFacts) -> str:
    return (
        "How much of its life is used up only the drive itself tells, and only root: "
        f"nvme smart-log /dev/{disk.name}"
    )


def _place(facts: DoctorFacts, disk: DiskFacts) -> str:
    parts = {part for one in facts.devices if disk in one.disks for part in one.parts}
    if "wal" in parts:
        return "pgflash place wal --help"
    return "pgflash place --help"


def ephemeral(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check that nothing is lost with a drive that is empty after a stop of its machine."""
    rule = "ephemeral-drive"
    standbys = facts.server.standbys
    for device in filter(holds_database, facts.devices):
        if not device.ephemeral:
            yield good(rule, where(device), "Nothing shows that it is empty after a stop.")
            continue
        parts = listed([one for one in device.parts if one not in ("cache", "temp")])
        sentence = (
            f"It is empty after a stop of the machine ({device.ephemeral}), and holds {parts}."
        )
        if standbys is None or standbys.is_hidden:
            yield unknown(rule, where(device), f"{sentence} Whether a standby has it is not known.")
        elif standbys.is_standby:
            yield good(
                rule,
                where(device),
                f"{sentence} This standby is then rebuilt from its primary.",
            )
        elif (alone := standbys.why_alone()) == "":
            yield good(
                rule,
                where(device),
                f"{sentence} A synchronous standby has every commit on its own device.",
            )
        else:
            yield found(
                rule,
                Outcome.CRITICAL,
                where(device),
                f"{sentence} And {alone}.",
                reason="A stop of the machine, planned or not, then loses committed transactions: "
                "without its WAL the server cannot start, and has to be restored from a backup.",
                source=postgres("Log-Shipping Standby Servers, Synchronous Replication"),
                commands=(
                    *_confirm_commits(standbys),
                    "# without a standby, move it to a drive that lasts: pgflash place wal --help",
                ),
            )


def _confirm_commits(standbys: Standbys) -> Iterator[str]:
    """Yield the commands after which a standby confirms commits; settings that suffice stay."""
    if not standbys.names.strip():
        yield "-- with a standby only: without one every commit then waits for ever"
        yield "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)';"
    elif standbys.connected == 0:
        yield "-- start a standby that synchronous_standby_names includes"
    if not standbys.is_flushed:
        yield "ALTER SYSTEM SET synchronous_commit = 'on';"
    if not standbys.names.strip() or not standbys.is_flushed:
        yield "SELECT pg_reload_conf();"


DRIVE_RULES: tuple[Rule, ...] = (write_cache, sectors, link, wear, ephemeral)
