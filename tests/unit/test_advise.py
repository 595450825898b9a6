# SPDX-License-Identifier: PostgreSQL
"""Advice: the bottleneck, the objects for flash, the way to use it, the plan."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgflash.advise.approaches import Situation, advise, with_prices
from pgflash.advise.bottleneck import find_bottleneck
from pgflash.advise.hot import choose, choose_named, hot_tables, knapsack
from pgflash.advise.media import FLASH, Drive
from pgflash.advise.plans import plan_of
from pgflash.advise.sizes import Hits, covered_hits, curve_hits, knee
from pgflash.advise.work import CurvePoint, NoAdviceError, work_of_report
from pgflash.errors import UsageError
from pgflash.model.device import Price, Raid
from pgflash.model.plan import MoveKind, Plan
from support.few import few

MB, GB = 2.0**20, 2.0**30
SEGMENTS = (
    ("stock", "table", 9_000.0, 800.0),
    ("stock_pkey", "index", 1_000.0, 0.0),
    ("customer", "table", 6_000.0, 100.0),
    ("history", "table", 3_000.0, 100.0),
    ("pg_catalog.pg_class", "table", 1_000.0, 0.0),
)
SIZES = {
    ("app", "stock"): 100 * MB,
    ("app", "stock_pkey"): 4 * MB,
    ("app", "customer"): 60 * MB,
    ("app", "history"): 400 * MB,
}
ARRAY = Drive(
    name="array",
    flash=False,
    servers=8,
    copies=2,
    read_ms=4.5,
    bytes_s=150e6,
    write_ms=4.5,
    log_ms=4.5,
    known=True,
)
#: 20,000 reads of 10 ms.
WORK = work_of_report(few(segments=SEGMENTS))
NOW = datetime(2026, 11, 22, 10, 15, tzinfo=UTC)


# ---- the bottleneck


def test_waits_for_reads_and_commits_are_storage() -> None:
    found = find_bottleneck(WORK)
    # 200 s of reads and 100 s of commits of 320 s.
    assert found.is_storage
    assert "94 % of DB time waits for it (62 % reads, 31 % commits)" in found.sentence


def test_busy_processors_are_named_instead_of_storage() -> None:
    work = work_of_report(few(cpu_s=700.0, reads=(1_000, 10.0), commit_s=10.0, cores=8))
    found = find_bottleneck(work)
    assert found.kind == "processors"
    assert "88 % busy" in found.sentence
    advice = advise(work)
    assert advice.recommended == ""
    assert advice.sentence.startswith("The processors are the bottleneck")


def test_idle_sessions_have_no_bottleneck() -> None:
    found = find_bottleneck(work_of_report(few(cpu_s=1.0, reads=(500, 5.0), commit_s=1.0)))
    assert found.kind == "nothing"
    assert "0.070 active sessions" in found.sentence


def test_waits_for_a_synchronous_standby_are_not_those_for_the_wal_here() -> None:
    with_standby = work_of_report(few(commit_s=100.0, standby_s=60.0))
    found = dict(find_bottleneck(with_standby).shares)
    assert found["commits"] == pytest.approx(40 / 320)
    assert found["the synchronous standby"] == pytest.approx(60 / 320)
    # 40 s of 10,000 transactions at most are saved, and 6 ms of each remain.
    wal = next(one for one in advise(with_standby).approaches if one.name == "wal-on-flash")
    assert wal.db_time_ms >= 6 + 200 / 10
    alone = next(one for one in advise(WORK).approaches if one.name == "wal-on-flash")
    assert wal.ratio < alone.ratio
    assert any("6.00 ms a transaction" in note for note in advise(with_standby).notes)


def test_flash_that_is_lost_with_the_machine_takes_wal_only_beside_a_standby() -> None:
    lost = Situation(ephemeral="nvme1n1 is of the model nvme_card", alone="no standby is connected")
    found = advise(WORK, replace(lost, database_bytes=10 * GB, shared_buffers_bytes=GB))
    assert any("and nothing else" in note for note in found.notes)
    assert {one.name for one in found.approaches if one.fits} == {"flash-cache"}
    kept = replace(lost, alone="", database_bytes=10 * GB, shared_buffers_bytes=GB)
    found = advise(WORK, kept)
    assert any("only while a synchronous standby" in note for note in found.notes)
    # What pgflash place moves there beside a standby, and nothing else.
    fitting = {one.name for one in found.approaches if one.fits}
    assert fitting == {"flash-cache", "wal-on-flash", "wal-and-cache"}
    assert not any("empty after a stop" in note for note in advise(WORK).notes)


def test_locks_are_named_where_they_are_the_largest_part() -> None:
    found = find_bottleneck(work_of_report(few(lock_s=2_000.0)))
    assert found.kind == "locks"
    assert not found.is_storage


def test_shares_add_up_to_db_time() -> None:
    assert sum(share for _name, share in find_bottleneck(WORK).shares) == pytest.approx(1.0)


# ---- hot objects


def test_what_saves_most_and_fits_is_moved() -> None:
    found = choose(WORK, flash=FLASH, sizes=SIZES, flash_bytes=110 * MB)
    # stock and its index save 10,000 reads in 104 MB; customer 6,000 in 60, with no room left.
    verdicts = {one.name: one.verdict for one in found.objects}
    assert verdicts == {
        "stock": "move",
        "stock_pkey": "move",
        "customer": "leave",
        "history": "leave",
    }
    assert found.reads == pytest.approx(10_000 / 20_000)
    assert found.writes == pytest.approx(800 / 1_000)
    assert found.bytes == 104 * MB
    assert found.fitted


def test_a_large_object_gives_way_to_smaller_ones_that_save_more_together() -> None:
    found = choose(WORK, flash=FLASH, sizes=SIZES, flash_bytes=99 * MB)
    moved = {one.name for one in found.objects if one.verdict == "move"}
    assert moved == {"stock_pkey", "customer"}


def test_an_object_read_in_part_is_kept_in_the_cache_rather_than_moved() -> None:
    # history: 3,000 reads are 23 MB at most, of 400.
    found = choose(WORK, flash=FLASH, sizes=SIZES, flash_bytes=10 * GB, kept=True)
    verdicts = {one.name: one.verdict for one in found.objects}
    assert verdicts["history"] == "keep"
    assert verdicts["stock_pkey"] == "move"
    reasons = {one.name: one.reason for one in found.objects}
    assert "at most 23.4 MB of 400 MB were read" in reasons["history"]


def test_a_table_read_by_large_calls_was_read_as_a_whole() -> None:
    # 3,200 calls of 128 kB are all of its 400 MB.
    one = next(one for one in WORK.segments if one.name == "history")
    scanned = replace(one, reads=3_200.0, read_bytes=3_200.0 * 131_072)
    work = replace(WORK, segments=(scanned,))
    found = choose(work, flash=FLASH, sizes=SIZES, flash_bytes=10 * GB, kept=True)
    assert [one.verdict for one in found.objects] == ["move"]


def test_what_is_not_listed_has_its_part_of_all_reads() -> None:
    work = work_of_report(few(segments=SEGMENTS, unlisted=(60_000.0, 3_000.0)))
    found = choose(work, flash=FLASH, sizes=SIZES, flash_bytes=10 * GB)
    # All but the catalog's 1,000 of 20,000 reads that are listed, of 80,000.
    assert found.reads == pytest.approx(19_000 / 80_000)
    assert found.writes == pytest.approx(1_000 / 4_000)
    assert not any(one.name == "all others" for one in found.objects)
    assert choose_named(work, ["stock"])[0] == pytest.approx(10_000 / 80_000)


def test_what_is_mostly_written_is_never_kept() -> None:
    work = work_of_report(few(segments=(("log", "table", 1_000.0, 5_000.0),)))
    sizes = {("app", "log"): 1_000 * MB}
    found = choose(work, flash=FLASH, sizes=sizes, flash_bytes=2 * GB, kept=True)
    assert [one.verdict for one in found.objects] == ["move"]


def test_without_sizes_objects_are_ranked_and_nothing_is_said_to_fit() -> None:
    found = choose(WORK, flash=FLASH, sizes={}, flash_bytes=GB)
    assert not found.fitted
    assert [one.name for one in found.objects][:2] == ["stock", "customer"]


def test_an_object_of_another_database_is_left_with_the_reason() -> None:
    sizes = {key: value for key, value in SIZES.items() if key[1] != "customer"}
    found = choose(WORK, flash=FLASH, sizes=sizes, flash_bytes=10 * GB)
    other = next(one for one in found.objects if one.name == "customer")
    assert other.verdict == "leave"
    assert "its size is not known" in other.reason
    assert found.fitted


def test_catalogs_are_not_moved() -> None:
    found = choose(WORK, flash=FLASH, sizes=SIZES, flash_bytes=GB)
    assert all(not one.name.startswith("pg_") for one in found.objects)


def test_a_saving_is_the_wait_less_what_flash_takes() -> None:
    found = choose(
        WORK,
        flash=replace(FLASH, read_ms=1.0, bytes_s=1e15, pipe_bytes_s=None),
        sizes={},
        flash_bytes=None,
    )
    stock = next(one for one in found.objects if one.name == "stock")
    assert stock.saved_s == pytest.approx(9_000 * (10.0 - 1.0) / 1000)


def test_a_tables_indexes_count_with_it() -> None:
    reads, writes = choose_named(WORK, ["stock"])
    assert reads == pytest.approx(10_000 / 20_000)
    assert writes == pytest.approx(800 / 1_000)
    assert choose_named(WORK, ["other.stock"]) == (0.0, 0.0)


def test_the_first_tables_that_cost_most_of_the_time_are_hot() -> None:
    # stock with its index 10,000 of 19,000 reads, customer 6,000: 84 %.
    assert hot_tables(WORK, flash=FLASH) == ("stock", "customer")


@settings(max_examples=100)
@given(
    items=st.lists(
        st.tuples(st.integers(min_value=1, max_value=64), st.integers(min_value=0, max_value=50)),
        max_size=8,
    ),
    room=st.sampled_from([16, 32, 64, 128]),
)
def test_no_other_choice_that_fits_is_worth_more(items: list[tuple[int, int]], room: int) -> None:
    # Sizes are multiples of room/4096, so that nothing is rounded: every choice is compared.
    chosen = knapsack([(float(size), float(value)) for size, value in items], float(room))
    assert sum(items[index][0] for index in chosen) <= room
    best = max(
        sum(items[index][1] for index in choice)
        for count in range(len(items) + 1)
        for choice in itertools.combinations(range(len(items)), count)
        if sum(items[index][0] for index in choice) <= room
    )
    assert sum(items[index][1] for index in chosen) == best


# ---- sizes of a cache


def test_the_knee_is_where_a_doubling_brings_little() -> None:
    curve = [
        CurvePoint(size_bytes=size * GB, hit_ratio=hits)
        for size, hits in ((1, 0.4), (2, 0.7), (4, 0.895), (8, 0.9), (16, 0.905))
    ]
    found = knee(curve)
    assert found is not None
    assert found.size_bytes == 4 * GB
    small = knee(curve, bytes_max=3 * GB)
    assert small is not None
    assert small.size_bytes == 2 * GB
    assert curve_hits(curve, 3 * GB) == pytest.approx((0.7 + 0.895) / 2)
    assert curve_hits(curve, 64 * GB) == 0.905


def test_first_reads_become_hits_as_far_as_a_size_holds_the_database() -> None:
    # A plateau at 0.58: 0.40 of the reads were first ones, which a warm cache of half the
    # database serves half of.
    curve = [
        CurvePoint(size_bytes=s * GB, hit_ratio=h) for s, h in ((1, 0.3), (2, 0.58), (4, 0.58))
    ]
    warm = Hits(curve=curve, database_bytes=4 * GB)
    assert warm.of(1 * GB) == pytest.approx(0.3 + 0.4 / 4)
    assert warm.of(2 * GB) == pytest.approx(0.58 + 0.4 / 2)
    assert warm.of(8 * GB) == pytest.approx(0.98)


def test_a_cache_that_served_scales_the_curves_misses() -> None:
    curve = [CurvePoint(size_bytes=s * GB, hit_ratio=h) for s, h in ((1, 0.2), (2, 0.6), (4, 0.9))]
    # At 1 GB the curve misses 0.8, the cache missed 0.6: three quarters of it, everywhere.
    known = Hits(curve=curve, served=CurvePoint(size_bytes=1 * GB, hit_ratio=0.4))
    assert known.of(1 * GB) == pytest.approx(0.4)
    assert known.of(2 * GB) == pytest.approx(1 - 0.4 * 0.75)
    assert known.of(64 * GB) == pytest.approx(1 - 0.1 * 0.75)


@given(
    ratios=st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=6),
    served=st.floats(min_value=0, max_value=1),
    at=st.integers(min_value=1, max_value=64),
    database=st.one_of(st.none(), st.floats(min_value=1, max_value=100)),
)
def test_a_larger_cache_never_serves_less(
    ratios: list[float], served: float, at: int, database: float | None
) -> None:
    rising = sorted(ratios)
    curve = [CurvePoint(size_bytes=2.0**i, hit_ratio=ratio) for i, ratio in enumerate(rising)]
    known = Hits(
        curve=curve,
        database_bytes=database,
        served=CurvePoint(size_bytes=float(at), hit_ratio=served),
    )
    found = [known.of(size / 4) for size in range(1, 200)]
    assert all(0 <= one <= 1 for one in found)
    assert all(one <= two + 1e-9 for one, two in itertools.pairwise(found))


def test_a_cache_of_half_the_database_serves_at_least_half_of_what_one_of_all_does() -> None:
    assert covered_hits(50, 100) == pytest.approx(covered_hits(100, 100) / 2)
    assert covered_hits(500, 100) == covered_hits(100, 100) < 1


def test_no_more_than_all_of_db_time_waits_for_storage() -> None:
    # Reads and commits were counted, and are 10 % more than the DB time that was sampled.
    report = few(cpu_s=10.0, reads=(20_000, 200.0), commit_s=100.0)
    table = report.table("db-time")
    place, name = table.index("total_s"), table.index("name")
    rows = tuple(
        replace(row, cells=tuple(310 / 1.1 if i == place else c for i, c in enumerate(row.cells)))
        if row.cells[name] == "DB time"
        else row
        for row in table.rows
    )
    tables = tuple(replace(t, rows=rows) if t is table else t for t in report.tables)
    found = find_bottleneck(work_of_report(replace(report, tables=tables)))
    assert sum(share for _name, share in found.shares) == pytest.approx(1.0)


# ---- ways to use flash


def test_an_advice_begins_with_a_sentence_and_names_the_cheapest_way_that_does() -> None:
    known = Situation(sizes=SIZES, database_bytes=2 * GB, flash_bytes=10 * GB, wal_bytes=0.1 * GB)
    advice = advise(WORK, known)
    assert advice.sentence.startswith("Storage is the bottleneck: ")
    best = next(way for way in advice.approaches if way.name == advice.recommended)
    assert best.fits
    gain = max(way.ratio for way in advice.approaches if way.fits) - 1
    enough = [w for w in advice.approaches if w.fits and w.ratio - 1 >= 0.8 * gain]
    assert best in enough
    assert best.flash_bytes == min(way.flash_bytes for way in enough if way.flash_bytes)


def test_a_way_that_does_not_fit_is_not_recommended() -> None:
    known = Situation(sizes=SIZES, database_bytes=2 * GB, flash_bytes=0.2 * GB, wal_bytes=0.1 * GB)
    ways = {way.name: way for way in advise(WORK, known).approaches}
    assert not ways["all-on-flash"].fits
    assert "needs 2.10 GB of flash, 205 MB are free" in ways["all-on-flash"].reason
    assert ways["hot-objects"].flash_bytes is not None
    assert ways["hot-objects"].flash_bytes <= 0.2 * GB


def test_the_miss_ratio_curve_says_how_large_a_cache_is_to_be() -> None:
    work = work_of_report(few(curve=((1 * GB, 0.5), (2 * GB, 0.8), (4 * GB, 0.81))))
    way = next(way for way in advise(work).approaches if way.name == "flash-cache")
    assert way.flash_bytes == 2 * GB
    assert way.hit_ratio == 0.8


def test_temporary_files_are_a_way_of_their_own_only_where_they_cost() -> None:
    with_temp = work_of_report(few(temp=(5_000, 100.0)))
    assert "temp-on-flash" in {way.name for way in advise(with_temp).approaches}
    assert "temp-on-flash" not in {way.name for way in advise(WORK).approaches}


def test_what_is_on_flash_already_is_not_advised_again() -> None:
    known = Situation(on_flash=frozenset({"wal"}), database_bytes=GB)
    assert "wal-on-flash" not in {way.name for way in advise(WORK, known).approaches}


def test_a_cache_that_is_there_is_advised_to_grow_by_what_it_would_then_serve() -> None:
    # Half of the reads are served at 1 GB; 2 GB would serve 0.8: 0.6 of those that are left.
    work = work_of_report(
        few(
            flash_reads=(20_000, 4.0),
            curve=((0.5 * GB, 0.3), (1 * GB, 0.5), (2 * GB, 0.8), (4 * GB, 0.81)),
            cache=(1 * GB, 0.5),
        )
    )
    known = Situation(on_flash=frozenset({"cache"}))
    way = next(way for way in advise(work, known).approaches if way.name == "flash-cache")
    assert way.title == "Larger flash cache"
    assert way.hit_ratio == pytest.approx(0.6)
    large = replace(work, cache_bytes=2 * GB)
    assert "flash-cache" not in {way.name for way in advise(large, known).approaches}


def test_an_archive_on_the_array_brings_its_part_of_the_bandwidth() -> None:
    # 100 transactions/s write 10 MB/s of WAL into a pipe of 40 MB/s; archiving reads and writes
    # as much again, data take 8: with the copies elsewhere 28 are left, and waits for writing fall.
    work = work_of_report(few(configuration_s=100.0, writes=80_000, wal_bytes=1e9))
    pipe = replace(ARRAY, pipe_bytes_s=40e6)
    known = Situation(array=pipe, archiving=True, archive_on_array=True)
    ways = {way.name: way for way in advise(work, known).approaches}
    assert ways["archive-on-flash"].ratio > 1.1
    elsewhere = advise(work, replace(known, archive_on_array=False))
    assert "archive-on-flash" not in {way.name for way in elsewhere.approaches}
    assert any("to a place that is not known" in note for note in elsewhere.notes)
    words = {"tablespace": "", "folder": "/mnt/f", "system_identifier": ""}
    plan = plan_of(advise(work, known), approach="archive-on-flash", made_at=NOW, **words)
    assert [(m.kind, m.to) for m in plan.moves] == [(MoveKind.ARCHIVE, "/mnt/f/archive")]


def test_a_way_pays_for_the_devices_it_uses() -> None:
    # 24 disks at 419 and an enclosure at 4,495 are 14,551; 4 drives at 1,567 are 6,268.
    array = Price(drives=24, raid=Raid.RAID10, unit_price=419.0, enclosure_price=4_495.0)
    flash = Price(drives=4, raid=Raid.RAID10, unit_price=1_567.0)
    known = with_prices(Situation(database_bytes=GB), array=array, flash=flash)
    ways = {way.name: way for way in advise(WORK, known).approaches}
    both = ways["wal-on-flash"]
    assert both.cost_per_1000_tpm == pytest.approx((14_551 + 6_268) / (both.per_s * 0.06))
    alone = ways["all-on-flash"]
    assert alone.cost_per_1000_tpm == pytest.approx(6_268 / (alone.per_s * 0.06))
    assert alone.currency == "USD"
    with pytest.raises(UsageError, match="in USD and EUR, which cannot be added"):
        with_prices(Situation(), array=array, flash=replace(flash, currency="EUR"))


def test_what_is_in_a_tablespace_on_flash_is_not_the_arrays_work() -> None:
    work = work_of_report(
        few(spaces=(("pg_default", 5_000.0, 19.0), ("fast", 15_000.0, 1.0))),
        flash_tablespaces=frozenset({"fast"}),
    )
    # 95 s of 20,000 reads are the array's, 15 s flash's: of the clients' 200 s as much.
    assert work.reads.count == pytest.approx(5_000)
    assert work.flash.count == pytest.approx(15_000)
    assert work.reads.seconds == pytest.approx(200 * 95 / 110)
    assert work.flash.seconds == pytest.approx(200 * 15 / 110)


# ---- plans


def _plan(approach: str, **more: str) -> Plan:
    known = Situation(sizes=SIZES, database_bytes=2 * GB, flash_bytes=0.25 * GB, wal_bytes=0.1 * GB)
    words = {"tablespace": "fast", "folder": "/mnt/flash", "system_identifier": "7", **more}
    return plan_of(advise(WORK, known), approach=approach, made_at=NOW, **words)


def test_a_plan_moves_the_chosen_objects_and_the_wal_last() -> None:
    plan = _plan("hot-objects")
    kinds = [(move.kind, move.name, move.to) for move in plan.moves]
    assert kinds[-1] == (MoveKind.WAL, "", "/mnt/flash/pg_wal")
    assert (MoveKind.TABLE, "public.stock", "fast") in kinds
    assert (MoveKind.INDEX, "public.stock_pkey", "fast") in kinds
    assert sum(move.bytes for move in plan.moves) <= 0.15 * GB
    assert plan.system_identifier == "7"


def test_a_plan_leaves_a_wal_that_is_on_flash_already() -> None:
    known = Situation(sizes=SIZES, on_flash=frozenset({"wal"}))
    words = {"approach": "hot-objects", "tablespace": "fast", "folder": "", "system_identifier": ""}
    plan = plan_of(advise(WORK, known), made_at=NOW, **words)
    assert {move.kind for move in plan.moves} == {MoveKind.TABLE, MoveKind.INDEX}


def test_everything_is_moved_by_database() -> None:
    kinds = [move.kind for move in _plan("all-on-flash").moves]
    assert kinds == [MoveKind.TEMP, MoveKind.DATABASE, MoveKind.WAL]


def test_a_plan_says_what_it_lacks() -> None:
    with pytest.raises(UsageError, match="needs a tablespace"):
        _plan("hot-objects", tablespace="")
    with pytest.raises(UsageError, match="WAL on flash needs a folder"):
        _plan("wal-on-flash", folder="")
    with pytest.raises(UsageError, match='no approach "magic"'):
        _plan("magic")
    with pytest.raises(NoAdviceError, match="a setting and not a move"):
        _plan("flash-cache")


def test_nothing_is_planned_where_nothing_is_recommended() -> None:
    idle = advise(work_of_report(few(cpu_s=1.0, reads=(500, 5.0), commit_s=1.0)))
    with pytest.raises(NoAdviceError, match="nothing to plan"):
        plan_of(idle, approach="", tablespace="t", folder="/f", system_identifier="", made_at=NOW)
