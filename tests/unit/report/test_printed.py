# SPDX-License-Identifier: PostgreSQL
"""How a report's numbers and texts are printed, whatever the form."""

import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgflash.model.awr import Number, Row, RowMark, Source, Unit
from pgflash.model.words import (
    NOTHING,
    change,
    duration,
    figure,
    money,
    precisely,
    print_number,
    whole,
)
from pgflash.report.awr.order import RANKING_ROWS_MAX, rows_for_people
from pgflash.report.printed import print_table, print_time, visible
from support.reports import EXACT, MODELLED, SAMPLED, column, table


def printed(unit: Unit, *values: float | None) -> list[str]:
    """Return how a column of a unit prints its numbers."""
    done = print_table(table("t", [column("c", unit)], *((value,) for value in values)))
    return [row.cells[0].text for row in done.rows]


def value_of(text: str) -> float:
    return float(text.lstrip("<>").replace(",", ""))


@given(st.floats(min_value=1e-12, max_value=1e14))
def test_a_number_keeps_three_digits_and_never_becomes_zero(value: float) -> None:
    text = figure(value)
    if text.startswith("<"):
        assert value < value_of(text)
        return
    assert math.isclose(value_of(text), value, rel_tol=0.006) or abs(value_of(text) - value) < 6e-4
    assert value_of(text) > 0
    assert figure(-value) == f"-{text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.352, "0.352"), (13.62, "13.6"), (2.5, "2.50"), (1234.4, "1,234"),
     (-0.00001, ">-0.001"), (0.00001, "<0.001"), (2e15, "2.000e+15")],
)  # fmt: skip
def test_figures(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_column_of_ratios_is_printed_alike_whatever_the_numbers_are() -> None:
    assert printed(Unit.RATIO, 1, 3.06, 0) == ["1.00", "3.06", "0"]
    assert printed(Unit.COUNT, 1, 3.06, 0) == ["1", "3.06", "0"]


def test_seconds_of_a_column_have_the_same_decimals() -> None:
    assert printed(Unit.SECONDS, 196059.04, 3.26, 0.0, 0.01) == ["196,059.0", "3.3", "0.0", "<0.1"]
    assert printed(Unit.SECONDS, 12.345, 1.0) == ["12.35", "1.00"]


def test_bytes_of_a_column_share_a_unit_that_stands_above_them() -> None:
    done = print_table(table("t", [column("c", Unit.BYTES)], (3 * 2**30,), (512 * 2**20,), (1,)))
    assert done.columns[0].unit == "MB"
    assert [row.cells[0].text for row in done.rows] == ["3,072", "512", "<0.001"]


def test_both_periods_of_a_comparison_and_the_change_have_one_unit() -> None:
    columns = [
        column(name, Unit.BYTES_PER_SECOND)
        for name in ("read_first", "read_second", "change", "written_first", "written_second")
    ]
    done = print_table(table("t", columns, (6 * 2**10, 12 * 2**20, 12 * 2**20, 5, 7)))
    assert [one.unit for one in done.columns] == ["MB/s"] * 3 + ["bytes/s"] * 2
    assert [cell.text for cell in done.rows[0].cells] == ["0.006", "12.0", "12.0", "5.00", "7.00"]


def test_bytes_with_units_of_their_own_have_one_in_a_row() -> None:
    columns = [column(name, Unit.TEXT, None) for name in ("first", "second", "time")]
    cells = (
        Number(value=6 * 2**10, unit=Unit.BYTES, source=EXACT),
        Number(value=12 * 2**20, unit=Unit.BYTES, source=EXACT),
        Number(value=3.0, unit=Unit.SECONDS, source=EXACT),
    )
    done = print_table(table("t", columns, cells))
    assert [cell.text for cell in done.rows[0].cells] == ["0.006 MB", "12.0 MB", "3.000 s"]


def test_a_unit_is_not_said_twice() -> None:
    columns = [
        column("Reads/s", Unit.PER_SECOND),
        column("WAL/s", Unit.BYTES_PER_SECOND),
        column("s", Unit.SECONDS),
        column("Seconds", Unit.SECONDS),
        column("Read, ms", Unit.MILLISECONDS),
        column("Items", Unit.MILLISECONDS),
    ]
    done = print_table(table("t", columns, (1, 9, 1, 1, 1, 1)))
    assert [one.unit for one in done.columns] == ["", "bytes/s", "", "s", "", "ms"]


def test_a_note_that_only_repeats_its_title_is_not_printed() -> None:
    columns = [column("CPU", note="CPU"), column("share", note="of DB time")]
    assert print_table(table("t", columns)).column_notes == ("share: of DB time",)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(value=0.7204, unit=Unit.SHARE, source=EXACT), "72.0 %"),
        (Number(value=1.25, unit=Unit.RATIO, source=EXACT), "1.25"),
        (Number(value=64 * 2**30, unit=Unit.BYTES, source=EXACT), "64.0 GB"),
        (Number(value=9, unit=Unit.BYTES, source=EXACT), "9 bytes"),
        (Number(value=1_000_000, unit=Unit.COUNT, source=EXACT), "1,000,000"),
        (Number(value=54.0, unit=Unit.SESSIONS, source=EXACT), "54.00"),
        (Number(value=13.6, unit=Unit.MILLISECONDS, source=EXACT), "13.6 ms"),
    ],
)
def test_a_number_that_stands_alone_has_its_unit(number: Number, text: str) -> None:
    assert print_number(number) == text


def test_what_is_no_number_is_a_dash() -> None:
    assert printed(Unit.COUNT, None, math.nan, math.inf, 0) == [NOTHING, NOTHING, NOTHING, "0"]


def test_a_number_says_its_source_where_its_column_does_not() -> None:
    columns = [column("exact", Unit.COUNT), column("any", Unit.COUNT, None)]
    other = Number(value=3, unit=Unit.COUNT, source=MODELLED)
    rows = [Row(cells=(1, 2), source=SAMPLED), Row(cells=(other, other), source=EXACT)]
    done = print_table(table("t", columns, *rows))
    assert [[cell.source for cell in row.cells] for row in done.rows] == [
        [None, Source.SAMPLED],
        [Source.MODELLED, Source.MODELLED],
    ]
    assert [cell.signed for cell in done.rows[0].cells] == ["1", "2 ~"]
    assert [one.source for one in done.columns] == [Source.EXACT, None]


def test_rows_outside_a_total_and_new_ones_say_so_in_words() -> None:
    marks = (RowMark.APART, RowMark.NEW, RowMark.GONE, RowMark.PLAIN)
    done = print_table(
        table("t", [column("c")], *(Row(cells=("stock",), mark=mark) for mark in marks))
    )
    assert [row.cells[0].text for row in done.rows] == [
        "stock (not in the total)",
        "stock (new)",
        "stock (gone)",
        "stock",
    ]


def test_rows_that_are_left_out_are_counted_and_sums_are_none_of_them() -> None:
    rows = [Row(cells=(str(i),)) for i in range(7)]
    sums = [Row(cells=(mark.value,), mark=mark) for mark in (RowMark.REST, RowMark.TOTAL)]
    done = print_table(table("t", [column("c")], *rows, *sums), rows_max=3)
    assert [row.cells[0].text for row in done.rows] == ["0", "1", "2", "rest", "total"]
    assert done.rows_left_out == 4


def test_people_get_the_head_of_a_ranking_and_all_of_anything_else() -> None:
    ranking = dataclasses.replace(table("sql-reads", [column("c")]), measure="c")
    over_time = dataclasses.replace(table("host-vmstat", [column("t", Unit.TIME)]), measure="t")
    assert rows_for_people(ranking) == RANKING_ROWS_MAX
    assert rows_for_people(over_time) is None
    assert rows_for_people(table("settings", [column("c")])) is None


def test_long_texts_are_cut_with_a_sign() -> None:
    done = print_table(table("t", [column("c")], ("x" * 50,)), text_max=20)
    assert done.rows[0].cells[0].text == "x" * 19 + "…"


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069]", shown)


def test_control_characters_are_shown_as_their_codes() -> None:
    assert visible("a\x1b[31m\nb\u202e") == "a\\u001b[31m b\\u202e"


def test_times_are_shown_as_clocks_showed_them() -> None:
    assert print_time("2026-11-22T12:00:00.5+02:00") == "2026-11-22 12:00:00"
    assert print_time("2026-11-22T12:00:00") == "2026-11-22 12:00:00"
    assert print_time("yesterday\x00") == "yesterday\\u0000"


@pytest.mark.parametrize(
    ("elapsed_s", "text"),
    [(9.53, "9.53 s"), (600.0, "10.0 min"), (86400.0, "24.0 h"), (8 * 86400.0, "8.0 d")],
)
def test_durations(elapsed_s: float, text: str) -> None:
    assert duration(elapsed_s) == text


def test_prices_have_cents_where_they_matter() -> None:
    assert [money(one, "EUR") for one in (99.5, 1234.56)] == ["99.50 EUR", "1,235 EUR"]


def test_a_change_has_its_sign() -> None:
    assert [change(one) for one in (0.333, -0.049, 0.0)] == ["+33 %", "-4.9 %", "+0 %"]


def test_numbers_that_are_compared_have_all_digits_that_matter() -> None:
    assert [whole(one) for one in (0, 7, 1_048_576.0)] == ["0", "7", "1,048,576"]
    assert [precisely(one) for one in (0.03519737, 1234.5678, 21_467_471)] == [
        "0.0351974",
        "1,234.57",
        "21,467,471",
    ]
