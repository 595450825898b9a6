# SPDX-License-Identifier: PostgreSQL
"""The report page: its sentences, its completeness, its safety."""

import dataclasses
import re

import pytest

from pgflash.model.awr import Unit
from pgflash_lab.model.run import Approach, Device, Run
from pgflash_lab.model.summary import summarize
from pgflash_lab.report import render_page, sentences
from pgflash_lab.report.page import hit_points
from pgflash_lab.report.page_conditions import without_empty_columns
from support.page import Page
from support.reports import column, table
from support.runs import (
    ALL,
    APPROACHES,
    BASELINE,
    FLASH_CACHE,
    WAL,
    attempt,
    run_of,
    whole_run,
)


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(whole_run())


def test_the_first_sentence_is_the_result(page: str) -> None:
    assert (
        "On emulated devices, WAL on flash and the flash cache together reached 4.00 times the "
        "throughput of the array alone, and 80 % of that of everything on flash."
    ) in Page(page).text


def test_a_run_without_everything_on_flash_lists_its_ratios() -> None:
    run = whole_run()
    attempts = tuple(one for one in run.attempts if one.approach != ALL.name)
    assert (
        "On emulated devices the server did 20,000 transactions a minute with everything on the "
        "array, and 1.50 times as many with the flash cache, 1.25 times as many with the WAL on "
        "flash and 4.00 times as many with the WAL on flash and the flash cache."
    ) in Page(render_page(dataclasses.replace(run, attempts=attempts))).text


def test_only_what_has_everything_on_the_array_is_said_to() -> None:
    def headline(*changed: Approach, workload: str, duration_s: float = 0.0) -> str:
        attempts = [
            dataclasses.replace(
                attempt(BASELINE, tpm=100 * (1 + place)),
                approach=one.name,
                workload=workload,
                duration_s=duration_s / (1 + place),
            )
            for place, one in enumerate(changed)
        ]
        run = run_of(*attempts, approaches=changed)
        return sentences.headline(run, summarize(run))

    base = Approach(name="baseline", title="Random reads", objects=("on_flash",))
    redo = Approach(name="redo-on-flash", title="Redo on flash", wal="flash", objects=("on_flash",))
    assert headline(base, redo, workload="micro") == (
        "On emulated devices the server did 100 operations a minute with “Random reads”, and 2.00 "
        "times as many with “Redo on flash”."
    )
    for elsewhere in ({"temp": "flash"}, {"archive": "flash"}, {"wal": "flash"}, {"cache": True}):
        said = headline(dataclasses.replace(base, objects=(), **elsewhere), redo, workload="oltp")
        assert "everything on the array" not in said
    plain = dataclasses.replace(base, objects=(), archive="array")
    assert headline(plain, redo, workload="load", duration_s=60.0) == (
        "On emulated devices the server took 60.0 seconds with everything on the array; it was "
        "2.00 times as fast with “Redo on flash”."
    )


def test_the_picture_of_the_result_precedes_what_weakens_it(page: str) -> None:
    head = page.partition("</header>")[0]
    sentence, picture = head.index('<p class="result">'), head.index('<figure class="chart')
    assert sentence < picture < head.index('<ul class="cautions">')
    assert "4.00× · 80,000 TPM" in head


def test_the_page_names_its_devices_as_emulated(page: str) -> None:
    text = Page(page).text
    assert "sas15k-raid10-6 (emulated)" in text
    assert "nvme (emulated)" in text
    assert "The devices were emulated" in text


def test_real_devices_are_not_called_emulated() -> None:
    devices = tuple(
        Device(role=role, name=f"/mnt/{role}", emulated=False, summary="ext4")
        for role in ("array", "flash")
    )
    run = dataclasses.replace(whole_run(), devices=devices)
    head = sentences.headline(run, summarize(run))
    assert "emulated" not in head
    assert not any("emulated" in one for one in sentences.cautions(run, summarize(run)))
    real = dataclasses.replace(
        run, attempts=tuple(dataclasses.replace(one, devices={}) for one in run.attempts)
    )
    assert "emulated" not in Page(render_page(real)).text


def test_the_papers_ratios_stand_beside_ours(page: str) -> None:
    text = Page(page).text
    for ratio in ("1.36", "1.63", "5.17"):
        assert f"{ratio}× in the paper" in text
    assert "percent of the baseline" in text


def test_everything_on_flash_is_called_a_setting(page: str) -> None:
    assert "(5.00) is a setting, not a discovery" in Page(page).text


def test_the_page_loads_nothing_and_runs_nothing(page: str) -> None:
    parsed = Page(page)
    assert not [tag for tag, _ in parsed.tags if tag in ("script", "iframe", "object", "embed")]
    for tag, attributes in parsed.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("src", "href", "xlink:href", "action", "srcset"):
                assert (value or "").startswith(("#", "data:")), f"<{tag} {name}={value}>"
    for address in re.findall(r"https?://[^\"'<> ]+", page):
        assert address in ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_every_chart_has_its_table(page: str) -> None:
    sections = re.findall(r"<section.*?</section>", page, re.DOTALL)
    with_chart = [one for one in sections if '<figure class="chart' in one]
    assert len(with_chart) == 6
    assert all("<table>" in one for one in with_chart)


def test_every_chart_says_what_it_is(page: str) -> None:
    figures = re.findall(r'<figure class="chart[^>]*>.*?</figure>', page, re.DOTALL)
    assert len(figures) == 7 + len(APPROACHES)
    assert all(re.search(r'<svg [^>]*role="img" aria-label="[^"]+"', one) for one in figures)


def test_ids_stand_once_and_links_lead_to_them(page: str) -> None:
    tags = Page(page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in tags:
        if tag == "a":
            assert str(attributes["href"]).removeprefix("#") in ids
    for used in re.findall(r"url\(#([^)]+)\)", page):
        assert used in ids


def test_pages_beside_the_report_are_linked_and_only_then() -> None:
    links = [("Flash cache", "awr-flash-cache.html"), ("<b>", "compare-x.html")]
    page = render_page(whole_run(), links=links)
    assert '<a href="awr-flash-cache.html">Flash cache</a>' in page
    assert "&lt;b&gt;" in page
    assert 'id="reports"' not in render_page(whole_run())


def test_tables_can_be_scrolled_with_the_keyboard(page: str) -> None:
    regions = [a for tag, a in Page(page).tags if tag == "div" and a.get("class") == "scroll"]
    assert len(regions) == page.count("<table>")
    assert all(one["tabindex"] == "0" and one["aria-labelledby"] for one in regions)


def test_hostile_names_stay_text() -> None:
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;"
    approach = Approach(name="flash-cache", title=hostile, data="array", wal="array", cache=True)
    run = run_of(
        attempt(BASELINE, tpm=100, polluted=hostile),
        attempt(dataclasses.replace(approach), tpm=200),
        approaches=(BASELINE, approach),
        title=hostile,
        id=hostile,
        stopped=hostile,
        machine={hostile: hostile},
        settings={hostile: hostile},
        devices=(Device(role="array", name=hostile, emulated=True, summary=hostile),),
    )
    parsed = Page(render_page(run))
    assert not [tag for tag, _ in parsed.tags if tag in ("script", "img")]
    assert hostile in parsed.text


def test_a_stopped_run_says_so_first() -> None:
    run = dataclasses.replace(whole_run(), stopped="interrupted")
    assert "stopped before its end: interrupted" in sentences.cautions(run, summarize(run))[0]


def test_a_run_without_attempts_still_makes_a_page() -> None:
    page = render_page(run_of())
    assert "no approach to compare" in Page(page).text
    assert "shared_buffers" in page


def test_a_polluted_approach_is_marked_in_table_and_cautions() -> None:
    run = run_of(
        attempt(BASELINE, tpm=100, polluted="others took 40% of the processors"),
        attempt(FLASH_CACHE, tpm=200),
    )
    text = Page(render_page(run)).text
    assert "Everything on the array (polluted)" in text
    assert "others took 40% of the processors" in text
    assert "Flash cache (polluted)" not in text


def test_repeats_that_differ_are_called_out() -> None:
    run = run_of(
        attempt(ALL, tpm=100, repeat=1), attempt(ALL, tpm=150, repeat=2), approaches=APPROACHES
    )
    assert any("differ by 50 %" in one for one in sentences.cautions(run, summarize(run)))


def test_a_difference_smaller_than_that_of_repeats_is_called_out() -> None:
    def cautions(wal_tpm: float) -> list[str]:
        tpms = ((BASELINE, (1000, 1060)), (WAL, (wal_tpm - 10, wal_tpm + 10)))
        made = [
            attempt(one, tpm=tpm, repeat=repeat)
            for one, both in tpms
            for repeat, tpm in enumerate(both, start=1)
        ]
        return [one for one in cautions_of(run_of(*made)) if "differ" in one]

    # The baseline's median is 1,030: 1,060 is 2.9 % more, 1,100 is 6.8 %.
    assert cautions(1060) == [
        "WAL on flash: its throughput differs from that of “Everything on the array” by 2.9 %, "
        "less than repeats of the same do (6.0 %)."
    ]
    assert cautions(1000)[0].startswith("WAL on flash: its throughput differs from")
    assert cautions(1100) == []


def test_transactions_that_failed_are_called_out_whichever_attempt_had_them() -> None:
    low, middle, high = (attempt(BASELINE, tpm=tpm, repeat=tpm) for tpm in (100, 101, 102))
    high = dataclasses.replace(high, facts={"failed": 1200.0, "retried": 9000.0})
    middle = dataclasses.replace(middle, facts={"failed": 0.0, "retried": 1.0})
    assert [one for one in cautions_of(run_of(low, middle, high)) if "failed" in one] == [
        "Everything on the array: transactions that failed in all their tries, and are not "
        "counted: 1,200."
    ]
    assert not any("failed" in one for one in cautions_of(run_of(low, middle)))


def test_one_repeat_for_lack_of_time_is_told_from_one_that_was_asked_for() -> None:
    once = [attempt(one, tpm=1000) for one in APPROACHES]
    limited = {"repeats": "2", "time_limit_s": "480"}
    said = (
        "Measured only once, as the time limit of 480 s left no room for a repeat: every approach."
    )
    assert cautions_of(run_of(*once, parameters=limited))[-1] == said
    plain = "Measured only once: every approach."
    assert cautions_of(run_of(*once, parameters={**limited, "repeats": "1"}))[-1] == plain
    assert cautions_of(run_of(*once, parameters=limited, stopped="interrupted"))[-1] == plain
    polluted = [attempt(one, tpm=1000, repeat=2, polluted="others") for one in APPROACHES]
    assert cautions_of(run_of(*once, *polluted, parameters=limited))[-1] == plain


def cautions_of(run: Run) -> list[str]:
    return sentences.cautions(run, summarize(run))


@pytest.mark.parametrize(
    ("prefill", "held", "warns"), [(True, 0.82, True), (True, 0.99, False), (False, 0.1, False)]
)
def test_a_cache_that_was_to_be_full_and_was_not_is_called_out(
    prefill: bool, held: float, warns: bool
) -> None:
    one = attempt(FLASH_CACHE, tpm=100)
    assert one.cache is not None
    cache = dataclasses.replace(one.cache, gauges={"cached_share_before": held})
    run = run_of(dataclasses.replace(one, cache=cache), parameters={"prefill": str(prefill)})
    said = (
        f"Flash cache: when measuring began, the flash cache held only {held:.0%} of the database."
    )
    assert (said.replace("%", " %") in cautions_of(run)) is warns
    assert "Of the database, at first" in Page(render_page(run)).text


def test_the_hit_ratio_over_time_is_of_each_interval() -> None:
    one = attempt(FLASH_CACHE, tpm=6000, hit_ratio=0.5)
    points = hit_points(one)
    assert len(points) == len(one.cache_seconds) - 1
    assert all(ratio == pytest.approx(0.5, abs=0.01) for _, ratio in points)


def test_the_page_is_under_a_megabyte(page: str) -> None:
    assert len(page.encode()) < 2**20


def test_a_column_in_which_nothing_is_known_is_left_out() -> None:
    columns = [
        column("approach", Unit.TEXT, None), column("took", Unit.SECONDS),
        column("ratio", Unit.RATIO), column("why", Unit.TEXT, None),
    ]  # fmt: skip
    rows = [("base", None, 1.0, None), ("cache", None, None, "warm")]
    kept = without_empty_columns(table("t", columns, *rows))
    assert [one.name for one in kept.columns] == ["approach", "ratio", "why"]
    assert [one.cells for one in kept.rows] == [("base", 1.0, None), ("cache", None, "warm")]
