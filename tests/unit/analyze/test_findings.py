# SPDX-License-Identifier: PostgreSQL
"""Each finding appears when it is true, with its numbers, and not otherwise."""

from dataclasses import dataclass, field, replace

import pytest

from pgflash.analyze import make_period, make_report
from pgflash.analyze.findings import RULES, SUMS, find
from pgflash.analyze.parts import db_time
from pgflash.analyze.rules import WARN_MIN
from pgflash.model.awr import HEADLINE, Finding, RowMark, Severity
from pgflash.model.snapshot import Value
from support.periods import Rows, Shelf

CLIENT = "client backend"

Sections = dict[str, Rows]


def server(**grown: float) -> Sections:
    """Return ten minutes of pg_stat_database, half a session active, and the growth in GROWN."""
    return {
        "database": [
            {
                "datid": "5",
                "xact_commit": 10_000,
                "active_time": 300_000.0,
                "blks_hit": 90_000,
                "blks_read": 10_000,
                **grown,
            }
        ],
        "server": [{"cores": 2, "page_size": 4096}],
    }


def with_io(*rows: tuple[str, str, str, int, float]) -> Sections:
    """Return the same with clients' file calls: class, operation, source, calls, ms."""
    return server() | {
        "io": [
            {
                "backend_type": CLIENT,
                "file_class": file_class,
                "operation": operation,
                "source": source,
                "calls": calls,
                "bytes": 8192 * calls,
                "time_ms": time_ms,
            }
            for file_class, operation, source, calls, time_ms in rows
        ]
    }


def with_cache(sections: Sections | None = None, **grown: Value) -> Sections:
    """Return the same with a flash cache."""
    cache: dict[str, Value] = {"cache_file": "/flash", "mode": "serve", **grown}
    return {**server(), **(sections or {}), "cache": [cache]}


def locked(**waits: tuple[int, float]) -> Sections:
    """Return waits for locks, and their milliseconds, by type."""
    return {
        "stat_lock": [
            {"locktype": kind, "waits": count, "wait_time": time_ms, "fastpath_exceeded": 0}
            for kind, (count, time_ms) in waits.items()
        ]
    }


def seen(*waits: tuple[str | None, str | None, int], looks: int = 6000) -> Sections:
    """Return samples of one minute-bucket standing for a minute of the period."""
    bucket = "2026-03-01T12:00:00+00:00"
    return {
        "sample_looks": [{"bucket": bucket, "looks": looks, "missed": 0}],
        "samples": [
            {
                "bucket": bucket,
                "backend_type": CLIENT,
                "wait_event_type": kind,
                "wait_event": event,
                "samples": count,
            }
            for kind, event, count in waits
        ],
    }


def slot(**facts: Value) -> Sections:
    """Return a replication slot."""
    return {"replication_slots": [{"slot": "old", "slot_type": "physical", **facts}]}


GAUGES = (
    "server",
    "settings",
    "advice",
    "samples",
    "sample_looks",
    "statements",
    "relations",
    "databases",
    "replication_slots",
)


def findings_of(sections: Sections, begin: Sections | None = None) -> dict[str, Finding]:
    """Return the findings of ten minutes that counted SECTIONS from nothing."""
    store = Shelf()
    at_begin = {
        name: rows if name in GAUGES else [_nothing(row) for row in rows]
        for name, rows in sections.items()
    }
    store.put(0, {**at_begin, **(begin or {})})
    store.put(10, sections)
    return {finding.rule: finding for finding in make_report(make_period(store, 1, 2)).findings}


def _nothing(row: object) -> dict[str, Value]:
    assert isinstance(row, dict)
    return {
        name: 0 * value if isinstance(value, (int, float)) else value for name, value in row.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A rule, the data that triggers it and the data that does not."""

    rule: str
    yes: Sections
    no: Sections
    says: str
    severity: Severity
    begin: Sections = field(default_factory=dict)


HOST = {"user_s": 600.0, "system_s": 100.0, "idle_s": 440.0, "iowait_s": 0.0, "nice_s": 0.0}

CASES = (
    Case(
        rule="disk-reads",
        yes=with_io(("data", "read", "disk", 10_000, 150_000.0)),
        no=with_io(("data", "read", "disk", 10_000, 30_000.0)),
        says="spent 50 % of DB time waiting for reads of data files, 15.0 ms each.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="commit-waits",
        yes=with_io(("wal", "sync", "disk", 10_000, 100_000.0)),
        no=with_io(("wal", "sync", "disk", 10_000, 10_000.0)),
        says="Commits took 33 % of DB time.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="configuration-waits",
        yes=with_io(("data", "write", "disk", 10_000, 30_000.0)),
        no=with_io(("data", "write", "disk", 10_000, 3_000.0)),
        says="10 % of DB time went into waits that settings could avoid, most of it into writes "
        "of dirty buffers by clients.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="locks",
        yes=server() | seen(("Lock", "transactionid", 9_000)),
        no=server() | seen(("Lock", "transactionid", 900)),
        says="spent 30 % of DB time waiting for each other, most of it waiting for other "
        "transactions to end (Lock:transactionid).",
        severity=Severity.WARNING,
    ),
    Case(
        rule="processors",
        yes=server() | {"backend_cpu": [{"backend_type": CLIENT, "cpu_seconds": 1_080.0}]},
        no=server() | {"backend_cpu": [{"backend_type": CLIENT, "cpu_seconds": 100.0}]},
        says="There were too few processors: sessions used 90 % of 2 processors.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="unexplained",
        yes=with_io(("data", "read", "disk", 10_000, 150_000.0)),
        no=with_io(("data", "read", "disk", 10_000, 290_000.0)),
        says="50 % of DB time is not explained by any row: nothing was sampled",
        severity=Severity.NOTE,
    ),
    Case(
        rule="outside-the-executor",
        yes=server() | {"statements": [{"query_id": 1, "calls": 1, "exec_time_ms": 150_000.0}]},
        no=server() | {"statements": [{"query_id": 1, "calls": 1, "exec_time_ms": 290_000.0}]},
        says="50 % of DB time passed outside the execution",
        severity=Severity.NOTE,
    ),
    Case(
        rule="page-cache",
        yes=with_io(
            ("data", "read", "page cache", 95_000, 475.0), ("data", "read", "disk", 5, 1.0)
        ),
        no=with_io(
            ("data", "read", "page cache", 5_000, 25.0), ("data", "read", "disk", 5_000, 9.0)
        ),
        says="The page cache served 100 % of the reads of data files, at 5 µs each",
        severity=Severity.GOOD,
    ),
    Case(
        rule="flash-mismatches",
        yes=with_cache(verify_mismatches=2, verify_compared=100),
        no=with_cache(verify_mismatches=0, verify_compared=100),
        says="2 blocks from flash differed from the file.",
        severity=Severity.CRITICAL,
    ),
    Case(
        rule="flash-corruption",
        yes=with_cache(corrupt_slots=1),
        no=with_cache(corrupt_slots=0),
        says="1 block read from flash had a wrong checksum; none was served.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="flash-device",
        yes=with_cache(read_timeouts=3, flash_read_errors=1),
        no=with_cache(read_timeouts=0),
        says="had errors: 1 failed read, 3 reads beyond the deadline. Queries read from disk "
        "instead.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="flash-not-serving",
        yes=with_cache(mode="passthrough"),
        no=with_cache(),
        says="the flash cache was in mode passthrough, which serves no reads.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="flash-served",
        yes=with_cache(
            with_io(
                ("data", "read", "flash", 8_000, 2_240.0), ("data", "read", "disk", 2_000, 26_120.0)
            ),
            hits=8_000,
            misses=2_000,
        ),
        no=with_cache(hits=8, misses=2),
        says="served 80 % of the blocks that were looked up in it: 280 µs a read against 13.1 ms "
        "from disk, 46.6 times as fast.",
        severity=Severity.GOOD,
    ),
    Case(
        rule="flash-slower",
        yes=with_cache(
            with_io(
                ("data", "read", "flash", 8_000, 8_000.0), ("data", "read", "disk", 2_000, 1_000.0)
            ),
            hits=8_000,
            misses=2_000,
        ),
        no=with_cache(
            with_io(
                ("data", "read", "flash", 8_000, 800.0), ("data", "read", "disk", 2_000, 1_000.0)
            ),
            hits=8_000,
            misses=2_000,
        ),
        says="but at 1.00 ms a read it was no faster than the disk (500 µs).",
        severity=Severity.WARNING,
    ),
    Case(
        rule="flash-budget",
        yes=with_cache(insert_skip_budget=3_000, inserts=7_000),
        no=with_cache(insert_skip_budget=3_000, inserts=97_000),
        says="kept 3,000 blocks out of the flash cache, 30 % of those",
        severity=Severity.NOTE,
    ),
    Case(
        rule="checksum-failures",
        yes=server(checksum_failures=1),
        no=server(checksum_failures=0),
        says="PostgreSQL found 1 data page with a wrong checksum.",
        severity=Severity.CRITICAL,
    ),
    Case(
        rule="requested-checkpoints",
        yes=server() | {"bgwriter": [{"checkpoints_timed": 1, "checkpoints_req": 4}]},
        no=server() | {"bgwriter": [{"checkpoints_timed": 4, "checkpoints_req": 1}]},
        says="4 checkpoints were requested and 1 scheduled",
        severity=Severity.NOTE,
    ),
    Case(
        rule="full-page-images",
        yes=server() | {"stat_wal": [{"wal_fpi": 54_000, "wal_bytes": 500_000_000}]},
        no=server() | {"stat_wal": [{"wal_fpi": 54_000, "wal_bytes": 5_000_000_000}]},
        says="as much as 88 % of the WAL: 54,000 of them, 90.0 a second.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="transaction-ids",
        yes=server() | {"databases": [{"database": "shop", "frozen_age": 1_200_000_000}]},
        no=server() | {"databases": [{"database": "shop", "frozen_age": 200_000_000}]},
        says="The oldest unfrozen rows of database shop are 1.2 billion transactions old",
        severity=Severity.WARNING,
    ),
    Case(
        rule="retained-wal",
        yes=server() | slot(active=False, retained_bytes=5 * 2**30),
        no=server() | slot(active=True, retained_bytes=5 * 2**30),
        says="The inactive replication slot old retains 5.00 GB of WAL.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="temporary-files",
        yes=server(temp_bytes=600 * 5 * 2**20, temp_files=10),
        no=server(temp_bytes=600 * 2**10, temp_files=10),
        says="wrote 2.93 GB to temporary files, 5.00 MB a second.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="idle-in-transaction",
        yes=server(idle_in_transaction_time=1_200_000.0, xact_commit=100),
        no=server(idle_in_transaction_time=1_200_000.0, xact_commit=1_000_000),
        says="On average, 2.00 sessions were idle in an open transaction, for 12.0 s per "
        "transaction.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="rollbacks",
        yes=server(xact_rollback=10_000),
        no=server(xact_rollback=100),
        says="50 % of the transactions were rolled back.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="deadlocks",
        yes=server(deadlocks=1),
        no=server(deadlocks=0),
        says="There was 1 deadlock.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="long-lock-waits",
        yes=server() | locked(relation=(3, 60_000.0), tuple=(1, 2_000.0)),
        no=server() | locked(relation=(1, 2_000.0)),
        says="4 waits for locks lasted longer than deadlock_timeout, 62.0 s in total, most of it "
        "for locks of type relation.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="machine",
        yes=server() | {"host_cpu": [{**HOST, "steal_s": 60.0}]},
        no=server() | {"host_cpu": [{**HOST, "steal_s": 6.0}]},
        says="short of resources: the hypervisor took away 5.0 % of the CPU time.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="busy-device",
        yes=server()
        | {
            "host_disks": [
                {"disk": "sda", "reads": 60_000, "read_time_ms": 1_260_000, "io_time_ms": 593_280}
            ]
        },
        no=server()
        | {
            "host_disks": [
                {"disk": "sda", "reads": 60_000, "read_time_ms": 1_260_000, "io_time_ms": 300_000}
            ]
        },
        says="The device sda was busy for 99 % of the time, at 21.0 ms a request.",
        severity=Severity.WARNING,
    ),
    Case(
        rule="shared-buffers",
        yes=server(blks_hit=999_000, blks_read=1_000),
        no=server(blks_hit=90_000, blks_read=10_000),
        says="Only 0.1 % of the requested blocks were not in shared_buffers.",
        severity=Severity.GOOD,
    ),
    Case(
        rule="settings-changed",
        yes=server() | {"settings": [{"name": "work_mem", "setting": "65536"}]},
        no=server() | {"settings": [{"name": "work_mem", "setting": "4096"}]},
        begin={"settings": [{"name": "work_mem", "setting": "4096"}]},
        says="1 setting changed during the period: work_mem.",
        severity=Severity.NOTE,
    ),
    Case(
        rule="statistics-reset",
        yes=server() | {"slru": [{"name": "xact", "blks_hit": 3}]},
        no=server() | {"slru": [{"name": "xact", "blks_hit": 9}]},
        begin={"slru": [{"name": "xact", "blks_hit": 5}]},
        says="Statistics were reset during the period (slru)",
        severity=Severity.WARNING,
    ),
    Case(
        rule="sampler-gaps",
        yes=server() | seen((None, None, 100)),
        no=server(),
        says="The sampler covered only 10 % of the period",
        severity=Severity.WARNING,
    ),
    Case(
        rule="io-not-timed",
        yes=server(),
        no=server() | {"settings": [{"name": "track_io_timing", "setting": "on"}]},
        says="I/O was not timed",
        severity=Severity.WARNING,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_finding_is_said_with_its_numbers(case: Case) -> None:
    finding = findings_of(case.yes, case.begin)[case.rule]
    assert case.says in finding.sentence
    assert finding.severity is case.severity
    assert finding.sentence.endswith(".")
    assert finding.table


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_finding_is_not_said_where_it_is_not_true(case: Case) -> None:
    assert case.rule not in findings_of(case.no, case.begin)


def test_every_rule_has_a_case() -> None:
    # The first always sums up the period; two of them have two wordings.
    assert len(CASES) == len(RULES) - 1 + 2


def test_what_may_be_a_fault_of_the_data_comes_first_and_good_news_last() -> None:
    sections = with_cache(
        with_io(
            ("data", "read", "disk", 10_000, 150_000.0), ("data", "read", "flash", 90_000, 9_000.0)
        ),
        verify_mismatches=1,
        hits=90_000,
        misses=10_000,
    )
    rules = list(findings_of(sections))
    assert rules[:2] == ["flash-mismatches", "where-the-time-went"]
    assert rules[-1] == "flash-served"


def test_reads_that_took_no_time_are_not_compared() -> None:
    reads = with_io(("data", "read", "flash", 8_000, 0.0), ("data", "read", "disk", 2_000, 0.0))
    found = findings_of(with_cache(reads, hits=8_000, misses=2_000))
    assert found["flash-served"].sentence == (
        "The flash cache served 80 % of the blocks that were looked up in it."
    )


def test_a_cache_that_leaves_few_reads_to_the_disk_is_judged_by_those_since_the_start() -> None:
    reads = with_io(("data", "read", "flash", 99_950, 50_000.0), ("data", "read", "disk", 50, 1e3))
    found = findings_of(with_cache(reads, hits=99_950, misses=50, disk_read_mean_ms=10.0))
    assert found["flash-served"].severity is Severity.GOOD
    assert found["flash-served"].sentence.endswith(
        ": 500 µs a read against 10.0 ms from disk since the start, 20.0 times as fast."
    )
    # Of 999.5 s that flash replaced and 1 s of the disk, 51 s are left: a share, since the time
    # saved is more than the sessions could have waited.
    share, *others = found["flash-served"].evidence[1:]
    assert share.startswith("reads took 95 % less time than they would have without the cache")
    assert not others


def test_a_cache_that_is_as_fast_as_the_disk_is_no_good_news() -> None:
    reads = with_io(
        ("data", "read", "flash", 8_000, 4_280.0), ("data", "read", "disk", 2_000, 1_072.0)
    )
    found = findings_of(with_cache(reads, hits=8_000, misses=2_000))
    assert "flash-served" not in found
    assert found["flash-slower"].sentence.endswith(
        "but at 535 µs a read it was hardly faster than the disk (536 µs)."
    )


def test_the_first_finding_says_where_the_time_went() -> None:
    finding = findings_of(with_io(("data", "read", "disk", 10_000, 165_000.0)))[HEADLINE]
    assert finding.sentence == "55 % of DB time was single-block reads from disk at 16.5 ms."


def test_time_that_nothing_explains_is_said_where_it_is_the_most() -> None:
    finding = findings_of(with_io(("data", "read", "disk", 10_000, 3_000.0)))[HEADLINE]
    assert finding.sentence.endswith(
        "; 99 % is not explained by anything that was counted or sampled."
    )


def test_an_idle_server_is_called_idle() -> None:
    finding = findings_of(server(active_time=600.0))[HEADLINE]
    assert finding.sentence == "The server was nearly idle: 600 ms of DB time in 10.0 min."


def test_what_costs_an_idle_server_most_of_its_time_is_a_note() -> None:
    for active_ms, severity in ((100.0, Severity.NOTE), (300_000.0, Severity.WARNING)):
        sections = with_io(("data", "read", "disk", 10_000, 0.9 * active_ms))
        found = findings_of(sections | {"database": server(active_time=active_ms)["database"]})
        assert found["disk-reads"].cost == pytest.approx(0.9)
        assert found["disk-reads"].severity is severity
        assert found[HEADLINE].severity is severity


def test_a_fast_sync_is_no_reason_to_buy_flash() -> None:
    sections = with_io(("wal", "sync", "disk", 300_000, 100_000.0)) | {
        "wal": [{"syncs": 300_000, "sync_time_ms": 100_000.0}]
    }
    finding = findings_of(sections)["commit-waits"]
    assert finding.severity is Severity.WARNING  # it costs a third of DB time all the same
    assert "a WAL sync took 333 µs on average" in finding.sentence
    assert "pg_wal to flash" not in finding.advice


def test_advice_names_the_smallest_cache_that_is_nearly_as_good_as_the_largest() -> None:
    advice: Rows = [
        {"size_bytes": size * 2**30, "hit_ratio": ratio, "flash_read_mean_ms": 0.2}
        for size, ratio in ((1, 0.3), (4, 0.85), (16, 0.9))
    ]
    sections = with_io(("data", "read", "disk", 10_000, 150_000.0)) | {"advice": advice}
    finding = findings_of(sections)["disk-reads"]
    assert finding.advice == (
        "A flash cache of 4.00 GB would serve 85 % of the reads that miss the page cache."
    )
    # 8,500 of 10,000 reads, 14.8 ms less each, of 300 s.
    said = "a flash cache of 4.00 GB would save 42 % of DB time, compared with none (modelled)"
    assert said in finding.evidence


def test_a_cache_that_is_large_enough_is_not_to_grow() -> None:
    advice: Rows = [
        {
            "size_factor": factor,
            "size_of": "cache",
            "size_bytes": factor * 2**30,
            "hit_ratio": hits,
            "flash_read_mean_ms": 0.2,
        }
        for factor, hits in ((0.5, 0.2), (1, 0.47), (2, 0.48))
    ]
    sections = with_io(("data", "read", "disk", 10_000, 150_000.0)) | {"advice": advice}
    finding = findings_of(sections)["disk-reads"]
    assert finding.advice.startswith("A larger flash cache would help little")


def test_the_page_cache_is_no_good_news_where_clients_wait_for_the_disk() -> None:
    sections = with_io(
        ("data", "read", "page cache", 190_000, 950.0), ("data", "read", "disk", 9_000, 90_000.0)
    )
    assert "page-cache" not in findings_of(sections)


def test_sums_that_contradict_each_other_are_a_finding_and_cost_no_report() -> None:
    # A file of snapshots from somebody else: a session cannot wait less than zero.
    odd = server() | seen(("Lock", "relation", -600))
    store = Shelf()
    store.put(0, {name: rows if name in GAUGES else [] for name, rows in server().items()})
    store.put(10, odd)
    report = make_report(make_period(store, 1, 2))
    first = report.findings[0]
    assert (first.rule, first.severity, first.table) == (SUMS, Severity.CRITICAL, "top-events")
    assert "contradict each other: Lock:relation: -6 s, less than nothing." in first.sentence
    assert first.advice
    assert report.table("top-events").rows


def test_a_total_that_is_not_the_sum_of_its_rows_is_named() -> None:
    store = Shelf()
    store.put(0, {name: [_nothing(row) for row in rows] for name, rows in server().items()})
    store.put(10, server())
    period = make_period(store, 1, 2)
    table = make_report(period).table("top-events")
    place = table.index("total_s")
    wrong = tuple(
        replace(row, cells=(*row.cells[:place], 7.0, *row.cells[place + 1 :]))
        if row.mark is RowMark.TOTAL
        else row
        for row in table.rows
    )
    (found,) = [
        one
        for one in find(period, db_time(period), [replace(table, rows=wrong)])
        if one.rule == SUMS
    ]
    told = " ".join((found.sentence, *found.evidence))
    assert "the rows add up to 300 s, the total says 7 s" in told


def test_what_costs_more_is_no_less_serious_and_stands_no_later() -> None:
    sections = with_io(
        ("data", "read", "disk", 10_000, 90_000.0),
        ("wal", "sync", "disk", 300_000, 120_000.0),
        ("data", "write", "disk", 10_000, 30_000.0),
    ) | {"wal": [{"syncs": 300_000, "sync_time_ms": 120_000.0}]}
    found = findings_of(sections)
    costly = [one for one in found.values() if one.cost is not None]
    assert [one.rule for one in costly] == ["commit-waits", "disk-reads", "configuration-waits"]
    assert [one.cost for one in costly] == pytest.approx([0.4, 0.3, 0.1])
    assert [one.severity for one in costly] == [
        Severity.WARNING if (one.cost or 0) >= WARN_MIN else Severity.NOTE for one in costly
    ]
    # The summary is as serious as the worst finding.
    assert found[HEADLINE].severity is Severity.WARNING


def test_full_page_images_cost_what_writes_of_the_wal_take() -> None:
    sections = with_io(
        ("wal", "write", "disk", 10_000, 150_000.0), ("wal", "sync", "disk", 10_000, 150_000.0)
    ) | {
        "stat_wal": [{"wal_fpi": 54_000, "wal_bytes": 54_000 * 8192}],
        "settings": [{"name": "wal_compression", "setting": "lz4"}],
    }
    finding = findings_of(sections)["full-page-images"]
    assert finding.cost == pytest.approx(0.5)
    assert finding.severity is Severity.WARNING
    assert "as much as 100 % of the WAL" in finding.sentence
    assert "wal_compression" not in finding.advice


def test_a_few_full_page_images_are_as_it_has_to_be() -> None:
    few = server() | {"stat_wal": [{"wal_fpi": 600, "wal_bytes": 600 * 8192}]}
    assert "full-page-images" not in findings_of(few)


def test_transaction_numbers_that_nearly_run_out_come_first() -> None:
    old = server() | {"databases": [{"database": "shop", "frozen_age": 1_900_000_000}]}
    first = next(iter(findings_of(old).values()))
    assert (first.rule, first.severity) == ("transaction-ids", Severity.CRITICAL)


def test_a_busy_device_for_which_nobody_waits_is_a_note() -> None:
    disk: dict[str, Value] = {
        "disk": "sda",
        "reads": 60_000,
        "read_time_ms": 1_260_000,
        "io_time_ms": 593_280,
    }
    for read_ms, severity in ((150_000.0, Severity.WARNING), (3_000.0, Severity.NOTE)):
        sections = with_io(("data", "read", "disk", 10_000, read_ms)) | {"host_disks": [disk]}
        assert findings_of(sections)["busy-device"].severity is severity


def test_commits_say_what_one_of_them_waited() -> None:
    sections = with_io(("wal", "sync", "disk", 10_000, 100_000.0))
    evidence = findings_of(sections)["commit-waits"].evidence
    assert "a commit waited 10.0 ms on average (exact)" in evidence


def test_locks_name_the_table_whose_rows_were_waited_for() -> None:
    waits: Rows = [
        {"relation": name, "database": "shop", "lock_type": "transactionid", "samples": samples,
         "relation_oid": name, "database_oid": "5", "lock_mode": "ShareLock", "seconds": samples}
        for name, samples in (("stock", 30), ("item", 10))
    ]  # fmt: skip
    sections = server() | seen(("Lock", "transactionid", 9_000)) | {"lock_waits": waits}
    finding = findings_of(sections)["locks"]
    assert finding.table == "locks"
    assert "stock accounted for 75 % of row lock waits (sampled)" in finding.evidence
    assert findings_of(server() | seen(("Lock", "tuple", 9_000)))["locks"].table == "top-events"


def test_processor_time_beyond_db_time_is_no_share_of_it() -> None:
    # DB time is counted when a statement ends, its CPU time all the while.
    busy = server() | {"backend_cpu": [{"backend_type": CLIENT, "cpu_seconds": 600.0}]}
    sentence = findings_of(busy)["where-the-time-went"].sentence
    assert sentence.startswith("10.0 min (more than DB time itself) was work"), sentence
