# SPDX-License-Identifier: PostgreSQL
"""Waits for locks by object, with the sampling error."""

import pytest

from pgflash.analyze import make_period
from pgflash.analyze.locks import locks, segments_row_locks
from pgflash.model.awr import RowMark, Source
from support.busy import LOCK_WAITS, busy_period
from support.periods import Rows, Shelf


def test_locks_are_ranked_by_object_kind_and_mode() -> None:
    table = locks(busy_period())
    rows = [row.cells[:4] for row in table.rows]
    assert rows == [
        ("stock", "shop", "tuple", "ExclusiveLock"),
        ("stock", "shop", "transactionid", "ShareLock"),
        ("not known", "shop", "transactionid", "ShareLock"),
        ("warehouse", "shop", "relation", "AccessExclusiveLock"),
        ("all", "", "", ""),
    ]
    # Two intervals, each sample a tenth of a second.
    assert table.values("samples") == (32, 18, 8, 2, 60)
    assert table.values("seconds") == pytest.approx((3.2, 1.8, 0.8, 0.2, 6.0))
    assert table.values("error_s")[0] == pytest.approx(3.2 / 32**0.5)
    assert table.columns[table.index("seconds")].source is Source.SAMPLED


def test_rows_of_a_table_are_waited_for_by_turn_and_by_transaction() -> None:
    table = segments_row_locks(busy_period())
    assert [row.cells[0] for row in table.rows] == ["stock", "not known", "all"]
    assert table.values("samples") == (50, 8, 58)
    assert sum(samples for *_, kind, _, samples in LOCK_WAITS if kind != "relation") * 2 == 58


def test_a_ranking_has_its_first_rows_and_the_rest() -> None:
    table = locks(busy_period(), rows_max=1)
    assert [row.mark for row in table.rows] == [RowMark.PLAIN, RowMark.REST, RowMark.TOTAL]
    assert table.values("relation") == ("stock", "3 others", "all")
    assert table.values("samples") == (32, 28, 60)


def test_locks_that_nobody_waited_for_are_no_rows() -> None:
    waits: Rows = [{"database_oid": "5", "lock_type": "tuple", "samples": 7, "seconds": 0.7}]
    store = Shelf()
    store.put(0, {"lock_waits": waits})
    store.put(10, {"lock_waits": waits})
    period = make_period(store, 1, 2)
    assert locks(period).missing_reason == "No session was sampled while waiting for one."
    store.put(20, {"slru": []})
    store.put(30, {"slru": []})
    assert "extension pgflash" in locks(make_period(store, 3, 4)).missing_reason


def test_a_relation_of_another_database_has_its_number() -> None:
    waits: Rows = [
        {"database_oid": "7", "database": "other", "relation_oid": "99", "relation": None,
         "lock_type": "relation", "lock_mode": "ShareLock", "samples": 1, "seconds": 0.1},
        {"database_oid": None, "relation_oid": None, "relation": None, "lock_type": "advisory",
         "lock_mode": "ExclusiveLock", "samples": 2, "seconds": 0.2},
    ]  # fmt: skip
    store = Shelf()
    store.put(0, {"lock_waits": []})
    store.put(10, {"lock_waits": waits})
    table = locks(make_period(store, 1, 2))
    assert [row.cells[:3] for row in table.rows[:2]] == [
        ("(none)", "", "advisory"),
        ("relation 99", "other", "relation"),
    ]
