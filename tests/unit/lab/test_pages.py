# SPDX-License-Identifier: PostgreSQL
"""The pages beside a run's report: which exist, for which attempt, and where they lead."""

import dataclasses
from pathlib import Path

from pgflash.analyze import make_report
from pgflash.model.awr import AwrReport
from pgflash_lab.pages import period_pages, write_products
from pgflash_lab.store import attempt_name, write_period
from support.busy import busy_period
from support.page import Page
from support.runs import APPROACHES, BASELINE, FLASH_CACHE, attempt, run_of, whole_run


def whole() -> AwrReport:
    return make_report(busy_period())


def named(version: str) -> AwrReport:
    """Return a report that can be told from others by its server's version."""
    made = whole()
    return dataclasses.replace(made, head=dataclasses.replace(made.head, server_version=version))


def test_each_approach_has_a_page_and_all_but_the_baseline_a_comparison() -> None:
    pages = period_pages({"baseline": whole(), "flash-cache": whole()}, APPROACHES)
    assert [(page.file, page.title) for page in pages] == [
        ("awr-baseline.html", "Everything on the array"),
        ("awr-flash-cache.html", "Flash cache"),
        ("compare-flash-cache.html", "Everything on the array, then Flash cache"),
    ]


def test_every_page_leads_to_the_run_and_to_all_others() -> None:
    pages = period_pages({"baseline": whole(), "flash-cache": whole()}, APPROACHES)
    files = {"report.html", *(page.file for page in pages)}
    for page in pages:
        links = {a["href"] for tag, a in Page(page.text).tags if tag == "a"}
        assert {one for one in links if one and not one.startswith("#")} == files - {page.file}


def test_without_a_baseline_nothing_is_compared() -> None:
    (page,) = period_pages({"flash-cache": whole()}, APPROACHES)
    assert page.file == "awr-flash-cache.html"


def test_the_middle_attempt_is_the_one_that_is_shown(tmp_path: Path) -> None:
    run = run_of(
        attempt(BASELINE, tpm=100, repeat=1),
        attempt(FLASH_CACHE, tpm=500, repeat=1),
        attempt(FLASH_CACHE, tpm=300, repeat=2),
        attempt(BASELINE, tpm=101, repeat=2),
        attempt(FLASH_CACHE, tpm=310, repeat=3),
        approaches=(BASELINE, FLASH_CACHE),
    )
    for place, one in enumerate(run.attempts):
        write_period(tmp_path, attempt_name(place, one.approach), named(f"number {place}"))
    write_products(tmp_path, run)
    assert "number 4" in (tmp_path / "awr-flash-cache.html").read_text()
    assert "number 4" in (tmp_path / "compare-flash-cache.html").read_text()
    assert 'href="awr-flash-cache.html"' in (tmp_path / "report.html").read_text()


def test_a_run_without_reports_of_its_servers_links_to_none(tmp_path: Path) -> None:
    write_products(tmp_path, whole_run())
    assert "awr-" not in (tmp_path / "report.html").read_text()
    assert not list(tmp_path.glob("awr-*"))


def test_a_run_that_follows_a_paper_is_set_beside_it(tmp_path: Path) -> None:
    write_products(tmp_path, whole_run())
    page = Page((tmp_path / "paper.html").read_text())
    assert {"report.html"} <= {a["href"] for tag, a in page.tags if tag == "a"}
    report = Page((tmp_path / "report.html").read_text())
    assert {"paper.html"} <= {a["href"] for tag, a in report.tags if tag == "a"}


def test_a_run_that_follows_none_has_no_page_and_no_ratios_of_one(tmp_path: Path) -> None:
    write_products(tmp_path, dataclasses.replace(whole_run(), paper=""))
    assert not (tmp_path / "paper.html").exists()
    report = (tmp_path / "report.html").read_text()
    assert "paper.html" not in report
    assert ">1.36<" not in report
