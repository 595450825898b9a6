# SPDX-License-Identifier: PostgreSQL
"""The texts of pages: figures name every flow and class, in the words of the views."""

import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

import pgflash.web
from pgflash.errors import UsageError
from pgflash.live.collector import Collector
from pgflash.live.ring import Ring
from pgflash.live.tables import NOTHING_YET, headline
from pgflash.model.live import FLOWS, Focus, LiveServer, Quantiles, Sample
from pgflash.model.waits import WaitClass
from pgflash.model.words import figure as in_words
from pgflash.report import colours
from pgflash.web import cache_words
from pgflash.web.details import read_focus
from pgflash.web.figures import performance, value_of
from pgflash.web.pages import performance as performance_page
from support.cluster import REPOSITORY

SERVER = LiveServer(
    version_num=180_004,
    system_identifier="123",
    started_at=datetime(2026, 11, 22, tzinfo=UTC),
    in_recovery=False,
    database="app",
    role="watcher",
    cores=8,
)
STATIC = Path(pgflash.web.__file__).parent / "static"

SAMPLE = Sample(
    number=7,
    at="2026-11-22T10:00:00.000+01:00",
    elapsed_s=1.0,
    aas={"CPU": 0.5, "User I/O": 1.25},
    commits_s=1234.5,
    rollbacks_s=0.0,
    sessions=5,
    active=2,
    bytes_s={"disk": 2.0 * 2**20, "wal": 5e5},
    requests_s={"disk": 100.0, "wal": 20.0},
    latency={"disk": Quantiles(p50=0.5, p95=4.0, p99=20.0)},
    commit_ms=None,
    wal_bytes_s=None,
    cache=None,
    events=(),
)


def value(figure_id: str, name: str) -> float | None:
    plain = msgspec.json.decode(msgspec.json.encode(SAMPLE))
    (figure,) = [one for one in performance(SAMPLE, None) if one.id == figure_id]
    (line,) = [one for one in figure.lines if one.name == name]
    return value_of(line, plain)


def test_each_figure_finds_its_values_in_a_sample() -> None:
    assert value("sessions", "User I/O") == 1.25
    assert value("sessions", "Network") == 0.0  # sampled, and no session was in it
    assert value("throughput", "Disk, reads") == 2.0
    assert value("requests", "WAL") == 20.0
    assert value("latency", "Disk, p95") == 4.0
    assert value("latency", "Flash, p95") is None
    assert value("commit", "Mean wait for a commit") is None
    assert value("transactions", "Commits") == 1234.5


def address(focus: Focus, name: str, word: str) -> str:
    found = performance_page(Collector("", Ring()), begin="", end="", focus=focus)["address"]
    assert callable(found)
    return str(found(name, word))


def test_an_address_says_what_its_page_is_about() -> None:
    focus = Focus(query="-7", application="a&b=c")
    assert address(focus, "session", "12") == "/?query=-7&application=a%26b%3Dc&session=12"
    assert address(focus, "query", "") == "/?application=a%26b%3Dc"
    assert address(Focus(query="-7"), "query", "") == "/?"
    # Nothing shows which relation a session waits for.
    assert address(focus, "relation", '"<x>"') == "/?relation=%22%3Cx%3E%22"
    assert address(Focus(relation="t"), "wait", "CPU") == "/?wait=CPU"


@pytest.mark.parametrize(
    "words",
    [
        {"query": "seven"},
        {"query": "9223372036854775808"},
        {"query": "\u0667"},
        {"session": "2147483648"},
        {"session": "1; drop table x"},
        {"user": "x" * 500},
        {"wait": "a\0b"},
    ],
)
def test_an_address_about_nothing_that_can_be_is_refused(words: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        read_focus(words)


def test_every_class_and_every_flow_has_its_place_and_its_colour() -> None:
    sessions, throughput, *_others = performance(None, None)
    counted = [one for one in WaitClass if one.counts]
    assert [line.name for line in sessions.lines] == counted
    assert [line.path[1] for line in throughput.lines] == list(FLOWS)
    assert [line.colour for line in sessions.lines] == [
        colours.WAIT_CLASSES[one] for one in counted
    ]
    # A flow that this server does not distinguish is not drawn.
    told = performance(SAMPLE, None)[1]
    assert [line.path[1] for line in told.lines] == ["disk", "wal"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(None, "–"), (0.0, "0"), (0.0123, "0.012"), (0.5, "0.500"), (0.00001, "<0.001"),
     (0.09999999, "0.100"), (0.9996, "1.00"), (9.97, "9.97"), (9.996, "10.0"), (12.34, "12.3"),
     (99.96, "100"), (1234.4, "1,234"), (1234.5, "1,234"), (math.inf, "–")],
)  # fmt: skip
def test_numbers_keep_the_digits_that_count(number: float | None, words: str) -> None:
    assert in_words(number) == words


def test_what_is_vendored_is_what_its_note_says() -> None:
    found = 0
    for folder in (STATIC / "vendor", REPOSITORY / "tests" / "browser" / "vendor"):
        text = (folder / "README.md").read_text()
        for name, digest in re.findall(r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", text, re.MULTILINE):
            assert sha256((folder / name).read_bytes()).hexdigest() == digest
            found += 1
        assert list(folder.glob("*LICENSE*"))
    assert found == 4


def test_no_page_has_a_script_or_a_style_of_its_own() -> None:
    for path in (STATIC.parent / "templates").glob("*.html"):
        text = path.read_text()
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script>", text), path.name
        assert "| safe" not in text
        assert "|safe" not in text


def test_scripts_put_nothing_into_pages_as_html() -> None:
    for path in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(",
                             path.read_text()), path.name  # fmt: skip


# ---- the flash cache


def advice(factor: float, hit_ratio: float | None) -> dict[str, object]:
    return {
        "size_factor": factor, "size_bytes": factor * 2**30, "hit_ratio": hit_ratio,
        "disk_reads_per_s": 10.0, "saved_ms_per_s": 58_733.0,
        "disk_read_mean_ms": 5.0, "flash_read_mean_ms": 0.5,
    }  # fmt: skip


def test_the_curve_marks_the_present_size_and_says_what_twice_as_much_brings() -> None:
    view = {"advice": [advice(1, 0.6), advice(2, 0.75), advice(4, None)], "present_bytes": 2.0**30}
    found = cache_words.curve(view)
    assert found.sentence == (
        "With its 1.00 GB the cache misses 40 % of what is asked for; "
        "with twice as much it would miss 25 %."
    )
    assert [row.cells[0].text for row in found.table.rows] == ["1.00 GB (present size)", "2.00 GB"]
    assert json.loads(found.data)["ratios"] == [pytest.approx(40), pytest.approx(25)]
    assert json.loads(found.data)["present"] == 2**30


def test_what_a_size_saves_is_a_share_of_the_waiting_without_flash() -> None:
    # A hit saves nine tenths of a read from disk.
    found = cache_words.curve({"advice": [advice(1, 0.6), advice(2, 1.0)], "present_bytes": None})
    assert [row.cells[-1].text for row in found.table.rows] == ["54.0 %", "90.0 %"]
    untimed = {**advice(1, 0.6), "disk_read_mean_ms": None}
    found = cache_words.curve({"advice": [untimed], "present_bytes": None})
    assert found.table.rows[0].cells[-1].text == "–"


def test_a_larger_cache_that_misses_as_much_brings_nothing() -> None:
    view = {"advice": [advice(1, 0.344), advice(2, 0.348)], "present_bytes": 2.0**30}
    assert cache_words.curve(view).sentence.endswith("twice as much would bring nothing.")


def test_the_page_of_the_cache_begins_with_what_it_brings() -> None:
    hour = {
        "period": "hour", "flash_reads": 12_000, "flash_read_ms": 1200.0, "disk_reads": 1000,
        "disk_read_ms": 5100.0, "saved_ms": 60_000.0, "saved_share": 0.9, "finding": "It saved.",
    }  # fmt: skip
    cache = {"hits": 12_000, "misses": 3000, "hit_ratio": 0.8}
    found = cache_words.outcome({"cache": cache, "benefit": (hour,)})
    assert [value for _title, value, _means in found.figures] == [
        "80 %",
        "100 µs",
        "5.10 ms",
        "90 %",
    ]
    assert found.sentences == ("In the last hour: It saved.",)
    # A slower flash saves nothing, and no share of anything; a statement is not repeated.
    slower = {**hour, "saved_ms": -18_700.0, "saved_share": -10.9, "finding": "No faster."}
    start = {**hour, "period": "start"}
    day = {**slower, "period": "day"}
    found = cache_words.outcome({"cache": cache, "benefit": (slower, day, start)})
    assert found.figures[-1] == ("Read time saved", "none", "in the last hour, modelled")
    assert found.sentences == ("In the last hour: No faster.", "Since the start: It saved.")


def test_an_extension_that_does_not_tell_what_was_saved_leaves_gaps() -> None:
    found = cache_words.outcome({"cache": {"hits": 1, "misses": 0, "hit_ratio": 1.0}})
    assert [value for _title, value, _means in found.figures] == ["100 %", "–", "–", "–"]
    assert found.sentences == ()


def test_without_a_cache_no_size_is_the_present_one() -> None:
    found = cache_words.curve({"advice": [advice(1, 0.6)], "present_bytes": None})
    assert "present" not in found.table.rows[0].cells[0].text


@pytest.mark.parametrize(("left", "share"), [(250, 0.25), (-5, 0.0), (2000, 1.0)])
def test_the_budget_left_is_a_share_between_nothing_and_all(left: int, share: float) -> None:
    row = {"day_bytes": 1000, "left_bytes": left, "written_day_bytes": 1000 - left}
    assert cache_words.budget(row).left == share


def test_troubles_are_named_only_where_there_are_any() -> None:
    names = [name for name, _words in cache_words.facts({"corrupt_slots": 0})]
    assert "Blocks with a wrong checksum" not in names
    found = dict(cache_words.facts({"corrupt_slots": 3, "writer_running": False}))
    assert found["Blocks with a wrong checksum"] == "3"
    assert "not running" in found["Writer"]


def test_a_sample_s_sentence_says_what_most_sessions_do() -> None:
    sample = replace(SAMPLE, aas={"CPU": 1.0, "User I/O": 3.0})
    said = "4.00 sessions are active on 8 cores; 75 % of them wait in class User I/O."
    assert headline(sample, SERVER) == said
    assert headline(replace(sample, aas={"CPU": 0.04}), SERVER) == "The database is idle."
    assert headline(replace(sample, aas=None), None) == NOTHING_YET
    at_work = headline(replace(sample, aas={"CPU": 2.0}), None)
    assert at_work == "2.00 sessions are active; 100 % of them work."
