# SPDX-License-Identifier: PostgreSQL
"""The report for programs (JSON) and for tickets (Markdown)."""

import json
import re
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

from pgflash.model.awr import AwrReport, CompareReport, Unit
from pgflash.report.awr import render, report_from_json
from pgflash.report.awr.markdown import ROWS_MAX, escape_markdown
from pgflash.report.awr.order import is_over_time
from pgflash.report.awr.stored import StoredReportError
from pgflash.report.printed import print_table, visible
from support.any_report import reports, texts
from support.few import few
from support.page import Page
from support.reports import column, comparison, report, table, whole_report

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def page_of(text: str) -> Page:
    """Return the text that a reader of the Markdown sees."""
    return Page(MARKDOWN.render(text))


@pytest.mark.parametrize("made", [whole_report(), comparison(*whole_report().tables)])
def test_json_holds_the_whole_report(made: AwrReport | CompareReport) -> None:
    content = json.loads(render(made, "json"))
    assert content["format"] == 1
    assert content["kind"] == ("report" if isinstance(made, AwrReport) else "comparison")
    assert msgspec.convert(content, type(made)) == made


@settings(max_examples=60)
@given(reports())
def test_a_stored_report_comes_back_as_it_was(any_report: AwrReport | CompareReport) -> None:
    if isinstance(any_report, AwrReport):
        any_report = replace(any_report, tables=(*any_report.tables, *few().tables))
    text = render(any_report, "json").encode()
    if isinstance(any_report, AwrReport):
        back = report_from_json(text, name="r.json")
        assert render(back, "text") == render(any_report, "text")
    else:
        with pytest.raises(StoredReportError, match="it is a comparison"):
            report_from_json(text, name="r.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", '"r.json" is not a report'),
        (b"\xff{", '"r.json" is not a report'),
        (b"[]", '"r.json" is not a report'),
        (b'{"id": 1}', "it says no kind"),
        (b'{"kind": "report", "format": 2}', "has format 2; this version reads format 1"),
        (b'{"kind": "report", "format": 1, "head": 3}', "Expected `object`, got `int`"),
        (b'{"kind": "report", "format": 1}', "missing required field"),
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(text: bytes, message: str) -> None:
    with pytest.raises(StoredReportError, match=message):
        report_from_json(text, name="r.json")


def test_json_names_the_source_of_each_number() -> None:
    content = json.loads(render(whole_report(), "json"))
    summary = next(one for one in content["tables"] if one["id"] == "summary")
    assert summary["rows"][1]["cells"][1] == {
        "value": 45.4,
        "unit": "sessions",
        "source": "sampled",
    }


@given(texts)
def test_markdown_of_any_text_is_that_text(text: str) -> None:
    plain = visible(text)
    seen = page_of(f"before {escape_markdown(text)} after\n")
    assert {tag for tag, _ in seen.tags} <= {"p"}
    assert " ".join(seen.text.split()) == " ".join(f"before {plain} after".split())


@settings(max_examples=60)
@given(reports())
def test_any_report_in_markdown_shows_its_tables_and_nothing_else(
    any_report: AwrReport | CompareReport,
) -> None:
    seen = page_of(render(any_report, "md"))
    tags = {tag for tag, _ in seen.tags}
    assert not tags & {"script", "img", "a", "code", "em", "pre", "blockquote", "s"}
    rows = [
        row
        for one in any_report.tables
        if not one.missing_reason and not is_over_time(one)
        for row in print_table(one, text_max=120).rows
    ]
    assert sum(tag == "td" for tag, _ in seen.tags) == sum(len(row.cells) for row in rows)
    text = " ".join(seen.text.split())
    for row in rows:
        for cell in row.cells:
            assert " ".join(cell.signed.split()) in text


def test_a_ticket_has_the_head_of_each_table_and_no_table_over_time() -> None:
    made = report(
        table("segments-reads", [column("c")], *((f"row {i}",) for i in range(ROWS_MAX + 3))),
        table("aas-over-time", [column("time", Unit.TIME)], ("2026-11-22T10:00:00+00:00",)),
    )
    text = render(made, "md")
    assert len(re.findall(r"^\| row ", text, re.MULTILINE)) == ROWS_MAX
    assert "and 3 more rows" in text
    assert "2026-11-22 10:00:00 |" not in text
    assert "Left out: Aas over time" in text


def test_a_ticket_has_the_findings_first_and_fits_a_tracker() -> None:
    text = render(whole_report(), "md")
    assert text.index("1. **critical**: 72 % of DB time") < text.index("### ")
    assert len(text.encode()) < 60_000
