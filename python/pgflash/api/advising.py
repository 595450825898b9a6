# SPDX-License-Identifier: PostgreSQL
"""Advice: what flash would bring a server, and a plan of it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgflash.advise.approaches import Situation, with_prices
from pgflash.advise.approaches import advise as advise_work
from pgflash.advise.media import drive_of_facts, drive_of_probe
from pgflash.advise.oracle import AwrFileError, work_of_awr
from pgflash.advise.plans import plan_of
from pgflash.advise.work import work_of_report
from pgflash.api.machines import devices, read_prices, read_probe
from pgflash.collect.room import server_room
from pgflash.errors import UsageError
from pgflash.local import why_not_local
from pgflash.model.advice import Advice
from pgflash.model.awr import AwrReport
from pgflash.model.device import DeviceFacts, Media
from pgflash.model.plan import MoveState, Plan
from pgflash.model.prices import price_of
from pgflash.place.files import free_bytes, usable_bytes
from pgflash.place.journal import read_plan, write_plan
from pgflash.session import connect
from pgflash.standbys import read_standbys


def advise(report: AwrReport, situation: Situation | None = None) -> Advice:
    """Return, from a report, whether storage is the bottleneck, and what flash would bring.

    Times are in milliseconds per transaction, unless their names say otherwise.  Raises
    NoAdviceError if the report is not enough to judge by.
    """
    known = situation or Situation()
    work = work_of_report(report, flash_tablespaces=known.flash_tablespaces)
    # The flash that served may be a tablespace: only a cache has a hit ratio.
    if work.hit_ratio is not None:
        known = _with_cache(known)
    return advise_work(work, known)


def advise_oracle(path: Path, situation: Situation | None = None) -> Advice:
    """Return the same from an Oracle AWR or Statspack report: text, HTML, or an extract."""
    known = situation or Situation()
    try:
        bytes_ = path.read_bytes()
    except OSError as error:
        raise AwrFileError(f'could not read "{path}": {error.strerror}') from error
    # Windows' SQL*Plus and editors write UTF-16.
    encoding = "utf-16" if bytes_[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    work = work_of_awr(
        bytes_.decode(encoding, errors="replace"),
        name=str(path),
        database_bytes=known.database_bytes,
        flash_bytes=known.flash_bytes,
    )
    if work.flash.count:
        known = _with_cache(known)
    return advise_work(work, known)


def _with_cache(known: Situation) -> Situation:
    return replace(known, on_flash=known.on_flash | {"cache"})


def file_situation(
    *,
    flash: Path | None = None,
    flash_bytes: int | None = None,
    database_bytes: int | None = None,
    users: float | None = None,
    cores: float | None = None,
    probes: Iterable[Path] = (),
    prices: Path | None = None,
) -> Situation:
    """Return what is known without a server: what the user says.

    FLASH is a folder on the flash device, whose free space counts if it is on this machine.  The
    first of two probes is the array's; a single one is the flash device's.  Prices are those of
    devices named array and flash.
    """
    if flash_bytes is None and flash is not None and flash.is_dir():
        flash_bytes = usable_bytes(free_bytes(flash))
    known = Situation(
        flash_bytes=None if flash_bytes is None else float(flash_bytes),
        database_bytes=None if database_bytes is None else float(database_bytes),
        users=users,
        cores=cores,
    )
    read = [read_probe(path) for path in probes]
    if read:
        known = replace(known, flash=drive_of_probe(read[-1].probe, name=read[-1].name, flash=True))
    if len(read) > 1:
        if (read[0].name, read[0].mount_point) == (read[-1].name, read[-1].mount_point):
            raise UsageError(
                f"both probes are of the same device ({read[0].name})",
                hint="Give the probe of the array first, then that of the flash.",
            )
        array = drive_of_probe(read[0].probe, name=read[0].name, flash=False)
        known = replace(known, array=array)
    priced = read_prices(prices) if prices is not None else ()
    return with_prices(
        known, array=price_of(priced, name="array"), flash=price_of(priced, name="flash")
    )


def server_situation(
    *,
    dsn: str | None = None,
    flash: Path | None = None,
    flash_bytes: int | None = None,
    probes: Iterable[Path] = (),
    users: float | None = None,
    cores: float | None = None,
    prices: Path | None = None,
    tablespace: str = "",
) -> tuple[Situation, str]:
    """Return what a server and its machine add to a report, and the server's identity.

    FLASH is a folder on the flash device, TABLESPACE a tablespace of the server on it.  The devices
    of a server elsewhere are unknown.
    """
    with connect(dsn or "") as connection:
        room = server_room(connection)
        local = not why_not_local(connection)
        standbys = read_standbys(connection)
    found: tuple[DeviceFacts, ...] = ()
    if local:
        found = devices(dsn=dsn, every=True, prices=prices, probes=probes, flash=flash)
    array = _device_with("data", found)
    wal, cache = _device_with("wal", found), room.has_cache
    fast = _device_with("flash", found)
    _refuse_same(array, fast, f'"{flash}"')
    if tablespace:
        place = f"tablespace {tablespace}"
        _refuse_same(array, _device_with(place, found), f'the tablespace "{tablespace}"')
    known = Situation(
        flash_bytes=flash_bytes
        if flash_bytes is not None
        else None
        if fast is None or fast.free_bytes is None
        else usable_bytes(fast.free_bytes),
        sizes=room.sizes,
        database_bytes=room.database_bytes,
        shared_buffers_bytes=room.shared_buffers_bytes,
        wal_bytes=2 * room.max_wal_bytes,
        users=users,
        cores=cores,
        on_flash=frozenset(
            part
            for part, there in (("cache", cache), ("wal", _is_apart_on_flash(wal, array)))
            if there
        ),
        archiving=room.archiving,
        archive_on_array=array is not None and room.archiving and "archive" in array.parts,
        flash_tablespaces=frozenset({tablespace} - {""} | _tablespaces_on_flash(found, array)),
    )
    if array is not None:
        known = replace(known, array=drive_of_facts(array))
    if fast is not None:
        # A user who names a folder as flash knows better than a virtual disk's rotational bit.
        known = replace(
            known,
            flash=drive_of_facts(replace(fast, media=Media.FLASH)),
            ephemeral=fast.ephemeral,
            alone="" if standbys.is_standby else standbys.why_alone(),
        )
    known = with_prices(
        known, array=array.price if array else None, flash=fast.price if fast else None
    )
    return known, room.system_identifier


def _device_with(part: str, devices: tuple[DeviceFacts, ...]) -> DeviceFacts | None:
    return next((one for one in devices if part in one.parts), None)


def _refuse_same(array: DeviceFacts | None, fast: DeviceFacts | None, what: str) -> None:
    """Refuse to predict what a move within one device would bring."""
    if array is None or fast is None:
        return
    same = fast == array or {one.name for one in fast.disks} & {one.name for one in array.disks}
    if same:
        raise UsageError(
            f"{what} is on the same device as the data ({array.name}): nothing would be gained",
            hint="Name a folder on another device: pgflash devices --all lists them. To ask "
            "about a flash drive of a given size, use --flash-bytes alone.",
        )


def _tablespaces_on_flash(
    devices: tuple[DeviceFacts, ...], array: DeviceFacts | None
) -> frozenset[str]:
    """Return the tablespaces on flash devices other than that of the data."""
    return frozenset(
        part.removeprefix("tablespace ")
        for one in devices
        if one.media is Media.FLASH and one != array
        for part in one.parts
        if part.startswith("tablespace ")
    )


def _is_apart_on_flash(wal: DeviceFacts | None, array: DeviceFacts | None) -> bool:
    return wal is not None and wal != array and wal.media is Media.FLASH


def advise_plan(
    advice: Advice,
    path: Path,
    *,
    approach: str = "",
    tablespace: str = "",
    flash: Path | None = None,
    system_identifier: str = "",
) -> Plan:
    """Write an advice's moves to a file for pgflash plan apply, and return them.

    A plan that was applied in part is not overwritten: without it, those moves could not be undone.
    """
    if path.exists() and any(r.state is not MoveState.PLANNED for r in read_plan(path).records):
        raise UsageError(
            f'"{path}" contains moves that were made',
            hint=f"Name another file, or undo them first: pgflash plan undo {path}",
        )
    plan = plan_of(
        advice,
        approach=approach,
        tablespace=tablespace,
        folder="" if flash is None else str(flash.absolute()),
        system_identifier=system_identifier,
        made_at=datetime.now(UTC).replace(microsecond=0),
    )
    write_plan(path, plan)
    return plan
