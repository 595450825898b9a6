# SPDX-License-Identifier: PostgreSQL
"""Deltas compose, and nothing is ever negative, whatever counters do."""

import math

from hypothesis import given
from hypothesis import strategies as st

from pgflash.collect.deltas import choose, difference, summed
from pgflash.model.collected import Counted, Rows

#: Whole numbers, so that sums are exact.
amounts = st.lists(st.integers(0, 1000).map(float), min_size=3, max_size=3).map(tuple)
keys = st.tuples(st.integers(0, 4))
births = st.sampled_from([None, "monday", "tuesday"])
readings = st.dictionaries(keys, st.builds(Counted, values=amounts, birth=births))


def growth(before: Rows, more: Rows) -> Rows:
    """Return a reading after MORE was counted: no reset, no eviction."""
    grown = dict(before)
    for key, row in more.items():
        had = before.get(key)
        values = had.values if had else (0.0,) * len(row.values)
        grown[key] = Counted(
            values=tuple(a + b for a, b in zip(values, row.values, strict=True)),
            birth=had.birth if had else row.birth,
        )
    return grown


def totals(rows: Rows) -> list[float]:
    return [math.fsum(row.values[place] for row in rows.values()) for place in range(3)]


@given(readings, readings)
def test_no_difference_is_negative(before: Rows, now: Rows) -> None:
    assert all(value >= 0 for row in difference(before, now).values() for value in row.values)


@given(readings, readings, readings)
def test_differences_compose(start: Rows, first: Rows, second: Rows) -> None:
    """The deltas of two intervals add up to the delta from the first to the last snapshot."""
    middle = growth(start, first)
    end = growth(middle, second)
    parts = (totals(difference(start, middle)), totals(difference(middle, end)))
    assert [a + b for a, b in zip(*parts, strict=True)] == totals(difference(start, end))


@given(readings, readings)
def test_what_was_counted_is_what_is_told(before: Rows, more: Rows) -> None:
    told = difference(before, growth(before, more))
    assert totals(told) == totals(more)


@given(readings, readings)
def test_a_row_that_started_over_tells_all_it_has(before: Rows, now: Rows) -> None:
    told = difference(before, now)
    for key, row in now.items():
        had = before.get(key)
        smaller = had and any(a < b for a, b in zip(row.values, had.values, strict=True))
        if had and (smaller or had.birth != row.birth) and any(row.values):
            assert told[key].values == row.values


@given(readings, st.integers(0, 6))
def test_choosing_loses_nothing(rows: Rows, limit: int) -> None:
    chosen, others = choose(rows, ranked=(0, 2), limit=limit)
    assert len(chosen) <= limit
    assert {**chosen, **others} == rows
    assert not chosen.keys() & others.keys()
    assert list(summed(others.values(), 3)) == totals(others)
    # The first of each ranking is among them if there is room for both.
    for place in (0, 2):
        most = max((row.values[place] for row in rows.values()), default=0)
        if limit >= 2 and most > 0:
            assert most in [row.values[place] for row in chosen.values()]


def test_rows_of_another_shape_are_not_subtracted() -> None:
    before: Rows = {(1,): Counted(values=(1.0, 2.0))}
    now: Rows = {(1,): Counted(values=(5.0,))}
    assert difference(before, now)[(1,)].values == (5.0,)
