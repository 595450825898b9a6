# SPDX-License-Identifier: PostgreSQL
"""Measure one failover: three members, a load, the leader's end, and what the clients saw.

The members start from the same files, the leader warms up and fills its cache, the list that it
stores warms the standbys if the approach says so, all with the devices' delays off.  Then the load
runs with delays; in the middle of it the leader is killed, or asked to hand over.  In the end the
ledger of acknowledged orders and the workload's conditions are checked on the new leader, and no
cache may have served a block that differs from its file.  An attempt that fails one of these checks
is an error, and not a figure.
"""

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pgflash.analyze.sections import number
from pgflash.model.words import percent, whole
from pgflash.progress import Listener, Titled
from pgflash_lab.attempt import CHECK_S, PREFILL_S, RESTORE_S, Lab, Measured
from pgflash_lab.extension import require_serving
from pgflash_lab.failover.driver import Fault, Load, Ridden, ride
from pgflash_lab.failover.filling import fill, hurried
from pgflash_lab.failover.fleet import erase_flash, running_fleet
from pgflash_lab.failover.ledger import Compared, compare, read_names
from pgflash_lab.failover.model import FailoverParameters
from pgflash_lab.failover.recovery import Moments, Seen, see
from pgflash_lab.failover.usage import (
    Counted,
    EndedLeader,
    FleetCpu,
    cache_use,
    commit_wait_s,
    count,
    cpu_use,
    fleet_cpu,
    member_cpu,
    reads,
)
from pgflash_lab.failover.warming import ListCost, warm, warmth
from pgflash_lab.marks import device_stats
from pgflash_lab.model.lab_view import RunSecond
from pgflash_lab.model.run import Approach, Attempt
from pgflash_lab.oltp.driver import RAMP_UP_S, run
from pgflash_lab.patroni import PatroniCluster, PatroniMember
from pgflash_lab.sampler import Samples, Watch
from pgflash_lab.workload import DATABASE, Figures, MeasureError, Observer


@dataclass(slots=True, kw_only=True)
class _Notes:
    """What is noted while the load runs; complete once it has ended."""

    cpu_before: FleetCpu
    leader_before: Counted
    #: Just before the leader ended.
    ended: EndedLeader | None = None
    leader_at_end: Counted | None = None
    cpu_at_end: FleetCpu | None = None
    warmth: float = 0.0
    #: At the promotion.
    new_leader: PatroniMember | None = None
    promoted: Counted | None = None
    #: Of all clients together, in the time before the leader ended.
    commit_wait_s: float = 0.0
    #: From the start of a leader whose flash was erased until it follows the new one.
    returned_s: float | None = None
    #: At the load's end.
    cpu_after: FleetCpu | None = None
    devices: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """An attempt in progress."""

    lab: Lab
    approach: Approach
    repeat: int
    parameters: FailoverParameters
    cluster: PatroniCluster
    leader: PatroniMember
    standbys: Sequence[PatroniMember]
    listener: Listener
    workdir: Path


def measure_failover(lab: Lab, approach: Approach, *, repeat: int) -> Measured:
    """Measure one approach once."""
    parameters = lab.scenario.parameters_of(approach)
    assert isinstance(parameters, FailoverParameters)
    assert lab.emulator is not None
    listener = Titled(lab.listener, f"{approach.title}, repeat {repeat}")
    listener.stage("starting three members", expected_s=RESTORE_S)
    lab.emulator.off()
    with running_fleet(lab, approach) as cluster, _folder(lab) as workdir:
        leader = cluster.leader()
        trial = _Trial(
            lab=lab,
            approach=approach,
            repeat=repeat,
            parameters=parameters,
            cluster=cluster,
            leader=leader,
            standbys=[one for one in cluster.members if one is not leader],
            listener=listener,
            workdir=workdir,
        )
        return Measured(attempt=_attempt(trial), waits=(), report=None)


def _attempt(trial: _Trial) -> Attempt:
    """Prepare, measure and check."""
    lab, parameters, listener = trial.lab, trial.parameters, trial.listener
    assert lab.emulator is not None
    for member in trial.cluster.members:
        require_serving(member)
    with hurried(trial.cluster.members):
        cost = _prepare(trial)
    listener.stage("measuring", expected_s=lab.scenario.workload.expected_s(parameters))
    lab.emulator.reset()
    lab.emulator.on()
    notes = _Notes(cpu_before=fleet_cpu(trial.cluster), leader_before=count(trial.leader))
    conninfo = trial.cluster.conninfo(DATABASE)
    with Watch(conninfo, cache=False, waits=False) as watch:
        ridden = _ride(trial, conninfo, notes, watch)
    new_leader = notes.new_leader
    assert new_leader is not None
    after = count(new_leader, clients_gone=True)
    lab.emulator.off()
    listener.stage("checking the database", expected_s=CHECK_S)
    seen = see(
        ridden.log.ends_us,
        Moments(
            begin_us=ridden.begin_us,
            end_us=ridden.end_us,
            fault_us=ridden.fault_us,
            ended_us=ridden.ended_us,
            promoted_us=ridden.promoted_us,
        ),
    )
    if new_leader is trial.leader:
        raise MeasureError("the leader that ended leads again")
    compared = _compared(new_leader, ridden)
    held = lab.scenario.workload.check(new_leader.conninfo(DATABASE), parameters)
    if parameters.erased:
        notes.returned_s = _take_back(trial)
    differed = _mismatches(trial, notes)
    facts = _facts(trial, notes, seen, compared, cost, differed)
    facts["before_p95_ms"] = ridden.before_p95_ms()
    kept = f"{whole(compared.acknowledged)} acknowledged orders are all on the new leader"
    return _result(
        trial, notes, after, ridden.figures(parameters), watch.samples, facts, (*held, kept)
    )


@contextlib.contextmanager
def _folder(lab: Lab) -> Iterator[Path]:
    """Yield a folder for the driver's files."""
    workdir = Path(tempfile.mkdtemp(prefix="driver-", dir=lab.work))
    try:
        yield workdir
    finally:
        shutil.rmtree(workdir, ignore_errors=True)


def _prepare(trial: _Trial) -> ListCost | None:
    """Warm the leader, and the standbys if they are to be; return the cost of a list then."""
    parameters, listener, leader = trial.parameters, trial.listener, trial.leader
    if parameters.warmup_s:
        listener.stage("warming up", expected_s=parameters.warmup_s)
        run(
            trial.lab.install,
            leader.conninfo(DATABASE),
            parameters.seeded(trial.repeat).before_it(measure_s=parameters.warmup_s),
            trial.workdir / "warm-up",
            Observer(),
            ramp_up_s=0,
        )
    if parameters.prefill:
        listener.stage("filling the leader's cache", expected_s=PREFILL_S)
        fill(leader, trial.lab.scenario.workload.name)
    if not parameters.warm:
        return None
    listener.stage("warming the standbys", expected_s=PREFILL_S)
    return warm(leader, trial.standbys, parameters)


class _Live(Observer):
    """Passes on what the load does, second by second, and notes what it has used in the end."""

    def __init__(self, trial: _Trial, notes: _Notes, watch: Watch) -> None:
        self._trial = trial
        self._notes = notes
        self._watch = watch

    def second(self, at_s: float, tps: float, latency_ms: float | None) -> None:
        trial = self._trial
        second = RunSecond(at_s=round(at_s, 1), per_s=tps, latency_ms=latency_ms, bytes_per_s={})
        title = f"{trial.approach.title}, repeat {trial.repeat}"
        trial.lab.second(title, "transactions", second)

    def measuring_ended(self) -> None:
        self._watch.stop()
        self._notes.cpu_after = fleet_cpu(self._trial.cluster)
        self._notes.devices = device_stats(self._trial.lab.emulator)


def _ride(trial: _Trial, conninfo: str, notes: _Notes, watch: Watch) -> Ridden:
    """Run the load, end the leader in the middle of it, and note what is seen meanwhile."""
    parameters, leader = trial.parameters, trial.leader
    synchronous = trial.cluster.synchronous()

    def look() -> None:
        notes.warmth = min(warmth(one) for one in trial.standbys)
        notes.leader_at_end = count(leader)
        with leader.connect(DATABASE) as connection:
            notes.commit_wait_s = commit_wait_s(connection, parameters.before_s)
        notes.cpu_at_end = fleet_cpu(trial.cluster)
        notes.ended = EndedLeader(
            name=leader.name, last=member_cpu(leader), killed=not parameters.planned
        )

    def end() -> None:
        if parameters.planned:
            trial.cluster.switch_over(leader=leader.name, candidate=synchronous[0])
        else:
            leader.kill()
            if parameters.erased:
                erase_flash(trial.lab.folders, leader.name)

    def promoted(port: int) -> None:
        notes.new_leader = next(one for one in trial.cluster.members if one.port == port)
        notes.promoted = count(notes.new_leader)

    load = Load(
        install=trial.lab.install,
        conninfo=conninfo,
        parameters=parameters.seeded(1000 + trial.repeat),
        workdir=trial.workdir / "load",
        observer=_Live(trial, notes, watch),
    )
    fault = Fault(look, end, after_s=RAMP_UP_S + parameters.before_s)
    return ride(load, fault, promoted)


def _take_back(trial: _Trial) -> float:
    """Start the member that led, with its flash empty; return how long it takes to follow.

    Without its WAL it cannot start, and Patroni goes on trying until it is told to rebuild it.
    """
    trial.listener.stage("taking the old leader back", expected_s=RESTORE_S)
    begin_s = time.monotonic()
    trial.leader.start()
    if trial.approach.wal == "flash":
        trial.leader.reinitialize()
    trial.cluster.wait_for("the old leader follows", trial.cluster.is_whole)
    return time.monotonic() - begin_s


def _compared(new_leader: PatroniMember, ridden: Ridden) -> Compared:
    """Compare the ledger with what the clients were told."""
    with new_leader.connect(DATABASE) as connection:
        return compare(ridden.promised, read_names(connection))


def _mismatches(trial: _Trial, notes: _Notes) -> int:
    """Return how many blocks from flash differed from their file; raise if one did."""
    assert notes.leader_at_end is not None
    alive = trial.cluster.members if trial.parameters.erased else trial.standbys
    rows = [notes.leader_at_end, *(count(one) for one in alive)]
    differed = sum(int(number(one.cache["verify_mismatches"])) for one in rows)
    if differed:
        raise MeasureError(
            f"{whole(differed)} blocks from flash differed from their file",
            hint="This must never happen: keep the run's folder and report it.",
        )
    return differed


def _facts(
    trial: _Trial,
    notes: _Notes,
    seen: Seen,
    compared: Compared,
    cost: ListCost | None,
    differed: int,
) -> dict[str, float]:
    """Return the figures of a failover that no other load has."""
    facts = {
        "fault_s": seen.fault_s,
        "promoted_s": seen.promoted_s,
        "to_promotion_s": seen.promoted_s - seen.fault_s,
        "without_commit_s": seen.without_commit_s,
        "before_tps": seen.before_tps,
        "watched_s": seen.watched_s,
        "transactions_after": float(seen.transactions_after),
        "warmth": notes.warmth,
        "acknowledged_orders": float(compared.acknowledged),
        "unacknowledged_orders": float(compared.unacknowledged),
        "verify_mismatches": float(differed),
    }
    facts["before_commit_ms"] = (
        notes.commit_wait_s * 1000 / (seen.before_tps * trial.parameters.before_s)
    )
    if seen.recovery_s is not None:
        facts["recovery_s"] = seen.recovery_s
    if notes.returned_s is not None:
        facts["returned_s"] = notes.returned_s
    return facts | _cost(trial, notes, cost)


def _cost(trial: _Trial, notes: _Notes, cost: ListCost | None) -> dict[str, float]:
    """Return what keeping the standbys warm costs at most while nothing happens.

    A whole list every list_s seconds, whatever the load, as shares of what the servers used and
    wrote under it.
    """
    before, at_end, cpu_at_end = notes.leader_before, notes.leader_at_end, notes.cpu_at_end
    assert at_end is not None
    assert cpu_at_end is not None
    elapsed_s = cpu_at_end.at_s - notes.cpu_before.at_s
    server_s = sum(
        cpu_at_end.members[name].server_s - began.server_s
        for name, began in notes.cpu_before.members.items()
    )
    wal_bytes = at_end.wal_bytes - before.wal_bytes
    facts = {"before_server_cpu_s": server_s, "before_wal_bytes": float(wal_bytes)}
    if cost is None:
        return facts
    every_s = trial.parameters.list_s
    facts |= {
        "list_every_s": float(every_s),
        "list_wal_bytes": float(cost.wal_bytes),
        "list_wal_share": cost.wal_bytes / every_s / (wal_bytes / elapsed_s),
    }
    if cost.cpu_s is not None:
        facts["list_cpu_s"] = cost.cpu_s
        facts["list_cpu_share"] = cost.cpu_s / every_s / (server_s / elapsed_s)
    return facts


def _result(
    trial: _Trial,
    notes: _Notes,
    after: Counted,
    figures: Figures,
    samples: Samples,
    facts: dict[str, float],
    held: tuple[str, ...],
) -> Attempt:
    """Combine the measurements into an attempt."""
    promoted, ended, cpu_after = notes.promoted, notes.ended, notes.cpu_after
    assert promoted is not None
    assert ended is not None
    assert cpu_after is not None
    parameters = trial.parameters
    cpu = cpu_use(notes.cpu_before, cpu_after, ended, driver_s=figures.driver_cpu_s)
    polluted = ""
    if cpu.foreign_share > parameters.foreign_cpu_max:
        polluted = f"others took {percent(cpu.foreign_share)} of the processors"
    assert notes.new_leader is not None
    name = notes.new_leader.name
    return Attempt(
        approach=trial.approach.name,
        repeat=trial.repeat,
        started_at=figures.started_at,
        warmup_s=parameters.warmup_s,
        measured_s=figures.measured_s,
        clients=parameters.clients,
        transactions=figures.transactions,
        transactions_all=figures.transactions_all,
        tpm=figures.tpm,
        nopm=figures.nopm,
        nopm_counted=figures.nopm,
        latency=figures.latency,
        by_transaction=figures.by_transaction,
        seconds=figures.seconds,
        cpu=cpu,
        cpu_seconds=tuple(
            dataclasses.replace(one, at_s=one.at_s - RAMP_UP_S)
            for one in samples.cpu
            if one.at_s >= RAMP_UP_S
        ),
        reads=reads(promoted, after),
        cache=cache_use(promoted, after),
        wal_bytes=after.wal_bytes - notes.leader_before.wal_bytes,
        devices={
            role: notes.devices[f"{role}-{name}"]
            for role in ("array", "flash")
            if f"{role}-{name}" in notes.devices
        },
        workload=trial.lab.scenario.load,
        facts=figures.facts | facts,
        consistency=held,
        polluted=polluted,
    )
