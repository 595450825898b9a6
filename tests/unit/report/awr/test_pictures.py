# SPDX-License-Identifier: PostgreSQL
"""Which tables have charts, and which of their rows and columns these show."""

from collections.abc import Sequence

from pgflash.model.awr import Cell, ReportTable, Row, RowMark, Unit
from pgflash.report import drawing, svg
from pgflash.report.awr.pictures import charts_of
from pgflash.report.drawing import figures_of
from support.reports import BEGIN, aas_over_time, column, moments, table, whole_report

BEGIN_S = BEGIN.timestamp()


def captions(one: ReportTable) -> list[tuple[str, list[str]]]:
    """Return each figure's caption and the names in its legend."""
    figures = figures_of(charts_of(one), about=one.title)
    assert figures
    return [(figure.caption, [name for _, name in figure.legend]) for figure in figures]


def spans_of(columns: Sequence[str], *rows: Sequence[Cell]) -> list[svg.Span]:
    """Return the time that the rows cover in a chart of average active sessions."""
    kinds = {"time": Unit.TIME, "elapsed_s": Unit.SECONDS}
    one = table(
        "aas-over-time", [column(name, kinds.get(name, Unit.SESSIONS)) for name in columns], *rows
    )
    (chart,) = charts_of(one)
    return [(begin - BEGIN_S, end - BEGIN_S) for begin, end in drawing.spans(chart)]


def test_tables_of_words_and_rankings_have_no_chart() -> None:
    charted = {one.id for one in whole_report().tables if charts_of(one)}
    assert charted == {
        "aas-over-time", "throughput-over-time", "latency-over-time", "cpu-over-time",
        "read-latency",
    }  # fmt: skip


def test_rates_share_a_chart_only_where_they_count_the_same() -> None:
    throughput = next(one for one in whole_report().tables if one.id == "throughput-over-time")
    assert captions(throughput) == [
        ("transactions, /s", []),
        ("reads/s", ["reads/s, disk", "reads/s, flash"]),
        ("WAL, MB/s", []),
    ]


def test_times_of_calls_share_a_chart() -> None:
    latency = next(one for one in whole_report().tables if one.id == "latency-over-time")
    assert captions(latency) == [("ms", ["disk read", "flash read", "WAL sync"])]


def test_a_row_stands_as_long_as_it_says() -> None:
    first, second, third = moments(3, step_s=600)
    found = spans_of(
        ["time", "elapsed_s", "CPU"], (first, 600.0, 1.0), (second, 60.0, 1.0), (third, 300.0, 1.0)
    )
    assert found == [(0, 600), (600, 660), (1200, 1500)]


def test_a_row_that_does_not_say_how_long_stands_up_to_the_next_one() -> None:
    one, two, three, _, _, _, late = moments(7)
    found = spans_of(["time", "CPU"], (one, 1.0), (two, 1.0), (three, 1.0), (late, 1.0))
    assert found == [(0, 60), (60, 120), (120, 180), (360, 420)]


def test_a_breath_between_two_rows_is_no_gap() -> None:
    first, second = moments(2)
    found = spans_of(["time", "elapsed_s", "CPU"], (first, 58.0, 1.0), (second, 60.0, 1.0))
    assert found == [(0, 60), (60, 120)]


def test_how_long_a_row_stands_is_no_line() -> None:
    one = table(
        "latency-over-time",
        [column("time", Unit.TIME), column("elapsed_s", Unit.SECONDS), column("read", Unit.COUNT)],
        *((moment, 60.0, 1) for moment in moments(3)),
    )
    assert captions(one) == [("read", [])]


def test_the_total_of_a_histogram_is_no_bar() -> None:
    columns = [column("lower_us", Unit.MICROSECONDS), column("Disk", Unit.COUNT)]
    total = Row(cells=(None, 5), mark=RowMark.TOTAL)
    (chart,) = charts_of(table("read-latency", columns, (512.0, 2), (2048.0, 3), total))
    assert chart.labels == ("512 µs", "2.05 ms")
    assert [one.values for one in chart.series] == [(2, 3)]


def test_what_no_chart_can_show_is_left_out() -> None:
    columns = [column("time", Unit.TIME), column("CPU", Unit.SESSIONS)]
    cells = (1.0, -0.5, float("inf"), float("nan"), 1.5e308, None)
    rows = list(zip(moments(len(cells)), cells, strict=True))
    (chart,) = charts_of(table("aas-over-time", columns, *rows))
    assert [one.values for one in chart.series] == [(1.0, 0.0, None, None, None, None)]


def test_rows_out_of_order_and_empty_tables_have_no_chart() -> None:
    one = aas_over_time(3)
    backwards = table(one.id, one.columns, *reversed(one.rows))
    assert charts_of(backwards) == ()
    assert charts_of(table(one.id, one.columns)) == ()
    assert charts_of(table("x-over-time", [column("t", Unit.TIME)], ("no time",))) == ()
