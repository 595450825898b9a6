# SPDX-License-Identifier: PostgreSQL
"""What a move would bring, by a closed queueing model of a database server.

N sessions are active (as many as the report shows on average) and think for Z between two
transactions (0, unless the number of users is known).  A transaction needs the processors, a number
of reads and a sync of the WAL, and has other waits; the report has the time of each.  The
throughput X solves

    X (Z + R(X)) = N

where R(X), the response time, is the sum of these, with t = transactions:

    processors   D = CPU time / t on c servers:  D + q D/c u / (1 - u), u = X B/c (N-1)/N
                 B: includes CPU time within file calls, which is part of their wait
    array read   service s on k spindles in groups of m copies:  s + v s/m u / (1-u)
                 u: how busy a read finds its spindles: with the other sessions' reads
                 (N-1)/N, other processes' reads, syncs of the WAL, and written blocks (no
                 more than their share if a controller's memory takes them first)
    commit       one sync at a time, for all who wait:  a S (1 + b/2), b = 1 - exp(-X S)
                 S: sync of the device; on the array, plus f times a read's wait for spindles
    flash        s + s u^(sqrt(2k+2)-1) / (k (1-u)); a cache serves its hit ratio of the reads
                 s: without positioning for the reads that follow a stream on the array
    locks        in proportion to R, since their holders wait as well
    pipe         of an array with a bandwidth limit: the part of reads and syncs that its queue
                 explains, and no more; waits for writing are proportional to u / (1 - u),
                 u: how full it is
    the rest     unchanged

v, a, f and q are chosen so that the model of the present yields the report's own latencies; if only
the class of a device is known, so is k.  X is limited by the writes that spindles can do in the
period (plus what fits into the controller's memory), by pipe and IOPS limits, and by the
processors. docs/guide/advise.md explains it with examples, and says where it must be wrong.
"""

import math
from dataclasses import dataclass, replace

from pgflash.advise.media import Drive
from pgflash.advise.work import Work

#: No queue in the model is longer than that of a server this busy.
_BUSY_MAX = 0.98
#: Bounds of the fitted values; beyond them, the model does not explain the report.
_VARIABILITY = (0.2, 4.0)
_LOG_QUEUE_MAX = 4.0
_RUN_QUEUE_MIN = 0.25
#: The queue of a pipe that is a quarter full, or less, explains nothing.
_PIPE_MIN = 0.33
#: A transaction that commits during a sync waits for half of it, and then for its own.
_RIDE = 0.5
#: A core's second thread adds this much of the core's capacity.
SECOND_THREAD = 0.25
_STEPS = 80
_BLOCK_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a prediction assumes to be on flash."""

    name: str
    title: str
    wal: bool = False
    temp: bool = False
    #: The archive of the WAL.
    archive: bool = False
    #: Shares of the reads and writes of data files that belong to objects on flash.
    reads: float = 0.0
    writes: float = 0.0
    #: Share of the other reads that a flash cache serves.
    cached: float = 0.0


#: As it is.
PRESENT = Target(name="baseline", title="As it is")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The model's result for a target.  Times are in ms per transaction."""

    target: Target
    per_s: float
    #: Relative to the present.
    ratio: float
    sessions: float
    cpu_ms: float
    disk_ms: float
    flash_ms: float
    commit_ms: float
    lock_ms: float
    other_ms: float
    #: Latencies of one read and one sync.
    disk_read_ms: float
    sync_ms: float
    #: Of the processors, 0 to 1.
    cpu_busy: float
    #: What prevents a higher throughput, in words.
    limit: str

    @property
    def db_time_ms(self) -> float:
        """Return the DB time of a transaction."""
        waits = self.disk_ms + self.flash_ms + self.commit_ms + self.lock_ms + self.other_ms
        return self.cpu_ms + waits


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    """The array, with the fitted values."""

    drive: Drive
    servers: float
    service_ms: float
    system_ms: float
    #: How long a write, and a sync of the WAL, keep spindles busy.
    write_ms: float
    log_ms: float
    variability: float
    #: A constant that queueing does not explain.
    late_ms: float
    #: The part of its reads that follow a stream and need no seek.
    streamed: float


class Model:
    """A period's work on its devices; predicts what targets would bring."""

    def __init__(
        self,
        work: Work,
        *,
        array: Drive,
        flash: Drive,
        users: float | None = None,
        cores: float | None = None,
        other_cores: float | None = None,
    ) -> None:
        """Fit the model to the present; cores and other_cores replace the report's own."""
        self.work = work
        self.flash = flash
        self.sessions = work.sessions
        self._others = max(self.sessions - 1, 0.0) / self.sessions
        self._think_ms = max((users or 0.0) - self.sessions, 0.0) / work.per_s * 1000
        self._customers = max(users or 0.0, self.sessions)
        have = cores or work.cores or max(2.0 * work.cpu_s / work.elapsed_s, 1.0)
        taken = work.other_cores if other_cores is None else other_cores
        self.cores = max(have - taken, have / 10)
        self._run_queue = 1.0
        work = self._count_syncs(work)
        self._array = _fit_array(work, array, self._others)
        self._full = _queue(self._pipe_busy(work.per_s, PRESENT))
        self._fit_log(array)
        self._fit_rest()
        self.present = self._solve(PRESENT, None)

    def predict(self, target: Target, *, horizon_s: float | None = None) -> Outcome:
        """Return what a target brings within a time (by default the period's length)."""
        found = self._solve(target, horizon_s)
        return replace(found, ratio=found.per_s / self.present.per_s)

    # Fitting.

    def _count_syncs(self, work: Work) -> Work:
        """Fill in missing figures of syncs: one at a time for all who wait, without a pause."""
        commit_ms = work.per_transaction_ms(work.commit_s)
        if not work.syncs or not work.sync_s:
            sync_ms = commit_ms / (1 + _RIDE)
            most = work.elapsed_s * _syncs_per_s(sync_ms)
            syncs = min(work.transactions, most) if sync_ms > 0 else 0.0
            work = replace(work, syncs=syncs, sync_s=syncs * sync_ms / 1000)
        self.work = work
        self._syncs = work.syncs or 0.0
        self._present_sync_ms = 1000 * (work.sync_s or 0.0) / self._syncs if self._syncs else 0.0
        return work

    def _fit_log(self, array: Drive) -> None:
        work, sync_ms = self.work, self._present_sync_ms
        wait_ms = self._read_wait_ms(work.per_s, PRESENT)
        # If only the class of a device is known, syncs are assumed to queue like its reads.
        service_ms = self._array.service_ms / (self._array.service_ms + wait_ms) * sync_ms
        self._log_ms = min(array.log_ms if array.known else service_ms, sync_ms)
        queue = (sync_ms - self._log_ms) / wait_ms if wait_ms > 0 else 0.0
        self._log_queue = min(queue, _LOG_QUEUE_MAX)
        self._log_late_ms = sync_ms - self._log_ms - self._log_queue * wait_ms
        alone = _group_commit_ms(sync_ms, work.per_s)
        commit_ms = work.per_transaction_ms(work.commit_s)
        self._commit_part = commit_ms / alone if alone > 0 else 0.0

    def _fit_rest(self) -> None:
        work = self.work
        self._rest_ms = work.per_transaction_ms(work.other_s)
        waited_ms = work.per_transaction_ms(work.run_queue_s)
        queue_ms = self._cpu_ms(work.per_s) - work.per_transaction_ms(work.cpu_s)
        self._run_queue = min(max(waited_ms / queue_ms, _RUN_QUEUE_MIN), 1.0) if queue_ms else 1.0
        self._rest_ms = max(self._rest_ms + waited_ms - self._run_queue * queue_ms, 0.0)
        lock_s = min(work.lock_s, 0.9 * work.db_time_s)
        self._lock_part = lock_s / (work.db_time_s - lock_s)

    # The parts of the response time.

    def _cpu_ms(self, per_s: float) -> float:
        work = self.work
        demand_ms = work.per_transaction_ms(work.cpu_s)
        each = demand_ms / self.cores
        used = work.per_transaction_ms(work.busy_s) / self.cores
        busy = min(per_s * used / 1000 * self._others, 0.9999)
        queue_ms = each * busy / (1 - busy)
        if self.cores < 1:
            queue_ms += each - demand_ms
        return demand_ms + self._run_queue * queue_ms

    def _loads(self, per_s: float, target: Target) -> tuple[float, float, float, float]:
        """Return how busy the array is with clients' reads, other reads, syncs and writes."""
        work, array = self.work, self._array
        stay_r, stay_w = 1 - target.reads, 1 - target.writes
        each = per_s / work.transactions / array.servers / 1000
        reads = each * work.reads.count * stay_r * (1 - target.cached) * array.service_ms
        others = each * work.system_reads.count * stay_r * (1 - target.cached) * array.system_ms
        writes = each * (work.writes or 0.0) * stay_w * array.write_ms
        if target.wal:
            return reads, others, 0.0, writes
        syncs = min(self._syncs / work.transactions * per_s, _syncs_per_s(array.log_ms))
        log_ms = array.log_ms * array.drive.copies
        return reads, others, syncs * log_ms / 1000 / array.servers, writes

    def _read_wait_ms(self, per_s: float, target: Target) -> float:
        reads, others, syncs, writes = self._loads(per_s, target)
        array = self._array
        seen = min(writes, array.drive.write_share) if array.drive.write_share < 1 else writes
        busy = min(reads * self._others + others + syncs + seen, _BUSY_MAX)
        return array.variability * array.service_ms / array.drive.copies * busy / (1 - busy)

    def _pipe_busy(self, per_s: float, target: Target) -> float:
        """Return how full the array's pipe is; 0 if it has no limit."""
        pipe = self._array.drive.pipe_bytes_s
        return per_s * self._bytes(target)[0] / pipe if pipe else 0.0

    def _pipe_queue(self, per_s: float, target: Target) -> float:
        """Return how much longer the pipe's queue is than at present."""
        if self._full < _PIPE_MIN:
            return 1.0
        return _queue(self._pipe_busy(per_s, target)) / self._full

    def _sync_ms(self, per_s: float, target: Target) -> float:
        if target.wal:
            transfer_ms = 1000 * self.work.wal_bytes / max(self._syncs, 1) / self.flash.bytes_s
            here = self._sync_ms(per_s, PRESENT)
            return min(self.flash.log_ms + transfer_ms, here)
        queued = self._log_queue * self._read_wait_ms(per_s, target)
        return self._log_ms + queued + self._log_late_ms * self._pipe_queue(per_s, target)

    def _flash_calls(self, target: Target) -> float:
        """Return the requests to flash per transaction."""
        work = self.work
        moved = target.reads + (1 - target.reads) * target.cached
        calls = (work.reads.count + work.system_reads.count) * moved
        calls += (work.writes or 0.0) * target.writes
        calls += work.temp.count if target.temp else 0.0
        return (calls + (self._syncs if target.wal else 0.0)) / work.transactions

    def _flash_read_ms(self, per_s: float, target: Target, request_bytes: float) -> float:
        """Return a read's time: all channels share one queue (Sakasegawa's approximation)."""
        service_ms = self.flash.service_ms(request_bytes, streamed=self._array.streamed)
        servers = self.flash.servers or 1
        busy = min(per_s * self._flash_calls(target) * service_ms / 1000 / servers, _BUSY_MAX)
        queue = math.pow(busy, math.sqrt(2 * servers + 2) - 1) / (servers * (1 - busy))
        return service_ms * (1 + queue)

    def _outcome(self, per_s: float, target: Target, limit: str = "") -> Outcome:
        """Return the response time and its parts at a given throughput."""
        work = self.work
        wait_ms = self._read_wait_ms(per_s, target)
        pipe = self._pipe_queue(per_s, target)
        disk_read_ms = self._array.service_ms + self._array.late_ms * pipe + wait_ms
        per_t = work.reads.count / work.transactions
        moved = target.reads + (1 - target.reads) * target.cached
        fast_ms = self._flash_read_ms(per_s, target, work.reads.mean_bytes)
        # Data that is already faster is not moved.
        fast_ms = min(fast_ms, disk_read_ms)
        disk_ms = per_t * (1 - moved) * disk_read_ms
        flash_ms = per_t * moved * fast_ms + work.per_transaction_ms(work.flash.seconds)
        now_ms = work.reads.mean_ms
        mean_ms = (1 - moved) * disk_read_ms + moved * fast_ms
        disk_ms += work.per_transaction_ms(work.buffer_s) * (mean_ms / now_ms if now_ms else 1.0)
        temp_ms = work.per_transaction_ms(work.temp.seconds)
        if target.temp and work.temp.count:
            each_ms = self._flash_read_ms(per_s, target, work.temp.mean_bytes)
            flash_ms += min(each_ms * work.temp.count / work.transactions, temp_ms)
        else:
            disk_ms += temp_ms
        sync_ms = self._sync_ms(per_s, target)
        commit_ms = self._commit_part * _group_commit_ms(sync_ms, per_s)
        other_ms = self._rest_ms
        other_ms += work.per_transaction_ms(work.write_wait_s) * (1 - target.writes) * pipe
        cpu_ms = self._cpu_ms(per_s)
        lock_ms = self._lock_part * (cpu_ms + disk_ms + flash_ms + commit_ms + other_ms)
        response_ms = cpu_ms + disk_ms + flash_ms + commit_ms + other_ms + lock_ms
        return Outcome(
            target=target,
            per_s=per_s,
            ratio=1.0,
            sessions=per_s * response_ms / 1000,
            cpu_ms=cpu_ms,
            disk_ms=disk_ms,
            flash_ms=flash_ms,
            commit_ms=commit_ms,
            lock_ms=lock_ms,
            other_ms=other_ms,
            disk_read_ms=disk_read_ms,
            sync_ms=sync_ms,
            cpu_busy=per_s * work.per_transaction_ms(work.busy_s) / 1000 / self.cores,
            limit=limit,
        )

    # Solving.

    def _bounds(self, target: Target, horizon_s: float | None) -> list[tuple[float, str]]:
        """Return the limits of throughput, each with its reason."""
        work, drive = self.work, self._array.drive
        bounds = [(math.inf, "nothing")]
        if work.cpu_s > 0:
            most = self.cores * 1000 / work.per_transaction_ms(work.busy_s)
            bounds.append((most, "the processors"))
        demand_s = sum(self._loads(1.0, target)) * self._array.servers
        if demand_s > 0:
            memory_s = drive.cache_bytes / _BLOCK_BYTES * self._array.write_ms / 1000
            spare = memory_s / (horizon_s or work.elapsed_s)
            bounds.append(((self._array.servers + spare) / demand_s, "the array's spindles"))
        reads = (work.reads.count + work.system_reads.count) * (1 - target.cached)
        calls = reads * (1 - target.reads) + (work.writes or 0.0) * (1 - target.writes)
        calls += 0.0 if target.wal else self._syncs
        if drive.iops_max and calls:
            bounds.append((drive.iops_max * work.transactions / calls, "the array's IOPS limit"))
        stayed, moved = self._bytes(target)
        if drive.pipe_bytes_s and stayed:
            bounds.append((drive.pipe_bytes_s / stayed, "the array's bandwidth"))
        if self.flash.pipe_bytes_s and moved:
            bounds.append((self.flash.pipe_bytes_s / moved, "the flash device's bandwidth"))
        calls = self._flash_calls(target)
        if calls:
            channels = (self.flash.servers or 1) * 1000 / self.flash.read_ms
            most = min(channels, self.flash.iops_max or channels)
            bounds.append((most / calls, "the flash device's IOPS"))
        return bounds

    def _bytes(self, target: Target) -> tuple[float, float]:
        """Return the bytes that a transaction moves on the array and on flash."""
        work = self.work
        read = work.reads.bytes + work.system_reads.bytes
        stayed = read * (1 - target.cached) * (1 - target.reads)
        stayed += work.write_bytes * (1 - target.writes)
        stayed += 0.0 if target.temp else work.temp.bytes
        stayed += 0.0 if target.wal else work.wal_bytes
        archived = work.archive_read_bytes + work.archive_write_bytes
        # The first copy is read from the WAL's device, the others from the archive's.
        from_wal = min(work.archive_read_bytes, work.wal_bytes)
        stayed += 0.0 if target.wal else from_wal
        stayed += 0.0 if target.archive else archived - from_wal
        everything = read + work.write_bytes + work.temp.bytes + work.wal_bytes + archived
        return stayed / work.transactions, (everything - stayed) / work.transactions

    def _solve(self, target: Target, horizon_s: float | None) -> Outcome:
        """Find the throughput by bisection: sessions grow strictly with it."""
        high, limit = min(self._bounds(target, horizon_s))
        # The measured throughput was possible, whatever a limit says.
        high = max(high, self.work.per_s)
        if high == math.inf:
            high = 1000 * self.work.per_s * (self.sessions + 1)
        if self._needed(high, target) <= self._customers:
            return self._outcome(high, target, limit)
        low = 0.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if self._needed(middle, target) > self._customers:
                high = middle
            else:
                low = middle
        found = self._outcome(low, target)
        return replace(found, limit=_largest(found))

    def _needed(self, per_s: float, target: Target) -> float:
        """Return the sessions that are busy or thinking at a given throughput."""
        return per_s * (self._think_ms + self._outcome(per_s, target).db_time_ms) / 1000


def _fit_array(work: Work, drive: Drive, others: float) -> _Array:
    """Choose the array's unknown values so that it yields the report's read latency."""
    measured_ms = work.reads.mean_ms
    # Streams, and a controller's read-ahead, make reads cheaper than with a seek.
    service_ms = drive.service_ms(work.reads.mean_bytes)
    shrunk = min(0.9 * measured_ms / service_ms, 1.0) if measured_ms else 1.0
    array = _scaled(work, drive, others, shrunk)
    if not measured_ms:
        return array
    low, high = _VARIABILITY
    for _ in range(_STEPS):
        queue_ms = _queue_ms(work, array, others)
        if array.service_ms + low * queue_ms <= measured_ms:
            break
        shrunk *= 0.9
        array = _scaled(work, drive, others, shrunk)
    wait_ms = measured_ms - array.service_ms
    variability = min(wait_ms / queue_ms, high) if queue_ms else 1.0
    return replace(
        array, variability=variability, late_ms=max(wait_ms - variability * queue_ms, 0.0)
    )


def _scaled(work: Work, drive: Drive, others: float, shrunk: float) -> _Array:
    """Return the array with its reads this much quicker than the device's single reads.

    If only the class is known, its disks are assumed to be that fast; on a known device only reads
    are, not writes and syncs.
    """
    part = 1.0 if drive.known else shrunk
    sync_ms = 1000 * (work.sync_s or 0.0) / work.syncs if work.syncs else 0.0
    array = _Array(
        drive=drive,
        servers=float(drive.servers or 1),
        service_ms=shrunk * drive.service_ms(work.reads.mean_bytes),
        system_ms=shrunk * drive.service_ms(work.system_reads.mean_bytes),
        write_ms=part * drive.write_ms,
        log_ms=min(part * drive.log_ms, sync_ms),
        variability=1.0,
        late_ms=0.0,
        streamed=_streamed(drive, work.reads.mean_bytes, shrunk),
    )
    if drive.servers or not work.reads.mean_ms:
        return array
    # Take as many spindles as make s + s u / (1 - u) equal to the measured time.
    busy = min(max(1 - array.service_ms / work.reads.mean_ms, 0.05), _BUSY_MAX)
    return replace(array, servers=max(sum(_demand(work, array, others)) / busy, 1.0))


def _streamed(drive: Drive, request_bytes: float, shrunk: float) -> float:
    """Return the part of reads without a seek that shortens the mean read by this much.

    If only the class of a device is known, the time of its seeks is unknown.
    """
    saved_ms = (1 - shrunk) * drive.service_ms(request_bytes)
    return min(saved_ms / drive.read_ms, 1.0) if drive.known and drive.read_ms > 0 else 0.0


def _demand(work: Work, array: _Array, others: float) -> tuple[float, float]:
    """Return how many spindles are busy at present with reads and syncs, and with writes."""
    per_ms = 1 / work.elapsed_s / 1000
    reads = work.reads.count * array.service_ms * others
    reads += work.system_reads.count * array.system_ms
    syncs = (work.syncs or 0.0) * array.log_ms * array.drive.copies
    return per_ms * (reads + syncs), per_ms * (work.writes or 0.0) * array.write_ms


def _queue_ms(work: Work, array: _Array, others: float) -> float:
    """Return how long a read waits for its spindles at present, with variability 1."""
    demand, writes = _demand(work, array, others)
    seen = writes / array.servers
    seen = min(seen, array.drive.write_share) if array.drive.write_share < 1 else seen
    busy = min(demand / array.servers + seen, _BUSY_MAX)
    return array.service_ms / array.drive.copies * busy / (1 - busy)


def _group_commit_ms(sync_ms: float, per_s: float) -> float:
    """Return the wait of a commit that shares syncs which follow each other."""
    busy = 1 - math.exp(-per_s * sync_ms / 1000)
    return sync_ms * (1 + _RIDE * busy)


def _queue(busy: float) -> float:
    return min(busy, _BUSY_MAX) / (1 - min(busy, _BUSY_MAX))


def _syncs_per_s(sync_ms: float) -> float:
    return 1000 / sync_ms if sync_ms > 0 else math.inf


def _largest(found: Outcome) -> str:
    """Name the largest part of a transaction."""
    parts = {
        "reads from disk": found.disk_ms,
        "commits": found.commit_ms,
        "the processors": found.cpu_ms,
        "reads from flash": found.flash_ms,
        "locks": found.lock_ms,
        "other waits": found.other_ms,
    }
    return max(parts, key=lambda name: parts[name])
