# SPDX-License-Identifier: PostgreSQL
"""The report as plain text: its width, and its completeness."""

from dataclasses import replace

from hypothesis import given, settings
from rich.cells import cell_len

from pgflash.model.awr import (
    HEADLINE,
    AwrReport,
    CompareReport,
    Finding,
    ReportTable,
    Row,
    RowMark,
    Severity,
    Unit,
)
from pgflash.report.awr import render
from pgflash.report.awr.order import rows_for_people
from pgflash.report.lines import WIDTH
from pgflash.report.printed import print_table
from support.any_report import reports
from support.reports import SAMPLED, column, report, table, whole_report


@settings(max_examples=150)
@given(reports())
def test_any_report_fits_its_width_and_a_terminal(any_report: AwrReport | CompareReport) -> None:
    for width in (WIDTH, 132):
        for line in render(any_report, "text", width=width).split("\n"):
            assert cell_len(line) <= width
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
    assert part.count("public.table_7 ") == 3
    assert part.count("database  segment") == 3


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


def test_rows_of_zeros_and_optional_columns_stand_where_they_are_asked_for() -> None:
    columns = [column("name"), column("total", Unit.COUNT), replace(column("other"), optional=True)]
    made = report(table("flash-cache", columns, ("hits", 7, "a name"), ("misses", 0, "")))
    short, long = (render(made, "text", zeros=asked, oracle=asked) for asked in (False, True))
    assert "misses" not in short
    assert "a name" not in short
    assert "1 row of zeros left out (--zeros)." in short
    assert "misses" in long
    assert "a name" in long
    assert "left out" not in long


def test_a_whole_statement_keeps_its_lines_and_its_distance_from_the_edge() -> None:
    texts = [column("query_id"), replace(column("query"), lines=True)]
    query = "select a,\n       b\n  from t\n where " + " and ".join(["c = 1"] * 60)
    text = render(report(table("sql-text", texts, ("42", query), key=["query_id"])), "text")
    lines = text.split("\n")
    begin = next(place for place, line in enumerate(lines) if line.startswith("42"))
    left = lines[begin].index("select")
    assert [line[left:] for line in lines[begin : begin + 3]] == query.split("\n")[:3]
    assert "".join(text.split()).count("c=1") == 60


def test_the_sentence_that_sums_up_the_period_comes_first_and_has_no_number() -> None:
    lead = Finding(
        rule=HEADLINE, severity=Severity.WARNING, sentence="Reads.", evidence=("DB time 5 s",)
    )
    text = render(report(_summary_only(), findings=[lead, *whole_report().findings]), "text")
    assert text.index("\nReads.\n- DB time 5 s") < text.index("[summary]") < text.index("FINDINGS")
    assert " 1. CRITICAL: 72 %" in text


def _summary_only() -> ReportTable:
    return next(one for one in whole_report().tables if one.id == "summary")


@settings(max_examples=60)
@given(reports())
def test_no_number_is_cut_at_80_columns(any_report: AwrReport | CompareReport) -> None:
    words = set(render(any_report, "text", zeros=True, oracle=True, width=80).split())
    for one in any_report.tables:
        printed = print_table(one, rows_max=rows_for_people(one), text_max=160)
        for row in () if one.missing_reason else printed.rows:
            for place, cell in enumerate(row.cells):
                number = cell.text.split(" ")[0]
                # A row's first cell may have words behind it; a text is no number.
                if place and not printed.columns[place].words and number[:1].isdigit():
                    assert number in words or not number.replace(",", "").isdecimal()
