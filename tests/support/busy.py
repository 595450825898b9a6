# SPDX-License-Identifier: PostgreSQL
"""An invented server under load, as three snapshots: every section of the extension.

The snapshots are ten minutes apart; between two of them clients spend 50 s: 27.2 s reading `stock`
from disk at 13.6 ms, 2.8 s reading it from flash, 6 s in WAL syncs, 5 s behind others' syncs, 6 s
on processors, 2 s in row locks, 1 s that nothing explains (less the part that the sampler's
rounding attributes to waiting for a processor).  All counters grow by the same amount in each
interval.
"""

from datetime import timedelta

from pgflash.analyze import Period, make_period
from pgflash.model.snapshot import Value
from support.periods import EPOCH, Rows, Shelf

CLIENT = "client backend"

#: Per interval: calls, bytes, milliseconds.
IO = {
    (CLIENT, "data", "read", "disk"): (2_000, 2_000 * 8192, 27_200.0),
    (CLIENT, "data", "read", "flash"): (10_000, 10_000 * 8192, 2_800.0),
    (CLIENT, "data", "read", "page cache"): (1_000, 1_000 * 8192, 4.0),
    (CLIENT, "wal", "sync", "disk"): (600, 0, 6_000.0),
    ("checkpointer", "data", "write", "disk"): (200, 200 * 8192, 400.0),
}

#: Per minute of 600 looks.
SAMPLES = {
    (None, None): 6,
    ("LWLock", "WALWrite"): 5,
    ("Lock", "transactionid"): 2,
    ("IO", "DataFileRead"): 30,
    ("IO", "WalSync"): 6,
    ("Client", "ClientRead"): 50,
}

STATEMENTS = {
    77: ("select s_quantity from stock where s_i_id = $1", 1_000, 36_000.0),
    78: ("update warehouse set w_ytd = w_ytd + $1", 500, 4_000.0),
}

#: Per interval, by statement and source: reads, blocks, milliseconds.  None: all others.
READS = {
    77: {
        "disk": (1_800, 1_900, 25_000.0),
        "flash": (9_000, 9_000, 2_500.0),
        "page_cache": (900, 900, 3.6),
    },
    78: {"disk": (100, 100, 1_200.0), "flash": (0, 0, 0.0), "page_cache": (100, 100, 0.4)},
    None: {
        "disk": (100, 100, 1_000.0),
        "flash": (1_000, 1_000, 300.0),
        "page_cache": (0, 0, 0.0),
    },
}


#: Per interval: relation, kind, mode, and how often a session was seen waiting.
LOCK_WAITS = (
    ("16401", "stock", "transactionid", "ShareLock", 9),
    ("16401", "stock", "tuple", "ExclusiveLock", 16),
    (None, None, "transactionid", "ShareLock", 4),
    ("16405", "warehouse", "relation", "AccessExclusiveLock", 1),
)


#: At each snapshot: bytes and milliseconds that the standby is behind.
BEHIND = ((3_000_000, 30.0), (5_000_000, 50.0), (1_000_000, 10.0))


def busy_store(*, intervals: int = 2) -> Shelf:
    """Return the snapshots."""
    store = Shelf(texts={query_id: text for query_id, (text, _, _) in STATEMENTS.items()})
    for number in range(intervals + 1):
        store.put(10 * number, _sections(number))
    return store


def busy_period() -> Period:
    """Return the period from the first snapshot to the last."""
    store = busy_store()
    heads = store.list()
    return make_period(store, heads[0].id, heads[-1].id)


def _sections(n: int) -> dict[str, Rows]:
    """Return the sections after N intervals."""
    sections = _calls(n) | _database(n) | _machine(n) | _flash(n) | _standbys(n) | _server(n)
    return sections | _relations() | _sessions(n) if n else sections


def _calls(n: int) -> dict[str, Rows]:
    """Return the file calls that pgflash counts."""
    keys = ("backend_type", "file_class", "operation", "source")
    return {
        "io": [
            {
                **dict(zip(keys, key, strict=True)),
                "calls": calls * n,
                "bytes": size * n,
                "time_ms": ms * n,
                "mean_ms": ms / calls,
            }
            for key, (calls, size, ms) in IO.items()
        ],
        "io_histogram": [
            {
                **dict(zip(keys, (CLIENT, "data", "read", source), strict=True)),
                "lower_us": lower,
                "upper_us": 2 * lower,
                "calls": calls * n,
            }
            for source, lower, calls in (
                ("disk", 8192.0, 1_500),
                ("disk", 16384.0, 500),
                ("flash", 128.0, 2_000),
                ("flash", 256.0, 8_000),
                ("page cache", 2.0, 1_000),
            )
        ],
        "io_tablespaces": [
            {
                "tablespace_oid": "1663",
                "tablespace": "pg_default",
                "reads": 13_000 * n,
                "read_bytes": 13_000 * 8192 * n,
                "read_time_ms": 30_004.0 * n,
                "disk_reads": 2_000 * n,
                "disk_read_time_ms": 27_200.0 * n,
                "flash_reads": 10_000 * n,
                "flash_read_time_ms": 2_800.0 * n,
                "writes": 200 * n,
                "write_bytes": 200 * 8192 * n,
                "write_time_ms": 400.0 * n,
            }
        ],
    }


def _database(n: int) -> dict[str, Rows]:
    """Return PostgreSQL's own counts."""
    return {
        "database": [
            {
                "datid": "5",
                "datname": "shop",
                "numbackends": 3,
                "xact_commit": 990 * n,
                "xact_rollback": 10 * n,
                "blks_hit": 99_000 * n,
                "blks_read": 13_000 * n,
                "active_time": 50_000.0 * n,
                "stats_reset": None,
            }
        ],
        "bgwriter": [{"buffers_clean": 0, "buffers_alloc": 13_000 * n, "maxwritten_clean": 0}],
        "checkpointer": [
            {
                "num_timed": n,
                "num_requested": 0,
                "write_time": 400 * n,
                "sync_time": 10 * n,
                "buffers_written": 200 * n,
            }
        ],
        "stat_wal": [{"wal_records": 6_000 * n, "wal_fpi": 60 * n, "wal_bytes": 4_000_000 * n}],
        "wal": [
            {
                "writes": 620 * n,
                "write_bytes": 4_800_000 * n,
                "write_time_ms": 31.0 * n,
                "syncs": 600 * n,
                "sync_time_ms": 6_000.0 * n,
                "wastage_bytes": 800_000 * n,
                "stats_since": "2026-03-01T11:00:00+00:00",
            }
        ],
        "lock_waits": [
            {
                "database_oid": "5",
                "database": "shop",
                "relation_oid": oid,
                "schema": None if name is None else "public",
                "relation": name,
                "lock_type": kind,
                "lock_mode": mode,
                "samples": samples * n,
                "seconds": samples * n / 10,
            }
            for oid, name, kind, mode, samples in LOCK_WAITS
        ],
        "dead_rows": [
            {
                "database": "shop",
                "schema": "public",
                "relation": "stock",
                "live_rows": 90_000,
                "dead_rows": 10_000,
                "last_vacuum": None,
                "last_autovacuum": "2026-03-01T11:30:00+00:00",
                "frozen_age": 120_000_000,
            }
        ],
    }


def _machine(n: int) -> dict[str, Rows]:
    """Return the state of the processors, the memory and the disks."""
    return {
        "backend_cpu": [{"backend_type": CLIENT, "cpu_seconds": 6.0 * n}],
        "host_cpu": [
            {
                "user_s": 100.0 * n,
                "nice_s": 0.0,
                "system_s": 20.0 * n,
                "idle_s": 1_000.0 * n,
                "iowait_s": 80.0 * n,
                "irq_s": 0.0,
                "softirq_s": 0.0,
                "steal_s": 0.0,
            }
        ],
        "host_memory": [
            {
                "page_in_kb": 16_000 * n,
                "page_out_kb": 6_000 * n,
                "swap_in_pages": 0,
                "swap_out_pages": 0,
                "context_switches": 60_000 * n,
                "interrupts": 90_000 * n,
            }
        ],
        "host_disks": [
            {
                "disk": "sda",
                "reads": 2_000 * n,
                "reads_merged": 0,
                "read_bytes": 2_000 * 8192 * n,
                "read_time_ms": 27_000 * n,
                "writes": 800 * n,
                "writes_merged": 0,
                "write_bytes": 800 * 8192 * n,
                "write_time_ms": 6_400 * n,
                "io_time_ms": 33_000 * n,
                "weighted_time_ms": 33_400 * n,
            }
        ],
        "host_state": [
            {
                "running": 3 + n,
                "blocked": n,
                "swap_bytes": 2**30,
                "swap_free_bytes": 2**30 - 4096 * n,
                "free_bytes": 2**33 - 2**20 * n,
                "buffers_bytes": 2**20,
                "cached_bytes": 2**30 * n,
            }
        ],
    }


def _flash(n: int) -> dict[str, Rows]:
    """Return the state of the flash cache."""
    return {
        "cache": [_cache(n)],
        "advice": [
            {
                "size_factor": factor,
                "size_of": "cache",
                "size_bytes": int(factor * 2**30),
                "hit_ratio": hit_ratio,
                "disk_reads_per_s": 20 * (1 - hit_ratio),
                "disk_reads_factor": (1 - hit_ratio) / (1 - 0.8),
                "saved_ms_per_s": 13.3 * 20 * hit_ratio,
                "disk_read_mean_ms": 13.6,
                "flash_read_mean_ms": 0.3,
                "flash_read_mean_from": "measured",
            }
            for factor, hit_ratio in ((0.5, 0.6), (1.0, 0.8), (2.0, 0.95))
        ],
        "cache_relations": [
            {
                "database": "shop",
                "schema": "public",
                "relation": "stock",
                "relkind": "r",
                "fork": "main",
                "cached_blocks": 90_000,
                "policy": "default",
            }
        ],
    }


def _standbys(n: int) -> dict[str, Rows]:
    """Return the progress of the standby."""
    return {
        "replication": [
            {
                "application_name": "standby",
                "client_address": "10.0.0.2",
                "state": "streaming",
                "sync_state": "async",
                "send_bytes": 0,
                "write_bytes": 0,
                "flush_bytes": 8192,
                "replay_bytes": BEHIND[n % len(BEHIND)][0],
                "write_lag_ms": 0.4,
                "flush_lag_ms": 1.2,
                "replay_lag_ms": BEHIND[n % len(BEHIND)][1],
            }
        ],
        "replication_slots": [
            {
                "slot": "standby",
                "slot_type": "physical",
                "database": None,
                "active": True,
                "wal_status": "reserved",
                "retained_bytes": BEHIND[n % len(BEHIND)][0],
            }
        ],
        "standby": [],
    }


def _server(n: int) -> dict[str, Rows]:
    """Return the facts about the server, and what is missing."""
    return {
        "server": [
            {
                "version": "17.10",
                "cores": 2,
                "memory_bytes": 16 * 2**30,
                "page_size": 4096,
                "active_in_flight_ms": 0.0,
            }
        ],
        "settings": [
            {"name": "max_wal_size", "setting": "4096" if n else "1024", "unit": "MB"},
            {"name": "shared_buffers", "setting": "16384", "unit": "8kB"},
        ],
        "databases": [{"database_oid": "5", "database": "shop", "frozen_age": 150_000_000}],
        "archiver": [{"archived_count": n, "failed_count": 0, "stats_reset": None}],
        "missing": [{"section": "cache_devices", "reason": "there are none"}],
    }


def _relations() -> dict[str, Rows]:
    """Return the counts of relations."""
    return {
        "relations": [_relation("stock", 2_000, 27_200.0, 10_000, 2_800.0)],
        "relation_stats": [
            {
                "database": "shop",
                "schema": "public",
                "relation": "stock",
                "relkind": "r",
                "blocks_looked_up": 90_000,
                "blocks_hit": 80_000,
                "seq_scans": 1,
                "index_scans": 1_000,
                "rows_updated": 500,
                "rows_hot_updated": 400,
                "rows_deleted": 0,
                "vacuums": 0,
                "autovacuums": 1,
                "autoanalyzes": 1,
                "autovacuum_time_ms": 1_500.0,
            },
            {
                "database": "shop",
                "schema": "public",
                "relation": "stock_pkey",
                "relkind": "i",
                "blocks_looked_up": 20_000,
                "blocks_hit": 19_000,
                "index_scans": 1_000,
            },
            {"relation": "other", "blocks_looked_up": 2_000, "blocks_hit": 2_000},
        ],
    }


def _sessions(n: int) -> dict[str, Rows]:
    """Return the samples of sessions, and their statements."""
    minutes = [(EPOCH + timedelta(minutes=10 * (n - 1) + i)).isoformat() for i in range(10)]
    return {
        "samples": [
            {
                "bucket": minute,
                "backend_type": CLIENT,
                "database_oid": "5",
                "user_oid": "10",
                "query_id": 77,
                "wait_event_type": kind,
                "wait_event": event,
                "samples": samples,
            }
            for minute in minutes
            for (kind, event), samples in SAMPLES.items()
        ],
        "sample_looks": [{"bucket": minute, "looks": 600, "missed": 0} for minute in minutes],
        "statements": [
            {
                "database_oid": "5",
                "user_oid": "10",
                "query_id": query_id,
                "toplevel": True,
                "calls": calls,
                "rows": calls,
                "plan_time_ms": 0.0,
                "exec_time_ms": ms,
                "shared_blocks_hit": 90 * calls,
                "shared_blocks_read": 13 * calls,
                "temp_blocks_read": 0,
                "temp_blocks_written": 0,
                "wal_bytes": 3_000 * calls,
            }
            for query_id, (_, calls, ms) in STATEMENTS.items()
        ],
        "statement_reads": [
            {
                "database_oid": query_id and "5",
                "user_oid": query_id and "10",
                "query_id": query_id,
                "calls": STATEMENTS[query_id][1] if query_id else 10,
                "shared_hit_blocks": 90_000,
                **{
                    f"{source}_{name}": value
                    for source, values in sources.items()
                    for name, value in zip(
                        ("reads", "read_blocks", "read_time_ms"), values, strict=True
                    )
                },
            }
            for query_id, sources in READS.items()
        ],
    }


def _cache(n: int) -> dict[str, Value]:
    return {
        "mode": "serve",
        "mode_reason": "",
        "cache_file": "/flash/cache",
        "slots": 131_072,
        "used_slots": 100_000,
        "hits": 10_000 * n,
        "misses": 2_000 * n,
        "page_cache_reads": 1_000 * n,
        "bypass_reads": 0,
        "inserts": 1_800 * n,
        "eviction_aged_out": 1_700 * n,
        "insert_skip_not_useful": 200 * n,
        "flash_reads": 10_000 * n,
        "flash_writes": 200 * n,
    }


def _relation(
    name: str, disk: int, disk_ms: float, flash: int, flash_ms: float
) -> dict[str, Value]:
    return {
        "database": "shop",
        "schema": "public",
        "relation": name,
        "relkind": "r",
        "fork": "main",
        "tablespace": "pg_default",
        "reads": disk + flash,
        "read_bytes": (disk + flash) * 8192,
        "read_time_ms": disk_ms + flash_ms,
        "disk_reads": disk,
        "disk_read_time_ms": disk_ms,
        "page_cache_reads": 0,
        "page_cache_read_time_ms": 0.0,
        "flash_reads": flash,
        "flash_read_time_ms": flash_ms,
        "writes": 200,
        "write_bytes": 200 * 8192,
        "write_time_ms": 400.0,
        "extends": 0,
        "extend_bytes": 0,
        "extend_time_ms": 0.0,
    }
