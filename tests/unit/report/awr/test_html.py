# SPDX-License-Identifier: PostgreSQL
"""The report as a page: complete, safe, and usable without colour, mouse or network."""

import dataclasses
import hashlib
import itertools
import re
from base64 import b64encode

import pytest
from hypothesis import given, settings

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
from pgflash.report.awr import render, render_html
from pgflash.report.printed import print_time, visible
from pgflash.report.shown import ROWS_MAX
from support.any_report import HOSTILE, reports
from support.page import Page
from support.reports import column, comparison, report, table, whole_report


@pytest.fixture(scope="module")
def page() -> str:
    return render(whole_report(), "html")


def articles(page: str) -> dict[str, str]:
    """Return each table's part of the page by the table's id."""
    return dict(re.findall(r'<article id="([^"]+)".*?>(.*?)</article>', page, re.DOTALL))


def test_the_page_loads_nothing_and_runs_the_script_that_its_policy_names(page: str) -> None:
    parsed = Page(page)
    (script,) = parsed.scripts
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [
        str(attributes["content"])
        for tag, attributes in parsed.tags
        if tag == "meta" and "http-equiv" in attributes
    ]
    assert policy.startswith("default-src 'none';")
    assert f"; script-src 'sha256-{digest}'" in policy
    for tag, attributes in parsed.tags:
        assert tag not in ("iframe", "object", "embed", "img", "form")
        assert tag != "script" or not attributes
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("src", "href", "xlink:href", "action", "srcset"):
                assert (value or "").startswith(("#", "data:")), f"<{tag} {name}={value}>"
    assert not re.search(r"https?://", page)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    # The live page shows reports where such links are ignored.
    assert not re.search(r"<[^>]* style=", page)


def test_the_page_opens_with_a_sentence_the_figures_and_the_first_chart() -> None:
    lead = Finding(rule=HEADLINE, severity=Severity.WARNING, sentence="72 % of DB time was reads.")
    whole = whole_report()
    page = render(dataclasses.replace(whole, findings=(lead, *whole.findings)), "html")
    opening, rest = page.split('<nav class="contents"')
    for place, text in itertools.pairwise(
        (
            "72\N{NO-BREAK SPACE}% of DB time was reads.",
            '<dl class="tiles">',
            "<svg ",
            'id="aas-over-time-title"',
        )
    ):
        assert place in opening
        assert text in opening
    assert (
        opening.index("of DB time was reads")
        < opening.index('class="tiles"')
        < opening.index("<figure")
    )
    # It is no finding among others.
    assert 'id="finding-4"' in rest
    assert 'id="finding-5"' not in rest


def test_findings_come_next_each_with_evidence_and_a_link_to_its_table(page: str) -> None:
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    assert headings[:2] == ["Summary", "Findings"]
    first = re.search(r'<li id="finding-1">.*?</li>\s*<li id="finding-2">', page, re.DOTALL)
    assert first is not None
    assert "72\N{NO-BREAK SPACE}% of DB time was single-block reads of stock" in first.group()
    assert "196,059\N{NO-BREAK SPACE}s of 272,304\N{NO-BREAK SPACE}s" in first.group()
    assert 'href="#top-events"' in first.group()
    assert 'href="#finding-1"' in articles(page)["top-events"]


def test_the_contents_lead_to_every_table(page: str) -> None:
    contents = re.search(r'<nav class="contents".*?</nav>', page, re.DOTALL)
    assert contents is not None
    linked = re.findall(r'href="#([^"]+)"', contents.group())
    opening = {"summary", "aas-over-time"}
    groups = {one for one in linked if one == "findings" or one.startswith("group-")}
    tables = {one.id for one in whole_report().tables}
    assert set(linked) - groups == tables - opening
    assert len(groups) == len(re.findall(r"<h2", page)) - 1


def test_ids_stand_once_and_links_and_labels_lead_to_them(page: str) -> None:
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    for tag, attributes in parsed.tags:
        if tag == "a":
            assert str(attributes["href"]).removeprefix("#") in parsed.ids
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in parsed.ids
    for used in re.findall(r"url\(#([^)]+)\)", page):
        assert used in parsed.ids


def test_elements_are_closed_in_order(page: str) -> None:
    parsed = Page(page)
    assert parsed.crossed == []
    assert parsed.open == []


def test_every_chart_has_a_name_and_stands_beside_its_table(page: str) -> None:
    drawn = {name: part for name, part in articles(page).items() if '<figure class="chart' in part}
    assert set(drawn) == {
        "aas-over-time", "throughput-over-time", "latency-over-time", "cpu-over-time",
        "read-latency",
    }  # fmt: skip
    for part in drawn.values():
        assert "<table " in part
        assert re.search(r'<svg [^>]*role="img" aria-label="[^"]+"', part)


def test_areas_differ_in_their_hatching_and_lines_in_their_dashes(page: str) -> None:
    parts = articles(page)
    fills = re.findall(r'<path d="M[^"]*Z" fill="url\(#([^)]+)\)"', parts["aas-over-time"])
    assert len(fills) == 8
    assert len({one.rsplit("-", 1)[1] for one in fills}) == 8
    hatchings = dict(
        re.findall(r'<pattern id="([^"]+)".*?(<path d="[^"]*"|</pattern>)', page, re.DOTALL)
    )
    assert len({hatchings[one] for one in fills}) == 8
    latency = parts["latency-over-time"].split("<ul")[0]
    lines = re.findall(r'<path d="M[^"]*H[^"]*" ([^>]*stroke-width="2"[^>]*)>', latency)
    dashes = [re.findall(r'stroke-dasharray="([^"]+)"', one) for one in lines]
    assert len(lines) == 3
    assert len({str(one) for one in dashes}) == 3


def test_idle_and_system_io_are_in_the_table_and_not_in_the_chart(page: str) -> None:
    part = articles(page)["aas-over-time"]
    assert "System I/O</th>" in part.replace("<small>", "</th>")
    legend = re.search(r'<ul class="legend">.*?</ul>', part, re.DOTALL)
    assert legend is not None
    assert "User I/O" in legend.group()
    assert "System I/O" not in legend.group()
    assert "Idle" not in articles(page)["cpu-over-time"].split("</ul>")[0]


def test_tables_can_be_scrolled_with_the_keyboard(page: str) -> None:
    regions = [a for tag, a in Page(page).tags if tag == "div" and a.get("class") == "scroll"]
    assert len(regions) == page.count("<table ")
    for region in regions:
        assert region["tabindex"] == "0"
        assert region["role"] == "region"
        assert region.get("aria-labelledby")


def test_the_first_link_skips_to_the_content(page: str) -> None:
    first = next(attributes for tag, attributes in Page(page).tags if tag == "a")
    assert first["href"] == "#content"


def test_severity_source_and_marks_are_words_or_signs_and_not_only_colours(page: str) -> None:
    text = Page(page).text
    for word in ("critical", "warning", "good", "note", "= exact", "~ sampled", "^ modelled"):
        assert word in text
    assert "io worker (not in the total)" in text
    assert '<abbr class="sign" title="sampled">~</abbr>' in articles(page)["top-events"]


def test_a_missing_table_says_why(page: str) -> None:
    assert "No rows. the extension is not installed" in articles(page)["buffer-advice"]


def test_hostile_texts_stay_text() -> None:
    hostile = HOSTILE[0] + HOSTILE[1]
    one = ReportTable(
        id="segments-reads",
        title=hostile,
        columns=(dataclasses.replace(column("c"), title=hostile, note=hostile),),
        rows=(Row(cells=(hostile,), mark=RowMark.NEW),),
        note=hostile,
    )
    missing = ReportTable(id="missing", title=hostile, columns=(), missing_reason=hostile)
    finding = Finding(
        rule=hostile, severity=Severity.NOTE, sentence=hostile, evidence=(hostile,),
        table="segments-reads", advice=hostile,
    )  # fmt: skip
    made = report(one, missing, findings=[finding])
    made = dataclasses.replace(
        made, head=dataclasses.replace(made.head, server_version=hostile, extension_version=hostile)
    )
    parsed = Page(render(made, "html"))
    assert [tag for tag, _ in parsed.tags if tag in ("script", "img")] == ["script"]
    assert parsed.text.count(hostile) >= 12


def test_no_text_turns_what_follows_or_commands_a_terminal() -> None:
    hostile = "\u202eright\u2066 to\x1b[31m left\x07"
    finding = Finding(
        rule="r", severity=Severity.NOTE, sentence=hostile, evidence=(hostile,), advice=hostile
    )
    made = report(findings=[finding, dataclasses.replace(finding, rule=HEADLINE)])
    head = dataclasses.replace(
        made.head,
        server_version=hostile,
        extension_version=hostile,
        asked=hostile,
        time_zone=hostile,
    )
    made = dataclasses.replace(made, head=head, pgflash_version=hostile)
    compared = dataclasses.replace(comparison(findings=[finding]), first=head, second=head)
    for page in (render(made, "html"), render(compared, "html")):
        assert visible(hostile) in page
        assert not [one for one in page if not one.isprintable() and one not in "\n\xa0"]


@settings(max_examples=100)
@given(reports())
def test_any_report_is_well_formed_and_holds_every_cell(
    any_report: AwrReport | CompareReport,
) -> None:
    page = render(any_report, "html")
    parsed = Page(page)
    assert parsed.crossed == []
    assert parsed.open == []
    assert not {tag for tag, _ in parsed.tags} & {"img", "iframe", "form"}
    assert len(parsed.scripts) == 1
    assert all(not name.startswith("on") for _, attributes in parsed.tags for name in attributes)
    assert len(parsed.ids) == len(set(parsed.ids))
    for one in any_report.tables:
        for row in () if one.missing_reason else one.rows:
            for cell, one_column in zip(row.cells, one.columns, strict=True):
                if isinstance(cell, str):
                    is_time = one_column.unit is Unit.TIME
                    assert (print_time(cell) if is_time else visible(cell)) in parsed.text


def test_a_comparison_names_both_periods() -> None:
    text = Page(render(comparison(table("top-events", [column("c")], ("x",))), "html")).text
    assert "snapshots 7 to 17 and 17 to 27" in text
    assert "First period" in text
    assert "Second period" in text
    assert "18.6; then" not in text


def test_periods_whose_snapshots_have_the_same_numbers_are_named_by_their_times() -> None:
    made = comparison()
    other = dataclasses.replace(made.first, begin_at="2026-11-21T10:00:00+00:00")
    text = Page(render(dataclasses.replace(made, second=other), "html")).text
    assert "and from 2026-11-21 10:00:00 UTC" in text
    assert "snapshots 7 to 17 and" not in text


def test_a_comparison_says_where_the_servers_differ() -> None:
    made = comparison()
    bigger = dataclasses.replace(made.second, cores=16, server_started_at="")
    text = Page(render(dataclasses.replace(made, second=bigger), "html")).text
    assert "8; then 16" in text
    assert "2026-11-19 10:00:00 UTC; then not known" in text
    assert "64.0 GB;" not in text


def test_a_period_that_has_a_name_bears_it() -> None:
    page = render_html(report(), subject="Flash <cache>")
    assert "<title>Flash &lt;cache&gt;: PostgreSQL report: snapshots 7 to 17" in page


def test_pages_that_belong_together_are_linked() -> None:
    page = render_html(report(), links=[("Everything on flash", "awr-all-on-flash.html")])
    assert '<a href="awr-all-on-flash.html">Everything on flash</a>' in page


def test_a_long_table_is_cut_with_a_sentence() -> None:
    rows = [(str(i),) for i in range(ROWS_MAX + 5)]
    page = render(report(table("segments-reads", [column("c")], *rows)), "html")
    assert page.count("<tr>") == ROWS_MAX + 1
    assert "5 more rows are in this report as JSON" in page


def test_the_largest_report_stays_under_a_megabyte() -> None:
    wide = [column(f"column {i}") for i in range(12)]
    whole = whole_report()
    big = [
        table(one, wide, *((f"{one} {i}",) * 12 for i in range(200)))
        for one in ("segments-read-time", "segments-writes", "segments-cached", "sql-reads",
                    "sql-wal", "sql-temp", "io-tablespaces", "host-vmstat")
    ]  # fmt: skip
    made = report(*whole.tables, *big, findings=whole.findings)
    assert len(render(made, "html").encode()) < 2**20


def test_rows_of_zeros_and_oracles_names_are_there_for_those_who_ask() -> None:
    columns = [
        column("name"),
        column("total", Unit.COUNT),
        dataclasses.replace(column("oracle_name"), optional=True),
    ]
    one = table("flash-cache", columns, ("hits", 7, "flash cache hits"), ("misses", 0, ""))
    page = render(report(one), "html")
    assert page.count('<tr class="zero">') == 1
    assert len(re.findall('class="word optional[ "]', page)) == 3
    assert "1 row of zeros not shown." in page
    for asked in ("ask-zeros", "ask-oracle"):
        assert re.search(f'<input type="checkbox" id="{asked}">', page)
        assert f"body:not(:has(#{asked}:checked))" in page
    assert re.search('id="ask-zeros" checked', render(report(one), "html", zeros=True))
    assert re.search('id="ask-oracle" checked', render(report(one), "html", oracle=True))
    # Without either, no question is asked.
    assert "<input" not in render(report(), "html")


def test_a_moment_or_a_range_of_nothing_is_no_row_of_zeros() -> None:
    moments = table(
        "wal-over-time", [column("at", Unit.TIME), column("n", Unit.COUNT)], ("2026-11-22", 0)
    )
    ranges = table(
        "read-latency", [column("from", Unit.MICROSECONDS), column("n", Unit.COUNT)], (8, 0)
    )
    assert 'class="zero"' not in render(report(moments, ranges), "html")


def test_a_statement_leads_to_its_whole_text_with_its_lines() -> None:
    query = f"select <1>\n  from stock -- {'x' * 3000}"
    ranking = table(
        "sql-elapsed", [column("query"), column("query_id")], (query, "42"), ("another", "43")
    )
    texts = table(
        "sql-text",
        [column("query_id"), dataclasses.replace(column("query"), lines=True)],
        ("42", query),
        key=["query_id"],
    )
    page = render(report(ranking, texts), "html")
    parts = articles(page)
    assert '<a href="#sql-text-0">42</a>' in parts["sql-elapsed"]
    assert "x" * 300 not in parts["sql-elapsed"]
    assert '<tr id="sql-text-0">' in parts["sql-text"]
    assert f"select &lt;1&gt;\n  from stock -- {'x' * 3000}" in parts["sql-text"]
    assert "sql-text-1" not in page
