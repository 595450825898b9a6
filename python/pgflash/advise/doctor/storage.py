# SPDX-License-Identifier: PostgreSQL
"""Rules about block devices: alignment, scheduler, queue, read-ahead, room for flash to work.

The values of Oracle and SanDisk date from 2012 to 2014, when a device had one queue of 128
requests, and its schedulers were `noop` and `deadline`.  Their successors are `none` and
`mq-deadline`; a drive without a scheduler has as many requests as its own queues hold, and no
setting for it.
"""

import shlex
from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_disk, set_option, set_parameter, set_read_ahead
from pgflash.advise.doctor.rules import (
    CZUPRYNSKI,
    KERNEL_EXT4,
    KERNEL_QUEUE,
    KERNEL_SCHEDULER,
    ORACLE_FLASH,
    SANDISK_FLASH,
    Rule,
    disks_of,
    found,
    good,
    host_of,
    is_fast,
    unknown,
    where,
)
from pgflash.model.device import DiskFacts, Media
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome
from pgflash.model.words import percent, size

ALIGNED_BYTES = 2**20
#: A drive's own sectors; in a misaligned partition each write becomes two.
SECTOR_BYTES = 4096

_LIGHT = ("none", "mq-deadline", "noop", "deadline", "kyber")
_FOR_TURNING = ("mq-deadline", "deadline", "bfq", "cfq")

#: Oracle uses 512, SanDisk uses 1024.
QUEUE_REQUESTS = 512

READ_AHEAD_TURNING_BYTES = 2**20
READ_AHEAD_FLASH_BYTES = 8 * 2**20

#: Share of flash that should be free, so that it can be erased ahead of writes.
SPARE_SHARE = 0.1


def alignment(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check where partitions begin."""
    for device in facts.devices:
        rule, subject = "alignment", where(device)
        aligned = device.alignment_bytes
        if device.media in (Media.MEMORY, Media.NETWORK) and not device.disks:
            continue
        if aligned is None:
            why = device.unknown.get("alignment_bytes", "no partition was seen")
            yield unknown(rule, subject, f"Where its partition begins is not known: {why}.")
        elif aligned >= ALIGNED_BYTES:
            yield good(rule, subject, "Its partitions begin at multiples of 1 MB.")
        else:
            names = ", ".join(disk.name for disk in device.disks)
            off = aligned < SECTOR_BYTES
            first = device.disks[0].name if device.disks else "DISK"
            yield found(
                rule,
                Outcome.WARNING if off else Outcome.NOTE,
                subject,
                f"A partition of it (on {names}) begins at a multiple of {size(aligned)} only.",
                reason="A block that lies across two of the drive's sectors costs two writes, each "
                "with a read before it."
                if off
                else "Blocks lie across the boundaries of flash pages or of an array's stripes.",
                source=ORACLE_FLASH,
                commands=(
                    f"parted /dev/{first} unit s print",
                    "# move its files away (pgflash place); then create that partition again, with "
                    "its start at a multiple of 1MiB, and its file system",
                ),
            )


def scheduler(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check each disk's scheduler."""
    for device, disk in disks_of(facts):
        rule, used = "scheduler", disk.scheduler
        turning = disk.media is Media.HDD and not is_fast(device)
        if not used:
            yield unknown(rule, disk.name, "The kernel does not tell its scheduler.")
        elif turning and used not in _FOR_TURNING:
            yield found(
                rule,
                Outcome.NOTE,
                disk.name,
                f"The scheduler of this disk is {used}.",
                reason="A disk that turns gains from requests in an order, and its reads should "
                "not starve behind a checkpoint's writes.",
                source=f"{ORACLE_FLASH}; {KERNEL_SCHEDULER}",
                commands=_set_scheduler(disk, ("mq-deadline", "deadline")),
            )
        elif not turning and used not in _LIGHT:
            yield found(
                rule,
                Outcome.WARNING,
                disk.name,
                f"The scheduler of this disk is {used}.",
                reason="It spends time on an order that flash, an array or a hypervisor does not "
                "need, and idles between requests of different processes.",
                source=f"{SANDISK_FLASH}; {ORACLE_FLASH}; {KERNEL_SCHEDULER}",
                commands=_set_scheduler(disk, ("none", "noop", "mq-deadline", "deadline")),
            )
        else:
            yield good(rule, disk.name, f"Its scheduler is {used}.")


def _set_scheduler(disk: DiskFacts, wanted: tuple[str, ...]) -> tuple[str, ...]:
    offered = [name for name in wanted if name in disk.schedulers] or [wanted[0]]
    return set_disk(disk, "queue/scheduler", offered[0])


def queue(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how many requests may be under way."""
    for device, disk in disks_of(facts):
        rule = "queue-depth"
        if disk.queue_depth is not None and disk.queue_depth < 2:
            yield found(
                rule,
                Outcome.WARNING,
                disk.name,
                "The drive is given one request at a time.",
                reason="It can neither order requests nor work on several.",
                source=f"{ORACLE_FLASH}; {KERNEL_QUEUE}",
                commands=set_disk(disk, "device/queue_depth", "32"),
            )
        elif disk.queue_requests is None:
            yield unknown(rule, disk.name, "The kernel does not tell how long its queue is.")
        elif (
            disk.scheduler not in ("none", "")
            and disk.queue_requests < QUEUE_REQUESTS
            and is_fast(device)
        ):
            yield found(
                rule,
                Outcome.NOTE,
                disk.name,
                f"Its queue holds {disk.queue_requests} requests.",
                reason="Flash works on many requests at once; a checkpoint fills a short queue, "
                "and reads wait outside.",
                source=f"{ORACLE_FLASH} (512); {SANDISK_FLASH} (1024)",
                commands=set_disk(disk, "queue/nr_requests", str(QUEUE_REQUESTS)),
            )
        else:
            yield good(rule, disk.name, f"Its queue holds {disk.queue_requests} requests.")


def read_ahead(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how far the kernel reads ahead of scans."""
    for device in facts.devices:
        rule, ahead = "read-ahead", device.read_ahead_bytes
        if ahead is None:
            if device.media is not Media.MEMORY and device.mount_point:
                why = device.unknown.get("read_ahead_bytes", "the kernel does not show it")
                yield unknown(rule, where(device), f"Its read-ahead is not known: {why}.")
            continue
        fast = is_fast(device)
        wanted = 2**20 if fast else 4 * 2**20
        if ahead == 0:
            outcome, reason = Outcome.WARNING, "PostgreSQL relies on the kernel to read ahead."
        elif fast is False and ahead < READ_AHEAD_TURNING_BYTES:
            outcome = Outcome.NOTE
            reason = "Each piece of a scan may cost a seek; a longer one brings more for it."
        elif fast and ahead > READ_AHEAD_FLASH_BYTES:
            outcome = Outcome.NOTE
            reason = "What is read ahead in vain pushes useful blocks out of the page cache."
        else:
            yield good(rule, where(device), f"The kernel reads {size(ahead)} ahead.")
            continue
        yield found(
            rule,
            outcome,
            where(device),
            f"The kernel reads {size(ahead)} ahead.",
            reason=reason,
            source=f"{SANDISK_FLASH}; {KERNEL_QUEUE}",
            commands=set_read_ahead(device, wanted // 1024),
        )


def spare(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether the cache's flash has room left to erase ahead of writes."""
    for device in facts.devices:
        if "cache" not in device.parts:
            continue
        rule, subject = "over-provisioning", where(device)
        sizes = [disk.size_bytes for disk in device.disks]
        if device.size_bytes is None or device.free_bytes is None or not sizes or None in sizes:
            yield unknown(rule, subject, "How much of the cache's device is in use is not known.")
            continue
        # Space outside any file system is free, too; other uses of the disk are not visible, nor
        # is what several disks hold twice.
        whole = (sizes[0] if len(sizes) == 1 else None) or device.size_bytes
        spare_bytes = device.free_bytes + max(whole - device.size_bytes, 0)
        if spare_bytes >= SPARE_SHARE * whole:
            yield good(
                rule, subject, f"{percent(spare_bytes / whole)} of the cache's device is unused."
            )
            continue
        if len(sizes) > 1:
            yield unknown(
                rule,
                subject,
                f"{percent(spare_bytes / whole)} of the cache's file system is unused. How much of "
                f"its {len(sizes)} disks is outside of it is not known.",
            )
            continue
        shrink = int((SPARE_SHARE * whole - spare_bytes) / 2**20) + 1
        smaller = _smaller_cache(facts, shrink)
        yield found(
            rule,
            Outcome.NOTE,
            subject,
            f"Only {percent(spare_bytes / whole)} of the cache's device is unused.",
            reason="A full drive has no erased blocks ready: writes wait until it has moved "
            "others, which wears it, too. A cache's writes are small and scattered.",
            source=CZUPRYNSKI,
            commands=(*smaller, f"fstrim {shlex.quote(device.mount_point)}"),
        )


def _smaller_cache(facts: DoctorFacts, shrink_mb: int) -> tuple[str, ...]:
    now = facts.server.size_bytes("pgflash.cache_size")
    if now is None or now / 2**20 <= shrink_mb:
        return ()
    return set_parameter("pgflash.cache_size", f"'{int(now / 2**20) - shrink_mb}MB'")


def discards(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check how flash learns what is free."""
    for device in facts.devices:
        rule, subject = "discard", where(device)
        able = any(disk.discards for disk in device.disks)
        if not able or not is_fast(device):
            continue
        if "discard" in device.mount_options:
            yield found(
                rule,
                Outcome.NOTE,
                subject,
                "It is mounted with discard: every file that is removed is discarded at once.",
                reason="On many drives discards hold up the requests behind them; once a week, by "
                "fstrim, is enough.",
                source=KERNEL_EXT4,
                commands=(
                    *set_option(host_of(facts), device.mount_point, "nodiscard"),
                    "systemctl enable --now fstrim.timer",
                ),
            )
        else:
            yield good(rule, subject, "It is not mounted with discard.")


STORAGE_RULES: tuple[Rule, ...] = (alignment, scheduler, queue, read_ahead, spare, discards)
