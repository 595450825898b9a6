# SPDX-License-Identifier: PostgreSQL
"""The calls on files in a range: differences of counts, apportioned by time."""

from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta

import pytest

from pgflash.collect.segments import FILES_MAX
from pgflash.live.segments import FILES_KEPT, INTERVALS_MAX, OTHERS, Segments, rows, top_files
from pgflash.model.live import FileChange, FileCount, FileKey

ORDERS: FileKey = (1663, 5, 100)
STOCK: FileKey = (1663, 5, 200)
BEGIN = datetime(2026, 11, 22, 10, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def read(calls: float, ms: float = 0.0) -> FileCount:
    return FileCount(reads=calls, read_bytes=8192 * calls, read_ms=ms)


def told(counts: dict[FileKey, FileCount]) -> list[FileChange]:
    """Return counts as the server reports them, each file at a place given by its number."""
    return [(key[2], key, astuple(one)) for key, one in counts.items()]


def test_a_range_has_what_was_counted_within_it() -> None:
    one = Segments()
    one.look(after(0), told({ORDERS: read(100, 50)}))
    one.look(after(10), told({ORDERS: read(160, 80)}))
    one.look(after(20), told({STOCK: read(7, 5)}))
    assert one.within(after(0), after(10)) == {ORDERS: read(60, 30)}
    assert one.within(after(10), after(20)) == {STOCK: read(7, 5)}


def test_an_interval_gives_as_much_as_the_time_that_is_shared() -> None:
    one = Segments()
    one.look(after(0), told({ORDERS: read(0)}))
    one.look(after(10), told({ORDERS: read(100, 40)}))
    assert one.within(after(5), after(30))[ORDERS].reads == pytest.approx(50)
    assert one.within(after(2), after(3))[ORDERS].read_ms == pytest.approx(4)
    assert one.within(after(10), after(30)) == {}


def test_counts_that_started_over_give_no_negative_number() -> None:
    one = Segments()
    one.look(after(0), told({ORDERS: read(100)}))
    one.look(after(10), told({ORDERS: read(3)}))
    assert one.within(after(0), after(10)) == {}
    one.forget()
    one.look(after(20), told({ORDERS: read(50)}))
    assert one.within(after(10), after(20)) == {}


def test_a_file_that_may_have_been_left_out_before_is_left_out() -> None:
    full = {(1663, 5, number): read(1000) for number in range(1000, 1000 + FILES_MAX)}
    one = Segments()
    one.look(after(0), told(full))
    one.look(after(10), told({**full, STOCK: read(99)}))
    assert one.within(after(0), after(10)) == {}


def test_the_forks_of_a_file_count_together() -> None:
    one = Segments()
    for at, main, free_space_map in ((0, 10, 5), (10, 17, 6), (20, 17, 9)):
        one.look(
            after(at),
            [(1, ORDERS, astuple(read(main))), (2, ORDERS, astuple(read(free_space_map)))],
        )
    assert one.within(after(0), after(10)) == {ORDERS: read(8)}
    assert one.within(after(10), after(20)) == {ORDERS: read(3)}


def test_a_place_that_another_file_took_counts_from_nothing() -> None:
    one = Segments()
    one.look(after(0), [(1, ORDERS, astuple(read(100)))])
    one.look(after(10), [(1, STOCK, astuple(read(3)))])
    one.look(after(20), [(1, ORDERS, astuple(read(2))), (2, STOCK, astuple(read(1)))])
    assert one.within(after(0), after(10)) == {STOCK: read(3)}
    assert one.within(after(10), after(20)) == {ORDERS: read(2), STOCK: read(1)}


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    one = Segments()
    for look in range(INTERVALS_MAX + 3):
        one.look(after(10 * look), told({ORDERS: read(look)}))
    assert one.within(after(0), after(20)) == {}
    assert one.within(after(20), after(30)) == {ORDERS: read(1)}


def test_of_very_many_files_those_that_took_most_are_kept_and_the_rest_together() -> None:
    many: dict[FileKey, FileCount] = {
        (1663, 5, number): read(1, ms=1.0) for number in range(1, 5 * FILES_KEPT)
    }
    one = Segments()
    one.look(after(0), [])
    one.look(after(10), told({**many, STOCK: read(10, ms=80), ORDERS: read(7, ms=90)}))
    found = one.within(after(0), after(10))
    assert len(found) == FILES_KEPT + 1
    assert top_files(found)[:3] == [OTHERS, ORDERS, STOCK]
    # Nothing is lost but the names.
    assert sum(file.reads for file in found.values()) == pytest.approx(len(many) - 2 + 17)
    assert sum(file.time_ms for file in found.values()) == pytest.approx(len(many) - 2 + 170)


def test_a_file_that_grew_hot_late_is_among_those_that_took_most() -> None:
    """Thousands took longer since the server started; only the time in between counts."""
    old: dict[FileKey, FileCount] = {
        (1663, 5, number): read(1000, ms=1e6) for number in range(1000, 4000)
    }
    one = Segments()
    one.look(after(0), told({**old, STOCK: read(1, ms=1)}))
    one.look(after(10), told({**old, STOCK: read(500, ms=400)}))
    assert one.within(after(0), after(10)) == {STOCK: read(499, ms=399)}


def test_rows_say_what_was_asked_and_what_it_cost() -> None:
    written = FileCount(writes=2048, write_bytes=2048 * 8192, write_ms=3000)
    found = {ORDERS: replace(read(1000, 900), flash_reads=250.0), STOCK: written}
    keys = top_files(found)
    assert keys == [STOCK, ORDERS]
    stock, orders = rows(found, {ORDERS: "orders"}, keys)
    assert (stock.name, stock.wait_class, stock.seconds) == ("200", "writes", 3.0)
    assert (orders.name, orders.wait_class) == ("orders", "reads")
    assert orders.share == pytest.approx(900 / 3900)
    assert orders.detail == "1,000 reads of 7.81 MB, 25 % from flash"
    assert stock.detail == "2,048 writes of 16.0 MB"
