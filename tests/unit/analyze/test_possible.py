# SPDX-License-Identifier: PostgreSQL
"""An impossible value is left out of a table and reported, unless two clocks explain it."""

import pytest

from pgflash.analyze.possible import possible
from pgflash.model.awr import Cell, Number, Row, RowMark, Source, Unit, plain
from support.reports import column, table


def left(
    value: Cell, *, unit: Unit = Unit.SHARE, mark: RowMark = RowMark.PLAIN, name: str = "share"
) -> tuple[object, tuple[str, ...]]:
    """Return what is left of a value in a table, and the message."""
    columns = [column("what"), column(name, unit)]
    made, said = possible(table("some-table", columns, Row(cells=("a row", value), mark=mark)))
    return plain(made.rows[0].cells[1]), said


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, 1.0 + 1e-12, None])
def test_a_share_stays_as_it_is(share: float | None) -> None:
    assert left(share) == (share, ())


def test_a_share_above_the_whole_is_left_out_and_named() -> None:
    assert left(1.27) == (None, ("Some table, a row: share",))
    number = Number(value=1.27, unit=Unit.SHARE, source=Source.EXACT)
    assert left(number, unit=Unit.COUNT)[0] is None


def test_two_clocks_explain_a_little_more_than_the_whole() -> None:
    assert left(1.04) == (None, ())


def test_what_is_apart_is_part_of_no_whole() -> None:
    assert left(3.0, mark=RowMark.APART) == (None, ())


def test_a_residual_makes_up_for_the_others() -> None:
    assert left(-0.3, mark=RowMark.RESIDUAL) == (-0.3, ())


@pytest.mark.parametrize("unit", [Unit.COUNT, Unit.BYTES, Unit.SECONDS, Unit.SHARE])
def test_an_amount_below_nothing_is_left_out_and_named(unit: Unit) -> None:
    assert left(-1.0, unit=unit) == (None, ("Some table, a row: share",))


def test_a_cache_may_cost_time() -> None:
    assert left(-0.2, name="saved_share") == (-0.2, ())


def test_more_than_the_whole_of_what_is_no_share_is_possible() -> None:
    assert left(7.0, unit=Unit.RATIO) == (7.0, ())
