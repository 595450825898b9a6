# SPDX-License-Identifier: PostgreSQL
"""Hand-made runs of the lab for tests of the report: round numbers, no server."""

from pgflash.model.waits import WaitClass, WaitCount
from pgflash_lab.model.run import (
    Approach,
    Attempt,
    CacheSecond,
    CacheUse,
    CpuSecond,
    CpuUse,
    Device,
    Latency,
    Reads,
    Run,
    Second,
)

BASELINE = Approach(
    name="baseline", title="Everything on the array", data="array", wal="array", cache=False
)
FLASH_CACHE = Approach(
    name="flash-cache", title="Flash cache", data="array", wal="array", cache=True
)
WAL = Approach(name="wal-on-flash", title="WAL on flash", data="array", wal="flash", cache=False)
BOTH = Approach(
    name="wal-and-cache", title="WAL on flash + flash cache", data="array", wal="flash", cache=True
)
ALL = Approach(
    name="all-on-flash", title="Everything on flash", data="flash", wal="flash", cache=False
)
APPROACHES = (BASELINE, FLASH_CACHE, WAL, BOTH, ALL)


def latency(*, count: int, mean_ms: float, transaction: str = "") -> Latency:
    return Latency(
        transaction=transaction,
        count=count,
        mean_ms=mean_ms,
        p50_ms=mean_ms * 0.8,
        p90_ms=mean_ms * 1.5,
        p95_ms=mean_ms * 2,
        p99_ms=mean_ms * 3,
        max_ms=mean_ms * 10,
    )


#: What sessions of each attempt wait for.
_WAITS = (
    WaitCount(wait_class=WaitClass.USER_IO, event="IO:DataFileRead", samples=1000),
    WaitCount(wait_class=WaitClass.COMMIT, event="LWLock:WALWrite", samples=700),
    WaitCount(wait_class=WaitClass.CPU, event="CPU", samples=300),
    WaitCount(wait_class=WaitClass.IDLE, event="Client:ClientRead", samples=5000),
    WaitCount(wait_class=WaitClass.SYSTEM_IO, event="IO:DataFileWrite", samples=50),
)


def _seconds(tpm: float, measured_s: int) -> tuple[Second, ...]:
    """Return the throughput and the response times of each second."""
    return tuple(
        Second(
            at_s=i,
            transactions=round(tpm / 60) + i % 3 * 5,
            mean_ms=60_000 * 16 / tpm,
            p95_ms=120_000 * 16 / tpm + i % 4,
        )
        for i in range(measured_s)
    )


def _cache_use(flash: int, blocks: int) -> CacheUse:
    """Return the state of the cache at the end."""
    return CacheUse(
        mode="serve",
        mode_reason="",
        size_bytes=2**30,
        slots=131_072,
        used_slots=100_000,
        counters={"hits": flash, "misses": blocks - flash, "inserts": 5000},
        gauges={"flash_read_mean_ms": 0.2, "disk_read_mean_ms": 14.0},
    )


def _cache_seconds(flash: int, blocks: int, measured_s: int) -> tuple[CacheSecond, ...]:
    """Return the use of the cache in each second."""
    return tuple(
        CacheSecond(
            at_s=float(i),
            hits=round(flash * i / measured_s),
            misses=round((blocks - flash) * i / measured_s),
            page_cache_reads=0,
            used_slots=90_000 + i,
        )
        for i in range(measured_s)
    )


def attempt(
    approach: Approach,
    *,
    tpm: float,
    repeat: int = 1,
    polluted: str = "",
    superseded: bool = False,
    measured_s: int = 20,
    hit_ratio: float = 0.8,
) -> Attempt:
    """Return an attempt whose every figure is derived from its throughput."""
    transactions = round(tpm * measured_s / 60)
    blocks = transactions * 2
    flash = round(blocks * hit_ratio) if approach.cache else 0
    means_ms = {"new_order": 50.0, "payment": 30.0}
    return Attempt(
        approach=approach.name,
        repeat=repeat,
        started_at="2026-11-21T20:00:00+00:00",
        warmup_s=10,
        measured_s=measured_s,
        clients=16,
        transactions=transactions,
        transactions_all=transactions,
        tpm=tpm,
        nopm=tpm * 0.45,
        nopm_counted=tpm * 0.45,
        latency=latency(count=transactions, mean_ms=60_000 * 16 / tpm),
        by_transaction=tuple(
            latency(count=transactions // 2, mean_ms=mean_ms, transaction=name)
            for name, mean_ms in means_ms.items()
        ),
        seconds=_seconds(tpm, measured_s),
        cpu=CpuUse(
            cores=2,
            elapsed_s=measured_s,
            server_user_s=transactions * 0.0006,
            server_system_s=transactions * 0.0002,
            driver_s=transactions * 0.00005,
            foreign_s=0.4,
        ),
        cpu_seconds=tuple(
            CpuSecond(at_s=i, user=0.2, system=0.1, iowait=0.0, idle=0.7) for i in range(measured_s)
        ),
        reads=Reads(
            blocks=blocks,
            wait_ms=blocks * 14.0,
            page_cache=0,
            flash=flash,
            disk=blocks - flash,
            page_cache_known=approach.cache,
        ),
        cache=_cache_use(flash, blocks) if approach.cache else None,
        cache_seconds=_cache_seconds(flash, blocks, measured_s) if approach.cache else (),
        waits=_WAITS,
        wait_rounds=200,
        wait_hz=10.0,
        wal_bytes=100 * 2**20,
        consistency=("1 w_ytd = sum(d_ytd)",),
        polluted=polluted,
        superseded=superseded,
    )


def run_of(*attempts: Attempt, **changes: object) -> Run:
    """Return a run of the emulated lab with these attempts."""
    facts: dict[str, object] = {
        "id": "20261121-200000-oltp-approaches",
        "scenario": "oltp-approaches",
        "title": "OLTP approaches",
        "preset": "demo",
        "paper": "000",
        "started_at": "2026-11-21T20:00:00+00:00",
        "ended_at": "2026-11-21T20:09:00+00:00",
        "pgflash_version": "0.1.0",
        "postgres_version": "18.6",
        "machine": {"kernel": "Linux 6.18", "cores": "2"},
        "parameters": {"warehouses": "8", "clients": "16"},
        "settings": {"shared_buffers": "192MB"},
        "database_bytes": 900 * 2**20,
        "devices": (
            Device(
                role="array",
                name="sas15k-raid10-6",
                emulated=True,
                summary="6 spindles",
                facts={"spindles": "6"},
            ),
            Device(role="flash", name="nvme", emulated=True, summary="8 channels"),
        ),
        "approaches": APPROACHES,
        "attempts": attempts,
    }
    return Run(**{**facts, **changes})  # type: ignore[arg-type]


def whole_run() -> Run:
    """Return a run of five approaches, two repeats, with ratios 1, 1.5, 1.25, 4 and 5."""
    tpm = {"baseline": 20_000, "flash-cache": 30_000, "wal-on-flash": 25_000}
    tpm |= {"wal-and-cache": 80_000, "all-on-flash": 100_000}
    return run_of(
        *(attempt(one, tpm=tpm[one.name] - 200, repeat=1) for one in APPROACHES),
        *(attempt(one, tpm=tpm[one.name] + 200, repeat=2) for one in reversed(APPROACHES)),
    )
