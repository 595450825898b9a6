# SPDX-License-Identifier: PostgreSQL
"""Checkpoints, vacuum and replication, and the host's run queue and memory."""

from collections.abc import Mapping

import pytest

from pgflash.analyze import Period, make_period, make_report
from pgflash.analyze.background import checkpoints_table, replication, replication_slots, vacuum
from pgflash.analyze.io import wal_table
from pgflash.model.awr import ReportTable, plain
from pgflash.model.snapshot import Value
from support.busy import BEHIND, busy_period, busy_store
from support.periods import Rows, Shelf


def named(table: ReportTable, name: str) -> dict[str, object]:
    """Return the row whose first cell is NAME."""
    (row,) = [row for row in table.rows if row.cells[0] == name]
    return {column.name: plain(cell) for column, cell in zip(table.columns, row.cells, strict=True)}


def period_of(
    before: Mapping[str, Rows], after: Mapping[str, Rows], *, version_num: int = 170010
) -> Period:
    store = Shelf(version_num=version_num)
    store.put(0, before)
    store.put(10, after)
    return make_period(store, 1, 2)


# ---- checkpoints


def test_checkpoints_have_their_number_their_time_and_their_part_of_the_writes() -> None:
    table = checkpoints_table(busy_period())
    assert named(table, "checkpoints, by time")["total"] == 2
    assert named(table, "time from one to the next")["total"] == 600.0
    assert named(table, "time writing")["total"] == 0.8
    blocks = named(table, "blocks written by checkpoints")
    assert (blocks["total"], blocks["share"]) == (400, 1.0)
    assert blocks["per_s"] == pytest.approx(400 / 1200)
    # 120 images of at most 8 kB in 8 million bytes of WAL.
    assert named(table, "of the WAL, at most")["total"] == pytest.approx(120 * 8192 / 8_000_000)


def test_blocks_that_clients_wrote_are_of_clients_alone_where_file_calls_are_counted() -> None:
    of_clients = {"backend_type": "client backend", "file_class": "data", "source": "disk"}
    io: Rows = [
        {**of_clients, "operation": "write", "calls": 3, "bytes": 3 * 8192, "time_ms": 1.0},
        {**of_clients, "operation": "extend", "calls": 9, "bytes": 9 * 8192, "time_ms": 1.0},
    ]
    writer: Rows = [{"buffers_clean": 5, "buffers_backend": 12, "checkpoints_timed": 1,
                     "checkpoints_req": 0, "buffers_checkpoint": 2}]  # fmt: skip
    nothing: Rows = [{name: 0 for name in writer[0]}]
    stock = checkpoints_table(
        period_of({"bgwriter": nothing}, {"bgwriter": writer}, version_num=150000)
    )
    assert named(stock, "blocks written by backends, extensions included")["total"] == 12
    own = checkpoints_table(
        period_of(
            {"bgwriter": nothing, "io": [{**one, "calls": 0, "bytes": 0} for one in io]},
            {"bgwriter": writer, "io": io},
            version_num=150000,
        )
    )
    assert named(own, "blocks written by clients")["total"] == 3
    assert named(own, "blocks written by the background writer")["share"] == 0.5


def _writes(backend_type: str, blocks: int, *, own: bool) -> dict[str, Value]:
    """Return a row of pgflash_io, or of pg_stat_io."""
    if own:
        files = {"file_class": "data", "operation": "write", "source": "disk"}
        return {"backend_type": backend_type, **files, "calls": blocks, "bytes": 8192 * blocks}
    counts = {"writes": blocks, "write_bytes": 8192 * blocks}
    return {"backend_type": backend_type, "object": "relation", **counts}


@pytest.mark.parametrize("own", [True, False], ids=["with the extension", "without"])
def test_blocks_that_workers_wrote_are_among_those_written(own: bool) -> None:
    blocks = {
        "client backend": 20,
        "autovacuum worker": 30,
        "parallel worker" if own else "background worker": 10,
        "checkpointer": 35,
        "background writer": 5,
    }
    writer = {"buffers_clean": 5, "checkpoints_timed": 1, "checkpoints_req": 0}
    section = "io" if own else "stat_io"

    def counted(times: int) -> dict[str, Rows]:
        return {
            "bgwriter": [{name: n * times for name, n in writer.items()}],
            "checkpointer": [{"num_timed": times, "buffers_written": 35 * times}],
            section: [_writes(kind, n * times, own=own) for kind, n in blocks.items()],
        }

    table = checkpoints_table(period_of(counted(0), counted(1), version_num=180_000))
    others = named(table, "blocks written by other processes")
    assert (others["total"], others["share"]) == (40, 0.4)
    assert named(table, "blocks written by clients")["share"] == 0.2
    shares = dict(zip(table.values("name"), table.values("share"), strict=True))
    assert sum(one for one in shares.values() if isinstance(one, float)) == pytest.approx(1.0)


def test_blocks_are_as_large_as_the_server_was_built_for() -> None:
    block = 32_768
    moved = {"backend_type": "client backend", "object": "relation"}
    sections: dict[str, Rows] = {
        "server": [{"block_size": block, "wal_block_size": 16_384}],
        "bgwriter": [{"buffers_clean": 0, "checkpoints_timed": 1, "checkpoints_req": 0,
                      "buffers_checkpoint": 1000}],
        "stat_io": [{**moved, "writes": 1000, "write_bytes": 1000 * block}],
        "stat_wal": [{"wal_fpi": 100, "wal_bytes": 200 * block}],
        "wal": [{"writes": 10, "write_bytes": 10 * 16_384}],
    }  # fmt: skip
    nothing = {
        name: [{k: 0 if isinstance(v, int) else v for k, v in row.items()} for row in rows]
        for name, rows in sections.items()
    }
    period = period_of(nothing, sections, version_num=180_000)
    table = checkpoints_table(period)
    by_clients = named(table, "blocks written by clients")
    assert (by_clients["total"], by_clients["share"]) == (1000, 0.5)
    assert named(table, "of the WAL, at most")["total"] == 0.5
    assert "full-page image of at most 32 kB" in table.note
    assert named(wal_table(period), "WAL blocks written")["total"] == 10
    unknown = period_of({}, {"slru": []})
    assert (unknown.block_bytes, unknown.wal_block_bytes) == (8192, 8192)


# ---- vacuum


def test_vacuum_shows_what_it_did_and_what_it_left() -> None:
    stock = named(vacuum(busy_period()), "stock")
    assert (stock["dead_rows"], stock["dead_share"]) == (10_000, 0.1)
    assert (stock["autovacuums"], stock["vacuums"], stock["analyzes"]) == (2, 0, 2)
    assert stock["vacuum_s"] == 3.0
    assert (stock["changed"], stock["hot_share"]) == (1_000, 0.8)
    assert stock["last_vacuum"] == "2026-03-01T11:30:00+00:00"
    assert (
        "shop has the oldest unfrozen row: 150.0 million transactions old"
        in vacuum(busy_period()).note
    )


def test_an_index_has_no_vacuum_of_its_own() -> None:
    assert vacuum(busy_period()).values("relation") == ("stock",)


@pytest.mark.parametrize("others", [0, 3, None], ids=["nothing", "something", "not counted"])
def test_what_happened_to_a_table_without_a_row_is_unknown_unless_nothing_did(
    others: int | None,
) -> None:
    table = {"schema": "public", "database": "shop"}
    dead: Rows = [{**table, "relation": "quiet", "dead_rows": 900, "live_rows": 100}]
    stats: Rows = [
        {**table, "relation": "busy", "relkind": "r", "autovacuums": 1, "rows_deleted": 5},
        {"relation": "other", "autovacuums": others, "rows_deleted": 0},
    ]
    counted = {} if others is None else {"relation_stats": stats}
    shown = vacuum(period_of({}, {"dead_rows": dead, **counted}))
    quiet = named(shown, "quiet")
    assert (quiet["dead_rows"], quiet["dead_share"]) == (900, 0.9)
    figures = [quiet[name] for name in ("changed", "autovacuums", "vacuums", "analyzes")]
    assert figures == ([0, 0, 0, 0] if others == 0 else [None] * 4)
    if others is not None:
        assert (named(shown, "busy")["changed"], named(shown, "busy")["vacuums"]) == (5, 0)


def test_a_table_named_other_is_vacuumed_as_any_other() -> None:
    table = {"schema": "public", "database": "shop"}
    stats: Rows = [
        {**table, "relation": "other", "relkind": "r", "autovacuums": 1, "rows_deleted": 5},
        {"relation": "other", "autovacuums": 0, "rows_deleted": 0},
    ]
    dead: Rows = [{**table, "relation": "quiet", "dead_rows": 900, "live_rows": 100}]
    shown = vacuum(period_of({}, {"relation_stats": stats, "dead_rows": dead}))
    assert (named(shown, "other")["changed"], named(shown, "other")["autovacuums"]) == (5, 1)
    # Nothing happened to tables without a row.
    assert named(shown, "quiet")["autovacuums"] == 0


def test_without_the_sections_it_says_why() -> None:
    assert "no section dead_rows" in vacuum(period_of({}, {"slru": []})).missing_reason
    missing: Rows = [{"section": "dead_rows", "reason": "permission denied"}]
    assert vacuum(period_of({}, {"missing": missing})).missing_reason == "permission denied"


# ---- replication


def test_a_standby_is_as_far_behind_as_the_snapshots_say() -> None:
    standby = named(replication(busy_period()), "standby")
    after_the_first = BEHIND[1:]
    assert standby["replay_bytes"] == BEHIND[-1][0]
    assert standby["replay_bytes_max"] == max(size for size, _ in after_the_first)
    assert (standby["replay_ms"], standby["replay_ms_max"]) == (10.0, 50.0)
    slot = named(replication_slots(busy_period()), "standby")
    assert (slot["active"], slot["wal_status"]) == ("yes", "reserved")
    assert slot["retained_bytes_max"] == max(size for size, _ in after_the_first)


def test_a_standby_tells_of_itself() -> None:
    own: Rows = [{"status": None, "sender_host": None, "replay_bytes": 7, "replay_age_ms": 90.0}]
    table = replication(period_of({}, {"standby": own, "replication": []}))
    this = named(table, "this standby")
    assert (this["state"], this["replay_bytes"], this["replay_ms"]) == ("not connected", 7, 90.0)


@pytest.mark.parametrize(
    ("status", "behind", "lag_ms"),
    [("streaming", 0, 0.0), ("streaming", 7, 9e6), ("streaming", None, 9e6), (None, 0, 9e6)],
)
def test_a_standby_of_an_idle_primary_does_not_lag(
    status: str | None, behind: int | None, lag_ms: float
) -> None:
    own: Rows = [
        {"status": status, "sender_host": "db1", "replay_bytes": behind, "replay_age_ms": 9e6}
    ]
    this = named(replication(period_of({}, {"standby": own, "replication": []})), "this standby")
    assert (this["replay_ms"], this["replay_ms_max"]) == (lag_ms, lag_ms)


def snapshots(*sections: Mapping[str, Rows]) -> Period:
    """Return a period of these snapshots."""
    store = Shelf()
    for place, one in enumerate(sections):
        store.put(10 * place, one)
    return make_period(store, 1, len(sections))


def receiver(replay_bytes: int, name: str = "walreceiver") -> dict[str, Value]:
    return {
        "application_name": name,
        "client_address": "10.0.0.2",
        "state": "streaming",
        "sync_state": "sync",
        "replay_bytes": replay_bytes,
        "flush_bytes": 0,
        "replay_lag_ms": 5.0,
    }


def test_what_has_vanished_is_gone_at_the_end() -> None:
    slot: dict[str, Value] = {
        "slot": "b",
        "slot_type": "physical",
        "active": True,
        "wal_status": "reserved",
    }
    there: dict[str, Rows] = {
        "replication": [receiver(4096, "b")],
        "replication_slots": [{**slot, "retained_bytes": 8192}],
        "standby": [{"status": "streaming", "sender_host": "a", "replay_bytes": 7}],
    }
    nothing: dict[str, Rows] = {"replication": [], "replication_slots": [], "standby": []}
    period = snapshots(there, there, nothing, nothing)
    standby, itself = (named(replication(period), name) for name in ("b", "this standby"))
    assert (standby["state"], standby["sync_state"]) == ("gone", "")
    assert (standby["replay_bytes"], standby["flush_bytes"]) == (None, None)
    assert (standby["replay_ms"], standby["replay_bytes_max"]) == (None, 4096)
    assert (itself["state"], itself["address"]) == ("promoted", "a")
    assert (itself["replay_bytes"], itself["replay_bytes_max"]) == (None, 7)
    kept = named(replication_slots(period), "b")
    assert (kept["active"], kept["wal_status"], kept["slot_type"]) == ("gone", "", "physical")
    assert (kept["retained_bytes"], kept["retained_bytes_max"]) == (None, 8192)

    unknown = snapshots(there, there, {})
    states = {row.cells[0]: row.cells[2] for row in replication(unknown).rows}
    assert states == {"b": "not known", "this standby": "not known"}
    assert named(replication_slots(unknown), "b")["active"] == "not known"


def test_of_receivers_that_are_alike_the_one_furthest_behind_is_shown() -> None:
    both: dict[str, Rows] = {"replication": [receiver(50 * 2**30), receiver(0)]}
    found = named(replication(snapshots(both, both)), "walreceiver")
    assert found["replay_bytes"] == 50 * 2**30
    assert found["state"] == "streaming, furthest behind of 2"


def test_a_server_without_standbys_says_so() -> None:
    period = period_of({}, {"replication": [], "replication_slots": []})
    assert replication(period).missing_reason == "Nobody received WAL."
    assert replication_slots(period).missing_reason == "There are no replication slots."
    assert replication_slots(period_of({}, {"slru": []})).missing_reason


# ---- the host


def test_the_run_queue_and_the_memory_are_those_of_each_snapshot() -> None:
    table = make_report(busy_period()).table("host-vmstat")
    assert table.values("r") == (4, 5, 4.5)  # the last row is the mean
    assert table.values("b") == (1, 2, 1.5)
    assert table.values("swpd") == (4096, 8192, None)
    assert table.values("free") == (2**33 - 2**20, 2**33 - 2**21, None)
    assert table.values("cache") == (2**30, 2**31, None)
    names = [column.name for column in table.columns]
    assert " ".join(names[2:]) == "r b swpd free buff cache si so bi bo in cs us sy id wa st"


def test_rows_that_are_several_snapshots_have_their_mean_and_the_last_memory() -> None:
    store = busy_store(intervals=48)
    table = make_report(make_period(store, 1, 49)).table("host-vmstat")
    assert len(table.rows) == 24 + 1
    assert table.values("r")[0] == 4.5
    assert table.values("free")[0] == 2**33 - 2 * 2**20
