# SPDX-License-Identifier: PostgreSQL
"""A table as lines: as wide as it may be, and no number in it is cut."""

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pgflash.model.awr import ReportTable, Unit, plain
from pgflash.report.lines import blocks, wrap
from pgflash.report.printed import print_table
from support.any_report import tables, texts
from support.reports import column, table

LONG = "a text that is as long as several lines of it"


def lines_of(one: ReportTable, width: int) -> list[str]:
    found = blocks(print_table(one, signs=False), width)
    return [line.rstrip() for block in found for line in (*block.head, *block.rows)]


@given(texts, st.integers(min_value=2, max_value=40))
def test_wrapping_loses_nothing_and_keeps_the_width(text: str, width: int) -> None:
    plain = " ".join(text.split())
    lines = wrap(plain, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == plain.replace(" ", "")


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    text = "it took 14 % of 12.5 GB and 3 s in 5 steps, 7 sets"
    lines = [line for width in range(7, 40) for line in wrap(text, width)]
    assert not [line for line in lines if line.startswith(("%", "GB", "s "))]
    # A text that only begins like a unit is a word.
    assert [line for line in lines if line.startswith("steps")]
    assert [line for line in lines if line.startswith("sets")]


@settings(max_examples=150)
@given(tables("t"), st.integers(min_value=80, max_value=200))
def test_no_number_is_cut_on_a_terminal_of_any_width(one: ReportTable, width: int) -> None:
    lines = lines_of(one, width)
    assert all(cell_len(line) <= width for line in lines)
    words = {word for line in lines for word in line.split()}
    for row, shown in zip(one.rows, print_table(one, signs=False).rows, strict=True):
        for head, cell, text in zip(one.columns, row.cells, shown.cells, strict=True):
            if not head.is_text and isinstance(plain(cell), int | float):
                assert text.text.split()[0] in words


def test_a_short_name_of_a_row_is_not_broken() -> None:
    name = "pgflash-" + 24 * "n"
    columns = [column("why"), column("name"), column("how"), column("mean", Unit.MILLISECONDS)]
    for key in ("name", "why"):
        one = table("t", columns, (LONG, name, LONG, 1.5), key=[key])
        assert (name in " ".join(lines_of(one, 80)).split()) == (key == "name")


def test_a_title_stands_on_one_line_where_there_is_room() -> None:
    columns = [column("name"), column("random_reads_at_once", Unit.COUNT)]
    one = table("t", columns, ("disk", 4))
    assert lines_of(one, 80) == ["name  random reads at once", "disk                     4"]
    assert lines_of(one, 20) == [
        "        random reads", "name         at once", "disk               4"
    ]  # fmt: skip


def test_a_sum_without_a_key_has_its_name_in_every_block() -> None:
    columns = [
        column("statement"), column("id"),
        *(column(f"measured_{i}", Unit.COUNT) for i in range(12)),
    ]  # fmt: skip
    rows = ((LONG, 20 * "1", *range(12)), ("all others", "", *range(12)))
    printed = print_table(table("t", columns, *rows, key=["id"]), signs=False)
    found = list(blocks(printed, 80))
    assert len(found) > 1
    for block in found:
        assert sum("all others" in line for line in block.rows) == 1
