# SPDX-License-Identifier: PostgreSQL
"""Run a scenario: load or find its database, measure every approach and repeat, store it.

The run is stored after every attempt, so an interrupt or a failure costs only the attempt
that was under way; the stored run says that it was stopped, and why.
"""

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pgflash
from pgflash.errors import PgflashError
from pgflash.lab import devices, host, store
from pgflash.lab.attempt import (
    Lab,
    common_settings,
    expected_s,
    measure,
    needed_bytes,
)
from pgflash.lab.emulator import DeviceProfile, EmulatedDevice, Emulator, library_path
from pgflash.lab.extension import can_prefill, has_extension
from pgflash.lab.parameters import Parameters
from pgflash.lab.postgres import PgInstall
from pgflash.lab.progress import Listener, Stage
from pgflash.lab.scenario import Scenario
from pgflash.lab.server import server_account
from pgflash.lab.snapshot import Snapshot, find_snapshot, make_snapshot, snapshot_key
from pgflash.model.run import Approach, Attempt, Device, Run


class ExtensionMissingError(PgflashError):
    """The approaches need an extension that this PostgreSQL does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run, and where."""

    scenario: Scenario
    install: PgInstall
    store: store.Store
    #: Folder of the run; None: one by the run's id in the store.
    out: Path | None = None
    #: Two real devices, or none: emulated ones.
    real: tuple[Path, Path] | None = None


def require_extension(order: Order) -> None:
    """Refuse at once what would fail after the loading: a cache without the extension.

    A cache that is to be filled first, too, where nothing can fill it: one that begins empty
    is another measurement.
    """
    scenario = order.scenario
    cached = [one for one in scenario.approaches if one.cache]
    if not cached:
        return
    if has_extension(order.install):
        if any(scenario.parameters_of(one).prefill for one in cached) and not can_prefill(
            order.install
        ):
            raise ExtensionMissingError(
                f"PostgreSQL {order.install.version} has no pg_prewarm, which fills the cache",
                hint="Install PostgreSQL's contrib modules; or measure a cache that begins "
                "empty: --set prefill=false.",
            )
        return
    names = ",".join(one.name for one in order.scenario.approaches if not one.cache)
    raise ExtensionMissingError(
        f"the extension pgflash is not installed in PostgreSQL {order.install.version} "
        f"({order.install.pkglibdir})",
        hint=f"Install it: make extension PG_CONFIG={order.install.pg_config}; or leave the "
        f"cache out: --set approaches={names}.",
    )


def run_scenario(order: Order, listener: Listener) -> Run:
    """Run a scenario to its end and return it; it is stored on the way."""
    require_extension(order)
    if order.real is None:
        library_path()  # built, or an error now rather than after the loading
    started = datetime.now(tz=UTC)
    run_id = f"{started:%Y%m%d-%H%M%S}-{order.scenario.name}"
    folder = order.out or order.store.folder(run_id)
    store.make_folder(folder)
    began_s = time.monotonic()
    with _folders(order) as (folders, work):
        run = _describe(order, run_id, started, folders)
        try:
            snapshots = _snapshots(order, folders, listener)
            first = snapshots[order.scenario.approaches[0].name]
            run = dataclasses.replace(run, database_bytes=first.database_bytes)
            rig = _Rig(
                order=order,
                folders=folders,
                work=work,
                snapshots=snapshots,
                out=folder,
                listener=listener,
            )
            for grown in _attempts(rig, run, began_s):
                run = grown
                store.write_run(folder, run)
        except BaseException as error:
            why = "interrupted" if isinstance(error, KeyboardInterrupt) else _first_line(error)
            if run.attempts:
                store.write_run(folder, dataclasses.replace(run, stopped=why, ended_at=_now()))
            raise
    listener.begin(Stage(title="writing the report", expected_s=2.0))
    run = dataclasses.replace(run, ended_at=_now())
    store.write_run(folder, run)
    store.write_products(folder, run)
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rig:
    """What the attempts of a run share."""

    order: Order
    folders: devices.Folders
    work: Path
    #: The loaded database of each approach: they may be of different sizes.
    snapshots: Mapping[str, Snapshot]
    out: Path
    listener: Listener


def _attempts(rig: _Rig, run: Run, began_s: float) -> Iterator[Run]:
    """Measure in the scenario's order, then repeat what was polluted while time allows."""
    scenario, listener = rig.order.scenario, rig.listener
    todo = scenario.order()
    listener.plan(_expected_s(scenario))
    limit_s = scenario.parameters.time_limit_s
    for approach, repeat in todo:
        ends_s = time.monotonic() - began_s + expected_s(scenario, approach)
        if limit_s and repeat > 1 and ends_s > limit_s:
            listener.note(
                f"{len(todo) - len(run.attempts)} repeats are left out: there is no time for them"
            )
            return
        run = _one(rig, run, approach, repeat)
        yield run
    until_s = scenario.parameters.repeat_polluted_until_s
    by_name = {approach.name: approach for approach in scenario.approaches}
    for attempt in [one for one in run.attempts if one.polluted]:
        if time.monotonic() - began_s > until_s:
            listener.note("polluted attempts are left: there is no time to repeat them")
            return
        listener.note(f"repeating {attempt.approach}: {attempt.polluted}")
        listener.plan(expected_s(scenario, by_name[attempt.approach]))
        run = _one(rig, run, by_name[attempt.approach], attempt.repeat)
        run = dataclasses.replace(run, attempts=supersede(run.attempts))
        yield run


def supersede(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """Mark the worse of an attempt and its repetition: the one with more foreign CPU."""
    last = attempts[-1]
    marked = []
    for one in attempts[:-1]:
        same = (one.approach, one.repeat) == (last.approach, last.repeat) and not one.superseded
        if same and one.cpu.foreign_share < last.cpu.foreign_share:
            last = dataclasses.replace(last, superseded=True)
        elif same:
            one = dataclasses.replace(one, superseded=True)
        marked.append(one)
    return (*marked, last)


def _one(rig: _Rig, run: Run, approach: Approach, repeat: int) -> Run:
    """Measure once, and add it to the run."""
    order, listener = rig.order, rig.listener
    with _emulator(order, approach, rig.folders) as emulator:
        lab = Lab(
            install=order.install,
            scenario=order.scenario,
            snapshot=rig.snapshots[approach.name],
            emulator=emulator,
            folders=rig.folders,
            work=rig.work,
            listener=listener,
        )
        measured = measure(lab, approach, repeat=repeat, places=rig.folders.places(approach))
    name = store.attempt_name(len(run.attempts), approach.name)
    store.write_waits(rig.out, name, measured.waits)
    if measured.report is not None:
        store.write_period(rig.out, name, measured.report)
    attempt = measured.attempt
    listener.note(
        f"{approach.title}, repeat {repeat}: {_came_to(attempt)}"
        + (f"  [polluted: {attempt.polluted}]" if attempt.polluted else "")
    )
    return dataclasses.replace(run, attempts=(*run.attempts, attempt))


def _came_to(attempt: Attempt) -> str:
    """Say what an attempt came to: its pace, or how long it took."""
    if attempt.duration_s:
        return f"{attempt.duration_s:,.1f} s"
    return f"{attempt.tpm:,.0f} TPM, p95 {attempt.latency.p95_ms:,.1f} ms"


def _expected_s(scenario: Scenario) -> float:
    """Return how long all attempts may take."""
    return sum(expected_s(scenario, approach) for approach, _ in scenario.order())


def _snapshots(order: Order, folders: devices.Folders, listener: Listener) -> dict[str, Snapshot]:
    """Find each approach's loaded database, or load it."""
    scenario, workload = order.scenario, order.scenario.workload
    kinds = {}
    for approach in scenario.approaches:
        parameters = scenario.parameters_of(approach)
        kinds[approach.name] = snapshot_key(order.install, workload, parameters), parameters
    missing = {
        key: parameters
        for key, parameters in kinds.values()
        if find_snapshot(order.store.cache, key) is None
    }
    load_s = sum(workload.load_s(parameters) for parameters in missing.values())
    if missing:
        listener.plan(load_s + _expected_s(scenario))

    def tell(text: str) -> None:
        listener.begin(Stage(title=text, expected_s=0.0))

    found = {}
    for key, parameters in dict(kinds.values()).items():
        if key in missing:
            title = f"loading the database of the workload {workload.name}"
            listener.begin(Stage(title=title, expected_s=workload.load_s(parameters)))
        found[key] = make_snapshot(
            order.store.cache,
            key,
            install=order.install,
            workload=workload,
            parameters=parameters,
            work=folders.array / "load",
            tell=tell,
        )
    return {name: found[key] for name, (key, _) in kinds.items()}


@contextlib.contextmanager
def _folders(order: Order) -> Iterator[tuple[devices.Folders, Path]]:
    """Yield the devices' folders and one for the driver's own files."""
    with contextlib.ExitStack() as stack:
        if order.real is not None:
            hdd, flash = order.real
            folders = stack.enter_context(devices.real_folders(hdd=hdd, flash=flash))
        else:
            needed = needed_bytes(order.scenario)
            folders = stack.enter_context(
                devices.emulated_folders(order.store.root, needed_bytes=needed)
            )
        work = Path(tempfile.mkdtemp(prefix="pgflash-driver-"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        yield folders, work


@contextlib.contextmanager
def _emulator(
    order: Order, approach: Approach, folders: devices.Folders
) -> Iterator[Emulator | None]:
    """Yield the emulated devices as the approach has them, or None if they are real."""
    if order.real is not None:
        yield None
        return
    account = server_account()
    array, flash = _profiles(order.scenario.parameters_of(approach))
    emulated = [
        EmulatedDevice(name="array", profile=array, paths=(folders.array,)),
        EmulatedDevice(name="flash", profile=flash, paths=(folders.flash,)),
    ]
    if approach.cache_files > 1:
        emulated.append(EmulatedDevice(name="flash-2", profile=flash, paths=(folders.flash_2,)))
    with Emulator.create(
        folders.array.parent / "emulator.state",
        devices=emulated,
        owner=account.uid if account else None,
        delays_on=False,
    ) as emulator:
        yield emulator


def _profiles(parameters: Parameters) -> tuple[DeviceProfile, DeviceProfile]:
    """Return the profiles of the emulated devices."""
    return DeviceProfile.named(parameters.array), DeviceProfile.named(parameters.flash)


def _describe(order: Order, run_id: str, started: datetime, folders: devices.Folders) -> Run:
    """Return the run as it is before its first attempt."""
    scenario = order.scenario
    if order.real is not None:
        hdd, flash = order.real
        described = (devices.real_device("array", hdd), devices.real_device("flash", flash))
    else:
        array_profile, flash_profile = _profiles(scenario.parameters)
        described = (
            emulated_device("array", array_profile),
            emulated_device("flash", flash_profile),
        )
    return Run(
        id=run_id,
        scenario=scenario.name,
        title=scenario.title,
        preset=scenario.preset,
        paper=scenario.paper,
        started_at=started.isoformat(timespec="seconds"),
        pgflash_version=pgflash.__version__,
        postgres_version=order.install.version,
        machine=host.machine_facts(folders.array),
        parameters=scenario.parameters.as_text(),
        settings=common_settings(scenario, order.install),
        devices=described,
        approaches=scenario.approaches,
    )


def emulated_device(role: str, profile: DeviceProfile) -> Device:
    """Describe an emulated device by its profile."""
    facts = dict(line.split(" = ", 1) for line in profile.lines())
    return Device(
        role=role, name=profile.name, emulated=True, summary=profile.description, facts=facts
    )


def _first_line(error: BaseException) -> str:
    """Return an error's first line, or its kind if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
