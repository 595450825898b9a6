# SPDX-License-Identifier: PostgreSQL
"""Measure one approach once.

Restore the same database, start the server on the approach's places, warm up with the
devices' delays off (the cache fills meanwhile), switch the delays on, run the load while
the samplers look, check the database, stop.  The server is stopped however this ends,
and at once if it ends by an error or an interrupt.
"""

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from pgflash.lab import host, oltp
from pgflash.lab.devices import Places
from pgflash.lab.emulator import DeviceStats, Emulator
from pgflash.lab.extension import (
    MeasureError,
    cache_row,
    create_extension,
    database_blocks,
    has_extension,
    prefill,
    require_serving,
)
from pgflash.lab.postgres import PgInstall
from pgflash.lab.progress import Listener, Stage
from pgflash.lab.recorder import Recorder
from pgflash.lab.sampler import WAITS_HZ, Samples, WaitSample, Watch
from pgflash.lab.scenario import Scenario, size_bytes
from pgflash.lab.server import Server, forget_memory, make_server_dir, remove_data
from pgflash.lab.snapshot import DATABASE, Snapshot, check
from pgflash.model.awr import AwrReport
from pgflash.model.run import (
    Approach,
    Attempt,
    CacheSecond,
    CacheUse,
    CpuSecond,
    CpuUse,
    Latency,
    Reads,
    Second,
)

#: Connecting and preparing, before the measured window begins.
RAMP_UP_S = 2
#: Clients that have ended report what they read at their very end.
_CLIENTS_GONE_WAIT_S = 30.0

#: What the steps around a measurement take on a small machine, for the time left.
RESTORE_S = 3.0
CHECK_S = 4.0
PREFILL_S = 5.0

#: Of the view pgflash_cache: what counts up, and what stands for itself.
_COUNTERS = (
    "hits",
    "misses",
    "page_cache_reads",
    "inserts",
    "eviction_invalidated",
    "eviction_aged_out",
    "eviction_buffer_pinned",
    "insert_skip_not_current",
    "insert_skip_writer_overloaded",
    "insert_skip_exists",
    "insert_skip_not_useful",
    "insert_skip_modification",
    "insert_skip_corrupt",
    "insert_skip_budget",
    "insert_skip_device",
    "bypass_reads",
    "updates",
    "invalidations",
    "prefetches_swallowed",
    "flash_reads",
    "flash_read_bytes",
    "flash_writes",
    "flash_write_bytes",
    "flash_read_errors",
    "flash_write_errors",
    "corrupt_slots",
    "disk_reads",
    "disk_read_bytes",
    "verify_compared",
    "verify_mismatches",
)
#: Means since the server's start, and the counters that they are means over.
_MEANS = (("flash_read_mean_ms", "flash_reads"), ("disk_read_mean_ms", "disk_reads"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An attempt, and what its wait sampler saw."""

    attempt: Attempt
    waits: tuple[WaitSample, ...]
    #: What the server itself says of it; None without the extension.
    report: AwrReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What all attempts of a run share."""

    install: PgInstall
    scenario: Scenario
    snapshot: Snapshot
    emulator: Emulator | None  # None: real devices
    work: Path  # for the driver's files
    listener: Listener

    @property
    def statements(self) -> bool:
        """Tell whether statements are to be counted, and can be."""
        library = self.install.pkglibdir / "pg_stat_statements.so"
        return self.scenario.parameters.statements and library.exists()

    def settings(self, places: Places) -> dict[str, str]:
        """Return the server's settings: the scenario's, and the extension's if it is there.

        Every approach has the extension, so that what counting costs is the same for all.
        """
        settings = common_settings(self.scenario, self.install)
        if not has_extension(self.install):
            return settings
        libraries = ["pgflash"]
        if self.statements:
            libraries.append("pg_stat_statements")
        settings["shared_preload_libraries"] = ",".join(libraries)
        settings["pgflash.snapshot_interval"] = "0"  # taken when the lab asks for them
        if places.cache_file is None:
            return {**settings, "pgflash.advice": "off"}
        return {
            **settings,
            "pgflash.cache_file": str(places.cache_file),
            "pgflash.cache_size": self.scenario.parameters.cache_size,
        }


def common_settings(scenario: Scenario, install: PgInstall) -> dict[str, str]:
    """Return the settings that are the same for every approach."""
    settings = {"shared_buffers": scenario.parameters.shared_buffers, **scenario.settings}
    if install.major >= 18:
        # Three io workers would serialise all clients' reads; with sync each waits for its own.
        settings.setdefault("io_method", "sync")
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """Everything that counts up, at one moment."""

    at_s: float
    machine: host.MachineCpu
    server: host.CpuTime
    own_s: float
    blocks: int
    read_ms: float
    wal_bytes: int
    cache: Mapping[str, Any] | None
    #: Of the database's files, and how many of those the cache has.
    blocks_all: int
    blocks_cached: int


class _EndMark(oltp.RunObserver):
    """Ends the watch and takes the second mark as soon as the load has ended.

    The driver checks its figures with queries of its own afterwards; they are no load.
    """

    def __init__(
        self,
        lab: Lab,
        server: Server,
        watch: Watch,
        recorder: Recorder | None,
        *,
        cache: bool,
    ) -> None:
        self._lab = lab
        self._server = server
        self._watch = watch
        self._recorder = recorder
        self._cache = cache
        self.mark: _Mark | None = None
        self.devices: dict[str, dict[str, float]] = {}

    def measuring_ended(self) -> None:
        self._watch.stop()
        self.mark = _take_mark(self._server, cache=self._cache)
        self.devices = _device_stats(self._lab.emulator)
        if self._recorder is not None:
            self._recorder.take()


def measure(lab: Lab, approach: Approach, *, repeat: int, places: Places) -> Measured:
    """Measure one approach once."""
    title = f"{approach.title}, repeat {repeat}"
    lab.listener.begin(Stage(title=f"{title}: restoring the database", expected_s=RESTORE_S))
    _set_delays(lab.emulator, on=False)
    server = Server.open(lab.install, places.base, settings=lab.settings(places))
    server.restore(lab.snapshot.path, wal_dir=places.wal)
    if lab.emulator is None:
        os.sync()  # the copy is not to be written back while we measure
    if places.cache_file is not None:
        make_server_dir(places.cache_file.parent)
        places.cache_file.unlink(missing_ok=True)
    try:
        server.start(lab.emulator.env if lab.emulator else {})
        recorded = has_extension(lab.install) and create_extension(
            server, statements=lab.statements
        )
        if approach.cache:
            require_serving(server)
            if lab.scenario.parameters.prefill:
                filling = Stage(title=f"{title}: filling the cache", expected_s=PREFILL_S)
                lab.listener.begin(filling)
                prefill(server)
        measured = _warm_and_measure(
            lab, server, approach, repeat=repeat, title=title, recorded=recorded
        )
        lab.listener.begin(Stage(title=f"{title}: checking the database", expected_s=CHECK_S))
        _set_delays(lab.emulator, on=False)
        held = check(server.conninfo(DATABASE))
    except BaseException:
        server.stop("immediate")
        forget_memory(server.data)
        raise
    server.stop("immediate")  # it has been checked, and is thrown away
    _clear(places)
    attempt = dataclasses.replace(measured.attempt, consistency=held)
    return dataclasses.replace(measured, attempt=attempt)


def expected_s(scenario: Scenario, approach: Approach) -> float:
    """Return how long one attempt may take."""
    parameters = scenario.parameters
    fill_s = PREFILL_S if approach.cache and parameters.prefill else 0.0
    load_s = parameters.warmup_s + RAMP_UP_S + parameters.measure_s
    return RESTORE_S + fill_s + load_s + CHECK_S


def _warm_and_measure(
    lab: Lab, server: Server, approach: Approach, *, repeat: int, title: str, recorded: bool
) -> Measured:
    """Warm up without delays, then measure with them."""
    parameters = lab.scenario.parameters
    if parameters.warmup_s:
        lab.listener.begin(Stage(title=f"{title}: warming up", expected_s=parameters.warmup_s))
        warm = _config(lab.scenario, duration_s=parameters.warmup_s, ramp_up_s=0, seed=repeat)
        _run(lab, server, warm)
    lab.listener.begin(
        Stage(title=f"{title}: measuring", expected_s=parameters.measure_s + RAMP_UP_S)
    )
    load = _config(
        lab.scenario,
        duration_s=parameters.measure_s,
        ramp_up_s=RAMP_UP_S,
        seed=1000 + repeat,
    )
    if lab.emulator is not None:
        lab.emulator.reset()
    _set_delays(lab.emulator, on=True)
    with contextlib.ExitStack() as stack:
        recorder = None
        if recorded:
            recorder = stack.enter_context(Recorder(server.conninfo(DATABASE)))
            recorder.take()
        watch = Watch(
            server.conninfo(DATABASE),
            cache=approach.cache,
            snapshots=recorder.take if recorder is not None else None,
            snapshot_s=parameters.snapshot_s,
            until_s=parameters.measure_s + RAMP_UP_S,
        )
        stack.enter_context(watch)
        observer = _EndMark(lab, server, watch, recorder, cache=approach.cache)
        before = _take_mark(server, cache=approach.cache)
        result = _run(lab, server, load, observer)
        report = recorder.report() if recorder is not None else None
    samples = watch.samples
    after = observer.mark
    if after is None:
        raise MeasureError("the load ended without saying so")
    if not result.counts_agree:
        raise MeasureError(
            f"{result.new_orders_acknowledged:,} new orders were acknowledged, but the database "
            f"has {result.new_orders_in_database:,}",
            hint="Orders were lost: keep the run's folder and report this.",
        )
    attempt = _attempt(
        lab, approach, repeat=repeat, result=result, before=before, after=after, samples=samples,
        devices=observer.devices,
    )  # fmt: skip
    return Measured(attempt=attempt, waits=tuple(samples.waits), report=report)


def _config(scenario: Scenario, *, duration_s: int, ramp_up_s: int, seed: int) -> oltp.OltpConfig:
    """Return the load's configuration; each repeat draws other rows, all approaches the same."""
    return oltp.OltpConfig(
        warehouses=scenario.parameters.warehouses,
        clients=scenario.parameters.clients,
        duration_s=duration_s,
        ramp_up_s=ramp_up_s,
        seed=scenario.parameters.seed * 10_000 + seed,
    )


def _run(
    lab: Lab,
    server: Server,
    config: oltp.OltpConfig,
    observer: oltp.RunObserver | None = None,
) -> oltp.OltpResult:
    """Run the load with the driver's files in a folder of its own."""
    workdir = lab.work / "driver"
    shutil.rmtree(workdir, ignore_errors=True)
    try:
        return oltp.run(lab.install, server.conninfo(DATABASE), config, workdir, observer)
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _set_delays(emulator: Emulator | None, *, on: bool) -> None:
    """Switch the emulated devices' delays, if the devices are emulated."""
    if emulator is None:
        return
    if on:
        emulator.on()
    else:
        emulator.off()


def _take_mark(server: Server, *, cache: bool) -> _Mark:
    """Read everything that counts up; the processors' time last before and first after."""
    postmaster = server.postmaster_pid
    if postmaster is None:
        raise MeasureError(
            f"the server has ended: {server.log_text(since_start=True)[-500:]}",
            hint="Its log is shown above.",
        )
    machine, cpu, own_s = host.machine_cpu(), host.server_cpu(postmaster), host.own_cpu()
    at_s = time.monotonic()
    with psycopg.connect(server.conninfo(DATABASE), autocommit=True) as connection:
        _wait_until_clients_gone(connection)
        row = connection.execute(
            "select blks_read, blk_read_time, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') "
            "from pg_stat_database where datname = current_database()"
        ).fetchone()
    assert row is not None
    blocks_all, blocks_cached = database_blocks(server) if cache else (0, 0)
    return _Mark(
        at_s=at_s,
        machine=machine,
        server=cpu,
        own_s=own_s,
        blocks=int(row[0]),
        read_ms=float(row[1]),
        wal_bytes=int(row[2]),
        cache=cache_row(server) if cache else None,
        blocks_all=blocks_all,
        blocks_cached=blocks_cached,
    )


def _wait_until_clients_gone(connection: psycopg.Connection[Any]) -> None:
    """Wait until the load's clients have reported and gone."""
    deadline = time.monotonic() + _CLIENTS_GONE_WAIT_S
    query = "select count(*) from pg_stat_get_activity(null) a where backend_type = %s"
    name = "and coalesce(application_name, '') = 'pgbench'"
    while True:
        row = connection.execute(f"{query} {name}", ("client backend",)).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise MeasureError("the load's clients did not end")
        time.sleep(0.02)


def _attempt(
    lab: Lab,
    approach: Approach,
    *,
    repeat: int,
    result: oltp.OltpResult,
    before: _Mark,
    after: _Mark,
    samples: Samples,
    devices: dict[str, dict[str, float]],
) -> Attempt:
    """Put together what was measured."""
    cpu = _cpu_use(before, after, driver_s=result.client_cpu_s)
    cache = _cache_use(before, after)
    limit = lab.scenario.parameters.foreign_cpu_max
    polluted = ""
    if cpu.foreign_share > limit:
        polluted = f"others took {cpu.foreign_share:.0%} of the processors"
    everything = result.latency("all")
    return Attempt(
        approach=approach.name,
        repeat=repeat,
        started_at=result.started_at,
        warmup_s=lab.scenario.parameters.warmup_s,
        measured_s=result.window_s,
        clients=lab.scenario.parameters.clients,
        transactions=result.transactions,
        transactions_all=result.transactions_acknowledged,
        tpm=result.tpm,
        nopm=result.nopm,
        nopm_counted=60 * result.new_orders_in_database / result.elapsed_s,
        latency=_latency(everything, name=""),
        by_transaction=tuple(
            _latency(one, name=one.transaction)
            for one in result.latencies
            if one.transaction != "all"
        ),
        seconds=tuple(
            Second(
                at_s=one.at_s,
                transactions=one.transactions,
                mean_ms=one.mean_ms,
                p95_ms=one.p95_ms,
            )
            for one in result.seconds
            if 0 <= one.at_s < int(result.window_s)
        ),
        cpu=cpu,
        cpu_seconds=_since_ramp_up(samples.cpu),
        reads=_reads(approach, before, after, cache, emulated=lab.emulator is not None),
        cache=cache,
        cache_seconds=_since_ramp_up(samples.cache),
        waits=samples.wait_counts(),
        wait_rounds=samples.wait_rounds,
        wait_hz=WAITS_HZ,
        wal_bytes=after.wal_bytes - before.wal_bytes,
        devices=devices,
        polluted=polluted,
    )


_Sampled = TypeVar("_Sampled", CpuSecond, CacheSecond)


def _since_ramp_up(samples: Sequence[_Sampled]) -> tuple[_Sampled, ...]:
    """Count from the measured window's start, and leave out what was before it."""
    return tuple(
        dataclasses.replace(one, at_s=one.at_s - RAMP_UP_S)
        for one in samples
        if one.at_s >= RAMP_UP_S
    )


def _latency(one: oltp.TransactionLatency, *, name: str) -> Latency:
    """Return response times in the report's terms."""
    return Latency(
        transaction=name,
        count=one.count,
        mean_ms=one.mean_ms,
        p50_ms=one.p50_ms,
        p90_ms=one.p90_ms,
        p95_ms=one.p95_ms,
        p99_ms=one.p99_ms,
        max_ms=one.max_ms,
    )


def _cpu_use(before: _Mark, after: _Mark, *, driver_s: float) -> CpuUse:
    """Say whose the processors were; what is left over is foreign."""
    user_s = after.server.user_s - before.server.user_s
    system_s = after.server.system_s - before.server.system_s
    # The driver's programs may or may not be among our buried children: count them once.
    own_s = max(after.own_s - before.own_s, driver_s)
    busy_s = after.machine.busy_s - before.machine.busy_s
    return CpuUse(
        cores=host.core_count(),
        elapsed_s=after.at_s - before.at_s,
        server_user_s=user_s,
        server_system_s=system_s,
        driver_s=own_s,
        foreign_s=max(busy_s - user_s - system_s - own_s, 0.0),
    )


def _cache_use(first: _Mark, last: _Mark) -> CacheUse | None:
    """Return the cache's account, counters as growth."""
    before, after = first.cache, last.cache
    if before is None or after is None:
        return None
    if after["verify_mismatches"]:
        raise MeasureError(
            f"{after['verify_mismatches']:,} blocks from flash differed from their file",
            hint="This must never happen: keep the run's folder and report it.",
        )
    return CacheUse(
        mode=str(after["mode"]),
        mode_reason=str(after["mode_reason"] or ""),
        size_bytes=int(after["size_bytes"] or 0),
        slots=int(after["slots"] or 0),
        used_slots=int(after["used_slots"] or 0),
        counters={
            name: int(after[name] or 0) - int(before[name] or 0)
            for name in _COUNTERS
            if name in after
        },
        # Each block that the cache did not have at first, or that the load made, can miss
        # once; more only if blocks are dropped or not put in.
        gauges={
            "blocks_not_cached_before": float(last.blocks_all - first.blocks_cached),
            **_gauges(before, after),
        },
    )


def _gauges(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """Return what the cache cost, and the mean read times of the measured phase alone.

    The view's means include the warm-up, when there were no delays; a mean times its
    counter is a total, and totals can be subtracted.
    """
    gauges = {"metadata_bytes_per_block": float(after["metadata_bytes_per_block"] or 0)}
    for mean, counter in _MEANS:
        counts = [int(row[counter] or 0) for row in (before, after)]
        totals = [
            float(row[mean] or 0) * count
            for row, count in zip((before, after), counts, strict=True)
        ]
        if counts[1] > counts[0]:
            gauges[mean] = max(totals[1] - totals[0], 0.0) / (counts[1] - counts[0])
    return gauges


def _reads(
    approach: Approach, before: _Mark, after: _Mark, cache: CacheUse | None, *, emulated: bool
) -> Reads:
    """Say which blocks came from where."""
    blocks = after.blocks - before.blocks
    wait_ms = after.read_ms - before.read_ms
    if cache is not None:
        page_cache, flash, disk = (
            cache.counters.get(name, 0) for name in ("page_cache_reads", "hits", "misses")
        )
        known = True
    else:
        on_flash = approach.data == "flash"
        page_cache, flash, disk = 0, blocks if on_flash else 0, 0 if on_flash else blocks
        known = emulated  # an emulated path has no page cache
    return Reads(
        blocks=blocks,
        wait_ms=wait_ms,
        page_cache=page_cache,
        flash=flash,
        disk=disk,
        page_cache_known=known,
    )


def _device_stats(emulator: Emulator | None) -> dict[str, dict[str, float]]:
    """Return what the emulated devices counted, as plain numbers."""
    if emulator is None:
        return {}
    return {one.name: _plain_stats(one) for one in emulator.stats().devices}


def _plain_stats(stats: DeviceStats) -> dict[str, float]:
    """Flatten one device's statistics."""
    plain = {"utilisation": stats.utilisation, "dirty_bytes": float(stats.dirty_bytes)}
    for name, operation in stats.operations.items():
        plain[f"{name}_count"] = operation.count
        plain[f"{name}_mean_ms"] = operation.mean_ms
        plain[f"{name}_bytes"] = operation.bytes
    return plain


def _clear(places: Places) -> None:
    """Give back the space before the next attempt: it may be memory."""
    remove_data(places.base / "data")
    if places.wal is not None:
        shutil.rmtree(places.wal, ignore_errors=True)
    if places.cache_file is not None:
        places.cache_file.unlink(missing_ok=True)


def needed_bytes(scenario: Scenario, database_bytes: int) -> int:
    """Return the room that the files of one attempt may take: data, its growth, WAL, cache."""
    parameters = scenario.parameters
    cache = any(approach.cache for approach in scenario.approaches)
    wal = 4 * 2**20 * parameters.clients * (parameters.warmup_s + parameters.measure_s)
    growth = database_bytes // 2
    return (
        database_bytes + growth + wal + (size_bytes(parameters.cache_size, name="") if cache else 0)
    )
