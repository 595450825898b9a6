# SPDX-License-Identifier: PostgreSQL
"""The report as plain text: its width, and that nothing is lost in it."""

from hypothesis import given, settings
from rich.cells import cell_len

from pgflash.model.awr import AwrReport, CompareReport, Row, RowMark, Unit
from pgflash.report.awr import render
from pgflash.report.lines import WIDTH
from pgflash.report.printed import print_table
from support.any_report import reports
from support.reports import SAMPLED, column, report, table, whole_report


@settings(max_examples=150)
@given(reports())
def test_any_report_fits_its_width_and_a_terminal(any_report: AwrReport | CompareReport) -> None:
    for line in render(any_report, "text").split("\n"):
        assert cell_len(line) <= WIDTH
        assert line.isprintable()


@settings(max_examples=60)
@given(reports())
def test_every_cell_stands_in_the_text(any_report: AwrReport | CompareReport) -> None:
    letters = "".join(render(any_report, "text").split())
    for one in any_report.tables:
        done = print_table(one, text_max=40)
        for row in () if one.missing_reason else done.rows:
            for cell in row.cells:
                # A cell that is wrapped stands between others: look for its first word.
                first, *_ = cell.text.split(" ")
                assert first[:8] in letters


def test_a_table_is_laid_out_with_words_left_and_numbers_right() -> None:
    columns = [column("event"), column("time", Unit.SECONDS), column("share", Unit.SHARE, SAMPLED)]
    total = Row(cells=("DB time", 1500.0, 1.0), mark=RowMark.TOTAL)
    lines = render(
        report(table("top-events", columns, ("read", 1250.0, 0.8), ("sync", 250.0, 0.2), total)),
        "text",
    ).split("\n")
    begin = lines.index("Top events [top-events]")
    assert lines[begin + 2 : begin + 9] == [
        "event       time    share",
        "             s =        ~",
        "-------  -------  -------",
        "read     1,250.0   80.0 %",
        "sync       250.0   20.0 %",
        "-------  -------  -------",
        "DB time  1,500.0  100.0 %",
    ]


def test_a_wide_table_repeats_the_names_of_its_rows() -> None:
    text = render(whole_report(), "text")
    part = text[text.index("[segments-reads]") : text.index("[sql-elapsed]")]
    assert part.count("public.table_7 ") == 2
    assert part.count("database  segment") == 2


def test_findings_come_first_with_evidence_and_their_table() -> None:
    text = render(whole_report(), "text")
    first = text.index(" 1. CRITICAL: 72 % of DB time was single-block reads")
    assert first < text.index("- 196,059 s of 272,304 s") < text.index("See [top-events].")
    assert text.index("See [top-events].") < text.index("Top events [top-events]")


def test_the_signs_are_explained() -> None:
    text = " ".join(render(whole_report(), "text").split())
    for sign, name in (("=", "exact"), ("~", "sampled"), ("^", "modelled")):
        assert f"{sign} {name}: " in text


def test_a_missing_table_says_why() -> None:
    assert "No rows. the extension is not installed" in render(whole_report(), "text")


def test_a_report_without_findings_says_so() -> None:
    assert "\nNone.\n" in render(report(), "text")
