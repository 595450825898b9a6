# SPDX-License-Identifier: PostgreSQL
"""Measure one approach once.

An attempt restores the same database, starts the server on the approach's places, puts tables where
they belong, warms up and fills the cache while the devices' delays are off.  It switches the delays
on, runs the load while the samplers look, checks the database, and stops the server.  The server is
stopped however the attempt ends; after an error or an interrupt, at once.
"""

import contextlib
import dataclasses
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pgflash.model.awr import AwrReport
from pgflash.model.words import percent
from pgflash.progress import Listener, Titled
from pgflash_lab.account import make_server_dir
from pgflash_lab.counters import DeviceReader
from pgflash_lab.devices import Folders, Places
from pgflash_lab.emulator import Emulator
from pgflash_lab.extension import (
    create_extension,
    has_extension,
    prefill,
    require_serving,
)
from pgflash_lab.leftovers import forget_memory
from pgflash_lab.loaded import LoadedDatabase
from pgflash_lab.marks import Mark, cache_use, cpu_use, device_stats, reads, take_mark
from pgflash_lab.model.lab_view import RunSecond
from pgflash_lab.model.run import Approach, Attempt, CacheSecond, CpuSecond, DiskSecond, HostSecond
from pgflash_lab.model.summary import COUNTED
from pgflash_lab.parameters import Parameters
from pgflash_lab.placing import make_tablespaces, place
from pgflash_lab.postgres import PgInstall
from pgflash_lab.recorder import Recorded, Recorder
from pgflash_lab.sampler import WAITS_HZ, Samples, WaitSample, Watch
from pgflash_lab.scenario import Scenario
from pgflash_lab.server import Server
from pgflash_lab.workload import DATABASE, Context, Figures, MeasureError, Observer

#: How long the steps around a measurement take on a small machine, to estimate the remaining time.
RESTORE_S = 3.0
CHECK_S = 4.0
PREFILL_S = 5.0
MOVE_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An attempt, and what a sampler saw."""

    attempt: Attempt
    waits: tuple[WaitSample, ...]
    #: The server's own report on it; None without the extension.
    report: AwrReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """The part of a run that an attempt needs."""

    install: PgInstall
    scenario: Scenario
    database: LoadedDatabase
    emulator: Emulator | None  # None: real devices
    folders: Folders
    work: Path  # for the driver's files
    listener: Listener
    #: The run's folder, for the logs of what failed.
    out: Path | None = None
    #: Called once a second while an attempt is measured, with its title and what is counted.
    second: Callable[[str, str, RunSecond], None] = lambda _attempt, _counted, _second: None

    def statements(self, parameters: Parameters) -> bool:
        """Tell whether statements are to be counted, and can be."""
        return parameters.statements and (self.install.pkglibdir / "pg_stat_statements.so").exists()

    def settings(self, approach: Approach, places: Places) -> dict[str, str]:
        """Return the server's settings: the scenario's, the workload's, the extension's.

        Every approach has the extension, so that the cost of counting is the same for all.
        """
        parameters = self.scenario.parameters_of(approach)
        settings = common_settings(self.scenario, self.install)
        settings["shared_buffers"] = parameters.shared_buffers
        settings |= _archiving(places.archive)
        settings |= self.scenario.workload.settings(parameters, approach, archive=places.archive)
        if not has_extension(self.install):
            return settings
        libraries = ["pgflash"]
        if self.statements(parameters):
            libraries.append("pg_stat_statements")
        settings["shared_preload_libraries"] = ",".join(libraries)
        settings["pgflash.snapshot_interval"] = "0"  # taken when the lab asks for them
        settings["pgflash.cache_list_interval"] = "0"  # a cold cache stays cold
        settings["pgflash.sample_rate"] = f"{WAITS_HZ:g}"
        if not places.cache_files:
            return {**settings, "pgflash.advice": "off"}
        return {
            **settings,
            "pgflash.cache_file": ", ".join(str(file) for file in places.cache_files),
            # Each file has this size.
            "pgflash.cache_size": f"{parameters.cache_bytes // len(places.cache_files) // 1024}kB",
        }


def common_settings(scenario: Scenario, install: PgInstall) -> dict[str, str]:
    """Return the settings that are the same for every approach."""
    settings = {"shared_buffers": scenario.parameters.shared_buffers, **scenario.settings}
    if install.major >= 18:
        # Three io workers would serialize all clients' reads; with sync each client waits for its
        # own.
        settings.setdefault("io_method", "sync")
    return settings


def _archiving(archive: Path | None) -> dict[str, str]:
    """Return how WAL is archived, unless the workload has its own way."""
    if archive is None:
        return {}
    return {
        "archive_mode": "on",
        "archive_command": f"test ! -f '{archive}/%f' && cp '%p' '{archive}/%f'",
    }


class _Pace:
    """Puts together, second by second, what the driver and the devices say of a load."""

    def __init__(self, lab: Lab, context: Context[Any]) -> None:
        self._lab = lab
        self._attempt = f"{context.approach.title}, repeat {context.repeat}"
        self._per_s: float | None = None
        self._latency_ms: float | None = None

    def count(self, per_s: float, latency_ms: float | None) -> None:
        """Take what the driver says."""
        self._per_s, self._latency_ms = per_s, latency_ms

    def second(self, at_s: float, bytes_per_s: Mapping[str, float]) -> None:
        """Read what the devices did in a second, and report it; called in a thread."""
        self._lab.second(
            self._attempt,
            COUNTED.get(self._lab.scenario.load, "operations"),
            RunSecond(
                at_s=round(at_s, 1),
                per_s=self._per_s,
                latency_ms=self._latency_ms,
                bytes_per_s=dict(bytes_per_s),
            ),
        )


class _EndMark(Observer):
    """Ends the watch and takes the second mark as soon as the load has ended.

    The driver then checks its figures with queries of its own; they are not part of the load.
    """

    def __init__(
        self,
        lab: Lab,
        server: Server,
        watch: Watch,
        recorder: Recorder | None,
        *,
        cache: bool,
        pace: _Pace,
    ) -> None:
        self._pace = pace
        self._lab = lab
        self._server = server
        self._watch = watch
        self._recorder = recorder
        self._cache = cache
        self.mark: Mark | None = None
        self.devices: dict[str, dict[str, float]] = {}

    def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
        self._pace.count(tps, latency_ms)

    def measuring_ended(self) -> None:
        self._watch.stop()
        self.mark = take_mark(self._server, cache=self._cache)
        if self._recorder is not None:
            self._recorder.take()
        # Last, as they were reset first: a read that a snapshot counts is one of theirs, too.
        self.devices = device_stats(self._lab.emulator)


def measure(lab: Lab, approach: Approach, *, repeat: int, places: Places) -> Measured:
    """Measure one approach once."""
    parameters = lab.scenario.parameters_of(approach)
    listener = Titled(lab.listener, f"{approach.title}, repeat {repeat}")

    listener.stage("restoring the database", expected_s=RESTORE_S)
    _set_delays(lab.emulator, on=False)
    server = Server.open(lab.install, places.base, settings=lab.settings(approach, places))
    server.restore(lab.database.path, wal_dir=places.wal)
    if lab.emulator is None:
        os.sync()  # so that the copy is not written back while we measure
    for file in places.cache_files:
        make_server_dir(file.parent)
        file.unlink(missing_ok=True)
    if places.archive is not None:
        make_server_dir(places.archive)
    try:
        server.start(lab.emulator.env if lab.emulator else {})
        with (
            server.explaining_its_end(),
            _context(lab, approach, places, server, repeat=repeat, listener=listener) as context,
        ):
            if has_extension(lab.install):
                create_extension(server, statements=lab.statements(parameters))
            if approach.objects or approach.temp or approach.keep:
                listener.stage("moving tables", expected_s=MOVE_S)
                place(server, approach, context.tablespaces, lab.scenario.workload.name)
            if approach.cache:
                require_serving(server)
            listener.stage("preparing", expected_s=lab.scenario.workload.prepare_s(parameters))
            lab.scenario.workload.prepare(context)
            if approach.cache and parameters.prefill:
                listener.stage("filling the cache", expected_s=PREFILL_S)
                prefill(server)
            listener.stage("measuring", expected_s=lab.scenario.workload.expected_s(parameters))
            measured = _measure(lab, context)
        listener.stage("checking the database", expected_s=CHECK_S)
        _set_delays(lab.emulator, on=False)
        held = lab.scenario.workload.check(server.conninfo(DATABASE), parameters)
    except BaseException:
        server.stop("immediate")
        forget_memory(server.data)
        raise
    server.stop("immediate")  # it has been checked and will be thrown away
    places.clear()
    attempt = dataclasses.replace(measured.attempt, consistency=held)
    return dataclasses.replace(measured, attempt=attempt)


def expected_s(scenario: Scenario, approach: Approach) -> float:
    """Return how long one attempt may take."""
    parameters = scenario.parameters_of(approach)
    fill_s = PREFILL_S if approach.cache and parameters.prefill else 0.0
    move_s = MOVE_S if approach.objects or approach.temp or approach.keep else 0.0
    load_s = scenario.workload.prepare_s(parameters) + scenario.workload.expected_s(parameters)
    return RESTORE_S + move_s + fill_s + load_s + CHECK_S


@contextlib.contextmanager
def _context(
    lab: Lab, approach: Approach, places: Places, server: Server, *, repeat: int, listener: Listener
) -> Iterator[Context[Any]]:
    """Yield the workload's context, with a folder that is removed afterwards."""
    workdir = Path(tempfile.mkdtemp(prefix="driver-", dir=lab.work))
    try:
        yield Context(
            install=lab.install,
            server=server,
            conninfo=server.conninfo(DATABASE),
            parameters=lab.scenario.parameters_of(approach),
            approach=approach,
            workdir=workdir,
            tablespaces=make_tablespaces(server, places),
            archive=places.archive,
            repeat=repeat,
            listener=listener,
        )
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _measure(lab: Lab, context: Context[Any]) -> Measured:
    """Run the load with delays, and watch everything meanwhile."""
    server, approach, parameters = context.server, context.approach, context.parameters
    ramp_up_s = lab.scenario.workload.ramp_up_s(parameters)
    if lab.emulator is not None:
        lab.emulator.reset()
    _set_delays(lab.emulator, on=True)
    with contextlib.ExitStack() as stack:
        recorder = None
        if has_extension(lab.install):
            recorder = stack.enter_context(Recorder(context.conninfo))
            recorder.take()
        pace = _Pace(lab, context)
        watch = Watch(
            context.conninfo,
            live=pace.second,
            cache=approach.cache,
            waits=recorder is None,
            devices=DeviceReader(
                lab.emulator, {"array": lab.folders.array, "flash": lab.folders.flash}
            ),
            snapshots=recorder.take if recorder is not None else None,
            snapshot_s=parameters.snapshot_s,
            until_s=parameters.measure_s + ramp_up_s if parameters.measure_s else math.inf,
        )
        stack.enter_context(watch)
        observer = _EndMark(lab, server, watch, recorder, cache=approach.cache, pace=pace)
        before = take_mark(server, cache=approach.cache)
        figures = lab.scenario.workload.measure(context, observer)
        recorded = recorder.recorded() if recorder is not None else None
    samples = watch.samples
    after = observer.mark
    if after is None:
        raise MeasureError("the load ended without saying so")
    attempt = _attempt(
        lab, context, figures=figures, before=before, after=after, samples=samples,
        devices=observer.devices, recorded=recorded,
    )  # fmt: skip
    return Measured(
        attempt=attempt,
        waits=tuple(samples.waits) if recorded is None else recorded.samples,
        report=None if recorded is None else recorded.report,
    )


def _set_delays(emulator: Emulator | None, *, on: bool) -> None:
    """Switch the emulated devices' delays, if there are such devices."""
    if emulator is None:
        return
    if on:
        emulator.on()
    else:
        emulator.off()


def _attempt(
    lab: Lab,
    context: Context[Any],
    *,
    figures: Figures,
    before: Mark,
    after: Mark,
    samples: Samples,
    devices: dict[str, dict[str, float]],
    recorded: Recorded | None,
) -> Attempt:
    """Combine the measurements into an attempt."""
    approach, parameters = context.approach, context.parameters
    ramp_up_s = lab.scenario.workload.ramp_up_s(parameters)
    cpu = cpu_use(before, after, driver_s=figures.driver_cpu_s)
    cache = None
    if approach.cache and recorded is not None:
        cache = cache_use(before, after, recorded)
    polluted = ""
    if cpu.foreign_share > parameters.foreign_cpu_max:
        polluted = f"others took {percent(cpu.foreign_share)} of the processors"
    return Attempt(
        approach=approach.name,
        repeat=context.repeat,
        warmup_s=parameters.warmup_s,
        clients=parameters.clients,
        workload=lab.scenario.workload.name,
        **{
            one.name: getattr(figures, one.name)
            for one in dataclasses.fields(Figures)
            if one.name != "driver_cpu_s"
        },
        cpu=cpu,
        cpu_seconds=_since(ramp_up_s, samples.cpu),
        reads=reads(approach, before, after, recorded, cache, emulated=lab.emulator is not None),
        cache=cache,
        cache_seconds=_since(ramp_up_s, samples.cache),
        disk_seconds=_since(ramp_up_s, samples.disks),
        host_seconds=_since(ramp_up_s, samples.hosts),
        waits=samples.wait_counts() if recorded is None else recorded.waits,
        wait_rounds=samples.wait_rounds if recorded is None else recorded.looks,
        wait_hz=WAITS_HZ,
        wal_bytes=after.wal_bytes - before.wal_bytes,
        devices=devices,
        polluted=polluted,
    )


_Sampled = TypeVar("_Sampled", CpuSecond, CacheSecond, DiskSecond, HostSecond)


def _since(ramp_up_s: float, samples: Sequence[_Sampled]) -> tuple[_Sampled, ...]:
    """Count times from the start of the measured window, and drop what was before it."""
    return tuple(
        dataclasses.replace(one, at_s=one.at_s - ramp_up_s)
        for one in samples
        if one.at_s >= ramp_up_s
    )


def needed_bytes(scenario: Scenario) -> int:
    """Return the room that an attempt's files may take: data, its growth, WAL, cache."""
    return max(_needed_bytes(scenario, approach) for approach in scenario.approaches)


def _needed_bytes(scenario: Scenario, approach: Approach) -> int:
    parameters = scenario.parameters_of(approach)
    database = scenario.workload.database_bytes(parameters)
    load_s = scenario.workload.prepare_s(parameters) + scenario.workload.expected_s(parameters)
    wal = parameters.wal_bytes_per_s * load_s
    cache = parameters.cache_bytes if approach.cache else 0
    return int((database * 1.5 + wal + cache) * parameters.servers)
