# SPDX-License-Identifier: PostgreSQL
"""Cumulative counters, read before and after a load, and the differences; all are exact.

The counters are the kernel's, the emulated devices', and those of the server that its snapshots
(recorder.py) do not have, or that a server without the extension has to be asked for.  Samples
taken meanwhile are in sampler.py.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from pgflash.analyze.sections import number
from pgflash.machine.host import CpuTimes, core_count, read_cpu
from pgflash.model.counters import COUNTERS
from pgflash.model.snapshot import Value
from pgflash.model.words import whole
from pgflash_lab import host
from pgflash_lab.emulator import DeviceStats, Emulator
from pgflash_lab.extension import DatabaseBlocks, database_blocks
from pgflash_lab.model.run import Approach, CacheUse, CpuUse, Reads
from pgflash_lab.recorder import Recorded
from pgflash_lab.server import Server
from pgflash_lab.workload import DATABASE, MeasureError

_COUNTS = """
select blks_read,
       (select coalesce(sum(pg_stat_get_blocks_fetched(oid) - pg_stat_get_blocks_hit(oid)), 0)
          from pg_class where reltablespace <> 0 and not relisshared),
       blk_read_time,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
  from pg_stat_database
 where datname = current_database()
"""

#: The lab's own sessions have the lab's name.
_CLIENTS = """
select count(*)
  from pg_stat_get_activity(null)
 where backend_type = 'client backend' and coalesce(application_name, '') not like 'pgflash%'
"""

#: Clients report what they read only at their very end.
_CLIENTS_GONE_WAIT_S = 30.0

#: Means since the server's start, and the counters over which they are taken.
_MEANS = (("flash_read_mean_ms", "flash_reads"), ("disk_read_mean_ms", "disk_reads"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """All cumulative counters at one moment."""

    at_s: float
    machine: CpuTimes
    server: host.CpuTime
    own_s: float
    blocks: int
    #: Those of them in tablespaces other than the data's own.
    blocks_elsewhere: int
    read_ms: float
    wal_bytes: int
    database: DatabaseBlocks


def take_mark(server: Server, *, cache: bool) -> Mark:
    """Read all counters; the processors' time first, as reading uses some."""
    postmaster = server.postmaster_pid
    if postmaster is None:
        raise MeasureError(
            f"the server has ended: {server.log_text(since_start=True)[-500:]}",
            hint="Its log is shown above.",
        )
    machine, cpu, own_s = read_cpu(), host.server_cpu(postmaster), host.own_cpu()
    at_s = time.monotonic()
    with psycopg.connect(
        server.conninfo(DATABASE), autocommit=True, application_name="pgflash lab"
    ) as connection:
        _wait_until_clients_gone(connection)
        row = connection.execute(_COUNTS).fetchone()
    assert row is not None
    database = database_blocks(server) if cache else DatabaseBlocks(0, 0, 0)
    return Mark(
        at_s=at_s,
        machine=machine,
        server=cpu,
        own_s=own_s,
        blocks=int(row[0]),
        blocks_elsewhere=int(row[1]),
        read_ms=float(row[2]),
        wal_bytes=int(row[3]),
        database=database,
    )


def _wait_until_clients_gone(connection: psycopg.Connection[Any]) -> None:
    """Wait until the load's clients have reported and ended."""
    deadline = time.monotonic() + _CLIENTS_GONE_WAIT_S
    while True:
        row = connection.execute(_CLIENTS).fetchone()
        if row is None or row[0] == 0:
            return
        if time.monotonic() > deadline:
            raise MeasureError("the load's clients did not end")
        time.sleep(0.02)


def cpu_use(before: Mark, after: Mark, *, driver_s: float) -> CpuUse:
    """Divide the processors' time by user; the remainder is foreign."""
    user_s = after.server.user_s - before.server.user_s
    system_s = after.server.system_s - before.server.system_s
    # The driver's programs may or may not be among our reaped children: count them once.
    own_s = max(after.own_s - before.own_s, driver_s)
    busy_s = after.machine.busy_s - before.machine.busy_s
    return CpuUse(
        cores=core_count(),
        elapsed_s=after.at_s - before.at_s,
        server_user_s=user_s,
        server_system_s=system_s,
        driver_s=own_s,
        foreign_s=max(busy_s - user_s - system_s - own_s, 0.0),
    )


def cache_use(first: Mark, last: Mark, recorded: Recorded) -> CacheUse:
    """Return the cache's account of the time between two snapshots."""
    before, after = recorded.cache()
    if wrong := number(after["verify_mismatches"]):
        raise MeasureError(
            f"{whole(wrong)} blocks from flash differed from their file",
            hint="This must never happen: keep the run's folder and report it.",
        )
    return CacheUse(
        mode=str(after["mode"]),
        mode_reason=str(after["mode_reason"] or ""),
        size_bytes=int(number(after["size_bytes"])),
        slots=int(number(after["slots"])),
        used_slots=int(number(after["used_slots"])),
        counters={
            name: int(number(after[name])) - int(number(before[name]))
            for name in COUNTERS
            if name in after
        },
        # Each block that the cache did not have at first, or that the load created, can miss once;
        # it misses again only if it is dropped or not put in.  The counters include what autovacuum
        # reads of other databases, these do not.
        gauges={
            "blocks_not_cached_before": float(last.database.all - first.database.cached),
            "database_misses": float(last.database.misses - first.database.misses),
            "cached_share_before": first.database.cached / first.database.all,
            "keep_blocks": number(after.get("keep_blocks")),
            **_gauges(before, after),
        },
    )


def _gauges(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[str, float]:
    """Return the cache's costs, and the mean read times of the measured phase alone.

    The view's means include the warm-up, when there were no delays; a mean times its counter is a
    total, and totals can be subtracted.
    """
    gauges = {"metadata_bytes_per_block": number(after["metadata_bytes_per_block"])}
    for mean, counter in _MEANS:
        counts = [int(number(row[counter])) for row in (before, after)]
        totals = [
            number(row[mean]) * count for row, count in zip((before, after), counts, strict=True)
        ]
        if counts[1] > counts[0]:
            gauges[mean] = max(totals[1] - totals[0], 0.0) / (counts[1] - counts[0])
    return gauges


def reads(
    approach: Approach,
    before: Mark,
    after: Mark,
    recorded: Recorded | None,
    cache: CacheUse | None,
    *,
    emulated: bool,
) -> Reads:
    """Divide blocks by the place they came from."""
    if recorded is not None:
        blocks, wait_ms = int(recorded.grown("blks_read")), recorded.grown("blk_read_time")
    else:
        blocks, wait_ms = after.blocks - before.blocks, after.read_ms - before.read_ms
    if cache is not None:
        page_cache, flash, disk = (
            cache.counters.get(name, 0) for name in ("page_cache_reads", "hits", "misses")
        )
        known = True
    else:
        elsewhere = min(after.blocks_elsewhere - before.blocks_elsewhere, blocks)
        page_cache, flash, disk = 0, elsewhere, blocks - elsewhere
        if approach.data == "flash":
            flash, disk = disk, flash
        known = emulated  # an emulated device has no page cache
    return Reads(
        blocks=blocks,
        wait_ms=wait_ms,
        page_cache=page_cache,
        flash=flash,
        disk=disk,
        page_cache_known=known,
    )


def device_stats(emulator: Emulator | None) -> dict[str, dict[str, float]]:
    """Return what the emulated devices counted, as plain numbers."""
    if emulator is None:
        return {}
    return {one.name: _plain_stats(one) for one in emulator.stats().devices}


def _plain_stats(stats: DeviceStats) -> dict[str, float]:
    """Flatten one device's statistics; what is still queued keeps it no busier than always."""
    plain = {
        "utilisation": min(stats.utilisation, 1.0),
        "dirty_bytes": float(stats.dirty_bytes),
    }
    for name, operation in stats.operations.items():
        plain[f"{name}_count"] = operation.count
        plain[f"{name}_mean_ms"] = operation.mean_ms
        plain[f"{name}_bytes"] = operation.bytes
    return plain
