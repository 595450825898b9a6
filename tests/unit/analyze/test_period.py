# SPDX-License-Identifier: PostgreSQL
"""Periods: counts between snapshots, resets, gaps, and snapshots that cannot bound a period."""

import pytest

from pgflash.analyze import PeriodError, make_period, make_report
from pgflash.analyze.figures import databases
from pgflash.model.snapshot import Value
from support.periods import Rows, Shelf


def database(
    commits: int, *, oid: str = "5", reset: str | None = None, active_ms: float = 0.0
) -> dict[str, Value]:
    return {
        "datid": oid,
        "datname": f"db{oid}",
        "xact_commit": commits,
        "active_time": active_ms,
        "numbackends": 7,
        "stats_reset": reset,
    }


def io(calls: int, time_ms: float) -> dict[str, Value]:
    return {
        "backend_type": "client backend",
        "file_class": "data",
        "operation": "read",
        "source": "disk",
        "calls": calls,
        "bytes": 8192 * calls,
        "time_ms": time_ms,
        "mean_ms": 99.0,
    }


def shelf_of(*sections: dict[str, Rows]) -> Shelf:
    """Return snapshots ten minutes apart."""
    store = Shelf()
    for number, one in enumerate(sections):
        store.put(10 * number, one)
    return store


def commits(store: Shelf, begin: int, end: int) -> int:
    found = databases(make_period(store, begin, end))
    assert found is not None
    return found.commits


def test_counters_are_subtracted_and_gauges_are_not() -> None:
    store = shelf_of({"database": [database(100)]}, {"database": [database(350)]})
    period = make_period(store, 1, 2)
    (row,) = period.records("database")
    assert row["xact_commit"] == 250
    assert row["numbackends"] == 7
    assert row["datname"] == "db5"
    assert period.elapsed_s == 600


def test_a_database_that_is_new_began_at_nothing() -> None:
    store = shelf_of(
        {"database": [database(100)]}, {"database": [database(100), database(40, oid="6")]}
    )
    assert commits(store, 1, 2) == 40


def test_a_database_that_was_dropped_keeps_what_it_did_until_the_last_snapshot() -> None:
    store = shelf_of(
        {"database": [database(100), database(0, oid="6")]},
        {"database": [database(110), database(40, oid="6")]},
        {"database": [database(120)]},
    )
    assert commits(store, 1, 3) == 60


def test_a_reset_costs_no_more_than_its_interval_and_is_said() -> None:
    store = shelf_of(
        {"database": [database(1000, reset=None)]},
        {"database": [database(1100, reset=None)]},
        {"database": [database(30, reset="2026-03-01T12:15:00+00:00")]},
        {"database": [database(50, reset="2026-03-01T12:15:00+00:00")]},
    )
    period = make_period(store, 1, 4)
    assert commits(store, 1, 4) == 100 + 30 + 20
    (reset,) = period.resets
    assert (reset.section, reset.row, reset.at) == ("database", "5", "2026-03-01T12:15:00+00:00")
    report = make_report(period)
    (finding,) = [one for one in report.findings if one.rule == "statistics-reset"]
    assert "2026-03-01T12:15:00" in finding.sentence
    assert "database" in report.table("missing").values("section")


def test_a_reset_of_one_table_costs_its_database_no_count_and_is_not_said() -> None:
    # pg_stat_reset_single_table_counters() moves the database's stats_reset, and nothing else.
    store = shelf_of(
        {"database": [database(1000)]},
        {"database": [database(1100, reset="2026-03-01T12:05:00+00:00")]},
    )
    period = make_period(store, 1, 2)
    assert commits(store, 1, 2) == 100
    assert period.resets == ()


def test_a_reset_is_told_by_its_time_where_a_row_has_nothing_else_to_reset() -> None:
    at = "2026-03-01T12:05:00+00:00"
    store = shelf_of(
        {"slru": [_slru(4) | {"stats_reset": None}]}, {"slru": [_slru(9) | {"stats_reset": at}]}
    )
    period = make_period(store, 1, 2)
    assert period.records("slru")[0]["blks_hit"] == 9
    assert len(period.resets) == 1


def test_a_count_that_fell_without_a_word_was_reset_too() -> None:
    store = shelf_of({"slru": [{"name": "xact", "blks_hit": 9}]}, {"slru": [_slru(4)]})
    period = make_period(store, 1, 2)
    assert period.records("slru")[0]["blks_hit"] == 4
    assert len(period.resets) == 1


def _slru(hits: int) -> dict[str, Value]:
    return {"name": "xact", "blks_hit": hits}


def test_what_the_kernel_counts_back_is_no_reset() -> None:
    store = shelf_of(
        {"host_cpu": [{"user_s": 10.0, "iowait_s": 5.0}]},
        {"host_cpu": [{"user_s": 12.0, "iowait_s": 4.9}]},
    )
    period = make_period(store, 1, 2)
    assert period.records("host_cpu") == [{"user_s": 2.0, "iowait_s": 0}]
    assert period.resets == ()


def disk(reads: int, io_time_ms: int) -> dict[str, Rows]:
    return {"host_disks": [{"disk": "sda", "reads": reads, "io_time_ms": io_time_ms}]}


def test_a_time_of_32_bits_goes_on_at_0_and_costs_its_disk_no_count() -> None:
    store = shelf_of(disk(5000, 2**32 - 100), disk(5600, 200))
    period = make_period(store, 1, 2)
    (row,) = period.records("host_disks")
    assert (row["reads"], row["io_time_ms"]) == (600, 300)
    assert period.resets == ()


def test_a_disk_that_returned_was_reset_whatever_its_times_are() -> None:
    for then, now in ((disk(5000, 2**32 - 100), disk(7, 200)), (disk(5, 900), disk(7, 200))):
        period = make_period(shelf_of(then, now), 1, 2)
        (row,) = period.records("host_disks")
        assert (row["reads"], row["io_time_ms"]) == (7, 200)
        assert [one.row for one in period.resets] == ["sda"]


def test_lists_are_subtracted_element_by_element() -> None:
    store = shelf_of(
        {"cache": [{"cache_file": "/f", "hits": 1, "flash_read_histogram": [1, 2, 3]}]},
        {"cache": [{"cache_file": "/f", "hits": 5, "flash_read_histogram": [1, 5, 9]}]},
    )
    assert make_period(store, 1, 2).records("cache") == [
        {"cache_file": "/f", "hits": 4, "flash_read_histogram": [0, 3, 6]}
    ]


def test_deltas_are_summed_up_over_the_snapshots_between() -> None:
    def relation(reads: int) -> dict[str, Rows]:
        return {"relations": [{"schema": "s", "relation": "t", "relkind": "r", "reads": reads}]}

    store = shelf_of(relation(1000), relation(5), relation(7))
    assert make_period(store, 1, 3).records("relations")[0]["reads"] == 12


def test_deltas_that_begin_elsewhere_are_left_out_and_that_is_said() -> None:
    # A snapshot between was removed: the next one's deltas begin there, not where ours does.
    store = shelf_of({}, {}, {"statements": [{"query_id": 1, "calls": 5}]})
    heads = store.list()

    class Thinned(Shelf):
        def list(self):  # type: ignore[no-untyped-def]  # noqa: ANN202
            return (heads[0], heads[2])

    thinned = Thinned()
    thinned.__dict__.update(store.__dict__)
    period = make_period(thinned, 1, 3)
    assert "statements" not in period.totals
    table = make_report(period).table("missing")
    reasons = dict(zip(table.values("section"), table.values("reason"), strict=True))
    assert reasons["statements"] == "no interval of the period has its counts"


def test_a_section_that_only_the_last_snapshot_has_is_said_once() -> None:
    lacking: Rows = [{"section": "slru", "reason": "permission denied"}]
    store = shelf_of(
        {"database": [database(1)], "slru": [_slru(1)]},
        {"database": [database(2)], "io": [io(10, 50.0)], "missing": lacking},
    )
    table = make_report(make_period(store, 1, 2)).table("missing")
    assert [row.cells[:2] for row in table.rows] == [
        ("slru", "permission denied"),
        ("io", "no interval of the period has its counts"),
    ]


def test_a_section_that_came_later_counts_from_there_and_that_is_said() -> None:
    store = shelf_of(
        {"database": [database(1)]},
        {"database": [database(2)], "io": [io(10, 50.0)]},
        {"database": [database(3)], "io": [io(25, 80.0)]},
    )
    period = make_period(store, 1, 3)
    (row,) = period.records("io")
    assert row["calls"] == 15
    assert row["time_ms"] == pytest.approx(30.0)
    assert period.covered_s["io"] == 600
    table = make_report(period).table("missing")
    reasons = dict(zip(table.values("section"), table.values("reason"), strict=True))
    assert reasons["io"] == "had for 10.0 min of 20.0 min"


# ---- snapshots that cannot bound a period
# ---------------------------------------------------------------


def test_an_unknown_snapshot_is_refused_with_those_there_are() -> None:
    store = shelf_of({}, {})
    with pytest.raises(PeriodError, match=r"no snapshot 9 in the shelf: it holds 1 to 2") as error:
        make_period(store, 1, 9)
    assert error.value.exit_code == 2


def test_a_store_without_snapshots_says_so() -> None:
    with pytest.raises(PeriodError, match="it holds none"):
        make_period(Shelf(), 1, 2)


def test_reversed_periods_are_refused_with_what_to_ask_instead() -> None:
    with pytest.raises(PeriodError, match=r"snapshot 2 was taken at .*, after snapshot 1") as error:
        make_period(shelf_of({}, {}), 2, 1)
    assert error.value.hint == "Name the earlier one first: 1..2."


def test_a_period_over_a_clock_that_was_set_back_is_refused_with_the_parts_beside_it() -> None:
    store = Shelf()
    for minute in (0, 10, 20):
        store.put(minute, {"database": [database(int(100 + minute))]})
    for minute in (-40, -30, -20):  # the clock was set back an hour
        store.put(minute, {"database": [database(int(200 + minute))]})
    with pytest.raises(PeriodError, match=r"the clock was set back between .* 3 .* and 4") as error:
        make_period(store, 1, 6)
    assert error.value.hint == "Ask for 1..3 or 4..6."
    assert commits(store, 4, 6) == 20
    with pytest.raises(PeriodError, match="the clock was set back") as error:
        make_period(store, 3, 4)
    assert error.value.hint == "Take a snapshot now and another one later."
    with pytest.raises(PeriodError, match=r"snapshot 4 .*, after snapshot 3") as error:
        make_period(store, 4, 3)
    assert error.value.hint == "Name the earlier one first: 3..4."


def test_a_period_of_one_snapshot_is_refused() -> None:
    with pytest.raises(PeriodError, match="needs two snapshots"):
        make_period(shelf_of({}, {}), 2, 2)


def test_a_period_over_a_restart_is_refused_with_the_parts_that_can_be_had() -> None:
    store = Shelf()
    for minute in (0, 10):
        store.put(minute, {})
    for minute in (20, 30):
        store.put(minute, {}, started_minute=15, linked=minute > 20)
    with pytest.raises(PeriodError, match=r"restarted between the snapshots 2 .* and 3") as error:
        make_period(store, 1, 4)
    assert error.value.hint == "Ask for 1..2 or 3..4."
    assert make_period(store, 3, 4).elapsed_s == 600


def test_a_snapshot_that_follows_none_is_a_restart_though_the_clock_says_otherwise() -> None:
    store = Shelf()
    store.put(0, {})
    store.put(10, {}, linked=False)
    with pytest.raises(PeriodError, match="restarted") as error:
        make_period(store, 1, 2)
    assert error.value.hint == "Take a snapshot now and another one later."


def test_file_calls_that_fell_are_a_restart() -> None:
    store = shelf_of({"io": [io(100, 5.0)]}, {"io": [io(7, 1.0)]})
    with pytest.raises(PeriodError, match="after a crash between the snapshots 1"):
        make_period(store, 1, 2)


def test_a_reset_of_pg_stat_wal_is_no_restart() -> None:
    def wal(writes: int, wal_bytes: int) -> dict[str, Value]:
        return {"writes": writes, "wal_bytes": wal_bytes, "wal_records": 7, "wal_fpi": wal_bytes}

    store = shelf_of({"wal": [wal(100, 5_000)]}, {"wal": [wal(130, 200)]})
    assert make_period(store, 1, 2).records("wal")[0]["writes"] == 30
    store = shelf_of({"wal": [wal(100, 5_000)]}, {"wal": [wal(30, 200)]})
    with pytest.raises(PeriodError, match="after a crash between the snapshots 1"):
        make_period(store, 1, 2)


def test_a_histogram_is_had_from_the_ends_alone() -> None:
    def buckets(*counts: int) -> dict[str, Rows]:
        key = {"backend_type": "client backend", "file_class": "data", "operation": "read"}
        key["source"] = "disk"
        return {
            "io_histogram": [
                {
                    **key,
                    "source": "disk",
                    "lower_us": 2.0**i,
                    "upper_us": 2.0 ** (i + 1),
                    "calls": n,
                }
                for i, n in enumerate(counts)
            ]
        }

    store = shelf_of(buckets(1), buckets(5, 2), buckets(9, 3))
    period = make_period(store, 1, 3)
    assert [row["calls"] for row in period.records("io_histogram")] == [8, 3]
    assert [row["upper_us"] for row in period.records("io_histogram")] == [2.0, 4.0]
    assert period.covered_s["io_histogram"] == period.elapsed_s
