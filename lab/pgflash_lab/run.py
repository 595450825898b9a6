# SPDX-License-Identifier: PostgreSQL
"""Run a scenario: load or find its database, measure every approach and repeat, store it.

The run is stored after every attempt, so an interrupt or a failure costs only the attempt in
progress; the stored run says that it was stopped, and why.  A killed run has no end.  Both can be
continued: the missing attempts are made.
"""

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgflash.model.words import duration, figure, size
from pgflash.progress import Listener
from pgflash_lab import devices, host, journal, store
from pgflash_lab.account import server_account
from pgflash_lab.attempt import Lab, expected_s, measure, needed_bytes
from pgflash_lab.emulator import EmulatedDevice, Emulator, library_path
from pgflash_lab.failover.attempt import measure_failover
from pgflash_lab.failover.fleet import emulated_members
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.hot import with_advised_objects
from pgflash_lab.loaded import LoadedDatabase, find_loaded, load, loaded_key
from pgflash_lab.model.run import Approach, Attempt, Run
from pgflash_lab.order import (
    Order,
    ResumeError,
    describe,
    profiles,
    require_extension,
    require_same,
    require_workload,
    without_second_flash,
)
from pgflash_lab.pages import write_products
from pgflash_lab.scenario import Scenario
from pgflash_lab.throttled import throttled_volume

#: What a file system needs for itself, of the bytes of its files.
_FILE_SYSTEM = 1.1


def run_scenario(order: Order, listener: Listener) -> Run:
    """Run a scenario to its end and return it; it is stored on the way."""
    order = without_second_flash(order, listener)
    require_extension(order)
    require_workload(order)
    if order.real is None:
        library_path()  # the library is built, or an error comes now rather than after the loading
    started = datetime.now(tz=UTC)
    resumed = order.resumed
    run_id = resumed.id if resumed else order.id or new_id(started, order.scenario)
    folder = order.out or order.store.folder(run_id)
    store.make_folder(folder)
    try:
        with journal.kept(folder, listener) as told:
            return _run(order, run_id, started, folder, told)
    except ResumeError as error:
        if not order.or_new:
            raise
        listener.note(f"{error.message}; a new run begins")
        return run_scenario(dataclasses.replace(order, resumed=None), listener)


def _run(
    order: Order, run_id: str, started: datetime, folder: Path, listener: journal.Journal
) -> Run:
    """Make the run in its folder."""
    began_s = time.monotonic()
    with _folders(order) as (folders, work):
        run = describe(order, run_id, started, folders)
        if order.resumed is not None:
            run = _resumed(order, order.resumed, run, listener)
        try:
            databases = _databases(order, folders, listener)
            first = databases[order.scenario.approaches[0].name]
            run = dataclasses.replace(run, database_bytes=first.database_bytes)
            rig = _Rig(
                order=order,
                folders=folders,
                work=work,
                databases=databases,
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
    listener.stage("writing the report", expected_s=2.0)
    run = dataclasses.replace(run, ended_at=_now())
    store.write_run(folder, run)
    write_products(folder, run)
    return run


def _resumed(order: Order, stored: Run, ordered: Run, listener: Listener) -> Run:
    """Return the stored run, to be continued."""
    require_same(stored, ordered)
    run = dataclasses.replace(stored, stopped="", ended_at="")
    left = len(_missing(order.scenario, run))
    listener.note(f"resuming run {run.id}: {len(run.attempts)} attempts are made, {left} are left")
    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rig:
    """What the attempts of a run share."""

    order: Order
    folders: devices.Folders
    work: Path
    #: The loaded database of each approach; their sizes may differ.
    databases: Mapping[str, LoadedDatabase]
    out: Path
    listener: journal.Journal


def new_id(started: datetime, scenario: Scenario) -> str:
    """Return the id of a run that begins now."""
    return f"{started:%Y%m%d-%H%M%S}-{scenario.name}"


def _missing(scenario: Scenario, run: Run) -> list[tuple[Approach, int]]:
    """Return the approaches and repeats that the run has not measured, in their order."""
    made = {(one.approach, one.repeat) for one in run.attempts}
    return [one for one in scenario.order() if (one[0].name, one[1]) not in made]


def _attempts(rig: _Rig, run: Run, began_s: float) -> Iterator[Run]:
    """Measure in the scenario's order, then repeat polluted attempts while time allows."""
    scenario, listener = rig.order.scenario, rig.listener
    todo = _missing(scenario, run)
    listener.plan(sum(expected_s(scenario, approach) for approach, _ in todo))
    limit_s = scenario.parameters.time_limit_s
    for place, (approach, repeat) in enumerate(todo):
        ends_s = time.monotonic() - began_s + expected_s(scenario, approach)
        if limit_s and repeat > 1 and ends_s > limit_s:
            listener.note(f"{len(todo) - place} repeats are left out: there is no time for them")
            break
        run = _one(rig, run, approach, repeat)
        yield run
    until_s = scenario.parameters.repeat_polluted_until_s
    by_name = {approach.name: approach for approach in scenario.approaches}
    made = Counter((one.approach, one.repeat) for one in run.attempts)
    for attempt in [one for one in run.attempts if one.polluted]:
        if made[attempt.approach, attempt.repeat] > 1:
            continue  # already repeated
        if time.monotonic() - began_s > until_s:
            listener.note("polluted attempts are left: there is no time to repeat them")
            return
        listener.note(f"repeating {attempt.approach}: {attempt.polluted}")
        listener.plan(expected_s(scenario, by_name[attempt.approach]))
        run = _one(rig, run, by_name[attempt.approach], attempt.repeat)
        run = dataclasses.replace(run, attempts=supersede(run.attempts))
        yield run


def supersede(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """Mark the worse of an attempt and its repetition: the one with more foreign CPU time."""
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
    schema = order.scenario.workload.name
    placed = with_advised_objects(approach, run, folder=rig.out, schema=schema)
    if placed != approach:
        listener.note(f"{approach.title}: {', '.join(placed.objects)} move to flash, as advised")
    with _emulator(order, approach, rig.folders) as emulator:
        lab = Lab(
            install=order.install,
            scenario=order.scenario,
            database=rig.databases[approach.name],
            emulator=emulator,
            folders=rig.folders,
            work=rig.work,
            listener=listener,
            out=rig.out,
            second=listener.second,
        )
        if isinstance(order.scenario.parameters, FailoverParameters):
            measured = measure_failover(lab, placed, repeat=repeat)
        else:
            measured = measure(lab, placed, repeat=repeat, places=rig.folders.places(approach))
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
    """Describe an attempt's result: its pace, or how long it took."""
    if attempt.duration_s:
        return duration(attempt.duration_s)
    return f"{figure(attempt.tpm)} TPM, p95 {figure(attempt.latency.p95_ms)} ms"


def _expected_s(scenario: Scenario) -> float:
    """Return how long all attempts may take."""
    return sum(expected_s(scenario, approach) for approach, _ in scenario.order())


def _databases(
    order: Order, folders: devices.Folders, listener: Listener
) -> dict[str, LoadedDatabase]:
    """Find each approach's loaded database, or load it."""
    scenario, workload = order.scenario, order.scenario.workload
    kinds = {}
    for approach in scenario.approaches:
        parameters = scenario.parameters_of(approach)
        kinds[approach.name] = loaded_key(order.install, workload, parameters), parameters
    missing = {
        key: parameters
        for key, parameters in kinds.values()
        if find_loaded(order.store.cache, key) is None
    }
    _require_room(order, folders, sum(map(workload.database_bytes, missing.values())))
    load_s = sum(workload.load_s(parameters) for parameters in missing.values())
    if missing:
        listener.plan(load_s + _expected_s(scenario))

    found = {}
    for key, parameters in dict(kinds.values()).items():
        if key in missing:
            title = f"loading the database of the workload {workload.name}"
            listener.stage(title, expected_s=workload.load_s(parameters))
        found[key] = load(
            order.store.cache,
            key,
            install=order.install,
            workload=workload,
            parameters=parameters,
            work=folders.array / "load",
            listener=listener,
        )
    return {name: found[key] for name, (key, _) in kinds.items()}


def _require_room(order: Order, folders: devices.Folders, loaded_bytes: int) -> None:
    """Refuse a run that would fill the store's disk, with what it loads or with its own files."""
    store.make_folder(order.store.cache.resolve())  # it may be a link to another disk
    needed = loaded_bytes
    if folders.array.stat().st_dev == order.store.cache.stat().st_dev:
        needed += needed_bytes(order.scenario)
    free = shutil.disk_usage(order.store.cache).free
    if free < needed:
        raise store.StoreError(
            f'"{order.store.root}" has {size(free)} of free space, the run needs {size(needed)}',
            hint="Free some space there, or name a folder on another disk: --store FOLDER.",
        )


@contextlib.contextmanager
def _folders(order: Order) -> Iterator[tuple[devices.Folders, Path]]:
    """Yield the devices' folders and one for the driver's own files."""
    with contextlib.ExitStack() as stack:
        if order.real is not None:
            hdd, flash = order.real
            if order.limits is not None:
                hdd = stack.enter_context(_limited(hdd, order))
            folders = stack.enter_context(devices.real_folders(hdd=hdd, flash=flash))
        else:
            folders = stack.enter_context(
                devices.emulated_folders(
                    order.store.root,
                    needed_bytes=needed_bytes(order.scenario),
                    # A run's files stay on the file system that they were on.
                    memory=order.resumed is None
                    or order.resumed.machine.get(host.FILES_ON) == host.file_system(devices.MEMORY),
                )
            )
        yield folders, stack.enter_context(devices.own_folder(Path(tempfile.gettempdir())))


@contextlib.contextmanager
def _limited(place: Path, order: Order) -> Iterator[Path]:
    """Yield a volume in PLACE that is limited for this process and those that it starts."""
    assert order.limits is not None
    with throttled_volume(
        place,
        size_bytes=int(needed_bytes(order.scenario) * _FILE_SYSTEM) + devices.SPARE_BYTES,
        memory_bytes=order.limits.memory_bytes,
    ) as volume:
        volume.limit(read_iops=order.limits.read_iops)
        with volume.entered():
            yield volume.path


@contextlib.contextmanager
def _emulator(
    order: Order, approach: Approach, folders: devices.Folders
) -> Iterator[Emulator | None]:
    """Yield the emulated devices for the approach, or None if they are real."""
    if order.real is not None:
        yield None
        return
    account = server_account()
    parameters = order.scenario.parameters_of(approach)
    array, flash = profiles(parameters)
    emulated = [
        EmulatedDevice(name="array", profile=array, paths=(folders.array,)),
        EmulatedDevice(name="flash", profile=flash, paths=(folders.flash,)),
    ]
    if isinstance(parameters, FailoverParameters):
        emulated = emulated_members(folders, array, flash)
    elif approach.cache_files > 1:
        emulated.append(EmulatedDevice(name="flash-2", profile=flash, paths=(folders.flash_2,)))
    with Emulator.create(
        folders.array.parent / "emulator.state",
        devices=emulated,
        owner=account.uid if account else None,
        delays_on=False,
    ) as emulator:
        yield emulator


def _first_line(error: BaseException) -> str:
    """Return an error's first line, or its kind if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="seconds")
