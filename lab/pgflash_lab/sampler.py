# SPDX-License-Identifier: PostgreSQL
"""Looks at a server while a load runs: processors, devices, the flash cache, and waits.

Each sampler is a thread with a connection of its own that looks at fixed moments; a late look is
not made up for, so that a busy machine is not made busier.  Samplers stop when their block ends,
however it ends, and an error in one of them is raised there: figures with a silent gap would be
worse than none.

Waits are looked at only where the extension does not look itself (recorder.py): with
pg_stat_get_activity(), and not with the view on top of it, whose joins double the cost.  Ten looks
a second with 20 clients cost well under 1 % of a processor.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import psycopg

from pgflash.machine.host import CpuTimes, read_cpu
from pgflash.model.waits import WaitClass, WaitCount, wait_class
from pgflash.session import SIGNATURE
from pgflash_lab.counters import (
    DeviceCounts,
    DeviceReader,
    HostCounts,
    disk_second,
    read_host,
    read_paged_bytes,
)
from pgflash_lab.model.run import CacheSecond, CpuSecond, DiskSecond, HostSecond

WAITS_HZ = 10.0

# Signed, so that a report on the server leaves them out of its rankings.
_ACTIVITY = f"""
select coalesce(backend_type, ''), coalesce(wait_event_type, ''), coalesce(wait_event, ''),
       count(*)
  from pg_stat_get_activity(null)
 where pid <> all (%s)
   and (wait_event_type is not null or state in ('active', 'fastpath function call'))
 group by 1, 2, 3 {SIGNATURE}
"""

#: io workers wait for the same reads as a session does.
_BLOCKED = f"""
select count(*)
  from pg_stat_get_activity(null)
 where wait_event_type = 'IO' and backend_type <> 'io worker' {SIGNATURE}
"""

_CACHE = f"select hits, misses, page_cache_reads, used_slots from pgflash_cache {SIGNATURE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSample:
    """How many processes one look found in one wait."""

    at_s: float
    backend_type: str
    wait_type: str
    event: str
    count: int


@dataclass(slots=True, kw_only=True)
class Samples:
    """The samples; complete once the watch has ended."""

    waits: list[WaitSample] = field(default_factory=list)
    wait_rounds: int = 0
    cpu: list[CpuSecond] = field(default_factory=list)
    cache: list[CacheSecond] = field(default_factory=list)
    disks: list[DiskSecond] = field(default_factory=list)
    hosts: list[HostSecond] = field(default_factory=list)

    def wait_counts(self) -> tuple[WaitCount, ...]:
        """Return the waits summed up over all looks, the most frequent first."""
        counts: Counter[tuple[WaitClass, str]] = Counter()
        for one in self.waits:
            kind = wait_class(
                backend_type=one.backend_type, wait_type=one.wait_type, event=one.event
            )
            name = f"{one.wait_type}:{one.event}" if one.wait_type else "CPU"
            counts[(kind, name)] += one.count
        return tuple(
            WaitCount(wait_class=kind, event=name, samples=n)
            for (kind, name), n in counts.most_common()
        )


class Watch:
    """Samples while its block runs.

    with Watch(conninfo, cache=True, devices=reader) as watch:
        run the load
    watch.samples
    """

    def __init__(
        self,
        conninfo: str,
        *,
        cache: bool,
        waits: bool = True,
        devices: DeviceReader | None = None,
        snapshots: Callable[[], None] | None = None,
        snapshot_s: float = 0.0,
        until_s: float = 0.0,
        live: Callable[[float, Mapping[str, float]], None] | None = None,
    ) -> None:
        """Look at processors and, if requested, waits, devices and the cache; take snapshots.

        LIVE hears of each second of the devices: when it ended, and each one's bytes a second.

        A snapshot is taken every so many seconds after the begin, the last one no later than half
        that interval before the end: backends report their counts about once a second, so the
        counts of a shorter interval would be those of a longer one.
        """
        self._conninfo = conninfo
        self._cache = cache
        self._waits = waits
        self._devices = devices
        self._snapshots = snapshots
        self._snapshot_s = snapshot_s
        self._until_s = until_s
        self._live = live
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._connections: list[psycopg.Connection[Any]] = []
        self._samples = Samples()

    @property
    def samples(self) -> Samples:
        """The samples so far; complete after stop()."""
        return self._samples

    def __enter__(self) -> Self:
        try:
            loops = [(self._cpu_look(), 1.0)]
            if self._waits:
                loops.append((self._waits_look(), 1.0 / WAITS_HZ))
            if self._cache:
                loops.append((self._cache_look(), 1.0))
            if self._devices is not None:
                loops.append((self._devices_look(self._devices), 1.0))
            if self._snapshots is not None and self._snapshot_s > 0:
                loops.append((self._snapshot_look(self._snapshots), self._snapshot_s))
        except BaseException:
            self._close()
            raise
        begin = time.monotonic()
        for look, every_s in loops:
            thread = threading.Thread(target=self._loop, args=(look, every_s, begin), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self) -> None:
        """Stop looking; may be called before the block ends, and repeatedly."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._close()
        if self._errors and error is None:
            raise self._errors[0]

    def _close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._conninfo, autocommit=True, application_name="pgflash lab"
        )
        self._connections.append(connection)
        return connection

    def _loop(self, look: Callable[[float], None], every_s: float, begin: float) -> None:
        """Look now and at every whole multiple of the interval until stopped."""
        try:
            while True:
                at_s = time.monotonic() - begin
                look(at_s)
                now_s = time.monotonic() - begin
                if self._stop.wait(every_s - now_s % every_s):
                    return
        except BaseException as error:  # raised again where the block ends
            self._errors.append(error)

    def _snapshot_look(self, take: Callable[[], None]) -> Callable[[float], None]:
        margin_s = self._snapshot_s / 2

        def look(at_s: float) -> None:
            if margin_s <= at_s <= self._until_s - margin_s:
                take()

        return look

    def _waits_look(self) -> Callable[[float], None]:
        connection = self._connect()
        samples = self._samples

        def look(at_s: float) -> None:
            ours = [one.info.backend_pid for one in self._connections]
            rows = connection.execute(_ACTIVITY, (ours,), prepare=True).fetchall()
            samples.wait_rounds += 1
            samples.waits.extend(
                WaitSample(at_s=at_s, backend_type=b, wait_type=t, event=e, count=n)
                for b, t, e, n in rows
            )

        return look

    def _cpu_look(self) -> Callable[[float], None]:
        last: list[CpuTimes] = []
        samples = self._samples

        def look(at_s: float) -> None:
            now = read_cpu()
            if last:
                second = cpu_second(last.pop(), now, at_s=at_s)
                if second is not None:
                    samples.cpu.append(second)
            last.append(now)

        return look

    def _devices_look(self, devices: DeviceReader) -> Callable[[float], None]:
        connection = self._connect() if devices.emulated else None
        last: list[_Counts] = []
        samples = self._samples

        def look(at_s: float) -> None:
            blocked = None
            if connection is not None:
                row = connection.execute(_BLOCKED, prepare=True).fetchone()
                blocked = int(row[0]) if row is not None else 0
            now = _read_counts(devices, at_s=at_s)
            if last:
                before = last.pop()
                elapsed_s = now.at_s - before.at_s
                samples.disks.extend(
                    disk_second(role, before.devices[role], counts, at_s=at_s, elapsed_s=elapsed_s)
                    for role, counts in now.devices.items()
                )
                samples.hosts.append(_host_second(before, now, blocked=blocked))
                if self._live is not None and elapsed_s > 0:
                    self._live(at_s, _bytes_per_s(before, now, elapsed_s))
            last.append(now)

        return look

    def _cache_look(self) -> Callable[[float], None]:
        connection = self._connect()
        samples = self._samples

        def look(at_s: float) -> None:
            row = connection.execute(_CACHE, prepare=True).fetchone()
            if row is not None:
                hits, misses, page_cache_reads, used_slots = (int(value or 0) for value in row)
                samples.cache.append(
                    CacheSecond(
                        at_s=at_s,
                        hits=hits,
                        misses=misses,
                        page_cache_reads=page_cache_reads,
                        used_slots=used_slots,
                    )
                )

        return look


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """The counters of devices and host at one moment."""

    at_s: float
    devices: dict[str, DeviceCounts]
    host: HostCounts
    in_bytes: int
    out_bytes: int


def _bytes_per_s(before: "_Counts", now: "_Counts", elapsed_s: float) -> dict[str, float]:
    """Return what each device read and wrote in a second."""
    return {
        role: (_moved(counts) - _moved(before.devices[role])) / elapsed_s
        for role, counts in now.devices.items()
    }


def _moved(counts: DeviceCounts) -> int:
    return counts.read_bytes + counts.write_bytes


def _host_second(before: _Counts, now: _Counts, *, blocked: int | None) -> HostSecond:
    """Return what the host did between two readings; BLOCKED is that of the server's sessions."""
    elapsed_s = now.at_s - before.at_s
    return HostSecond(
        at_s=now.at_s,
        runnable=now.host.runnable,
        blocked=now.host.blocked if blocked is None else blocked,
        blocked_from="kernel" if blocked is None else "sessions",
        context_switches_per_s=(now.host.context_switches - before.host.context_switches)
        / elapsed_s,
        interrupts_per_s=(now.host.interrupts - before.host.interrupts) / elapsed_s,
        in_bytes_per_s=(now.in_bytes - before.in_bytes) / elapsed_s,
        out_bytes_per_s=(now.out_bytes - before.out_bytes) / elapsed_s,
        swapped_bytes=now.host.swapped_bytes,
        free_bytes=now.host.free_bytes,
        buffers_bytes=now.host.buffers_bytes,
        cache_bytes=now.host.cache_bytes,
        swap_in_bytes_per_s=(now.host.swap_in_bytes - before.host.swap_in_bytes) / elapsed_s,
        swap_out_bytes_per_s=(now.host.swap_out_bytes - before.host.swap_out_bytes) / elapsed_s,
    )


def _read_counts(devices: DeviceReader, *, at_s: float) -> _Counts:
    counts = devices.read()
    if devices.emulated:
        in_bytes = sum(one.read_bytes for one in counts.values())
        out_bytes = sum(one.write_bytes for one in counts.values())
    else:
        in_bytes, out_bytes = read_paged_bytes()
    return _Counts(
        at_s=at_s,
        devices=counts,
        host=read_host(),
        in_bytes=in_bytes,
        out_bytes=out_bytes,
    )


def cpu_second(before: CpuTimes, after: CpuTimes, *, at_s: float) -> CpuSecond | None:
    """Return the shares between two readings; None if no time passed."""
    user = after.all_user_s - before.all_user_s
    system = after.all_system_s - before.all_system_s + after.steal_s - before.steal_s
    iowait = after.iowait_s - before.iowait_s
    idle = after.idle_s - before.idle_s
    total = user + system + iowait + idle
    if total <= 0:
        return None
    return CpuSecond(
        at_s=at_s,
        user=user / total,
        system=system / total,
        iowait=max(iowait, 0.0) / total,  # the kernel's count may go backwards
        idle=idle / total,
        steal=(after.steal_s - before.steal_s) / total,
    )
