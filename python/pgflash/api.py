# SPDX-License-Identifier: PostgreSQL
"""pgflash as a library: reports on a server's periods, and on runs of the lab.

with open_store(dsn="dbname=app") as store:
    report = report_period(store, begin="2026-11-22T10:00", end="last")
report.table("top-events").rows
Path("report.html").write_text(render_period(report, "html"))

run = read_run(Path("out/demo/run.json"))
result(run)["ratios"]["flash-cache/baseline"]
Path("report.html").write_text(render_report(run))

list_devices(dsn="dbname=app")[0].media
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgflash.advise.approaches import Situation, advise, with_prices
from pgflash.advise.check import predict_run
from pgflash.advise.doctor import diagnose
from pgflash.advise.media import drive_of_facts, drive_of_probe
from pgflash.advise.oracle import AwrFileError, work_of_awr
from pgflash.advise.papers import predict_papers
from pgflash.advise.plans import plan_of
from pgflash.advise.work import work_of_report
from pgflash.analyze import compare, make_period, make_report
from pgflash.analyze.cost import RunCosts
from pgflash.analyze.cost import run_costs as costs_of_run
from pgflash.collect import collect, system_identifier
from pgflash.collect import probe as probing
from pgflash.collect.devices import devices_of
from pgflash.collect.host_settings import read_host
from pgflash.collect.memory import CacheMemory, list_memory, remove_memory
from pgflash.collect.places import Place, server_places
from pgflash.collect.probe import is_folder
from pgflash.collect.room import server_room
from pgflash.collect.server_settings import read_server
from pgflash.errors import PgflashError, UsageError
from pgflash.lab.pages import paper_page
from pgflash.lab.store import read_run
from pgflash.local import postmaster_pid, why_not_local
from pgflash.model.advice import Advice
from pgflash.model.awr import AwrReport
from pgflash.model.device import DeviceFacts, Media
from pgflash.model.doctor import Diagnosis, DoctorFacts
from pgflash.model.paper import paper_prices
from pgflash.model.plan import MoveState, Plan
from pgflash.model.prices import PricedDevice, PricesError, price_of, prices_from_toml
from pgflash.model.probes import ProbedDevice, StoredProbeError, probe_from_json, probe_to_json
from pgflash.model.run import Run
from pgflash.model.snapshot import SnapshotHead, SnapshotStore, find_head, heads_around
from pgflash.model.summary import summarize
from pgflash.place.journal import read_plan, write_plan
from pgflash.report import render_page as render_report
from pgflash.report import result, sentences
from pgflash.report.awr import FORMS, Form
from pgflash.report.awr import render as render_period
from pgflash.report.awr import render_html as render_period_page
from pgflash.report.awr.stored import read_period
from pgflash.report.paper import (
    PAPER_FORMS,
    PaperForm,
    render_paper,
    render_paper_html,
)
from pgflash.session import connect
from pgflash.store import FileStore, OpenStore, PgStore, open_store
from pgflash.trusted import write_file

__all__ = [
    "FORMS",
    "PAPER_FORMS",
    "CacheMemory",
    "Form",
    "OpenStore",
    "PaperForm",
    "RunCosts",
    "Situation",
    "advise_oracle",
    "advise_report",
    "collect_snapshot",
    "compare",
    "examine",
    "file_situation",
    "is_folder",
    "list_devices",
    "list_memory",
    "open_store",
    "paper_page",
    "plan_advice",
    "predict_papers",
    "predict_run",
    "probe_device",
    "probe_takes_s",
    "read_period",
    "read_prices",
    "read_probe",
    "read_run",
    "remove_memory",
    "render_paper",
    "render_paper_html",
    "render_period",
    "render_period_page",
    "render_report",
    "report_period",
    "result",
    "run_costs",
    "sentences_of",
    "server_situation",
    "take_snapshot",
    "write_probe",
]


def take_snapshot(
    *, dsn: str | None = None, drop_before: datetime | None = None
) -> tuple[SnapshotHead, int]:
    """Have a server with the extension take a snapshot; return it, and how many were dropped."""
    with PgStore(dsn or "") as store:
        taken = store.take()
        dropped = 0 if drop_before is None else store.drop(drop_before)
        return _head(store, taken), dropped


def collect_snapshot(
    *, dsn: str | None = None, path: Path, drop_before: datetime | None = None
) -> tuple[SnapshotHead, int]:
    """Collect a snapshot of any server into a file; return it, and how many were dropped."""
    with connect(dsn or "") as connection, FileStore.create(path) as store:
        cluster = system_identifier(connection)
        with store.adding(cluster) as last:
            taken = store.add(collect(connection, last, cluster=cluster))
        dropped = 0 if drop_before is None else store.drop(drop_before)
        return _head(store, taken), dropped


def _head(store: SnapshotStore, snapshot_id: int) -> SnapshotHead:
    return next(head for head in store.list() if head.id == snapshot_id)


def report_period(
    store: SnapshotStore, *, begin: str = "", end: str = "", every_row: bool = False
) -> AwrReport:
    """Return the report on the period between two snapshots, named as find_head() reads them.

    Without an end it is the last snapshot, without a begin the one before the end.  Rankings
    have their first rows only, or every row: then a comparison knows what is new and gone.
    """
    heads = store.list()
    last = find_head(heads, end or "last", store=store.name)
    first = find_head(heads, begin, store=store.name) if begin else _before(heads, last, store.name)
    period = make_period(store, first.id, last.id)
    return make_report(period, rows_max=None) if every_row else make_report(period)


def report_around(
    store: SnapshotStore, *, begin: datetime, end: datetime, every_row: bool = False
) -> AwrReport:
    """Return the report on the snapshots around a stretch of time, as heads_around() has them."""
    first, last = heads_around(store.list(), begin, end, store=store.name)
    return report_period(store, begin=str(first.id), end=str(last.id), every_row=every_row)


def _before(heads: tuple[SnapshotHead, ...], last: SnapshotHead, store: str) -> SnapshotHead:
    earlier = [head for head in heads if head.id < last.id]
    if not earlier:
        raise UsageError(
            f"there is no snapshot before {last.id} in {store}",
            hint="A period needs two: take another with pgflash snapshot.",
        )
    return earlier[-1]


def run_costs(run: Run, *, prices: Path | None = None) -> RunCosts:
    """Return what a run's approaches cost; without a file of prices, by those of paper 000."""
    if prices is None:
        return costs_of_run(run, paper_prices("000"))
    priced = read_prices(prices)
    by_role = {
        device.role: price
        for device in run.devices
        if (price := price_of(priced, name=device.role) or price_of(priced, name=device.name))
    }
    if not by_role:
        names = " or ".join(f'"{device.role}"' for device in run.devices)
        raise PricesError(
            f'"{prices}" prices no device of this run', hint=f"Name a device {names}."
        )
    return costs_of_run(run, by_role)


def sentences_of(run: Run) -> list[str]:
    """Return what the run says in words, as the report's head does."""
    summaries = summarize(run)
    said = [sentences.headline(run, summaries), sentences.second_line(run, summaries)]
    return [sentence for sentence in (*said, *sentences.cautions(run, summaries)) if sentence]


# ---- devices


def list_devices(
    *,
    dsn: str | None = None,
    every: bool = False,
    prices: Path | None = None,
    probes: Iterable[Path] = (),
) -> tuple[DeviceFacts, ...]:
    """Return the devices that hold a local server's parts, and with EVERY all others.

    Each has its price and its probe where the files PRICES and PROBES have one of its name or
    mount point.
    """
    priced = read_prices(prices) if prices is not None else ()
    probed = [read_probe(path) for path in probes]
    with connect(dsn or "") as connection:
        why = why_not_local(connection)
        if why:
            raise PgflashError(
                f"its devices cannot be seen from here: {why}",
                hint="Run it where the server runs, in the same container if it is in one.",
            )
        places = server_places(connection)
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
    """Return what a file says that devices cost."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise PricesError(f'could not read "{path}": {why}') from error
    return prices_from_toml(text, name=str(path))


def probe_takes_s(seconds: float) -> float:
    """Return about how long a probe takes with so many seconds a step."""
    return probing.expected_s(seconds)


def probe_device(
    folder: Path,
    *,
    size_bytes: int = 2**30,
    seconds: float = 3.0,
    use_fio: bool = True,
    tell: probing.Tell = lambda _title, _expected_s: None,
) -> ProbedDevice:
    """Measure the device that a folder is on; TELL hears of each step."""
    probe = probing.probe(
        folder,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        size_bytes=size_bytes,
        seconds=seconds,
        use_fio=use_fio,
        tell=tell,
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


# ---- doctor


def examine(*, dsn: str | None = None, probes: Iterable[Path] = ()) -> tuple[Diagnosis, ...]:
    """Return what the doctor finds with a server and, if it is this one, its machine.

    Nothing is changed.  A probe says what the kernel cannot know of a device.
    """
    probed = [read_probe(path) for path in probes]
    with connect(dsn or "") as connection:
        server = read_server(connection)
        why = why_not_local(connection)
        if why:
            return diagnose(DoctorFacts(server=server, host=None, why_no_host=why))
        places = server_places(connection)
        host = read_host(postmaster_pid(connection))
    devices = tuple(_known(one, (), probed) for one in devices_of(places))
    return diagnose(DoctorFacts(server=server, host=host, devices=devices))


# ---- advice


def advise_report(report: AwrReport, situation: Situation | None = None) -> Advice:
    """Say whether storage is the bottleneck, and what flash would bring, by a report."""
    known = situation or Situation()
    return advise(work_of_report(report, flash_tablespaces=known.flash_tablespaces), known)


def advise_oracle(path: Path, situation: Situation | None = None) -> Advice:
    """Say the same by an Oracle AWR report, text or HTML."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AwrFileError(f'could not read "{path}": {error.strerror}') from error
    return advise(work_of_awr(text, name=str(path)), situation)


def file_situation(
    *,
    flash_bytes: int | None = None,
    users: float | None = None,
    cores: float | None = None,
    probes: Iterable[Path] = (),
    prices: Path | None = None,
) -> Situation:
    """Return what is known where there is no server: what the user says.

    The first of two probes is the array's, a single one the flash device's; prices are of
    devices that are called array and flash.
    """
    known = Situation(
        flash_bytes=None if flash_bytes is None else float(flash_bytes), users=users, cores=cores
    )
    read = [read_probe(path) for path in probes]
    if read:
        known = replace(known, flash=drive_of_probe(read[-1].probe, name=read[-1].name, flash=True))
    if len(read) > 1:
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
    """Return what a server and its machine tell beside a report, and the server's identity.

    FLASH is a folder on the flash device, TABLESPACE one of the server's on it.  Of a server
    elsewhere the devices are not known.
    """
    with connect(dsn or "") as connection:
        room = server_room(connection)
        local = not why_not_local(connection)
    devices = list_devices(dsn=dsn, every=True, prices=prices, probes=probes) if local else ()
    array = _device_with("data", devices)
    wal, cache = _device_with("wal", devices), room.has_cache
    fast = _device_of(flash, devices) if flash is not None else None
    known = Situation(
        flash_bytes=flash_bytes
        if flash_bytes is not None
        else (fast.free_bytes if fast is not None else None),
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
        flash_tablespaces=frozenset({tablespace} - {""} | _tablespaces_on_flash(devices, array)),
    )
    if array is not None:
        known = replace(known, array=drive_of_facts(array))
    if fast is not None:
        # Who names a folder as flash knows better than a virtual disk's rotational bit.
        known = replace(known, flash=drive_of_facts(replace(fast, media=Media.FLASH)))
    known = with_prices(
        known, array=array.price if array else None, flash=fast.price if fast else None
    )
    return known, room.system_identifier


def _device_with(part: str, devices: tuple[DeviceFacts, ...]) -> DeviceFacts | None:
    return next((one for one in devices if part in one.parts), None)


def _device_of(folder: Path, devices: tuple[DeviceFacts, ...]) -> DeviceFacts | None:
    path = str(folder.resolve())
    holding = [one for one in devices if Path(path).is_relative_to(one.mount_point)]
    return max(holding, key=lambda one: len(one.mount_point), default=None)


def _tablespaces_on_flash(
    devices: tuple[DeviceFacts, ...], array: DeviceFacts | None
) -> frozenset[str]:
    """Return the tablespaces on other devices than the data, that are flash."""
    return frozenset(
        part.removeprefix("tablespace ")
        for one in devices
        if one.media is Media.FLASH and one != array
        for part in one.parts
        if part.startswith("tablespace ")
    )


def _is_apart_on_flash(wal: DeviceFacts | None, array: DeviceFacts | None) -> bool:
    return wal is not None and wal != array and wal.media is Media.FLASH


def plan_advice(
    advice: Advice,
    path: Path,
    *,
    approach: str = "",
    tablespace: str = "",
    flash: Path | None = None,
    system_identifier: str = "",
) -> Plan:
    """Write an advice's moves to a file for pgflash plan apply, and return them.

    A plan of which anything was made stays: without it nobody could take that back.
    """
    if path.exists() and any(r.state is not MoveState.PLANNED for r in read_plan(path).records):
        raise UsageError(
            f'"{path}" holds moves that were made',
            hint=f"Name another file, or take them back first: pgflash plan undo {path}",
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
