# SPDX-License-Identifier: PostgreSQL
"""A server's machine: its devices, its settings, and what caches have left in memory."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgflash.advise.doctor import check as check_pgflash
from pgflash.advise.doctor import diagnose
from pgflash.advise.doctor.binary import judge
from pgflash.api.versions import own_versions
from pgflash.collect import probe as probing
from pgflash.collect.cache_facts import read_pgflash
from pgflash.collect.devices import devices_of
from pgflash.collect.host_settings import read_host
from pgflash.collect.memory import CacheMemory, list_memory, remove_memory
from pgflash.collect.places import Place, server_places
from pgflash.collect.server_settings import read_server
from pgflash.collect.versions import read_versions
from pgflash.errors import PgflashError
from pgflash.local import postmaster_pid, why_not_local
from pgflash.machine.programs import read_program
from pgflash.model.device import DeviceFacts
from pgflash.model.doctor import Diagnosis, DoctorFacts
from pgflash.model.prices import PricedDevice, PricesError, price_of, prices_from_toml
from pgflash.model.probes import ProbedDevice, StoredProbeError, probe_from_json, probe_to_json
from pgflash.model.sizes import GB
from pgflash.progress import Listener
from pgflash.session import connect
from pgflash.trusted import write_file


def devices(
    *,
    dsn: str | None = None,
    every: bool = False,
    prices: Path | None = None,
    probes: Iterable[Path] = (),
    flash: Path | None = None,
) -> tuple[DeviceFacts, ...]:
    """Return the devices that hold a local server's parts; with EVERY, also all others.

    FLASH is a folder that is a part, too, named "flash".  Each has its price and its probe, if the
    files PRICES and PROBES have one under its name or mount point.  Sizes are in bytes.  Raises
    PgflashError if the server is on another machine.
    """
    priced = read_prices(prices) if prices is not None else ()
    probed = [read_probe(path) for path in probes]
    with connect(dsn or "") as connection:
        why = why_not_local(connection)
        if why:
            raise PgflashError(
                f"its devices are not visible from here: {why}",
                hint="Run it on the server's machine, and in the same container if the server "
                "is in one.",
            )
        places = [*server_places(connection)]
    if flash is not None:
        places.append(Place(part="flash", path=str(flash.absolute())))
    return tuple(_known(one, priced, probed) for one in devices_of(places, every=every))


def _known(
    device: DeviceFacts, prices: tuple[PricedDevice, ...], probes: list[ProbedDevice]
) -> DeviceFacts:
    """Return a device with its price and its newest probe."""
    own = [one.probe for one in probes if one.mount_point == device.mount_point]
    return replace(
        device,
        price=price_of(prices, name=device.name, mount_point=device.mount_point),
        probe=max(own, key=lambda probe: probe.at, default=None),
    )


def read_prices(path: Path) -> tuple[PricedDevice, ...]:
    """Return the prices of devices in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise PricesError(f'could not read "{path}": {why}') from error
    return prices_from_toml(text, name=str(path))


def devices_probe(
    folder: Path,
    *,
    size_bytes: int = GB,
    seconds: float = 3.0,
    use_fio: bool = True,
    listener: Listener | None = None,
) -> ProbedDevice:
    """Measure the device that a folder is on, each step for SECONDS; LISTENER hears of each.

    Times of the result are in milliseconds, rates in bytes or requests a second.  The probe puts
    load on the device, and leaves nothing there.  Raises UsageError if there is no room for
    SIZE_BYTES.
    """
    probe = probing.probe(
        folder,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        size_bytes=size_bytes,
        seconds=seconds,
        use_fio=use_fio,
        listener=listener,
    )
    path = folder.absolute()
    device = devices_of([Place(part="probe", path=str(path))])[0]
    return ProbedDevice(
        name=device.name, mount_point=device.mount_point, folder=str(path), probe=probe
    )


def write_probe(path: Path, probed: ProbedDevice) -> None:
    """Keep a probe in a file."""
    try:
        write_file(path, probe_to_json(probed))
    except OSError as error:
        raise StoredProbeError(f'could not write "{path}": {error.strerror}') from error


def read_probe(path: Path) -> ProbedDevice:
    """Return the probe that a file holds."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise StoredProbeError(f'could not read "{path}": {error.strerror}') from error
    return probe_from_json(text, name=str(path))


def doctor(*, dsn: str | None = None, probes: Iterable[Path] = ()) -> tuple[Diagnosis, ...]:
    """Return the doctor's diagnoses of a server and, if the server is on it, of this machine.

    Nothing is changed.  A probe shows what the kernel cannot know about a device.
    """
    return diagnose(_facts(dsn, probes))


def doctor_binary(path: Path) -> tuple[Diagnosis, ...]:
    """Return what can be said of a server's executable before pgflash is installed.

    Nothing is started.  PgflashError if the file is no executable.
    """
    return judge(read_program(path))


def check(*, dsn: str | None = None) -> tuple[Diagnosis, ...]:
    """Return the doctor's diagnoses of pgflash itself: whether its cache works, and helps.

    Nothing is changed.  Whether cache and data share a device is seen on the server's machine only.
    PgflashError if the server has not loaded pgflash, or the database does not have the extension.
    """
    facts = _facts(dsn, ())
    if "pgflash.snapshot_interval" not in facts.server.settings:
        raise PgflashError(
            "the server has not loaded pgflash",
            hint="Add pgflash to shared_preload_libraries and restart the server.",
        )
    if facts.cache is None:
        remedy = facts.versions.remedy if facts.versions else ""
        raise PgflashError(
            f"pgflash cannot be checked: {facts.why_no_cache}",
            hint=remedy or "Name a database that has the extension: -d NAME.",
        )
    return check_pgflash(facts)


def _facts(dsn: str | None, probes: Iterable[Path]) -> DoctorFacts:
    probed = [read_probe(path) for path in probes]
    with connect(dsn or "") as connection:
        server = read_server(connection)
        ours = read_pgflash(connection)
        versions = read_versions(connection, own_versions())
        why = why_not_local(connection)
        host = None if why else read_host(postmaster_pid(connection))
        places = () if why else server_places(connection)
    return DoctorFacts(
        server=server,
        host=host,
        why_no_host=why,
        devices=tuple(_known(one, (), probed) for one in devices_of(places)),
        cache=ours.cache,
        why_no_cache=ours.why_no_cache,
        snapshot_age_s=ours.snapshot_age_s,
        versions=versions,
    )


def memory(directories: Iterable[Path] = ()) -> tuple[CacheMemory, ...]:
    """Return the memory of caches on this machine: sizes in bytes, ages in seconds.

    DIRECTORIES are data directories whose memory it may be, in addition to those of running servers
    and the usual ones.  Users other than root see only their own.
    """
    return list_memory(directories)


def memory_remove(name: str) -> None:
    """Remove the memory of a killed server; PgflashError if it is in use or not there."""
    remove_memory(name)
