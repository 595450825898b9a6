# SPDX-License-Identifier: PostgreSQL
"""Rules about the server itself: asynchronous I/O, WAL files, checksums, publications."""

import shlex
from collections.abc import Iterator

from pgflash.advise.doctor.lasting import set_parameter
from pgflash.advise.doctor.rules import SERVER, Rule, found, good, postgres, unknown
from pgflash.model.doctor import Diagnosis, DoctorFacts, Outcome

#: File systems that write a block to a new place each time: filling a WAL file first is useless.
_COPY_ON_WRITE = frozenset({"btrfs", "zfs", "bcachefs"})

#: PostgreSQL's own limit.
IO_WORKERS_MAX = 32


def io_method(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether reads are asynchronous."""
    method = facts.server.settings.get("io_method")
    if method is None:
        if facts.server.major < 18:
            yield good("io-method", SERVER, "It has no io_method: it comes with PostgreSQL 18.")
        else:
            yield unknown("io-method", SERVER, "io_method may not be seen.")
    elif method == "sync":
        yield found(
            "io-method",
            Outcome.NOTE,
            SERVER,
            "io_method is sync.",
            reason="Scans wait for each block that they read; with worker the next ones are read "
            "meanwhile, which matters on storage that takes its time.",
            source=postgres("Resource Consumption, io_method"),
            commands=set_parameter("io_method", "worker", restart=True),
        )
    else:
        yield good("io-method", SERVER, f"io_method is {method}.")


def io_workers(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether there are enough I/O workers."""
    if facts.server.settings.get("io_method") != "worker" or facts.host is None:
        return
    # 19 has as many as the work takes, between two limits.
    setting = "io_max_workers" if facts.server.major >= 19 else "io_workers"
    workers = facts.server.number(setting)
    if workers is None:
        yield unknown("io-workers", SERVER, f"{setting} may not be seen.")
        return
    least = facts.server.number("io_min_workers")
    counted = f"{workers:g}" if least is None else f"{min(least, workers):g} to {workers:g}"
    disks = {disk.name for device in facts.devices for disk in device.disks}
    wanted = min(max(facts.host.cores // 4, len(disks), 3), IO_WORKERS_MAX)
    if workers >= wanted:
        yield good("io-workers", SERVER, f"{counted} workers read for {facts.host.cores} cores.")
        return
    yield found(
        "io-workers",
        Outcome.NOTE,
        SERVER,
        f"{counted} workers read for all sessions of a machine with {facts.host.cores} cores and "
        f"{len(disks)} disks.",
        reason="All asynchronous reads go through them: more streams than workers are read one "
        "after the other.",
        source=postgres(f"Resource Consumption, {setting}"),
        commands=set_parameter(setting, str(wanted)),
    )


def wal_init_zero(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether new WAL files are filled where that helps."""
    rule, device = "wal-init-zero", facts.device_of("wal")
    value = facts.server.settings.get("wal_init_zero")
    if device is None or not device.file_system or value is None:
        yield unknown(rule, SERVER, "Which file system WAL is on was not seen.")
        return
    copies = device.file_system in _COPY_ON_WRITE
    if copies and value == "on":
        yield found(
            rule,
            Outcome.NOTE,
            SERVER,
            f"wal_init_zero is on, and WAL is on {device.file_system}.",
            reason="A file system that copies on write gives each block a new place anyway: "
            "filling and recycling files is work in vain.",
            source=postgres("Write Ahead Log, wal_init_zero and wal_recycle"),
            commands=(
                *set_parameter("wal_init_zero", "off")[:1],
                *set_parameter("wal_recycle", "off"),
            ),
        )
    elif not copies and value == "off":
        yield found(
            rule,
            Outcome.NOTE,
            SERVER,
            f"wal_init_zero is off, and WAL is on {device.file_system}.",
            reason="Commits into a file that is not filled yet make the file system note each new "
            "block, and a full disk is met in the middle of a commit.",
            source=postgres("Write Ahead Log, wal_init_zero"),
            commands=set_parameter("wal_init_zero", "on"),
        )
    else:
        yield good(rule, SERVER, f"wal_init_zero is {value}, which fits {device.file_system}.")


def checksums(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether a corrupted block is noticed."""
    value = facts.server.settings.get("data_checksums")
    if value is None:
        yield unknown("checksums", SERVER, "data_checksums may not be seen.")
    elif value == "on":
        yield good("checksums", SERVER, "Data pages have checksums.")
    else:
        yield found(
            "checksums",
            Outcome.WARNING,
            SERVER,
            "Data pages have no checksums.",
            reason="A block that the storage damaged is read as if it were right, and copied into "
            "backups.",
            source=postgres("Data Checksums"),
            commands=_enable_checksums(facts),
        )


def _enable_checksums(facts: DoctorFacts) -> tuple[str, ...]:
    folder, host = facts.server.settings.get("data_directory"), facts.host
    if not folder:  # it is hidden without pg_monitor
        return ("-- SHOW data_directory; stop the server, and let pg_checksums --enable it",)
    unit, programs = (host.unit, host.programs) if host is not None else ("", "")
    program = shlex.quote(f"{programs}/pg_checksums") if programs else "pg_checksums"
    named = f": systemctl stop {shlex.quote(unit)}" if unit else ""
    return (
        f"# stop the server, and its standbys{named}",
        "# as the server's user; it takes as long as reading and writing all of it, and the flash "
        "cache is cold afterwards",
        f"{program} --enable --progress -D {shlex.quote(folder)}",
    )


def publications(facts: DoctorFacts) -> Iterator[Diagnosis]:
    """Check whether logical replication carries the extension's own tables."""
    rule, names = "publications", facts.server.publications
    if not names:
        yield good(rule, SERVER, "No publication of this database includes pgflash's tables.")
        return
    one = len(names) == 1
    subject = (
        f"Publication {names[0]} includes" if one else f"Publications {', '.join(names)} include"
    )
    yield found(
        rule,
        Outcome.NOTE,
        SERVER,
        f"{subject} pgflash's tables.",
        reason="PostgreSQL stops a subscription at a change of a table that its subscriber does "
        "not have. Changes of pgflash's tables are ignored where the extension exists.",
        source=postgres("Logical Replication, Publication"),
        commands=(
            "-- on each subscriber, in a schema of the same name, before it is created here:",
            "CREATE EXTENSION pgflash;",
        ),
    )


SERVER_RULES: tuple[Rule, ...] = (io_method, io_workers, wal_init_zero, checksums, publications)
